import APNSModel
import PushQueue
import Synchronization

/// A queue that passes calls on to another one, with errors and delays that a test scripts.
final class ScriptedQueue: PushQueue {
    struct State {
        /// The pushes that were stored.
        var pushes: [NewPush] = []
        /// What every call throws.
        var error: QueueError?
        /// What `enqueue` calls before it stores.
        var beforeEnqueue: (@Sendable () async -> Void)?
    }

    let state = Mutex(State())
    private let base: any PushQueue
    private let worker = WorkerID.random()

    init(_ base: any PushQueue) {
        self.base = base
    }

    private func check() throws(QueueError) {
        if let error = self.state.withLock({ $0.error }) { throw error }
    }

    // MARK: What a worker does

    struct NotClaimed: Error {}

    /// Claims a queued push, marks it as written, and settles it.
    func settle(_ id: APNSID, _ outcome: PushOutcome) async throws {
        let claim = try await self.claim(id)
        _ = try await self.base.markWritten([claim], lease: .seconds(60))
        _ = try await self.base.settle([Settlement(claim: claim, outcome: outcome)])
    }

    /// Claims a queued push and marks it as written.
    func markWritten(_ id: APNSID) async throws {
        _ = try await self.base.markWritten([try await self.claim(id)], lease: .seconds(60))
    }

    /// Claims a queued push and parks it.
    func park(_ id: APNSID) async throws {
        let error = PushError(code: .refused, certainty: .notProcessed, apnsID: id, message: "refused")
        try await self.base.park([Settlement(claim: try await self.claim(id), outcome: .notProcessed(error))])
    }

    private func claim(_ id: APNSID) async throws -> Claim {
        guard let push = try await self.base.status(of: id) else { throw NotClaimed() }
        let claimed = try await self.base.claim(push.route, limit: 100, worker: self.worker, lease: .seconds(60))
        let others = claimed.filter { $0.claim.id != id }
        try await self.base.release(others.map { Release(claim: $0.claim, notBefore: $0.queuedAt) })
        guard let claim = claimed.first(where: { $0.claim.id == id })?.claim else { throw NotClaimed() }
        return claim
    }

    // MARK: PushQueue

    func enqueue(_ pushes: [NewPush], isPartial: Bool) async throws(QueueError) -> [EnqueueResult] {
        await self.state.withLock { $0.beforeEnqueue }?()
        try self.check()
        let results = try await self.base.enqueue(pushes, isPartial: isPartial)
        let isConflict = results.contains { if case .conflict = $0 { true } else { false } }
        if isPartial || !isConflict {
            let stored = zip(pushes, results).filter { $0.1 == .queued }.map(\.0)
            self.state.withLock { $0.pushes += stored }
        }
        return results
    }

    func claim(
        _ route: Route,
        limit: Int,
        worker: WorkerID,
        lease: Duration
    ) async throws(QueueError) -> [ClaimedPush] {
        try self.check()
        return try await self.base.claim(route, limit: limit, worker: worker, lease: lease)
    }

    func markWritten(_ claims: [Claim], lease: Duration) async throws(QueueError) -> [Bool] {
        try self.check()
        return try await self.base.markWritten(claims, lease: lease)
    }

    func settle(_ settlements: [Settlement]) async throws(QueueError) -> [SettleResult] {
        try self.check()
        return try await self.base.settle(settlements)
    }

    func release(_ releases: [Release]) async throws(QueueError) {
        try self.check()
        try await self.base.release(releases)
    }

    func park(_ settlements: [Settlement]) async throws(QueueError) {
        try self.check()
        try await self.base.park(settlements)
    }

    func expireLeases() async throws(QueueError) -> ExpiredLeases {
        try self.check()
        return try await self.base.expireLeases()
    }

    func settleOverdue(limit: Int) async throws(QueueError) -> Int {
        try self.check()
        return try await self.base.settleOverdue(limit: limit)
    }

    func status(of id: APNSID) async throws(QueueError) -> PushStatus? {
        try self.check()
        return try await self.base.status(of: id)
    }

    func cancel(_ id: APNSID) async throws(QueueError) -> CancelResult {
        try self.check()
        return try await self.base.cancel(id)
    }

    func outcomes(
        after cursor: FeedCursor?,
        apps: Set<String>?,
        kind: FeedKind,
        limit: Int
    ) async throws(QueueError) -> FeedPage {
        try self.check()
        return try await self.base.outcomes(after: cursor, apps: apps, kind: kind, limit: limit)
    }

    func parked(after id: APNSID?, limit: Int) async throws(QueueError) -> [PushStatus] {
        try self.check()
        return try await self.base.parked(after: id, limit: limit)
    }

    func retryParked(_ id: APNSID) async throws(QueueError) -> Bool {
        try self.check()
        return try await self.base.retryParked(id)
    }

    func dropParked(_ id: APNSID) async throws(QueueError) -> Bool {
        try self.check()
        return try await self.base.dropParked(id)
    }

    func counts() async throws(QueueError) -> QueueCounts {
        try self.check()
        return try await self.base.counts()
    }

    func queuedRoutes() async throws(QueueError) -> [QueuedRoute] {
        try self.check()
        return try await self.base.queuedRoutes()
    }

    func value(forKey key: String) async throws(QueueError) -> [UInt8]? {
        try self.check()
        return try await self.base.value(forKey: key)
    }

    func setValue(_ value: [UInt8]?, forKey key: String) async throws(QueueError) {
        try self.check()
        try await self.base.setValue(value, forKey: key)
    }

    func prune(_ retention: Retention, limit: Int) async throws(QueueError) -> Int {
        try self.check()
        return try await self.base.prune(retention, limit: limit)
    }

    func close() async { await self.base.close() }
}

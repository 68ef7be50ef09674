import APNSModel
import PushQueue
import Synchronization

/// A queue in memory whose errors and delays are scripted.
final class StubQueue: PushQueue {
    struct State {
        var pushes: [NewPush] = []
        var statuses: [APNSID: PushStatus] = [:]
        var feed: [FeedEntry] = []
        var keys: [String: (id: APNSID, digest: [UInt8])] = [:]
        /// What every call throws.
        var error: QueueError?
        /// What `enqueue` calls before it stores.
        var beforeEnqueue: (@Sendable () async -> Void)?
    }

    let state = Mutex(State())

    private func check() throws(QueueError) {
        if let error = self.state.withLock({ $0.error }) { throw error }
    }

    func enqueue(_ pushes: [NewPush], isPartial: Bool) async throws(QueueError) -> [EnqueueResult] {
        await self.state.withLock { $0.beforeEnqueue }?()
        try self.check()
        return self.state.withLock { state in
            var next = state
            let results = pushes.map { push in
                if let key = push.idempotency {
                    let known = next.keys[push.caller + key.key]
                    if let known, known.digest != key.digest { return EnqueueResult.conflict(with: known.id) }
                    if let known { return .duplicate(of: known.id) }
                    next.keys[push.caller + key.key] = (push.id, key.digest)
                }
                next.pushes.append(push)
                next.statuses[push.id] = PushStatus(
                    id: push.id,
                    state: .queued,
                    route: push.route,
                    token: push.token,
                    caller: push.caller,
                    queuedAt: push.notBefore,
                    notBefore: push.notBefore,
                    deadline: push.deadline,
                    attempts: 0,
                    outcome: nil,
                    settledAt: nil
                )
                return .queued
            }
            let isConflict = results.contains { if case .conflict = $0 { true } else { false } }
            if isPartial || !isConflict { state = next }
            return results
        }
    }

    /// Settles a push, as a worker would.
    func settle(_ id: APNSID, _ outcome: PushOutcome, at time: QueueTime) {
        self.state.withLock { state in
            guard var status = state.statuses[id] else { return }
            status.state = .settled
            status.outcome = outcome
            status.settledAt = time
            state.statuses[id] = status
            let cursor = FeedCursor(position: Int64(state.feed.count + 1))
            state.feed.append(FeedEntry(cursor: cursor, push: status))
        }
    }

    func set(_ id: APNSID, _ newState: PushStatus.State) {
        self.state.withLock { $0.statuses[id]?.state = newState }
    }

    func status(of id: APNSID) async throws(QueueError) -> PushStatus? {
        try self.check()
        return self.state.withLock { $0.statuses[id] }
    }

    func cancel(_ id: APNSID) async throws(QueueError) -> CancelResult {
        try self.check()
        guard let status = self.state.withLock({ $0.statuses[id] }) else { return .notFound }
        switch status.state {
        case .written: return .written
        case .settled: return status.outcome.map { .settled($0) } ?? .notFound
        case .queued, .claimed, .parked:
            let error = PushError(code: .cancelled, certainty: .notSent, apnsID: id, message: "cancelled")
            self.settle(id, .notSent(error), at: status.queuedAt)
            return .cancelled
        }
    }

    func outcomes(
        after cursor: FeedCursor?,
        apps: Set<String>?,
        kind: FeedKind,
        limit: Int
    ) async throws(QueueError) -> FeedPage {
        try self.check()
        let entries = self.state.withLock { $0.feed }
            .filter { $0.cursor.position > cursor?.position ?? 0 }
            .filter { apps?.contains($0.push.route.app) ?? true }
            .filter { kind == .outcomes || $0.push.outcome?.invalidation != nil }
            .prefix(limit)
        return FeedPage(entries: Array(entries), cursor: entries.last?.cursor ?? cursor)
    }

    func parked(after id: APNSID?, limit: Int) async throws(QueueError) -> [PushStatus] {
        try self.check()
        let parked = self.state.withLock { state in state.statuses.values.filter { $0.state == .parked } }
            .sorted { $0.id.description < $1.id.description }
            .filter { push in id.map { push.id.description > $0.description } ?? true }
        return Array(parked.prefix(limit))
    }

    func retryParked(_ id: APNSID) async throws(QueueError) -> Bool {
        try self.check()
        return self.change(id, from: .parked, to: .queued)
    }

    func dropParked(_ id: APNSID) async throws(QueueError) -> Bool {
        try self.check()
        return self.change(id, from: .parked, to: .settled)
    }

    private func change(_ id: APNSID, from old: PushStatus.State, to new: PushStatus.State) -> Bool {
        self.state.withLock { state in
            guard state.statuses[id]?.state == old else { return false }
            state.statuses[id]?.state = new
            return true
        }
    }

    func counts() async throws(QueueError) -> QueueCounts {
        try self.check()
        let statuses = self.state.withLock { $0.statuses.values.map { ($0.route, $0.state) } }
        var routes: [Route: QueueCounts.OfRoute] = [:]
        for (route, state) in statuses {
            var counts = routes[route] ?? QueueCounts.OfRoute(route: route)
            switch state {
            case .queued: counts.queued += 1
            case .claimed: counts.claimed += 1
            case .written: counts.written += 1
            case .parked: counts.parked += 1
            case .settled: break
            }
            routes[route] = counts
        }
        return QueueCounts(routes: routes.values.sorted { $0.route.description < $1.route.description }, capacity: 100)
    }

    func queuedRoutes() async throws(QueueError) -> [QueuedRoute] {
        try self.check()
        let queued = self.state.withLock { $0.statuses.values.filter { $0.state == .queued } }
        return Dictionary(queued.map { ($0.route, $0.notBefore) }, uniquingKeysWith: min)
            .map { QueuedRoute(route: $0.key, due: $0.value) }
    }

    func value(forKey key: String) async throws(QueueError) -> [UInt8]? { nil }
    func setValue(_ value: [UInt8]?, forKey key: String) async throws(QueueError) {}
    func prune(_ retention: Retention, limit: Int) async throws(QueueError) -> Int { 0 }
    func claim(_ route: Route, limit: Int, worker: WorkerID, lease: Duration) async throws(QueueError) -> [ClaimedPush]
    { [] }
    func markWritten(_ claims: [Claim], lease: Duration) async throws(QueueError) -> [Bool] { [] }
    func settle(_ settlements: [Settlement]) async throws(QueueError) -> [SettleResult] { [] }
    func release(_ releases: [Release]) async throws(QueueError) {}
    func park(_ settlements: [Settlement]) async throws(QueueError) {}
    func expireLeases() async throws(QueueError) -> ExpiredLeases { ExpiredLeases() }
    func settleOverdue(limit: Int) async throws(QueueError) -> Int { 0 }
    func close() async {}
}

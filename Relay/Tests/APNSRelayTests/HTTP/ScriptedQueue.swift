import APNSModel
import PushQueue
import PushQueueConformance
import Synchronization

/// A queue that passes calls on to another one, with errors and delays that a test scripts.
final class ScriptedQueue: WrappingPushQueue {
    struct State {
        /// The pushes that were stored.
        var pushes: [NewPush] = []
        /// What every call throws.
        var error: QueueError?
        /// What `enqueue` throws.
        var enqueueError: QueueError?
        /// What `requireRoom` throws.
        var roomError: QueueError?
        /// How often the feed was read.
        var outcomesRead = 0
        /// What `enqueue` calls before it stores.
        var beforeEnqueue: (@Sendable () async -> Void)?
        /// What every call calls before it reaches the queue.
        var beforeCall: (@Sendable () async -> Void)?
    }

    let state = Mutex(State())
    let base: any PushQueue

    init(_ base: any PushQueue) {
        self.base = base
    }

    func call<Value: Sendable>(
        _ name: String,
        _ body: () async throws(QueueError) -> Value
    ) async throws(QueueError) -> Value {
        try self.check()
        await self.state.withLock { $0.beforeCall }?()
        if name == "requireRoom", let error = self.state.withLock({ $0.roomError }) { throw error }
        if name == "outcomes" { self.state.withLock { $0.outcomesRead += 1 } }
        return try await body()
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
    func park(_ id: APNSID, _ outcome: PushOutcome? = nil) async throws {
        let error = PushError(code: .refused, certainty: .notProcessed, apnsID: id, message: "refused")
        let outcome = outcome ?? .notProcessed(error)
        try await self.base.park([Settlement(claim: try await self.claim(id), outcome: outcome)])
    }

    private func claim(_ id: APNSID) async throws -> Claim {
        guard let push = try await self.base.status(of: id) else { throw NotClaimed() }
        let claimed = try await self.base.claim(push.route, limit: 100, lease: .seconds(60))
        let others = claimed.filter { $0.claim.id != id }
        try await self.base.release(others.map { Release(claim: $0.claim, notBefore: $0.queuedAt) })
        guard let claim = claimed.first(where: { $0.claim.id == id })?.claim else { throw NotClaimed() }
        return claim
    }

    // MARK: PushQueue

    func enqueue(_ pushes: [NewPush], isPartial: Bool) async throws(QueueError) -> [EnqueueResult] {
        await self.state.withLock { $0.beforeEnqueue }?()
        try self.check()
        if let error = self.state.withLock({ $0.enqueueError }) { throw error }
        let results = try await self.base.enqueue(pushes, isPartial: isPartial)
        let isConflict = results.contains { if case .conflict = $0 { true } else { false } }
        if isPartial || !isConflict {
            let stored = zip(pushes, results).filter { $0.1 == .queued }.map(\.0)
            self.state.withLock { $0.pushes += stored }
        }
        return results
    }
}

import APNSModel
import PushQueue

/// Notes which batches have ended, and forgets them once their outcomes are no longer kept.
struct BatchKeeper: Sendable {
    let queue: any PushQueue
    let clock: any QueueClock
    /// How long outcomes are kept.
    let retention: Duration

    func tend() async throws(QueueError) {
        let store = BatchStore(queue: self.queue)
        let states = try await store.states()
        guard !states.isEmpty else { return }
        let routes = try await self.queue.counts().routes
        let now = self.clock.expiry
        var oldest: QueueTime??
        for (id, state) in states {
            guard let batch = try await store.batch(id) else { continue }
            let isClosed = state.isComplete || state.isCancelled || batch.deadline <= now.millisecondsSince1970
            let hasPushes = routes.contains { $0.route == batch.route && $0 != QueueCounts.OfRoute(route: $0.route) }
            guard isClosed, !hasPushes else { continue }
            // A request that has not noticed the end may have added pushes since then.
            let outcomes = try await self.queue.outcomeCounts(of: batch.route).values.reduce(0, +)
            guard let ended = state.endedAt, state.endedWith == outcomes else {
                try await store.change(id) { state in
                    state.endedAt = now.millisecondsSince1970
                    state.endedWith = outcomes
                }
                continue
            }
            let endedAt = QueueTime(millisecondsSince1970: ended)
            guard endedAt.advanced(by: self.retention) < now else { continue }
            // The queue deletes outcomes in their order. So none of this batch is left if the oldest is newer than its end.
            if oldest == nil {
                oldest = .some(
                    try await self.queue.outcomes(after: nil, apps: nil, kind: .outcomes, limit: 1).entries.first?.push
                        .settledAt
                )
            }
            guard (oldest ?? nil).map({ endedAt < $0 }) ?? true else { continue }
            try await self.queue.forget(batch.route)
            try await store.remove(batch)
        }
    }
}

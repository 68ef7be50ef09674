import APNSModel
import PushQueue

/// Notes which batches have ended, and forgets them once their outcomes are no longer kept.
struct BatchKeeper: Sendable {
    let queue: any PushQueue
    let clock: any QueueClock
    /// How long outcomes are kept.
    let retention: Duration

    /// How long a request without an idempotency key may store nothing before its batch is cancelled.
    private static let patience = Duration.seconds(600)

    func tend() async throws(QueueError) {
        let store = BatchStore(queue: self.queue)
        let now = self.clock.expiry
        let states = try await store.states().filter { _, state in
            // Nothing can be forgotten yet.
            state.endedAt.map { QueueTime(millisecondsSince1970: $0).advanced(by: self.retention) < now } ?? true
        }
        guard !states.isEmpty else { return }
        var found: [(batch: Batch, state: BatchState)] = []
        for (id, state) in states {
            if let batch = try await store.batch(id) { found.append((batch, state)) }
        }
        let counts = try await self.queue.batchCounts(of: found.map(\.batch.route))
        for ((batch, state), counts) in zip(found, counts) {
            let id = batch.id
            // Nobody can continue it.
            let storedAt = QueueTime(millisecondsSince1970: max(state.storedAt, batch.createdAt))
            if !state.isComplete, !state.isCancelled, batch.idempotencyKey == nil,
                storedAt.advanced(by: Self.patience) < now
            {
                try await store.change(id) { $0.isCancelled = true }
                continue
            }
            let isClosed = state.isComplete || state.isCancelled || batch.deadline <= now.millisecondsSince1970
            guard isClosed, counts.pushes.unsettled == counts.pushes.parked else { continue }
            if counts.pushes.parked > 0 {
                // They were parked after the batch was cancelled.
                if state.isCancelled { _ = try await self.queue.cancelAll(batch.route, limit: 1_000) }
                continue
            }
            // A request that has not noticed the end may have added pushes since then.
            let outcomes = counts.settled
            guard state.endedAt != nil, state.endedWith == outcomes, let end = state.endedAtCursor else {
                let end = try await self.endOfFeed()
                try await store.change(id) { state in
                    state.endedAt = now.millisecondsSince1970
                    state.endedWith = outcomes
                    state.endedAtCursor = end
                }
                continue
            }
            // The queue deletes outcomes in their order.
            let oldest = try await self.queue.outcomes(after: nil, apps: nil, kind: .outcomes, limit: 1).entries.first
            guard oldest.map({ $0.cursor.position > end }) ?? true else { continue }
            try await self.queue.forget(batch.route)
            try await store.remove(batch)
        }
    }

    /// The position of the last outcome.
    private func endOfFeed() async throws(QueueError) -> Int64 {
        var cursor: FeedCursor?
        while true {
            // The feed of invalid tokens has the same end, and few entries.
            let page = try await self.queue.outcomes(after: cursor, apps: [], kind: .invalidTokens, limit: 1_000)
            cursor = page.cursor
            if page.isEnd { return cursor?.position ?? 0 }
        }
    }
}

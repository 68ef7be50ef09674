import Synchronization

/// An estimate of the room in a queue with a capacity. Counting exactly makes calls of all processes wait for each other, so
/// it is only done near the capacity.
final class Room: Sendable {
    private struct State {
        /// The number of pushes without an outcome; nil if it was never counted.
        var unsettled: Int?
        var countedAt: ContinuousClock.Instant?
    }

    let capacity: Int?
    private let state = Mutex(State())

    init(capacity: Int?) {
        self.capacity = capacity
    }

    /// The capacity if a call that stores pushes must count; nil if there is certainly room.
    func limit(adding count: Int) -> Int64? {
        guard let capacity else { return nil }
        let margin = max(capacity / 10, 20_000)
        let isNear = self.state.withLock { state in
            guard let unsettled = state.unsettled else { return true }
            return unsettled + count + margin >= capacity
        }
        return isNear ? Int64(capacity) : nil
    }

    /// Whether the queue was full when it was counted.
    var isFull: Bool {
        guard let capacity else { return false }
        return self.state.withLock { $0.unsettled ?? 0 >= capacity }
    }

    /// Adds pushes that were stored.
    func add(_ count: Int) { self.state.withLock { $0.unsettled? += count } }

    /// Whether it is time to count.
    var mustCount: Bool {
        guard self.capacity != nil else { return false }
        return self.state.withLock { state in
            let now = ContinuousClock.now
            if let last = state.countedAt, last.duration(to: now) < .seconds(1) { return false }
            state.countedAt = now
            return true
        }
    }

    func set(unsettled: Int) { self.state.withLock { $0.unsettled = unsettled } }
}

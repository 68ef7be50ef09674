import PushQueue
import Synchronization

/// An estimate of the room in a queue with a capacity, and whether the server's disk has room. Counting exactly makes calls
/// of all processes wait for each other, so it is only done near the capacity.
final class Room: Sendable {
    let capacity: Int?
    /// The number of pushes without an outcome; nil if it was never counted.
    private let unsettled = Mutex(Int?.none)
    private let refusal = Mutex<(error: QueueError, time: ContinuousClock.Instant)?>(nil)

    init(capacity: Int?) {
        self.capacity = capacity
    }

    /// The capacity if a call that stores pushes must count; nil if there is certainly room.
    func limit(adding count: Int) -> Int64? {
        guard let capacity else { return nil }
        let margin = max(capacity / 10, 20_000)
        let isNear = self.unsettled.withLock { $0.map { $0 + count + margin >= capacity } ?? true }
        return isNear ? Int64(capacity) : nil
    }

    /// Whether the queue was full when it was counted.
    var isFull: Bool {
        guard let capacity else { return false }
        return self.unsettled.withLock { $0 ?? 0 >= capacity }
    }

    /// Adds pushes that were stored.
    func add(_ count: Int) { self.unsettled.withLock { $0? += count } }

    func set(unsettled: Int) { self.unsettled.withLock { $0 = unsettled } }

    /// The error of the last call that found the server's disk full, if that was less than ten seconds ago. A relay that gets
    /// no more pushes because of this error then tries again.
    var diskFull: QueueError? {
        let last = self.refusal.withLock { $0 }
        return last.flatMap { $0.time.duration(to: .now) < .seconds(10) ? $0.error : nil }
    }

    /// Remembers that a call has found the server's disk full, or that pushes were stored since.
    func setDiskFull(_ error: QueueError?) { self.refusal.withLock { $0 = error.map { ($0, .now) } } }
}

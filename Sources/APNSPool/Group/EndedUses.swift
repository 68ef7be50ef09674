import SupervisedPool
import Synchronization

/// The pushes of a client that have ended since the registry last took them, so that the end of a push takes no lock.
final class EndedUses: Sendable {
    private let count = Atomic<Int>(0)
    private let last = Atomic<Int64>(.min)

    func add(at now: MonotonicInstant) {
        self.last.store(now.nanoseconds, ordering: .relaxed)
        self.count.wrappingAdd(1, ordering: .sequentiallyConsistent)
    }

    /// Returns how many there are, and when the last one ended; nil if there is none.
    func take() -> (count: Int, last: MonotonicInstant)? {
        let count = self.count.exchange(0, ordering: .sequentiallyConsistent)
        guard count > 0 else { return nil }
        return (count, MonotonicInstant(nanoseconds: self.last.load(ordering: .relaxed)))
    }
}

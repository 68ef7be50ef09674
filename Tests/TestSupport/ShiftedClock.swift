public import SupervisedPool
import Synchronization

/// The system clock, which a test can set forward. For tests over real sockets that must not wait for long times.
public final class ShiftedClock: MonotonicClock {
    private let system = SystemMonotonicClock()
    private let shift = Mutex(Duration.zero)

    public init() {}

    public var now: MonotonicInstant { system.now.advanced(by: shift.withLock { $0 }) }

    /// Sets the clock forward. Sleeping tasks notice it within 10 ms.
    public func advance(by duration: Duration) {
        shift.withLock { $0 += duration }
    }

    public func sleep(until instant: MonotonicInstant) async throws {
        while true {
            try Task.checkCancellation()
            let left = now.duration(to: instant)
            guard left > .zero else { return }
            try await ContinuousClock().sleep(for: min(left, .milliseconds(10)))
        }
    }
}

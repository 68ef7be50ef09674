import Synchronization

/// Is due at most once a second.
final class EverySecond: Sendable {
    private let last = Mutex(ContinuousClock.Instant?.none)

    /// Whether a second has passed since this was last true.
    var isDue: Bool {
        self.last.withLock { last in
            let now = ContinuousClock.now
            if let last, last.duration(to: now) < .seconds(1) { return false }
            last = now
            return true
        }
    }
}

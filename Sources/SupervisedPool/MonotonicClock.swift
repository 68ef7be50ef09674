#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// A point in time on a clock that never runs backwards, in whole nanoseconds since that clock's zero.
///
/// Compare only instants of one clock. Arithmetic never overflows: results beyond the range of `Int64` (292 years) are
/// clamped to its ends.
public struct MonotonicInstant: Sendable, Hashable, Comparable {
    /// Nanoseconds since the clock's zero.
    public var nanoseconds: Int64

    /// Creates the instant that is `nanoseconds` after the clock's zero.
    public init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    /// Returns the instant `duration` later (earlier if it is negative), clamped to the range of `Int64`.
    public func advanced(by duration: Duration) -> MonotonicInstant {
        let delta = duration.saturatedNanoseconds
        let (sum, overflow) = self.nanoseconds.addingReportingOverflow(delta)
        guard overflow else { return MonotonicInstant(nanoseconds: sum) }
        return MonotonicInstant(nanoseconds: delta < 0 ? .min : .max)
    }

    /// Returns the time from this instant to `other`, which is negative if `other` is earlier.
    public func duration(to other: MonotonicInstant) -> Duration {
        let (difference, overflow) = other.nanoseconds.subtractingReportingOverflow(self.nanoseconds)
        guard overflow else { return .nanoseconds(difference) }
        return .nanoseconds(other < self ? Int64.min : Int64.max)
    }

    /// The last representable instant. As a deadline it means "never".
    public static let distantFuture = MonotonicInstant(nanoseconds: .max)

    public static func < (left: MonotonicInstant, right: MonotonicInstant) -> Bool {
        left.nanoseconds < right.nanoseconds
    }
}

/// The source of time for the actors of this module, and their way to wait. Tests supply a clock that stands still
/// until they advance it.
public protocol MonotonicClock: Sendable {
    /// The current time. Every checkout reads it at least once, so reading it should take only nanoseconds.
    var now: MonotonicInstant { get }

    /// Waits until `instant`. Returns at `instant` or later, never earlier; immediately if `instant` has passed.
    ///
    /// - Throws: `CancellationError` if the task is cancelled. No other error.
    func sleep(until instant: MonotonicInstant) async throws
}

/// The operating system's monotonic clock. It keeps running while the machine sleeps, so a deadline that passed during
/// that time counts as passed.
public struct SystemMonotonicClock: MonotonicClock {
    /// Creates the clock.
    public init() {}

    public var now: MonotonicInstant {
        // The clock behind `ContinuousClock`, without the 128-bit arithmetic of its instants.
        var time = timespec()
        #if os(Linux)
            clock_gettime(CLOCK_BOOTTIME, &time)
        #else
            clock_gettime(CLOCK_MONOTONIC_RAW, &time)
        #endif
        return MonotonicInstant(nanoseconds: Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec))
    }

    public func sleep(until instant: MonotonicInstant) async throws {
        // Sleep for at most one day at a time: conversions inside the runtime must not meet an instant centuries away.
        while true {
            try Task.checkCancellation()
            let left = self.now.duration(to: instant)
            guard left > .zero else { return }
            try await ContinuousClock().sleep(for: min(left, .seconds(86_400)))
        }
    }
}

extension Duration {
    /// Whole nanoseconds, rounded towards zero. Durations longer than 285 years are clamped to the ends of `Int64`.
    var saturatedNanoseconds: Int64 {
        if self >= .seconds(9_000_000_000) { return .max }
        if self <= .seconds(-9_000_000_000) { return .min }
        let (seconds, attoseconds) = self.components
        return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    }
}

extension Duration {
    /// A short text for humans: a whole number in the unit that suits its size.
    var formatted: String {
        let microseconds = self.saturatedNanoseconds / 1000
        switch microseconds {
        case ..<1000: return "\(microseconds) µs"
        case ..<10_000_000: return "\(microseconds / 1000) ms"
        case ..<600_000_000: return "\(microseconds / 1_000_000) s"
        case ..<36_000_000_000: return "\(microseconds / 60_000_000) min"
        default: return "\(microseconds / 3_600_000_000) h"
        }
    }
}

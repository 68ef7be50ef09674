#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// A point on a clock that never runs backwards, in whole nanoseconds since that clock's own zero.
///
/// Instants of one clock can be compared; those of two clocks cannot. No arithmetic here can overflow: results beyond
/// the range of `Int64` (292 years) stop at its ends.
public struct MonotonicInstant: Sendable, Hashable, Comparable {
    /// Nanoseconds since the clock's zero.
    public var nanoseconds: Int64

    /// Makes the instant that lies `nanoseconds` after the clock's zero.
    public init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    /// The instant `duration` later (earlier when it is negative), or the nearest one that exists.
    public func advanced(by duration: Duration) -> MonotonicInstant {
        let delta = duration.saturatedNanoseconds
        let (sum, overflow) = self.nanoseconds.addingReportingOverflow(delta)
        guard overflow else { return MonotonicInstant(nanoseconds: sum) }
        return MonotonicInstant(nanoseconds: delta < 0 ? .min : .max)
    }

    /// The time from this instant to `other`; negative when `other` is earlier.
    public func duration(to other: MonotonicInstant) -> Duration {
        let (difference, overflow) = other.nanoseconds.subtractingReportingOverflow(self.nanoseconds)
        guard overflow else { return .nanoseconds(difference) }
        return .nanoseconds(other < self ? Int64.min : Int64.max)
    }

    /// The last instant there is. As a deadline it means "never".
    public static let distantFuture = MonotonicInstant(nanoseconds: .max)

    public static func < (left: MonotonicInstant, right: MonotonicInstant) -> Bool {
        left.nanoseconds < right.nanoseconds
    }
}

/// Where the actors of this module get the time from, and how they wait for it. Tests put a clock here that stands
/// still until it is told to go on.
public protocol MonotonicClock: Sendable {
    /// The present time. Called once or more per checkout, so it should cost nanoseconds.
    var now: MonotonicInstant { get }

    /// Returns at `instant` or later, never earlier; at once when `instant` has passed.
    ///
    /// - Throws: `CancellationError` when the task is cancelled, and nothing else.
    func sleep(until instant: MonotonicInstant) async throws
}

/// The clock of the operating system. It goes on while the machine sleeps, so a deadline that passed during that sleep
/// is seen as passed.
public struct SystemMonotonicClock: MonotonicClock {
    /// The system's monotonic clock.
    public init() {}

    public var now: MonotonicInstant {
        // The clock behind ContinuousClock, without the 128-bit arithmetic of its instants.
        var time = timespec()
        #if os(Linux)
            clock_gettime(CLOCK_BOOTTIME, &time)
        #else
            clock_gettime(CLOCK_MONOTONIC_RAW, &time)
        #endif
        return MonotonicInstant(nanoseconds: Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec))
    }

    public func sleep(until instant: MonotonicInstant) async throws {
        // In steps of at most a day: conversions inside the runtime must never meet an instant centuries away.
        while true {
            try Task.checkCancellation()
            let left = self.now.duration(to: instant)
            guard left > .zero else { return }
            try await ContinuousClock().sleep(for: min(left, .seconds(86_400)))
        }
    }
}

extension Duration {
    /// Whole nanoseconds, rounded towards zero; the ends of `Int64` when the duration is longer than 285 years.
    var saturatedNanoseconds: Int64 {
        if self >= .seconds(9_000_000_000) { return .max }
        if self <= .seconds(-9_000_000_000) { return .min }
        let (seconds, attoseconds) = self.components
        return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    }
}

extension Duration {
    /// For people: three digits or so, in the unit that suits.
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

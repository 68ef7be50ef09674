import Synchronization

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The clocks that a queue and its relay need. Tests replace them.
///
/// | rule | clock |
/// |---|---|
/// | when a push was stored and settled; when it is due (`notBefore`) | ``now`` |
/// | whether a push is still sent | ``now`` |
/// | whether an overdue push ends; retentions; the end of batches, kept messages and attested keys | ``expiry`` |
/// | leases of claims in a file; pauses, rates, delays of webhooks, heartbeats of a fleet | ``lease`` |
/// | leases of claims in a database | the database's own, `apns.lease_clock` |
/// | limits of single calls and measured durations | `ContinuousClock` |
///
/// So a clock that jumps ahead lets pushes wait, and ends none of them; and no jump ends a lease.
public protocol QueueClock: Sendable {
    /// The time of day, for `notBefore`, deadlines and expirations. It may jump.
    var now: QueueTime { get }
    /// The time for leases. It never jumps while the process runs.
    var lease: QueueTime { get }
    /// The time of day that decides when pushes are overdue and when retentions are over. It is `now`, or an earlier
    /// time while `now` is implausible.
    var expiry: QueueTime { get }
}

extension QueueClock {
    public var expiry: QueueTime { self.now }
}

/// The machine's clocks. The time for leases is the time of day when this value was made, plus the monotonic time since
/// then, so no lease expires when the clock jumps.
public struct SystemQueueClock: QueueClock {
    private let start: QueueTime
    private let startInstant: ContinuousClock.Instant

    public init() {
        self.start = Self.timeOfDay
        self.startInstant = .now
    }

    public var now: QueueTime { Self.timeOfDay }
    public var lease: QueueTime { self.start.advanced(by: self.startInstant.duration(to: .now)) }

    private static var timeOfDay: QueueTime {
        QueueTime(millisecondsSince1970: Int64((Date().timeIntervalSince1970 * 1_000).rounded(.down)))
    }
}

/// A clock that tests set.
public final class ManualQueueClock: QueueClock {
    private struct State {
        var now: QueueTime
        var lease: QueueTime
        var implausible = Duration.zero
    }

    private let state: Mutex<State>

    public init(_ start: QueueTime) {
        self.state = Mutex(State(now: start, lease: start))
    }

    public var now: QueueTime { self.state.withLock { $0.now } }
    public var lease: QueueTime { self.state.withLock { $0.lease } }
    public var expiry: QueueTime { self.state.withLock { $0.now.advanced(by: .zero - $0.implausible) } }

    /// Lets time pass for all clocks.
    public func advance(by duration: Duration) {
        self.state.withLock { state in
            state.now = state.now.advanced(by: duration)
            state.lease = state.lease.advanced(by: duration)
        }
    }

    /// Makes the time of day jump, as a correction by NTP does.
    public func jump(by duration: Duration) {
        self.state.withLock { $0.now = $0.now.advanced(by: duration) }
    }

    /// Makes the time of day jump, but not ``expiry``.
    public func jumpImplausibly(by duration: Duration) {
        self.state.withLock { state in
            state.now = state.now.advanced(by: duration)
            state.implausible += duration
        }
    }

    /// Accepts the time of day again: ``expiry`` equals ``now``.
    public func confirm() { self.state.withLock { $0.implausible = .zero } }
}

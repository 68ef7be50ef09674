import PushQueue

/// Decides whether the time of day is plausible, by comparing it with a clock that never jumps. A pure value.
///
/// A clock that jumps ahead would make pushes overdue and outcomes too old to keep. After an implausible jump, time for
/// these purposes continues as if the clock had not jumped, until the clock is back or an operator confirms it. A clock
/// that was set back does no such harm, so it needs no confirmation, and neither does its return.
struct ClockGuard: Sendable, Hashable {
    /// The longest stop of all relays of a queue that needs no confirmation.
    static let longestStop = Duration.seconds(86_400)

    /// The longest plausible jump ahead.
    let longestJump: Duration
    /// The latest time of day that was plausible, and the lease time at that moment.
    private var plausible: QueueTime
    private var since: QueueTime

    init(longestJump: Duration, now: QueueTime, lease: QueueTime) {
        self.longestJump = longestJump
        self.plausible = now
        self.since = lease
    }

    /// Compares the clock with the time at which the queue was last in use.
    mutating func resume(after lastSeen: QueueTime, now: QueueTime, lease: QueueTime) {
        let isPlausible = now <= lastSeen.advanced(by: Self.longestStop + self.longestJump)
        self.plausible = isPlausible ? max(now, lastSeen) : lastSeen
        self.since = lease
    }

    /// The time by which the time of day is implausibly ahead; nil if it is plausible.
    mutating func jump(now: QueueTime, lease: QueueTime) -> Duration? {
        let expected = self.plausible.advanced(by: self.since.duration(to: lease))
        guard now <= expected.advanced(by: self.longestJump) else { return expected.duration(to: now) }
        if now > expected {
            self.plausible = now
            self.since = lease
        }
        return nil
    }

    /// The time by which pushes expire.
    mutating func expiry(now: QueueTime, lease: QueueTime) -> QueueTime {
        self.jump(now: now, lease: lease).map { now.advanced(by: .zero - $0) } ?? now
    }

    /// An operator has checked the clock: it is right.
    mutating func confirm(now: QueueTime, lease: QueueTime) {
        self.plausible = now
        self.since = lease
    }
}

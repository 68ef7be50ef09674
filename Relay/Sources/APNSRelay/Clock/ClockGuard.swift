import PushQueue

/// Decides whether the time of day is plausible, by comparing it with a clock that never jumps. A pure value.
///
/// A clock that jumps ahead would make pushes overdue and outcomes too old to keep. So after an implausible jump,
/// ``expiry(now:lease:)`` continues as if the clock had not jumped. This ends when the clock is correct again, or when
/// an operator confirms it. Setting a clock back does no such harm, so neither that nor its correction needs a
/// confirmation.
struct ClockGuard: Sendable, Hashable {
    /// How long all relays of a queue may be stopped without a confirmation of the clock afterwards.
    static let longestStop = Duration.seconds(86_400)

    /// The longest plausible jump ahead.
    let longestJump: Duration
    /// The latest plausible time of day. `since` is the time for leases at that moment.
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

    /// How far the time of day is ahead of what is plausible; nil if it is plausible.
    mutating func jump(now: QueueTime, lease: QueueTime) -> Duration? {
        let expected = self.plausible.advanced(by: self.since.duration(to: lease))
        guard now <= expected.advanced(by: self.longestJump) else { return expected.duration(to: now) }
        if now > expected {
            self.plausible = now
            self.since = lease
        }
        return nil
    }

    /// The time that decides which pushes are overdue: `now`, or an earlier time while `now` is implausible.
    mutating func expiry(now: QueueTime, lease: QueueTime) -> QueueTime {
        self.jump(now: now, lease: lease).map { now.advanced(by: .zero - $0) } ?? now
    }

    /// Accepts the time of day, because an operator has checked it.
    mutating func confirm(now: QueueTime, lease: QueueTime) {
        self.plausible = now
        self.since = lease
    }
}

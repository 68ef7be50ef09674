import APNSModel
import SupervisedPool

/// A token bucket that limits the rate of a bulk call. Each push takes one turn. Turns that are not used within 0.01 s
/// are lost, except one, so that a pause is not followed by a burst. Pure.
struct RateLimiter: Sendable {
    /// How long unused turns are kept, in seconds. One turn is always kept.
    static let burstTime = 0.01
    /// How long the call sleeps, in seconds, to earn several turns at once. A timer for each push would cost more than
    /// the push.
    static let slumber = 0.002

    let rate: PushRate
    private var credit = 1.0
    private var last: MonotonicInstant

    init(_ rate: PushRate, now: MonotonicInstant) {
        self.rate = rate
        self.last = now
    }

    private var burst: Double { max(1, self.rate.perSecond * Self.burstTime) }

    /// Takes up to `wanted` turns. Returns how many pushes may start now.
    mutating func take(upTo wanted: Int, now: MonotonicInstant) -> Int {
        self.earn(now)
        let taken = min(Double(max(wanted, 0)), self.credit.rounded(.down))
        self.credit -= taken
        return Int(taken)
    }

    /// Returns turns that were taken but not used.
    mutating func giveBack(_ count: Int) {
        self.credit = min(self.burst, self.credit + Double(count))
    }

    /// When to ask for turns again.
    func next(now: MonotonicInstant) -> MonotonicInstant {
        let wanted = min(self.burst, max(1, self.rate.perSecond * Self.slumber))
        let seconds = (wanted - self.credit) / self.rate.perSecond
        return now.advanced(by: .nanoseconds(Int64(min(max(seconds, 0) * 1e9, 9e18)).advanced(by: 1)))
    }

    private mutating func earn(_ now: MonotonicInstant) {
        guard now > self.last else { return }
        let seconds = Double(now.nanoseconds &- self.last.nanoseconds) / 1e9
        self.credit = min(self.burst, self.credit + seconds * self.rate.perSecond)
        self.last = now
    }
}

import PushQueue

/// Limits the pushes per second of a caller, on average over ten seconds.
///
/// A request is admitted while the balance is positive, and may make it negative. So a request with more pushes than
/// the bucket holds is admitted as soon as any other one would be, and later requests wait until the balance is
/// positive again. Large requests do not starve. Over any period, the relay admits at most rate × (period + 10 s)
/// pushes and one more request.
struct TokenBucket: Sendable {
    static let burst = Duration.seconds(10)

    private let rate: Double
    private var balance: Double
    private var updated: QueueTime

    /// - Parameters:
    ///   - rate: the pushes per second; more than 0.
    ///   - now: a time that never jumps.
    init(rate: Int, now: QueueTime) {
        self.rate = Double(max(1, rate))
        self.balance = self.rate * (Self.burst / .seconds(1))
        self.updated = now
    }

    /// Takes pushes out of the bucket.
    ///
    /// - Parameters:
    ///   - count: the pushes; 0 to ask whether any would be admitted.
    ///   - now: a time that never jumps.
    /// - Returns: nil if the request is admitted; otherwise how long to wait, and nothing was taken.
    mutating func take(_ count: Int, now: QueueTime) -> Duration? {
        let elapsed = max(.zero, self.updated.duration(to: now))
        self.updated = max(self.updated, now)
        let full = self.rate * (Self.burst / .seconds(1))
        self.balance = min(full, self.balance + self.rate * (elapsed / .seconds(1)))
        guard self.balance > 0 else {
            // One push more than zero, so that the bucket is positive after the wait.
            return .seconds((1 - self.balance) / self.rate)
        }
        self.balance -= Double(count)
        return nil
    }

    /// Returns pushes that were taken and then not stored.
    mutating func giveBack(_ count: Int) {
        self.balance = min(self.rate * (Self.burst / .seconds(1)), self.balance + Double(max(0, count)))
    }
}

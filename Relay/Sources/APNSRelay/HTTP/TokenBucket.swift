import PushQueue

/// Limits the pushes per second of a caller, on average over ten seconds, or those of a batch.
///
/// A request is admitted while the balance is positive, and may make the balance negative. Later requests then wait
/// until it is positive again. So a request with more pushes than the bucket can hold waits no longer than a small one,
/// and large requests do not starve. In any period, the relay admits at most rate × (period + burst) pushes and one more
/// request.
struct TokenBucket: Sendable {
    private let rate: Double
    /// The largest balance.
    private let full: Double
    private var balance: Double
    private var updated: QueueTime

    /// - Parameters:
    ///   - rate: the number of pushes per second; more than 0.
    ///   - burst: how many seconds' pushes the bucket can hold.
    ///   - now: a time that never jumps.
    init(rate: Double, burst: Duration = .seconds(10), now: QueueTime) {
        self.rate = max(1e-6, rate)
        self.full = max(1, self.rate * (burst / .seconds(1)))
        self.balance = self.full
        self.updated = now
    }

    /// Takes pushes out of the bucket.
    ///
    /// - Parameters:
    ///   - count: the number of pushes; 0 to ask whether any push would be admitted.
    ///   - now: a time that never jumps.
    /// - Returns: nil if the request is admitted; otherwise how long to wait. Nothing was taken then.
    mutating func take(_ count: Int, now: QueueTime) -> Duration? {
        let elapsed = max(.zero, self.updated.duration(to: now))
        self.updated = max(self.updated, now)
        self.balance = min(self.full, self.balance + self.rate * (elapsed / .seconds(1)))
        guard self.balance > 0 else {
            // The wait lasts until the balance is 1, so that it is certainly positive afterwards.
            return .seconds((1 - self.balance) / self.rate)
        }
        self.balance -= Double(count)
        return nil
    }

    /// Gives pushes back that were taken out of the bucket and then not stored.
    mutating func giveBack(_ count: Int) {
        self.balance = min(self.full, self.balance + Double(max(0, count)))
    }
}

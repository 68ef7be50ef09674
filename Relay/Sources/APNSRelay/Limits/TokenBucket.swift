import PushQueue

/// Limits the pushes per second of a caller, on average over ten seconds, or those of a batch or an app.
///
/// A request is admitted while the balance is positive, and may make the balance negative. Later requests then wait
/// until it is positive again. So a request with more pushes than the bucket can hold waits no longer than a small one,
/// and large requests do not starve. In any period, the relay admits at most rate × (period + burst) pushes and one more
/// request.
struct TokenBucket: Sendable {
    /// What changes.
    struct State: Sendable, Hashable {
        var balance: Double
        /// When the balance was last increased.
        var updated: QueueTime
    }

    private let rate: Double
    /// The largest balance.
    private let full: Double
    private(set) var state: State

    /// - Parameters:
    ///   - rate: the number of pushes per second; more than 0.
    ///   - burst: how many seconds' pushes the bucket can hold.
    ///   - least: the number of pushes that it can hold in any case.
    ///   - state: the balance and its time; nil for a full bucket.
    ///   - now: a time that never jumps.
    init(
        rate: Double,
        burst: Duration = .seconds(10),
        least: Double = 1,
        state: State? = nil,
        now: QueueTime
    ) {
        self.rate = max(1e-6, rate)
        self.full = max(least, self.rate * (burst / .seconds(1)))
        self.state = state ?? State(balance: self.full, updated: now)
        self.state.balance = min(self.state.balance, self.full)
    }

    /// Takes pushes out of the bucket.
    ///
    /// - Parameters:
    ///   - count: the number of pushes; 0 to ask whether any push would be admitted.
    ///   - now: a time that never jumps.
    /// - Returns: nil if the request is admitted; otherwise how long to wait. Nothing was taken then.
    mutating func take(_ count: Int, now: QueueTime) -> Duration? {
        self.fill(now)
        // The wait lasts until the balance is 1, so that it is certainly positive afterwards.
        guard self.state.balance > 0 else { return self.wait(until: 1) }
        self.state.balance -= Double(count)
        return nil
    }

    /// Takes as many pushes as the bucket has.
    ///
    /// - Parameters:
    ///   - wanted: the maximum number of pushes.
    ///   - reserve: the number of pushes that stay in the bucket.
    ///   - now: a time that never jumps.
    /// - Returns: the number of pushes, and how long to wait if it is 0.
    mutating func take(upTo wanted: Int, leaving reserve: Double, now: QueueTime) -> (count: Int, wait: Duration) {
        self.fill(now)
        let count = min(wanted, Int(max(0, self.state.balance - reserve)))
        guard count > 0 else { return (0, self.wait(until: reserve + 1)) }
        self.state.balance -= Double(count)
        return (count, .zero)
    }

    /// Gives pushes back that were taken out of the bucket and then not stored.
    mutating func giveBack(_ count: Int) {
        self.state.balance = min(self.full, self.state.balance + Double(max(0, count)))
    }

    /// Adds what has come in since the last time.
    private mutating func fill(_ now: QueueTime) {
        let elapsed = max(.zero, self.state.updated.duration(to: now))
        self.state.updated = max(self.state.updated, now)
        self.state.balance = min(self.full, self.state.balance + self.rate * (elapsed / .seconds(1)))
    }

    private func wait(until balance: Double) -> Duration { .seconds((balance - self.state.balance) / self.rate) }
}

/// Computes the wait before each retry, longer from failure to failure.
///
/// ```swift
/// var backoff = Backoff(.doubling(), minimum: .seconds(5), maximum: .seconds(60))
/// while !isDone { try await clock.sleep(for: backoff.next()) }
/// ```
public struct Backoff: Sendable, Hashable {
    /// How the waits grow. No wait is shorter than the minimum of the backoff, except by the random part of `doubling`,
    /// and none is longer than its maximum.
    public enum Policy: Sendable, Hashable {
        /// Each wait is drawn at random between the minimum and three times the previous wait. Callers that failed at the
        /// same moment spread out.
        case decorrelatedJitter
        /// The minimum, and then twice the previous wait each time.
        ///
        /// - Parameter randomPercent: How much of each wait is random, in per cent: with 0 nothing, with 50 a wait has
        ///   between half and all of its length, with 100 between nothing and all. Values outside 0 to 100 count as the
        ///   nearest of them.
        case doubling(randomPercent: Int = 0)
    }

    /// How the waits grow.
    public let policy: Policy
    /// The shortest wait.
    public let minimum: Duration
    /// The longest wait.
    public let maximum: Duration
    private var previous: Int64
    private var isFirst = true

    /// - Parameters:
    ///   - policy: How the waits grow.
    ///   - minimum: The shortest wait, 100 ms by default. A negative value counts as zero.
    ///   - maximum: The longest wait, 30 s by default. A value below the minimum counts as the minimum.
    public init(
        _ policy: Policy = .decorrelatedJitter,
        minimum: Duration = .milliseconds(100),
        maximum: Duration = .seconds(30)
    ) {
        self.policy = policy
        self.minimum = max(minimum, .zero)
        self.maximum = max(maximum, self.minimum)
        self.previous = self.minimum.saturatedNanoseconds
    }

    /// The next wait.
    ///
    /// - Parameter random: The source of the random part.
    public mutating func next(using random: inout some RandomNumberGenerator) -> Duration {
        let low = self.minimum.saturatedNanoseconds
        switch self.policy {
        case .decorrelatedJitter:
            let (tripled, overflow) = self.previous.multipliedReportingOverflow(by: 3)
            let high = max(low, min(self.maximum.saturatedNanoseconds, overflow ? Int64.max : tripled))
            self.previous = Int64.random(in: low...high, using: &random)
            return .nanoseconds(self.previous)
        case .doubling(let randomPercent):
            let (doubled, overflow) = self.previous.multipliedReportingOverflow(by: 2)
            let whole = self.isFirst ? low : min(self.maximum.saturatedNanoseconds, overflow ? Int64.max : doubled)
            self.previous = whole
            self.isFirst = false
            let part = whole / 100 * Int64(min(max(randomPercent, 0), 100))
            guard part > 0 else { return .nanoseconds(whole) }
            return .nanoseconds(whole - Int64.random(in: 0...part, using: &random))
        }
    }

    /// The next wait, with the system's random numbers.
    public mutating func next() -> Duration {
        var random = SystemRandomNumberGenerator()
        return self.next(using: &random)
    }

    /// The wait after a number of failures in a row, for callers that keep that number instead of a backoff: as if
    /// `next` had been called for each failure since a reset.
    ///
    /// - Parameters:
    ///   - failures: How many there have been, from 1; less counts as 1.
    ///   - random: The source of the random part.
    public func wait(after failures: Int, using random: inout some RandomNumberGenerator) -> Duration {
        var copy = self
        copy.reset()
        var wait = copy.next(using: &random)
        for _ in 1..<max(min(failures, 64), 1) { wait = copy.next(using: &random) }
        return wait
    }

    /// The wait after a number of failures in a row, with the system's random numbers.
    public func wait(after failures: Int) -> Duration {
        var random = SystemRandomNumberGenerator()
        return self.wait(after: failures, using: &random)
    }

    /// Resets the backoff, so that the next wait is like the first one. Call it when the work has succeeded again.
    public mutating func reset() {
        self.previous = self.minimum.saturatedNanoseconds
        self.isFirst = true
    }
}

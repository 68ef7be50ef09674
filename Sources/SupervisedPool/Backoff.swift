/// Computes the wait before each retry, with *decorrelated jitter*.
///
/// Each wait is drawn at random between the minimum and three times the previous wait, and never exceeds the maximum.
/// Callers that failed at the same moment spread out, and a caller that keeps failing slows down.
public struct Backoff: Sendable {
    /// The shortest wait.
    public let minimum: Duration
    /// The longest wait.
    public let maximum: Duration
    private var previous: Int64

    /// - Parameters:
    ///   - minimum: The shortest wait, 100 ms by default. A negative value counts as zero.
    ///   - maximum: The longest wait, 30 s by default. A value below the minimum counts as the minimum.
    public init(minimum: Duration = .milliseconds(100), maximum: Duration = .seconds(30)) {
        self.minimum = max(minimum, .zero)
        self.maximum = max(maximum, self.minimum)
        self.previous = self.minimum.saturatedNanoseconds
    }

    /// Draws the next wait from `minimum ... min(maximum, 3 × previous wait)`.
    public mutating func next(using random: inout some RandomNumberGenerator) -> Duration {
        let low = self.minimum.saturatedNanoseconds
        let (tripled, overflow) = self.previous.multipliedReportingOverflow(by: 3)
        let high = max(low, min(self.maximum.saturatedNanoseconds, overflow ? Int64.max : tripled))
        self.previous = Int64.random(in: low...high, using: &random)
        return .nanoseconds(self.previous)
    }

    /// Resets the backoff, so that the next wait is drawn like the first one. Call it when the work has succeeded
    /// again.
    public mutating func reset() {
        self.previous = self.minimum.saturatedNanoseconds
    }
}

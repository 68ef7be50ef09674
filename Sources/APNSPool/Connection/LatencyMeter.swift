import APNSTransport
import SupervisedPool

/// Measures the smoothed response time of APNs on one connection. Only one push is timed at once, so each push costs only
/// a comparison. Pure.
struct LatencyMeter: Sendable {
    /// The minimum time between two reports.
    static let reportInterval = Duration.seconds(1)
    /// A new measurement counts for an eighth, as in TCP's round-trip time (RFC 6298).
    private static let weight: Int64 = 8

    /// The tag of the push that is being timed.
    private(set) var tag: StreamTag?
    private var began = MonotonicInstant(nanoseconds: 0)
    /// The response time of the last timed push in nanoseconds; nil if it had no response.
    private(set) var measured: Int64?
    private var smoothed: Int64?
    private var reported: MonotonicInstant?

    /// Starts timing a push, unless another one is being timed.
    mutating func submitted(_ tag: StreamTag, now: MonotonicInstant) {
        guard self.tag == nil else { return }
        self.tag = tag
        self.began = now
    }

    /// Records that the timed push has ended.
    ///
    /// - Parameter hasResponse: whether it ended with a response. The time of a push without a response is not used,
    ///   because it says nothing about APNs.
    /// - Returns: the smoothed latency if a report is due; otherwise nil.
    mutating func ended(hasResponse: Bool, now: MonotonicInstant) -> Duration? {
        self.tag = nil
        self.measured = nil
        guard hasResponse else { return nil }
        let (measured, overflow) = now.nanoseconds.subtractingReportingOverflow(self.began.nanoseconds)
        guard !overflow, measured >= 0 else { return nil }
        self.measured = measured
        let value = self.smoothed.map { $0 + (measured - $0) / Self.weight } ?? measured
        self.smoothed = value
        if let reported, reported.advanced(by: Self.reportInterval) > now { return nil }
        self.reported = now
        return .nanoseconds(value)
    }

    /// Starts over for a new connection.
    mutating func reset() { self = LatencyMeter() }
}

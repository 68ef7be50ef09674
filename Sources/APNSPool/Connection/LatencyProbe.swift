import SupervisedPool

/// How long APNs takes for a response on one session, smoothed. One push at a time is timed, so that a push costs a
/// comparison. Pure.
struct LatencyProbe: Sendable {
    /// It is told no more often.
    static let reportInterval = Duration.seconds(1)
    /// A new measurement counts for an eighth, as in TCP's round-trip time (RFC 6298).
    private static let weight: Int64 = 8

    /// The push that is timed.
    private(set) var tag: UInt64?
    private var began = MonotonicInstant(nanoseconds: 0)
    /// What the push took that was timed last.
    private(set) var measured: Int64?
    private var smoothed: Int64?
    private var reported: MonotonicInstant?

    /// A push goes out; it is timed if no other is.
    mutating func submitted(_ tag: UInt64, now: MonotonicInstant) {
        guard self.tag == nil else { return }
        self.tag = tag
        self.began = now
    }

    /// The timed push has ended.
    ///
    /// - Parameter hasResponse: whether by a response; how long it takes to give up says nothing.
    /// - Returns: what is to be told now, if anything.
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

    /// Another session takes the pushes.
    mutating func reset() { self = LatencyProbe() }
}

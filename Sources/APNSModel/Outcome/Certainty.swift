/// What is certain about the fate of one push. Closed: there are exactly these five values.
///
/// Ordered by strength: `accepted` > `unknown` > `rejected` > `notProcessed` > `notSent`. The outcome of several
/// attempts has the strongest certainty among them, because a later attempt cannot undo one that may have reached a
/// device.
///
/// ```swift
/// let mayHaveArrived = outcomes.filter { $0.certainty >= .unknown }
/// ```
public enum Certainty: String, Sendable, Hashable, Codable, CaseIterable, Comparable {
    /// APNs responded with 200: it accepted the push. The push is not yet delivered.
    case accepted
    /// APNs responded that it rejects the push.
    case rejected
    /// The push left this process, but APNs provably did not process it (RFC 9113 §8.7: REFUSED_STREAM, or a stream
    /// above the last stream id in GOAWAY).
    case notProcessed = "not-processed"
    /// No byte of the push left this process.
    case notSent = "not-sent"
    /// The push was written but got no response, or a 5xx response without one of APNs' documented reasons: it may have
    /// been delivered. A resend may show it twice.
    case unknown

    private var strength: Int {
        switch self {
        case .notSent: 0
        case .notProcessed: 1
        case .rejected: 2
        case .unknown: 3
        case .accepted: 4
        }
    }

    public static func < (left: Certainty, right: Certainty) -> Bool {
        left.strength < right.strength
    }
}

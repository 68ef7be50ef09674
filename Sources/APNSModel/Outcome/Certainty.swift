/// What is known about the fate of one push. Closed: these five are all there are.
///
/// Ordered by strength: over several attempts the outcome is the strongest one, `accepted` > `unknown` > `rejected` >
/// `notProcessed` > `notSent`. Once an attempt may have reached a device, no later one can take that back.
public enum Certainty: String, Sendable, Hashable, Codable, CaseIterable, Comparable {
    /// APNs answered 200: it took the push. That is not yet delivery.
    case accepted
    /// APNs answered that it refuses the push.
    case rejected
    /// The push left this process, and APNs proved that it did not look at it (RFC 9113 §8.7: REFUSED_STREAM, or a
    /// stream above GOAWAY's last).
    case notProcessed = "not-processed"
    /// No byte of the push left this process.
    case notSent = "not-sent"
    /// The push was written and no response came: it may have been delivered. Sending it again may show it twice.
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

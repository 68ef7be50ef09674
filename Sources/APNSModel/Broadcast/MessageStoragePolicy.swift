/// What APNs keeps of a channel's broadcasts, for devices that come late: `message-storage-policy`. Chosen when the channel
/// is made; it never changes. Open. Coded as its number.
///
/// Source: Apple, "Sending channel management requests to APNs".
public struct MessageStoragePolicy: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
    /// The value of `message-storage-policy`.
    public let rawValue: Int

    public init(rawValue: Int) {
        self.rawValue = rawValue
    }

    public var description: String {
        switch self {
        case .noMessage: "no-message"
        case .mostRecentMessage: "most-recent-message"
        default: String(self.rawValue)
        }
    }

    /// 0: nothing, for a larger budget of broadcasts. Their expiration must be 0.
    public static let noMessage = MessageStoragePolicy(rawValue: 0)
    /// 1: the newest broadcast, up to its expiration, at most eight hours.
    public static let mostRecentMessage = MessageStoragePolicy(rawValue: 1)
}

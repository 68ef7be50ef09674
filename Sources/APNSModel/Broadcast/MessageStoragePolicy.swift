/// How many broadcasts of a channel APNs stores for devices that are offline: `message-storage-policy`.
///
/// It is set when the channel is created and never changes. Open: APNs may add values. Coded as its number. Source:
/// Apple, "Sending channel management requests to APNs".
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

    /// 0: stores nothing and allows more broadcasts. Every broadcast must have the expiration 0.
    public static let noMessage = MessageStoragePolicy(rawValue: 0)
    /// 1: stores the newest broadcast until its expiration, at most eight hours.
    public static let mostRecentMessage = MessageStoragePolicy(rawValue: 1)
}

/// What the simulated APNs knows of a device token.
public enum DeviceTokenState: Sendable, Hashable, Codable {
    case valid
    /// 410 `Unregistered`, since so many milliseconds after 1970.
    case unregistered(since: Int64?)
    /// 410 `ExpiredToken`.
    case expired(since: Int64?)
    /// 400 `BadDeviceToken`.
    case bad
    /// 400 `DeviceTokenNotForTopic`.
    case notForTopic
}

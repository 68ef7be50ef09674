/// What the simulator knows of a device token. The times are milliseconds since 1970, as APNs sends them.
public enum DeviceTokenState: Sendable, Hashable, Codable {
    /// Pushes are accepted. What every token is until it is told otherwise.
    case valid
    /// 410 `Unregistered`: the app was removed from the device.
    case unregistered(sinceMilliseconds: Int64)
    /// 410 `ExpiredToken`.
    case expired(sinceMilliseconds: Int64)
    /// 400 `BadDeviceToken`: of the other environment, or made up.
    case bad
    /// 400 `DeviceTokenNotForTopic`: of another app.
    case notForTopic
}

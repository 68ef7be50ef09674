/// The simulator's state of a device token. The times are in milliseconds since 1970, as APNs sends them.
public enum DeviceTokenState: Sendable, Hashable, Codable {
    /// Pushes are accepted. The default for every token.
    case valid
    /// 410 `Unregistered`: the app was removed from the device.
    case unregistered(sinceMilliseconds: Int64)
    /// 410 `ExpiredToken`.
    case expired(sinceMilliseconds: Int64)
    /// 400 `BadDeviceToken`: a token of the other environment, or an invented one.
    case bad
    /// 400 `DeviceTokenNotForTopic`: a token of another app.
    case notForTopic
    /// 429 `TooManyRequests`: too many pushes to this device in a short time.
    case busy
}

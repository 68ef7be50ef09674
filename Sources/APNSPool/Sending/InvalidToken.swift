public import APNSModel

/// A device token that APNs has answered with 410: the app is gone from the device, or the token has expired. Apple asks
/// to stop sending to it.
public struct InvalidToken: Sendable, Hashable {
    /// The device token.
    public var deviceToken: DeviceToken
    /// The topic that it is invalid for.
    public var topic: String
    /// Since when. `TokenInvalidation.shouldRemove(registeredAt:)` compares with the time when the app registered.
    public var invalidation: TokenInvalidation

    /// - Parameters:
    ///   - deviceToken: the device token.
    ///   - topic: the topic that it is invalid for.
    ///   - invalidation: since when.
    public init(deviceToken: DeviceToken, topic: String, invalidation: TokenInvalidation) {
        self.deviceToken = deviceToken
        self.topic = topic
        self.invalidation = invalidation
    }
}

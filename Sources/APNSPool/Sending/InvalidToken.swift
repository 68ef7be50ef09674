public import APNSModel

/// A device token to which APNs responded with 410: the app was removed from the device, or the token has expired.
/// Apple asks you to stop sending to it.
public struct InvalidToken: Sendable, Hashable {
    /// The device token.
    public var deviceToken: DeviceToken
    /// The topic for which the token is invalid.
    public var topic: String
    /// Since when the token is invalid. `TokenInvalidation.shouldRemove(registeredAt:)` compares it with the time at
    /// which the app registered.
    public var invalidation: TokenInvalidation

    /// Creates an invalid device token.
    ///
    /// - Parameters:
    ///   - deviceToken: the device token.
    ///   - topic: the topic for which the token is invalid.
    ///   - invalidation: since when the token is invalid.
    public init(deviceToken: DeviceToken, topic: String, invalidation: TokenInvalidation) {
        self.deviceToken = deviceToken
        self.topic = topic
        self.invalidation = invalidation
    }
}

/// What a device has registered to get pushes of servers that are not its publisher's.
struct Subscription: Sendable, Hashable, Codable {
    /// Identifies it for the device, in each notification. It is not part of the endpoint, and nobody can push with it.
    var id: String
    /// The app's name in the server's settings.
    var app: String
    /// `production` or `development`.
    var environment: String
    /// The encrypted device token.
    var sealedToken: [UInt8]
    /// Finds the subscriptions of its device without revealing the token.
    var deviceTag: String
    /// The hash of the endpoint's secret.
    var endpointHash: String
    /// The hash of the secret with which the device fetches messages that do not fit into a notification.
    var fetchHash: String
    /// The public key of the only sender, 65 bytes; nil for any sender.
    var senderKey: [UInt8]?
    /// The key of the fallback text in the app's strings.
    var fallbackKey: String
    var allowsTimeSensitive: Bool
    /// When the device token was registered last, in milliseconds since 1970.
    var registeredAt: Int64
    /// The id of the attested key that has registered it, in base64url; nil if a caller has.
    var owner: String?
}

extension DeviceTokenKeys {
    /// Texts that find the subscriptions of a device: one for each key.
    func tags(_ token: [UInt8], _ app: String, _ environment: String) -> [String] {
        self.tags(token, app: "\(app)/\(environment)")
    }
}

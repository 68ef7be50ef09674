/// The gateway for Web Push.
public struct WebPushSettings: Sendable, Hashable {
    /// The origins of the endpoints as senders see them, such as `https://push.example.com`. New endpoints have the first one.
    public var origins: [String]
    /// Encrypts device tokens: 32 bytes.
    public var key: [UInt8]
    /// Earlier keys, which only decrypt.
    public var oldKeys: [[UInt8]]
    /// Whether senders must identify themselves (RFC 8292). Default true.
    public var requiresVAPID = true
    /// The maximum number of pushes to one subscription in a minute. Default 60.
    public var pushesPerMinute = 60
    /// The maximum number of messages that are kept for each subscription because they do not fit into a notification. The device
    /// fetches them. Default 50; with 0, such messages are refused.
    public var keptMessages = 50
    /// The maximum size of all these messages together, in bytes. Default 256 MiB.
    public var keptBytes = 256 << 20
    /// Who may register subscriptions. Default: callers with the role `subscribe`.
    public var registration = Registration.token

    /// Who may register subscriptions.
    public enum Registration: Sendable, Hashable {
        /// Callers with the role `subscribe`.
        case token
        /// Devices with a key that App Attest has attested.
        case appAttest(AppAttestVerifier)
        /// Everybody; on loopback addresses only.
        case open
    }

    public init(origins: [String], key: [UInt8], oldKeys: [[UInt8]] = []) {
        self.origins = origins
        self.key = key
        self.oldKeys = oldKeys
    }

    /// The origin of new endpoints.
    var origin: String { self.origins.first ?? "" }

    /// Encrypts device tokens; nil unless each key has 32 bytes.
    package var deviceTokenKeys: DeviceTokenKeys? { DeviceTokenKeys(self.key, old: self.oldKeys) }
}

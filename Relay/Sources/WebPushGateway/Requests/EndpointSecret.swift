import Crypto

/// The secret part of a subscription's endpoint. Whoever knows it can push, so a gateway stores only its hash.
///
/// It has 256 random bits, more than the 120 of RFC 8030, section 8.3, and the 160 of UnifiedPush. Two endpoints have nothing
/// in common, so nobody sees whether they belong to one device (section 8.2).
public struct EndpointSecret: Sendable, Hashable {
    private static let count = 32

    private let bytes: [UInt8]

    /// Makes a random secret.
    public init() {
        self.bytes = SymmetricKey(size: .bits256).withUnsafeBytes { Array($0) }
    }

    /// Reads the secret of an endpoint; nil for other text.
    public init?(_ text: String) {
        // Two texts of one secret would be two endpoints in caches and logs.
        guard let bytes = Base64Text.decode(text), bytes.count == Self.count, Base64Text.encode(bytes) == text else {
            return nil
        }
        self.bytes = bytes
    }

    /// The text for the endpoint: 43 characters of base64url.
    public var text: String { Base64Text.encode(self.bytes) }

    /// The hash by which a gateway finds the subscription: SHA-256, 43 characters of base64url. It does not reveal the secret.
    public var hash: String { Base64Text.encode(SHA256.hash(data: self.bytes)) }
}

extension EndpointSecret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String { "EndpointSecret(\(self.hash.prefix(8))…)" }

    public var debugDescription: String { self.description }

    public var customMirror: Mirror { Mirror(self, children: ["hash": self.hash], displayStyle: .struct) }
}

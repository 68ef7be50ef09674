import Crypto

/// Identifies a subscription for its device: 96 random bits. It is no secret, and nobody can push with it.
public struct SubscriptionID: Sendable, Hashable, CustomStringConvertible {
    /// The length of an id in bytes and in characters.
    public static let count = 16

    /// ``count`` characters of base64url.
    public let text: String

    /// Makes a random id.
    public init() {
        let bytes = SymmetricKey(size: .bits256).withUnsafeBytes { Array($0.prefix(12)) }
        self.text = Base64Text.encode(bytes)
    }

    public var description: String { self.text }
}

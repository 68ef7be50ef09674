import Crypto

/// A sender's public key: an uncompressed point of P-256 (RFC 8292, section 3.2).
public struct VAPIDKey: Sendable, Hashable {
    /// 65 bytes.
    public let bytes: [UInt8]

    /// Reads base64 in either alphabet, with or without padding; nil for text that is no key.
    public init?(_ text: String) {
        guard let bytes = Base64Text.decode(text), bytes.count == 65,
            (try? P256.Signing.PublicKey(x963Representation: bytes)) != nil
        else { return nil }
        self.bytes = bytes
    }
}

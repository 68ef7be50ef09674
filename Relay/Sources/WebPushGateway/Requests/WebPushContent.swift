import Crypto

/// An encrypted message, as its sender has made it. Nobody but the subscription's device can read it.
public struct WebPushContent: Sendable, Hashable {
    /// How the message is encrypted.
    public enum Encoding: Sendable, Hashable {
        /// RFC 8188 and RFC 8291: the body has the salt and the sender's public key.
        case aes128gcm
        /// draft-ietf-webpush-encryption-04: both are in header fields.
        case aesgcm
    }

    public let encoding: Encoding
    /// The body of the request, unchanged.
    public let body: [UInt8]
    /// 16 random bytes. A request that a sender repeats has the same ones.
    public let salt: [UInt8]
    /// The sender's public key for this message: an uncompressed point of P-256, 65 bytes.
    public let senderKey: [UInt8]

    /// Identifies the message: SHA-256 over everything that its sender has chosen, 32 bytes.
    public var digest: [UInt8] {
        Array(SHA256.hash(data: self.salt + self.senderKey + self.body))
    }

    private static let saltCount = 16
    private static let pointCount = 65
    private static let tagCount = 16

    /// - Throws: `WebPushError.Code.invalidBody`.
    init(aes128gcm body: [UInt8]) throws(WebPushError) {
        let idAt = Self.saltCount + 4
        guard body.count > idAt, body[idAt] == UInt8(Self.pointCount) else {
            throw Self.invalid("its header (RFC 8188) must name a public key of 65 bytes")
        }
        let recordSize = body[Self.saltCount..<idAt].reduce(0) { $0 << 8 | Int($1) }
        let start = idAt + 1 + Self.pointCount
        guard body.count - start <= recordSize else {
            throw Self.invalid("it must have one record (RFC 8291, section 4)")
        }
        try self.init(
            .aes128gcm,
            body,
            salt: Array(body.prefix(Self.saltCount)),
            senderKey: Array(body[(idAt + 1)...].prefix(Self.pointCount)),
            ciphertextCount: body.count - start
        )
    }

    /// - Throws: `WebPushError.Code.invalidBody`.
    init(aesgcm body: [UInt8], salt: String?, senderKey: String?) throws(WebPushError) {
        guard let salt = salt.flatMap(Base64Text.decode), let senderKey = senderKey.flatMap(Base64Text.decode) else {
            throw Self.invalid("with aesgcm, the header fields Encryption (salt) and Crypto-Key (dh) must be base64url")
        }
        try self.init(.aesgcm, body, salt: salt, senderKey: senderKey, ciphertextCount: body.count)
    }

    private init(
        _ encoding: Encoding,
        _ body: [UInt8],
        salt: [UInt8],
        senderKey: [UInt8],
        ciphertextCount: Int
    ) throws(WebPushError) {
        guard salt.count == Self.saltCount else { throw Self.invalid("its salt must have 16 bytes") }
        guard senderKey.count == Self.pointCount,
            (try? P256.KeyAgreement.PublicKey(x963Representation: senderKey)) != nil
        else {
            throw Self.invalid("the sender's public key must be an uncompressed point of P-256")
        }
        guard ciphertextCount > Self.tagCount else { throw Self.invalid("it has no content") }
        self.encoding = encoding
        self.body = body
        self.salt = salt
        self.senderKey = senderKey
    }

    private static func invalid(_ message: String) -> WebPushError {
        WebPushError(.invalidBody, "The body is not an encrypted Web Push message: \(message).")
    }
}

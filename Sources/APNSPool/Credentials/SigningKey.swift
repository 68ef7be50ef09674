import APNSBasics
import APNSTransport

/// Identifies the key that signs provider tokens. The ids are not sufficient: they are not secret, and any app can
/// claim them.
struct SigningKey: Sendable, Hashable {
    var identifiers: TokenIdentifiers
    /// x and y of 32 bytes each.
    var publicKey: [UInt8]

    /// Whether this key's private half signed the token.
    func hasSigned(_ jwt: String) -> Bool {
        guard let dot = jwt.utf8.lastIndex(of: UInt8(ascii: ".")),
            let bytes = Base64.decodeForURL(jwt.utf8[jwt.utf8.index(after: dot)...]),
            let signature = ES256Signature(rawRepresentation: bytes),
            let key = try? ES256PublicKey(rawRepresentation: self.publicKey)
        else { return false }
        return key.isValid(signature, of: Array(jwt.utf8[..<dot]))
    }
}

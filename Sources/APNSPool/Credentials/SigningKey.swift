import APNSBasics
import HTTP2Wire

/// Which key signs provider tokens. The ids alone do not tell: they are not secret, and anybody can claim them.
struct SigningKey: Sendable, Hashable {
    var identifiers: TokenIdentifiers
    /// x and y of 32 bytes each.
    var publicKey: [UInt8]

    /// Whether the private half of this key has signed the token.
    func hasSigned(_ jwt: String) -> Bool {
        guard let dot = jwt.utf8.lastIndex(of: UInt8(ascii: ".")),
            let bytes = Base64.decodeForURL(jwt.utf8[jwt.utf8.index(after: dot)...]),
            let signature = ES256Signature(rawRepresentation: bytes),
            let key = try? ES256PublicKey(rawRepresentation: self.publicKey)
        else { return false }
        return key.isValid(signature, of: Array(jwt.utf8[..<dot]))
    }
}

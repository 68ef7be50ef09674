import Crypto

/// Which key signs provider tokens. The ids alone do not tell: they are not secret, and anybody can claim them.
struct SigningKey: Sendable, Hashable {
    var identifiers: TokenIdentifiers
    /// x and y of 32 bytes each.
    var publicKey: [UInt8]

    /// Whether the private half of this key has signed the token.
    func hasSigned(_ jwt: String) -> Bool {
        guard let dot = jwt.utf8.lastIndex(of: UInt8(ascii: ".")),
            let bytes = JWT.bytes(base64URL: jwt.utf8[jwt.utf8.index(after: dot)...]),
            let key = try? P256.Signing.PublicKey(rawRepresentation: publicKey),
            let signature = try? P256.Signing.ECDSASignature(rawRepresentation: bytes)
        else { return false }
        return key.isValidSignature(signature, for: Array(jwt.utf8[..<dot]))
    }
}

internal import APNSBasics
internal import APNSTransport

/// A generated signing key, with a key id and a team id in Apple's form. For tests and demonstrations.
public struct SimulatedKey: Sendable {
    /// Ten letters and digits, for example `ABC123DEFG`.
    public let keyID: String
    /// Ten letters and digits.
    public let teamID: String
    /// The text of a `.p8` file as Apple provides it: PKCS #8 in PEM form, for `.token(privateKeyPEM:…)`.
    public let p8: String
    private let key: ES256PrivateKey

    /// Generates a key. Ids that you leave out are random. Crashes if OpenSSL has no random numbers or no memory, which
    /// is acceptable in a test.
    public init(keyID: String? = nil, teamID: String? = nil) {
        self.keyID = keyID ?? Self.randomID()
        self.teamID = teamID ?? Self.randomID()
        do {
            self.key = try ES256PrivateKey()
        } catch {
            fatalError("OpenSSL cannot make a key: \(error)")
        }
        self.p8 = self.key.pem
    }

    /// Restores a key; nil if the text contains none, or an id does not consist of ten letters and digits.
    ///
    /// - Parameter p8: The key's ``p8``.
    package init?(p8: String, keyID: String, teamID: String) {
        let body = p8.split(separator: "\n").filter { !$0.hasPrefix("-----") }.joined()
        guard let der = Base64.decode(body.utf8), let key = try? ES256PrivateKey(der: der),
            [keyID, teamID].allSatisfy(ProviderTokenVerifier.isIdentifier)
        else { return nil }
        self.keyID = keyID
        self.teamID = teamID
        self.key = key
        self.p8 = key.pem
    }

    /// The public key in PEM form, for a peer that verifies signatures.
    public var publicKeyPEM: String { self.key.publicKey.pem }

    /// The key with which the simulator verifies signatures.
    var publicKey: ES256PublicKey { self.key.publicKey }

    /// The usual name of the key's file: `AuthKey_<key id>.p8`.
    public var fileName: String { "AuthKey_\(self.keyID).p8" }

    /// The ES256 signature of these bytes, for a signer of your own (`APNSTokenSigner`).
    ///
    /// - Parameter bytes: The bytes to sign, not yet hashed.
    /// - Returns: r and s of 32 bytes each.
    /// - Throws: An error of OpenSSL. Not expected for a key of this type.
    public func signature(for bytes: [UInt8]) throws -> [UInt8] {
        try self.key.signature(of: bytes).rawRepresentation
    }

    /// A provider token signed with this key, for peers that cannot sign, such as `curl`.
    ///
    /// - Parameter issuedAt: seconds since 1970.
    /// - Returns: the JSON Web Token, which a request sends as `authorization: bearer <token>`.
    /// - Throws: an error of signing. Not expected for a key of this type.
    public func providerToken(issuedAt: Int64) throws -> String {
        let header = Base64.encodeForURL(#"{"alg":"ES256","kid":"\#(self.keyID)"}"#.utf8)
        let claims = Base64.encodeForURL(#"{"iss":"\#(self.teamID)","iat":\#(issuedAt)}"#.utf8)
        let signed = "\(header).\(claims)"
        return "\(signed).\(Base64.encodeForURL(try self.signature(for: Array(signed.utf8))))"
    }

    private static func randomID() -> String {
        let alphabet = Array("ABCDEFGHJKLMNPQRSTUVWXYZ23456789")
        var id = ""
        for _ in 0..<10 { id.append(alphabet[Int.random(in: 0..<alphabet.count)]) }
        return id
    }
}

public import Crypto

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif

/// A signing key made up on the spot, with the ids that Apple would have given it. For tests and demonstrations.
public struct SimulatedKey: Sendable {
    /// Ten letters and digits, as `ABC123DEFG`.
    public let keyID: String
    /// Ten letters and digits.
    public let teamID: String
    /// The key itself (P-256).
    public let privateKey: P256.Signing.PrivateKey

    /// Makes a new key; without ids it gets random ones.
    public init(keyID: String? = nil, teamID: String? = nil) {
        self.keyID = keyID ?? Self.randomID()
        self.teamID = teamID ?? Self.randomID()
        self.privateKey = P256.Signing.PrivateKey()
    }

    /// Its public half, for `Simulator.addKey`.
    public var publicKey: P256.Signing.PublicKey { self.privateKey.publicKey }

    /// The text of a `.p8` file as Apple hands it out: PKCS #8 in PEM form.
    public var p8: String { self.privateKey.pemRepresentation + "\n" }

    /// The name such a file has: `AuthKey_<key id>.p8`.
    public var fileName: String { "AuthKey_\(self.keyID).p8" }

    /// A provider token signed with this key, for peers that cannot sign, such as `curl`.
    ///
    /// - Parameter issuedAt: seconds since 1970.
    /// - Returns: the JSON Web Token; a request carries it as `authorization: bearer <token>`.
    /// - Throws: what the signing throws; for a key of this type that is nothing to expect.
    public func providerToken(issuedAt: Int64) throws -> String {
        let header = Base64URL.encode(#"{"alg":"ES256","kid":"\#(self.keyID)"}"#.utf8)
        let claims = Base64URL.encode(#"{"iss":"\#(self.teamID)","iat":\#(issuedAt)}"#.utf8)
        let signed = "\(header).\(claims)"
        let signature = try self.privateKey.signature(for: Data(signed.utf8))
        return "\(signed).\(Base64URL.encode(signature.rawRepresentation))"
    }

    private static func randomID() -> String {
        let alphabet = Array("ABCDEFGHJKLMNPQRSTUVWXYZ23456789")
        var id = ""
        for _ in 0..<10 { id.append(alphabet[Int.random(in: 0..<alphabet.count)]) }
        return id
    }
}

public import Crypto

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Checks provider tokens as APNs does. Source: Apple, "Establishing a token-based connection to APNs"; RFC 7515,
/// RFC 7518 section 3.4.
struct ProviderTokenVerifier {
    struct Key {
        var teamID: String
        var publicKey: P256.Signing.PublicKey
    }

    private struct Header: Decodable {
        var alg: String
        var kid: String
    }

    private struct Claims: Decodable {
        var iss: String
        /// A JSON number; text is refused.
        var iat: Double
    }

    private enum Verdict {
        case good(issuedAt: Int64)
        case bad
    }

    /// Empty: the signature cannot be checked, and any well-formed token is taken.
    var keys: [String: Key] = [:]
    /// A token stands in every request of a connection; it is verified once.
    private var verdicts: [[UInt8]: Verdict] = [:]

    /// - Parameter authorization: the header's value.
    /// - Returns: why the request is refused, or nil.
    mutating func fault(_ authorization: [UInt8]?, now: Int64) -> PushAnswer? {
        guard let authorization, !authorization.isEmpty else { return .refused(403, "MissingProviderToken") }
        let verdict: Verdict
        if let known = self.verdicts[authorization] {
            verdict = known
        } else {
            verdict = self.verify(authorization)
            if self.verdicts.count > 1000 { self.verdicts.removeAll() }
            self.verdicts[authorization] = verdict
        }
        switch verdict {
        case .bad: return .refused(403, "InvalidProviderToken")
        case .good(let issuedAt) where now - issuedAt > 3600: return .refused(403, "ExpiredProviderToken")
        case .good(let issuedAt) where issuedAt - now > 3600: return .refused(403, "InvalidProviderToken")
        case .good: return nil
        }
    }

    mutating func forgetVerdicts() { self.verdicts.removeAll() }

    private func verify(_ authorization: [UInt8]) -> Verdict {
        guard authorization.count > 7, String(decoding: authorization.prefix(7), as: UTF8.self) == "bearer " else {
            return .bad
        }
        let parts = authorization.dropFirst(7).split(
            separator: UInt8(ascii: "."),
            omittingEmptySubsequences: false
        )
        let decoder = JSONDecoder()
        guard parts.count == 3, let headerBytes = Self.decode(parts[0]), let claimsBytes = Self.decode(parts[1]),
            let signatureBytes = Self.decode(parts[2]),
            let header = try? decoder.decode(Header.self, from: headerBytes),
            let claims = try? decoder.decode(Claims.self, from: claimsBytes),
            header.alg == "ES256", header.kid.utf8.count == 10, claims.iss.utf8.count == 10,
            let issuedAt = Int64(exactly: claims.iat)
        else { return .bad }
        if self.keys.isEmpty { return signatureBytes.count == 64 ? .good(issuedAt: issuedAt) : .bad }
        guard let key = self.keys[header.kid], key.teamID == claims.iss,
            let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signatureBytes),
            key.publicKey.isValidSignature(signature, for: Array(parts[0]) + [UInt8(ascii: ".")] + Array(parts[1]))
        else { return .bad }
        return .good(issuedAt: issuedAt)
    }

    /// Unpadded base64url (RFC 4648, section 5).
    private static func decode(_ text: ArraySlice<UInt8>) -> Data? {
        var bytes = text.map { byte -> UInt8 in
            switch byte {
            case UInt8(ascii: "-"): UInt8(ascii: "+")
            case UInt8(ascii: "_"): UInt8(ascii: "/")
            default: byte
            }
        }
        while !bytes.count.isMultiple(of: 4) { bytes.append(UInt8(ascii: "=")) }
        return Data(base64Encoded: Data(bytes))
    }
}

/// A made-up credential: a P-256 key with a key id and a team id.
public struct SimulatedKey: Sendable {
    public let keyID: String
    public let teamID: String
    public let privateKey: P256.Signing.PrivateKey

    /// - Parameters:
    ///   - keyID, teamID: 10 characters each.
    public init(keyID: String = "SIMKEY0001", teamID: String = "SIMTEAM001") {
        self.keyID = keyID
        self.teamID = teamID
        self.privateKey = P256.Signing.PrivateKey()
    }

    /// The key as Apple hands keys out: PKCS#8 in PEM form, the content of a `.p8` file.
    public var privateKeyPEM: String { self.privateKey.pemRepresentation + "\n" }
}

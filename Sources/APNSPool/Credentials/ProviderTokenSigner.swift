import APNSBasics
import APNSTransport

/// Signs provider tokens with a key that the program does not hold: in a hardware module or a cloud key store.
///
/// ```swift
/// struct VaultSigner: APNSTokenSigner {
///     func signature(for bytes: [UInt8]) async throws -> [UInt8] {
///         try await vault.sign(bytes, key: "apns", algorithm: "ES256")
///     }
/// }
/// ```
/// The client calls the signer when it starts and then about once in 50 minutes while it sends pushes, in a separate
/// task. Pushes that need the token wait for it within their deadlines, at most 10 s.
///
/// A client keeps its provider token if it is given the same signer with the same ids again. Two signers are the same if
/// they are one object, or if they are equal and `Equatable`. Their `==` runs while the client holds a lock, so it must not
/// use the client.
///
/// If a call fails or takes longer than 10 s, the current token stays in use until it is 58 minutes old. Without a
/// token, pushes fail with the code `credential`. A call that takes longer than 30 s is cancelled, and the client does
/// not wait for it any longer. After a failure, the next call follows after 5 s, later ones after up to 60 s, even
/// without a push.
public protocol APNSTokenSigner: Sendable {
    /// Returns the ECDSA signature of the SHA-256 of these bytes, made with the P-256 key whose id the authentication
    /// names (ES256, RFC 7518, section 3.4).
    ///
    /// - Parameter bytes: The bytes to sign, not yet hashed: header and claims of the token, about 100 bytes.
    /// - Returns: r and s of 32 bytes each, or the signature in DER.
    /// - Throws: Any error; its description becomes part of the error of pushes that have no token. The method should
    ///   end soon after its task is cancelled.
    func signature(for bytes: [UInt8]) async throws -> [UInt8]
}

/// A signer supplied by the user. Each value of `APNSAuthentication` keeps its own, so its copies have the same key.
final class UserSigner: Sendable {
    let signer: any APNSTokenSigner

    init(_ signer: any APNSTokenSigner) {
        self.signer = signer
    }

    /// Whether both sign with the same key, as far as can be known: they are the same object, or equal values.
    func isSame(as other: UserSigner) -> Bool {
        if self === other { return true }
        if type(of: self.signer) is AnyClass, type(of: other.signer) is AnyClass,
            self.signer as AnyObject === other.signer as AnyObject
        {
            return true
        }
        guard let value = self.signer as? any Equatable else { return false }
        return Self.isEqual(value, other.signer)
    }

    private static func isEqual<Value: Equatable>(_ value: Value, _ other: any APNSTokenSigner) -> Bool {
        other as? Value == value
    }
}

/// Makes the provider tokens of one key from the identifiers and a signing function.
struct ProviderTokenSigner: Sendable {
    /// Returns the ES256 signature of the bytes, 64 bytes r‖s. It may take a long time or never return: `TokenActor`
    /// limits how long requests wait for it.
    typealias Sign = @Sendable ([UInt8]) async throws -> [UInt8]

    let identifiers: TokenIdentifiers
    /// The public key, which identifies the key pair; nil if only the signer knows it.
    let publicKey: [UInt8]?
    private let userSigner: UserSigner?
    private let sign: Sign

    /// Nil if the public key is not known: then it cannot be determined whether another signer has the same key.
    var key: SigningKey? { self.publicKey.map { SigningKey(identifiers: self.identifiers, publicKey: $0) } }

    init(
        identifiers: TokenIdentifiers,
        publicKey: [UInt8]? = nil,
        userSigner: UserSigner? = nil,
        sign: @escaping Sign
    ) {
        self.identifiers = identifiers
        self.publicKey = publicKey
        self.userSigner = userSigner
        self.sign = sign
    }

    /// Whether both sign with the same key: the ids are equal, and so is the public key or the user's signer.
    func hasSameKey(as other: ProviderTokenSigner) -> Bool {
        guard self.identifiers == other.identifiers else { return false }
        if let publicKey { return publicKey == other.publicKey }
        guard let userSigner, let theirs = other.userSigner else { return false }
        return userSigner.isSame(as: theirs)
    }

    /// Wraps a signer supplied by the user, with signatures in either form.
    init(signer: UserSigner, identifiers: TokenIdentifiers) {
        self.init(identifiers: identifiers, userSigner: signer) { bytes in
            let signature = try await signer.signer.signature(for: bytes)
            // A raw signature has 64 bytes. DER needs more for numbers of that size.
            let isDER = signature.count != ES256Signature.length && signature.first == DER.sequence
            return isDER ? try ES256Signature(der: signature).rawRepresentation : signature
        }
    }

    init(key: ES256PrivateKey, identifiers: TokenIdentifiers) {
        self.init(identifiers: identifiers, publicKey: key.publicKey.rawRepresentation) { bytes in
            try key.signature(of: bytes).rawRepresentation
        }
    }

    /// A new token: a JSON Web Token (RFC 7519) in compact serialization (RFC 7515, section 7.1).
    ///
    /// It contains exactly the fields that Apple's "Establishing a token-based connection to APNs" requires: `alg` and
    /// `kid` in the header, `iss` and `iat` as claims. It is signed with ES256.
    ///
    /// - Parameter issuedAt: Whole seconds since 1970 (`iat`), written as a JSON integer.
    /// - Throws: `TokenError`.
    func jwt(issuedAt: Int64) async throws(TokenError) -> String {
        // The identifiers contain only letters and digits, so nothing needs escaping.
        let header = #"{"alg":"ES256","kid":"\#(self.identifiers.keyID)"}"#
        let claims = #"{"iss":"\#(self.identifiers.teamID)","iat":\#(issuedAt)}"#
        let input = Base64.encodeForURL(header.utf8) + "." + Base64.encodeForURL(claims.utf8)
        let signature: [UInt8]
        do {
            signature = try await self.sign(Array(input.utf8))
        } catch {
            throw TokenError("The provider token could not be signed: \(error)")
        }
        guard signature.count == ES256Signature.length else {
            throw TokenError(
                "The signer returned \(signature.count) bytes. An ES256 signature has \(ES256Signature.length) bytes, "
                    + "32 each for r and s, or is the DER form of r and s."
            )
        }
        return input + "." + Base64.encodeForURL(signature)
    }
}

/// The reason why there is no provider token.
struct TokenError: Error, Sendable, Hashable, CustomStringConvertible {
    /// A readable message. Contains neither key nor token.
    let message: String

    init(_ message: String) {
        self.message = message
    }

    var description: String { self.message }

    static let tooSlow = TokenError("The provider token was not signed within \(TokenPolicy.longestWait).")
}

import APNSBasics
import HTTP2Wire

/// Signs provider tokens where the key itself is not at hand: in a hardware module, in a cloud's key store.
///
/// ```swift
/// struct VaultSigner: APNSTokenSigner {
///     func signature(for bytes: [UInt8]) async throws -> [UInt8] {
///         try await vault.sign(bytes, key: "apns", algorithm: "ES256")
///     }
/// }
/// ```
/// It is called about once in 50 minutes, in a task of its own. Pushes that need the token wait for it within their
/// deadlines, and for ten seconds at most. When it fails or takes longer, the token in use serves until it is 58 minutes
/// old; without one, pushes fail with the code `credential`. A call that takes longer is cancelled and not waited for;
/// the next one is made after 5 s, later ones after up to 60 s.
public protocol APNSTokenSigner: Sendable {
    /// The ECDSA signature of the SHA-256 of these bytes by the P-256 key whose id the authentication names (ES256, RFC
    /// 7518, section 3.4).
    ///
    /// - Parameter bytes: What is signed, not yet hashed: header and claims of the token, about 130 bytes.
    /// - Returns: r and s of 32 bytes each, or the same in DER.
    /// - Throws: Anything; its description goes into the error of pushes that have no token. It should end soon after
    ///   its task was cancelled.
    func signature(for bytes: [UInt8]) async throws -> [UInt8]
}

/// What makes provider tokens of one key: the identifiers and a function that signs.
struct ProviderTokenSigner: Sendable {
    /// Answers the ES256 signature of the bytes, 64 bytes r‖s. It may take its time: only the token actor waits for it.
    typealias Sign = @Sendable ([UInt8]) async throws -> [UInt8]

    let identifiers: TokenIdentifiers
    /// The key's other half, which tells two keys apart; nil where only the signer knows it.
    let publicKey: [UInt8]?
    private let sign: Sign

    /// Nil where the public key is not known: then nothing tells whether another signer has the same key.
    var key: SigningKey? { self.publicKey.map { SigningKey(identifiers: self.identifiers, publicKey: $0) } }

    init(identifiers: TokenIdentifiers, publicKey: [UInt8]? = nil, sign: @escaping Sign) {
        self.identifiers = identifiers
        self.publicKey = publicKey
        self.sign = sign
    }

    /// A signer of the user's; its signatures may be in either form.
    init(signer: any APNSTokenSigner, identifiers: TokenIdentifiers) {
        self.init(identifiers: identifiers) { bytes in
            let signature = try await signer.signature(for: bytes)
            // A raw one has 64 bytes, and DER needs more for numbers of that size.
            let isDER = signature.count != ES256Signature.length && signature.first == DER.sequence
            return isDER ? try ES256Signature(der: signature).rawRepresentation : signature
        }
    }

    init(key: ES256PrivateKey, identifiers: TokenIdentifiers) {
        self.init(identifiers: identifiers, publicKey: key.publicKey.rawRepresentation) { bytes in
            try key.signature(of: bytes).rawRepresentation
        }
    }

    /// A new token, three parts with dots between.
    ///
    /// - Parameter issuedAt: Whole seconds since 1970 (`iat`).
    /// - Throws: `signingFailed`.
    func jwt(issuedAt: Int64) async throws(TokenError) -> String {
        let input = JWT.signingInput(identifiers: self.identifiers, issuedAt: issuedAt)
        let signature: [UInt8]
        do {
            signature = try await self.sign(Array(input.utf8))
        } catch {
            throw TokenError(.signingFailed, "The provider token could not be signed: \(error)")
        }
        guard signature.count == ES256Signature.length else {
            throw TokenError(
                .signingFailed,
                "The signer gave \(signature.count) bytes. An ES256 signature has \(ES256Signature.length), r and s of 32 "
                    + "each, or is the same in DER."
            )
        }
        return input + "." + Base64.encodeForURL(signature)
    }
}

/// Why there is no provider token.
struct TokenError: Error, Sendable, Hashable, CustomStringConvertible {
    enum Code: Sendable, Hashable {
        /// The signer failed, and there is no older token that still serves.
        case signingFailed
        /// The token actor has ended. Its successor, or a later try, may have a token.
        case stopped
        /// The caller was cancelled while it waited.
        case cancelled
    }

    let code: Code
    /// For people. Holds neither key nor token.
    let message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    var description: String { self.message }

    static let stopped = TokenError(
        .stopped,
        "No provider token is signed while the client stops or starts anew."
    )
    static let tooSlow = TokenError(
        .signingFailed,
        "The provider token was not signed within \(TokenPolicy.longestWait)."
    )
    static let cancelled = TokenError(.cancelled, "Cancelled while waiting for a provider token.")
}

import Crypto

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// What makes provider tokens of one key: the identifiers and a function that signs.
struct ProviderTokenSigner: Sendable {
    /// Answers the ES256 signature of the bytes, 64 bytes r‖s. It may take its time: only the token actor waits for it.
    typealias Sign = @Sendable ([UInt8]) async throws -> [UInt8]

    let identifiers: TokenIdentifiers
    private let sign: Sign

    init(identifiers: TokenIdentifiers, sign: @escaping Sign) {
        self.identifiers = identifiers
        self.sign = sign
    }

    init(privateKey: P256.Signing.PrivateKey, identifiers: TokenIdentifiers) {
        self.init(identifiers: identifiers) { bytes in
            Array(try privateKey.signature(for: bytes).rawRepresentation)
        }
    }

    /// A new token, three parts with dots between.
    ///
    /// - Parameter issuedAt: Whole seconds since 1970 (`iat`).
    /// - Throws: `signingFailed`.
    func jwt(issuedAt: Int64) async throws(TokenError) -> String {
        let input = JWT.signingInput(identifiers: identifiers, issuedAt: issuedAt)
        let signature: [UInt8]
        do {
            signature = try await sign(Array(input.utf8))
        } catch {
            throw TokenError(.signingFailed, "The provider token could not be signed: \(error)")
        }
        guard signature.count == JWT.signatureLength else {
            throw TokenError(
                .signingFailed,
                "The signer gave \(signature.count) bytes. An ES256 signature has \(JWT.signatureLength), r and s of 32 "
                    + "each (a DER signature has to be converted)."
            )
        }
        return input + "." + JWT.base64URL(signature)
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

    var description: String { message }

    static let stopped = TokenError(
        .stopped,
        "No provider token is signed while the client stops or starts anew."
    )
    static let cancelled = TokenError(.cancelled, "Cancelled while waiting for a provider token.")
}

import Crypto

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The provider token's form: a JSON Web Token (RFC 7519) in compact serialisation (RFC 7515, section 7.1) with what
/// Apple's "Establishing a token-based connection to APNs" asks for, and nothing else: `alg` and `kid` in the header,
/// `iss` and `iat` as claims, signed with ES256.
enum JWT {
    /// Bytes of an ES256 signature: r and s of 32 bytes each (RFC 7518, section 3.4), not their ASN.1 form.
    static let signatureLength = 64

    /// What is signed: header and claims, each in base64url, with a dot between.
    ///
    /// - Parameter issuedAt: Whole seconds since 1970; written as a JSON integer.
    static func signingInput(identifiers: TokenIdentifiers, issuedAt: Int64) -> String {
        // The identifiers are letters and digits, so that nothing needs escaping.
        let header = #"{"alg":"ES256","kid":"\#(identifiers.keyID)"}"#
        let claims = #"{"iss":"\#(identifiers.teamID)","iat":\#(issuedAt)}"#
        return base64URL(header.utf8) + "." + base64URL(claims.utf8)
    }

    /// Base64 with the alphabet for URLs and without padding (RFC 4648, section 5; RFC 7515, section 2).
    static func base64URL(_ bytes: some Sequence<UInt8>) -> String {
        var text: [UInt8] = []
        var bits: UInt32 = 0
        var bitCount = 0
        for byte in bytes {
            bits = bits << 8 | UInt32(byte)
            bitCount += 8
            while bitCount >= 6 {
                bitCount -= 6
                text.append(character(UInt8(truncatingIfNeeded: bits >> UInt32(bitCount)) & 0x3F))
            }
        }
        if bitCount > 0 {
            text.append(character(UInt8(truncatingIfNeeded: bits << UInt32(6 - bitCount)) & 0x3F))
        }
        return String(decoding: text, as: UTF8.self)
    }

    private static func character(_ value: UInt8) -> UInt8 {
        switch value {
        case 0..<26: UInt8(ascii: "A") + value
        case 26..<52: UInt8(ascii: "a") + (value - 26)
        case 52..<62: UInt8(ascii: "0") + (value - 52)
        case 62: UInt8(ascii: "-")
        default: UInt8(ascii: "_")
        }
    }
}

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
        "The client is stopping or starting anew, so no provider token is signed."
    )
    static let cancelled = TokenError(.cancelled, "Cancelled while waiting for a provider token.")
}

import APNSBasics

/// The format of the provider token: a JSON Web Token (RFC 7519) in compact serialization (RFC 7515, section 7.1).
///
/// It contains exactly the fields that Apple's "Establishing a token-based connection to APNs" requires: `alg` and
/// `kid` in the header, `iss` and `iat` as claims. It is signed with ES256.
enum JWT {
    /// The text to sign: header and claims, each in base64url, separated by a dot.
    ///
    /// - Parameter issuedAt: Whole seconds since 1970, written as a JSON integer.
    static func signingInput(identifiers: TokenIdentifiers, issuedAt: Int64) -> String {
        // The identifiers contain only letters and digits, so nothing needs escaping.
        let header = #"{"alg":"ES256","kid":"\#(identifiers.keyID)"}"#
        let claims = #"{"iss":"\#(identifiers.teamID)","iat":\#(issuedAt)}"#
        return Base64.encodeForURL(header.utf8) + "." + Base64.encodeForURL(claims.utf8)
    }
}

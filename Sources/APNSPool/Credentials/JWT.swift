import APNSBasics

/// The provider token's form: a JSON Web Token (RFC 7519) in compact serialisation (RFC 7515, section 7.1) with what
/// Apple's "Establishing a token-based connection to APNs" asks for, and nothing else: `alg` and `kid` in the header,
/// `iss` and `iat` as claims, signed with ES256.
enum JWT {
    /// What is signed: header and claims, each in base64url, with a dot between.
    ///
    /// - Parameter issuedAt: Whole seconds since 1970; written as a JSON integer.
    static func signingInput(identifiers: TokenIdentifiers, issuedAt: Int64) -> String {
        // The identifiers are letters and digits, so that nothing needs escaping.
        let header = #"{"alg":"ES256","kid":"\#(identifiers.keyID)"}"#
        let claims = #"{"iss":"\#(identifiers.teamID)","iat":\#(issuedAt)}"#
        return Base64.encodeForURL(header.utf8) + "." + Base64.encodeForURL(claims.utf8)
    }
}

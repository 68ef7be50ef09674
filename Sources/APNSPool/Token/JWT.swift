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

    /// The bytes of a text in base64 with the alphabet for URLs and without padding; nil for any other text.
    static func bytes(base64URL text: some Sequence<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        var bits: UInt32 = 0
        var bitCount = 0
        for character in text {
            guard let value = value(of: character) else { return nil }
            bits = bits << 6 | UInt32(value)
            bitCount += 6
            if bitCount >= 8 {
                bitCount -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(bitCount)))
            }
        }
        return bytes
    }

    private static func value(of character: UInt8) -> UInt8? {
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): character - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): character - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0") + 52
        case UInt8(ascii: "-"): 62
        case UInt8(ascii: "_"): 63
        default: nil
        }
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

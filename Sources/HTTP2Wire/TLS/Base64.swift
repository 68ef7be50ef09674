/// Base64 in both alphabets of RFC 4648: the plain one (section 4), and the one for URLs (section 5).
package enum Base64 {
    private static let plain = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    private static let forURLs = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    /// Text in the plain alphabet, padded with `=` to a multiple of four.
    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text = self.digits(bytes, self.plain)
        while !text.count.isMultiple(of: 4) { text.append(UInt8(ascii: "=")) }
        return String(decoding: text, as: UTF8.self)
    }

    /// Text in the alphabet for URLs without padding, as a JSON Web Token has it (RFC 7515, section 2).
    package static func encodeForURL(_ bytes: some Sequence<UInt8>) -> String {
        String(decoding: self.digits(bytes, self.forURLs), as: UTF8.self)
    }

    /// The bytes of a text in either alphabet, with or without padding at its end. Nil for any other text.
    package static func decode(_ text: some Sequence<UInt8>) -> [UInt8]? {
        var digits = Array(text)
        while digits.last == UInt8(ascii: "=") { digits.removeLast() }
        return self.bytes(digits, takesPlain: true)
    }

    /// The bytes of a text in the alphabet for URLs without padding. Nil for any other text.
    package static func decodeForURL(_ text: some Sequence<UInt8>) -> [UInt8]? {
        self.bytes(text, takesPlain: false)
    }

    private static func digits(_ bytes: some Sequence<UInt8>, _ alphabet: [UInt8]) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.underestimatedCount + 2) / 3 * 4)
        var bits: UInt32 = 0
        var count = 0
        for byte in bytes {
            bits = bits << 8 | UInt32(byte)
            count += 8
            while count >= 6 {
                count -= 6
                text.append(alphabet[Int(bits >> UInt32(count) & 63)])
            }
        }
        if count > 0 { text.append(alphabet[Int(bits << UInt32(6 - count) & 63)]) }
        return text
    }

    /// - Parameter takesPlain: whether `+` and `/` are digits beside `-` and `_`.
    private static func bytes(_ text: some Sequence<UInt8>, takesPlain: Bool) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.underestimatedCount / 4 * 3 + 2)
        var bits: UInt32 = 0
        var count = 0
        for character in text {
            let value: UInt8
            switch character {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): value = character - UInt8(ascii: "A")
            case UInt8(ascii: "a")...UInt8(ascii: "z"): value = character - UInt8(ascii: "a") + 26
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = character - UInt8(ascii: "0") + 52
            case UInt8(ascii: "-"): value = 62
            case UInt8(ascii: "_"): value = 63
            case UInt8(ascii: "+") where takesPlain: value = 62
            case UInt8(ascii: "/") where takesPlain: value = 63
            default: return nil
            }
            bits = bits << 6 | UInt32(value)
            count += 6
            if count >= 8 {
                count -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
            }
        }
        // A single digit at the end is less than a byte.
        return count < 6 ? bytes : nil
    }
}

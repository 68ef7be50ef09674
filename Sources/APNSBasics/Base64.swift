/// Base64 in both alphabets of RFC 4648: the plain one (section 4) and the URL-safe one (section 5).
package enum Base64 {
    private static let plain = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    private static let forURLs = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    /// The value of each byte in the given alphabets; 0xFF for bytes outside them.
    private static let anyValues = values(of: [plain, forURLs])
    private static let urlValues = values(of: [forURLs])

    // MARK: The plain alphabet

    /// Encodes bytes in the plain alphabet, padded with `=` to a multiple of four characters.
    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        let text = self.text(bytes, self.plain)
        return text + String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
    }

    /// Decodes text in either alphabet, with or without padding at its end. Nil for any other text.
    package static func decode(_ text: some Sequence<UInt8>) -> [UInt8]? {
        var digits = Array(text)
        while digits.last == UInt8(ascii: "=") { digits.removeLast() }
        return self.bytes(digits, self.anyValues, isCanonical: false)
    }

    // MARK: The URL-safe alphabet

    /// Encodes bytes in the URL-safe alphabet without padding, as a JSON Web Token requires (RFC 7515, section 2).
    package static func encodeForURL(_ bytes: some Sequence<UInt8>) -> String {
        self.text(bytes, self.forURLs)
    }

    /// Decodes text that `encodeForURL` has written. Nil for any other text, including text whose last digit has
    /// non-zero bits beyond the last byte: no two texts decode to the same bytes (RFC 4648, section 3.5).
    package static func decodeForURL(_ text: some Sequence<UInt8>) -> [UInt8]? {
        self.bytes(text, self.urlValues, isCanonical: true)
    }

    /// The number of characters that `encodeForURL` produces for this many bytes.
    package static func urlTextCount(of byteCount: Int) -> Int {
        byteCount / 3 * 4 + (byteCount % 3 == 0 ? 0 : byteCount % 3 + 1)
    }

    /// The largest number of bytes that `encodeForURL` encodes in at most this many characters.
    package static func byteCount(withinURLText textCount: Int) -> Int {
        textCount / 4 * 3 + max(0, textCount % 4 - 1)
    }

    // MARK: Both alphabets

    private static func values(of alphabets: [[UInt8]]) -> [UInt8] {
        var values = [UInt8](repeating: 0xFF, count: 256)
        for alphabet in alphabets {
            for (value, byte) in alphabet.enumerated() { values[Int(byte)] = UInt8(value) }
        }
        return values
    }

    private static func text(_ bytes: some Sequence<UInt8>, _ alphabet: [UInt8]) -> String {
        let text = bytes.withContiguousStorageIfAvailable { self.text($0, alphabet) }
        return text ?? Array(bytes).withUnsafeBufferPointer { self.text($0, alphabet) }
    }

    /// Encodes without padding.
    private static func text(_ bytes: UnsafeBufferPointer<UInt8>, _ alphabet: [UInt8]) -> String {
        alphabet.withUnsafeBufferPointer { alphabet in
            String(unsafeUninitializedCapacity: self.urlTextCount(of: bytes.count)) { text in
                var written = 0
                func write(_ group: UInt32, _ count: Int) {
                    for digit in 0..<count {
                        text[written] = alphabet[Int(group &>> UInt32(18 &- 6 &* digit) & 63)]
                        written &+= 1
                    }
                }
                var index = 0
                while index &+ 3 <= bytes.count {
                    let high = UInt32(bytes[index]) &<< 16 | UInt32(bytes[index &+ 1]) &<< 8
                    write(high | UInt32(bytes[index &+ 2]), 4)
                    index &+= 3
                }
                switch bytes.count &- index {
                case 1: write(UInt32(bytes[index]) &<< 16, 2)
                case 2: write(UInt32(bytes[index]) &<< 16 | UInt32(bytes[index &+ 1]) &<< 8, 3)
                default: break
                }
                return written
            }
        }
    }

    private static func bytes(_ text: some Sequence<UInt8>, _ values: [UInt8], isCanonical: Bool) -> [UInt8]? {
        let bytes = text.withContiguousStorageIfAvailable { self.bytes($0, values, isCanonical) }
        return bytes ?? Array(text).withUnsafeBufferPointer { self.bytes($0, values, isCanonical) }
    }

    /// - Parameter isCanonical: Whether the bits beyond the last byte must be zero.
    private static func bytes(
        _ text: UnsafeBufferPointer<UInt8>,
        _ values: [UInt8],
        _ isCanonical: Bool
    ) -> [UInt8]? {
        values.withUnsafeBufferPointer { values in
            // A single digit at the end encodes less than a byte.
            var isText = text.count % 4 != 1
            let bytes = [UInt8](unsafeUninitializedCapacity: text.count / 4 * 3 + 2) { bytes, written in
                // A value is at most 63; a character outside the alphabets has a value with all eight bits set.
                func value(_ index: Int) -> UInt32 { UInt32(values[Int(text[index])]) }
                var index = 0
                while isText, index &+ 4 <= text.count {
                    let (first, second) = (value(index), value(index &+ 1))
                    let (third, fourth) = (value(index &+ 2), value(index &+ 3))
                    isText = (first | second | third | fourth) < 64
                    let group = first &<< 18 | second &<< 12 | third &<< 6 | fourth
                    bytes[written] = UInt8(truncatingIfNeeded: group &>> 16)
                    bytes[written &+ 1] = UInt8(truncatingIfNeeded: group &>> 8)
                    bytes[written &+ 2] = UInt8(truncatingIfNeeded: group)
                    written &+= 3
                    index &+= 4
                }
                let left = text.count &- index
                guard isText, left > 0 else { return }
                let (first, second) = (value(index), value(index &+ 1))
                let third = left == 3 ? value(index &+ 2) : 0
                let group = first &<< 18 | second &<< 12 | third &<< 6
                let beyond: UInt32 = left == 3 ? 0xFF : 0xFFFF
                isText = (first | second | third) < 64 && (!isCanonical || group & beyond == 0)
                bytes[written] = UInt8(truncatingIfNeeded: group &>> 16)
                if left == 3 { bytes[written &+ 1] = UInt8(truncatingIfNeeded: group &>> 8) }
                written &+= left &- 1
            }
            return isText ? bytes : nil
        }
    }
}

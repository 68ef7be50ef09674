/// Base64 with the alphabet of URLs, without padding (RFC 4648 §5, §3.2).
///
/// Not the plain alphabet, because many JSON writers turn its `/` into `\/`, and the text's length would depend on what
/// was sealed. One text for the same bytes: what another encoder could have written for them is refused.
enum Base64URL {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    /// The value of each byte, 0xFF for those outside the alphabet.
    private static let values: [UInt8] = {
        var values = [UInt8](repeating: 0xFF, count: 256)
        for (value, byte) in alphabet.enumerated() {
            values[Int(byte)] = UInt8(value)
        }
        return values
    }()

    /// How many characters so many bytes become.
    static func textCount(of byteCount: Int) -> Int {
        byteCount / 3 * 4 + (byteCount % 3 == 0 ? 0 : byteCount % 3 + 1)
    }

    /// The most bytes that become no more than so many characters.
    static func byteCount(within textCount: Int) -> Int {
        textCount / 4 * 3 + max(0, textCount % 4 - 1)
    }

    static func encode(_ bytes: [UInt8]) -> String {
        let textCount = textCount(of: bytes.count)
        return bytes.withUnsafeBufferPointer { bytes in
            alphabet.withUnsafeBufferPointer { alphabet in
                String(unsafeUninitializedCapacity: textCount) { text in
                    var written = 0
                    var index = 0
                    while index < bytes.count {
                        let left = bytes.count &- index
                        let second = left > 1 ? bytes[index &+ 1] : 0
                        let third = left > 2 ? bytes[index &+ 2] : 0
                        let group = UInt32(bytes[index]) &<< 16 | UInt32(second) &<< 8 | UInt32(third)
                        var shift: UInt32 = 18
                        for _ in 0..<min(4, left &+ 1) {
                            text[written] = alphabet[Int(group &>> shift & 63)]
                            written &+= 1
                            shift = shift &- 6
                        }
                        index &+= 3
                    }
                    return written
                }
            }
        }
    }

    /// Nil for anything that `encode` would not have written.
    static func decode(_ text: String) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.utf8.count / 4 * 3 + 2)
        var group: UInt32 = 0
        var bits = 0
        for character in text.utf8 {
            let value = values[Int(character)]
            guard value != 0xFF else { return nil }
            group = group &<< 6 | UInt32(value)
            bits &+= 6
            if bits >= 8 {
                bits &-= 8
                bytes.append(UInt8(truncatingIfNeeded: group &>> UInt32(bits)))
            }
        }
        // Six bits left are a character too many; others left must be zero, or two texts would mean the same bytes.
        guard bits < 6, group & (1 &<< UInt32(bits) &- 1) == 0 else { return nil }
        return bytes
    }
}

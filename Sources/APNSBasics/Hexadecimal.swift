/// Hexadecimal digits as ASCII bytes.
///
/// The functions on single digits are `@inlinable`, because each push converts `apns-id`s and device tokens with them.
/// The compiler inlines them into other modules only if the type is also `@usableFromInline`.
@usableFromInline
package enum Hexadecimal {
    /// The lower-case digit for the low four bits.
    @inlinable @inline(__always)
    package static func digit(_ nibble: UInt8) -> UInt8 {
        let low = nibble & 0xF
        return low < 10 ? 0x30 &+ low : 0x57 &+ low
    }

    /// The eight lower-case digits of a number, with the first digit in the lowest byte in memory. Each nibble is
    /// spread to a byte, and 10 to 15 are moved to the letters.
    @inlinable @inline(__always)
    package static func digits(_ value: UInt32) -> UInt64 {
        var x = UInt64(value.byteSwapped)
        x = (x | x &<< 16) & 0x0000_FFFF_0000_FFFF
        x = (x | x &<< 8) & 0x00FF_00FF_00FF_00FF
        x = ((x &>> 4) | (x &<< 8)) & 0x0F0F_0F0F_0F0F_0F0F
        let letters = ((x &+ 0x0606_0606_0606_0606) &>> 4) & 0x0101_0101_0101_0101
        return (x &+ 0x3030_3030_3030_3030 &+ letters &* 0x27).littleEndian
    }

    /// The value of a digit in either case, or nil.
    @inlinable @inline(__always)
    package static func value(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte &- 0x30
        case 0x61...0x66: byte &- 0x57
        case 0x41...0x46: byte &- 0x37
        default: nil
        }
    }

    /// The lower-case digits of the bytes, two for each.
    package static func text(of bytes: some Sequence<UInt8>) -> String {
        String(decoding: bytes.flatMap { [Self.digit($0 >> 4), Self.digit($0)] }, as: UTF8.self)
    }

    /// Decodes digits in either case; nil for an odd count or other characters.
    package static func bytes(of text: some StringProtocol) -> [UInt8]? {
        let digits = text.utf8.compactMap { self.value($0) }
        guard digits.count == text.utf8.count, digits.count.isMultiple(of: 2) else { return nil }
        return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }
}

import APNSBasics
import Testing

struct HexadecimalTests {
    @Test("Each byte has two lower-case digits, which decode to it in either case")
    func bothWays() {
        let bytes = Array(UInt8.min ... .max)
        let text = Hexadecimal.text(of: bytes)
        #expect(text.hasPrefix("000102") && text.hasSuffix("fdfeff") && text.utf8.count == 512)
        #expect(Hexadecimal.bytes(of: text) == bytes)
        #expect(Hexadecimal.bytes(of: text.uppercased()) == bytes)
    }

    @Test("The eight digits of a number equal those of the standard library")
    func eightDigits() {
        for value in [0, 1, 0x9, 0xA, 0x1234_5678, 0x9ABC_DEF0, 0xFFFF_FFFF, 0x0F0F_A0A0] as [UInt32] {
            let digits = withUnsafeBytes(of: Hexadecimal.digits(value)) { String(decoding: $0, as: UTF8.self) }
            let expected = String(value, radix: 16)
            #expect(digits == String(repeating: "0", count: 8 - expected.count) + expected)
        }
    }

    @Test("A byte has a value only if it is a digit")
    func values() {
        for byte in UInt8.min ... .max {
            let digit = Character(Unicode.Scalar(byte))
            let expected = digit.isASCII ? digit.hexDigitValue : nil
            #expect(Hexadecimal.value(byte).map(Int.init) == expected)
        }
    }

    @Test("An odd count of digits and other characters are refused", arguments: ["0", "0g", "0x", "1 ", "ö", "０0"])
    func otherTexts(text: String) {
        #expect(Hexadecimal.bytes(of: text) == nil)
    }
}

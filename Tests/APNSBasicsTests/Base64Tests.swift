import APNSBasics
import Foundation
import TestSupport
import Testing

struct Base64Tests {
    @Test("encode and decode give the examples of RFC 4648, section 10, and of RFC 7515, appendix C")
    func examples() {
        let examples = [
            "": "", "f": "Zg", "fo": "Zm8", "foo": "Zm9v", "foob": "Zm9vYg", "fooba": "Zm9vYmE", "foobar": "Zm9vYmFy",
        ]
        for (plain, encoded) in examples {
            let padded = encoded.padding(toLength: (encoded.count + 3) / 4 * 4, withPad: "=", startingAt: 0)
            #expect(Base64.encodeForURL(plain.utf8) == encoded)
            #expect(Base64.decodeForURL(encoded.utf8) == Array(plain.utf8))
            #expect(Base64.encode(plain.utf8) == padded)
            #expect(Base64.decode(padded.utf8) == Array(plain.utf8))
        }
        #expect(Base64.encodeForURL([3, 236, 255, 224, 193]) == "A-z_4ME")
    }

    @Test("Bytes of any length are encoded like Foundation does, and decode to the same bytes")
    func bothWays() {
        var random = SeededRandom()
        for count in 0...300 {
            let bytes = (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &random) }
            let plain = Data(bytes).base64EncodedString()
            let forURL = plain.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
            #expect(Base64.encode(bytes) == plain, "\(random)")
            #expect(Base64.encodeForURL(bytes) == forURL, "\(random)")
            #expect(Base64.decodeForURL(forURL.utf8) == bytes, "\(random)")
            for text in [plain, forURL, plain.replacing("=", with: "")] {
                #expect(Base64.decode(text.utf8) == bytes, "\(random)")
            }
            #expect(Base64.urlTextCount(of: count) == forURL.utf8.count)
            #expect(Base64.byteCount(withinURLText: forURL.utf8.count) == count)
        }
    }

    @Test("A sequence without contiguous storage is encoded and decoded like an array")
    func sequences() {
        let bytes: [UInt8] = [1, 2, 3, 250, 251]
        #expect(Base64.encodeForURL(AnySequence(bytes)) == Base64.encodeForURL(bytes))
        #expect(Base64.decodeForURL(AnySequence("AQID-vs".utf8)) == bytes)
        #expect(Base64.decode("AQID+vs=".utf8.lazy.map { $0 }) == bytes)
    }

    @Test(
        "The form for URLs refuses padding, the plain alphabet, other characters, a single last digit and spare bits",
        arguments: [
            "A", "AAAAA", "Zg=", "Zg==", "Zm9v=", "Zm+v", "Zm/v", "Zm 9v", "Zm9v\n", "Zm9ö", "Zh", "Zm9", "\u{0}AAA",
        ]
    )
    func otherURLTexts(text: String) {
        #expect(Base64.decodeForURL(text.utf8) == nil)
    }

    @Test("The plain form refuses other characters, padding inside the text and a single last digit")
    func otherPlainTexts() {
        for text in ["A", "AAAAA", "A=AA", "A A", "\u{E4}", "AAAAA===", "AAAA*AAA"] {
            #expect(Base64.decode(text.utf8) == nil, "\(text)")
        }
    }

    @Test("The plain form accepts spare bits in the last digit, as other encoders write them")
    func spareBits() {
        #expect(Base64.decode("Zh==".utf8) == Array("f".utf8))
        #expect(Base64.decode("Zm9=".utf8) == Array("fo".utf8))
    }

    @Test("No two texts of the form for URLs decode to the same bytes")
    func uniqueTexts() {
        let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
        var accepted = 0
        for first in alphabet {
            for second in alphabet {
                let text = String([first, second])
                guard let bytes = Base64.decodeForURL(text.utf8) else { continue }
                accepted += 1
                #expect(Base64.encodeForURL(bytes) == text)
            }
        }
        #expect(accepted == 256)
    }
}

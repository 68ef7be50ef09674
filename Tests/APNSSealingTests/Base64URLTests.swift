#if Sealing
    import Foundation
    import TestSupport
    import Testing

    @testable import APNSSealing

    struct Base64URLTests {
        /// RFC 4648 §10, without padding.
        @Test(arguments: [
            "": "", "f": "Zg", "fo": "Zm8", "foo": "Zm9v", "foob": "Zm9vYg", "fooba": "Zm9vYmE", "foobar": "Zm9vYmFy",
        ])
        func vectors(bytes: String, text: String) {
            #expect(Base64URL.encode(Array(bytes.utf8)) == text)
            #expect(Base64URL.decode(text) == Array(bytes.utf8))
        }

        @Test func asFoundationDoesWithTheOtherAlphabet() {
            var random = SeededRandom()
            for count in 0...300 {
                let bytes = (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &random) }
                let expected = Data(bytes).base64EncodedString().replacingOccurrences(of: "+", with: "-")
                    .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
                #expect(Base64URL.encode(bytes) == expected, "\(random)")
                #expect(Base64URL.decode(expected) == bytes, "\(random)")
                #expect(Base64URL.textCount(of: count) == expected.utf8.count)
                #expect(Base64URL.byteCount(within: expected.utf8.count) == count)
            }
        }

        @Test(arguments: [
            "A", "AAAAA", "Zg=", "Zg==", "Zm9v=", "Zm+v", "Zm/v", "Zm 9v", "Zm9v\n", "Zm9ö", "Zh", "Zm9", "\u{0}AAA",
        ])
        func otherTextsAreRefused(text: String) {
            #expect(Base64URL.decode(text) == nil)
        }

        /// No two texts mean the same bytes.
        @Test func allTextsOfTwoCharacters() {
            let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
            var accepted = 0
            var returned = 0
            for first in alphabet {
                for second in alphabet {
                    let text = String([first, second])
                    if let bytes = Base64URL.decode(text) {
                        accepted += 1
                        if Base64URL.encode(bytes) == text { returned += 1 }
                    }
                }
            }
            #expect(accepted == 256)
            #expect(returned == 256)
        }
    }
#endif

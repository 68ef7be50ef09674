import Foundation
import HTTP2Wire
import Testing

struct Base64Tests {
    @Test("The examples of RFC 4648, section 10, and of RFC 7515, appendix C")
    func examples() {
        let examples = ["": "", "f": "Zg", "fo": "Zm8", "foo": "Zm9v", "foob": "Zm9vYg", "fooba": "Zm9vYmE"]
        for (plain, encoded) in examples { #expect(Base64.encodeForURL(plain.utf8) == encoded) }
        #expect(Base64.encode("foob".utf8) == "Zm9vYg==")
        #expect(Base64.encodeForURL([3, 236, 255, 224, 193]) == "A-z_4ME")
    }

    @Test("Bytes of any length are encoded as Foundation does, and come back", arguments: 0..<80)
    func bothWays(count: Int) {
        let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ 251 &+ count) }
        let plain = Data(bytes).base64EncodedString()
        let forURL = plain.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
        #expect(Base64.encode(bytes) == plain)
        #expect(Base64.encodeForURL(bytes) == forURL)
        #expect(Base64.decodeForURL(forURL.utf8) == bytes)
        for text in [plain, forURL, plain.replacing("=", with: "")] { #expect(Base64.decode(text.utf8) == bytes) }
    }

    @Test("The form for URLs has no padding, no other alphabet and no single digit at its end")
    func otherTextIsRefused() {
        for text in ["A", "AA==", "A+AA", "A/AA", "AAAAA", "A A"] { #expect(Base64.decodeForURL(text.utf8) == nil) }
        for text in ["A", "AAAAA", "A=AA", "A A", "\u{E4}"] { #expect(Base64.decode(text.utf8) == nil) }
    }
}

import Foundation
import Testing

@testable import APNSModel

@Suite struct ChannelIDTests {
    @Test(arguments: ["dHN0LXNyY2gtY2hubA==", "AAAA", "abc+/9==", "abcdEF0=", "9+/A"])
    func base64IsKeptAsItIs(text: String) throws {
        let id = try ChannelID(text)
        #expect(id.rawValue == text)
        #expect("\(id)" == text)
        let coded = try JSONEncoder().encode([id])
        #expect(try JSONDecoder().decode([ChannelID].self, from: coded) == [id])
    }

    @Test(arguments: [
        "", "ab=c", "a===", "====", "ab c", "abc\r\n", "ab-_", "ab\u{E9}d", "abc\u{0}", "=abc",
        String(repeating: "a", count: ChannelID.maximumBytes + 1),
    ])
    func otherTextIsNone(text: String) {
        let error = #expect(throws: ValidationError.self) { try ChannelID(text) }
        #expect(error?.code == .channelIDInvalid)
        #expect(error?.field == "apns-channel-id")
        #expect(error?.description.contains("base64") == true || error?.limit == ChannelID.maximumBytes)
    }

    /// What APNs gave is not judged, unless it could not go back in a header.
    @Test func whatAPNsGaveIsTakenAsItIs() {
        #expect(ChannelID(fromAPNs: "not-base64_but:opaque")?.rawValue == "not-base64_but:opaque")
        for text in ["", "a b", "a\r\nb", "\u{E9}", String(repeating: "a", count: ChannelID.maximumBytes + 1)] {
            #expect(ChannelID(fromAPNs: text) == nil)
            #expect(throws: (any Error).self) {
                try JSONDecoder().decode([ChannelID].self, from: JSONEncoder().encode([text]))
            }
        }
    }
}

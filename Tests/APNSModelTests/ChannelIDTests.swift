import Foundation
import Testing

@testable import APNSModel

struct ChannelIDTests {
    @Test(arguments: [
        "dHN0LXNyY2gtY2hubA==", "AAAA", "abc+/9==", "abcdEF0=", "9+/A", String(repeating: "a", count: 512),
    ])
    func base64IsKeptUnchanged(text: String) throws {
        let id = try ChannelID(text)
        #expect(id.rawValue == text)
        #expect("\(id)" == text)
        #expect(try ChannelID(text[...]) == id)
        let coded = try JSONEncoder().encode([id])
        #expect(try JSONDecoder().decode([ChannelID].self, from: coded) == [id])
    }

    @Test(arguments: [
        "", "=", "==", "A", "abc", "ab=c", "a===", "====", "ab c", "abc\r\n", "a\r\nx: y", "ab-_", "ab\u{E9}d",
        "abc\u{0}", "=abc", "abcde===", String(repeating: "a", count: 516),
    ])
    func invalidIDsAreRefused(text: String) {
        let error = #expect(throws: ValidationError.self) { try ChannelID(text) }
        #expect(error?.code == .channelIDInvalid)
        #expect(error?.field == "apns-channel-id")
        #expect(error?.description.contains("base64") == true)
    }

    /// An id from APNs need not be base64, also after decoding. It is refused only if a header could not carry it.
    @Test func idsFromAPNsAreKeptUnchanged() throws {
        let opaque = try #require(ChannelID(fromAPNs: "not-base64_but:opaque"))
        #expect(opaque.rawValue == "not-base64_but:opaque")
        #expect(try JSONDecoder().decode([ChannelID].self, from: JSONEncoder().encode([opaque])) == [opaque])
        for text in ["", "a b", "a\r\nb", "\u{E9}", String(repeating: "a", count: 513)] {
            #expect(ChannelID(fromAPNs: text) == nil)
            #expect(throws: DecodingError.self) {
                try JSONDecoder().decode([ChannelID].self, from: JSONEncoder().encode([text]))
            }
        }
    }

    @Test func storagePoliciesAreCodedAsNumbers() throws {
        #expect(MessageStoragePolicy.noMessage.rawValue == 0)
        #expect(MessageStoragePolicy.mostRecentMessage.rawValue == 1)
        #expect("\(MessageStoragePolicy.mostRecentMessage)" == "most-recent-message")
        let unknown = MessageStoragePolicy(rawValue: 7)
        #expect("\(unknown)" == "7")
        let coded = try JSONEncoder().encode([MessageStoragePolicy.noMessage, unknown])
        #expect(String(decoding: coded, as: UTF8.self) == "[0,7]")
        #expect(try JSONDecoder().decode([MessageStoragePolicy].self, from: coded) == [.noMessage, unknown])
    }
}

import APNSModel
import Foundation
import TestSupport
import Testing

struct DeviceTokenTests {
    let hexadecimal = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"

    @Test func tokensAreLowercased() throws {
        #expect(try DeviceToken(hexadecimal).hexadecimal == hexadecimal)
        #expect(try DeviceToken(hexadecimal.uppercased()).hexadecimal == hexadecimal)
        #expect(try DeviceToken(hexadecimal.dropFirst(2)).hexadecimal == String(hexadecimal.dropFirst(2)))
        #expect(try DeviceToken("aB").hexadecimal == "ab")
    }

    @Test func invalidTokensAreRefused() throws {
        func check(_ text: String) -> ValidationError.Code? {
            code { _ = try DeviceToken(text) }
        }
        #expect(check("") == .deviceTokenEmpty)
        #expect(check("abc") == .deviceTokenOddLength)
        for bad in ["0g", "<00fc>", "00 fc", "00/fc", "00?a", "é0", "a\n", "0x00", "../.."] {
            #expect(check(bad) == .deviceTokenNotHexadecimal)
        }
        #expect(check(String(repeating: "a", count: 1_000)) == nil)
        #expect(check(String(repeating: "a", count: 1_002)) == .deviceTokenTooLong)
        #expect(check(String(repeating: "z", count: 5_000)) == .deviceTokenTooLong)
    }

    @Test func tokensAreMadeFromBytes() throws {
        #expect(try DeviceToken(bytes: [0x00, 0xFC, 0x9a]).hexadecimal == "00fc9a")
        #expect(try DeviceToken(bytes: Data([0xFF])).hexadecimal == "ff")
        #expect(code { _ = try DeviceToken(bytes: []) } == .deviceTokenEmpty)
        #expect(try DeviceToken(bytes: [UInt8](repeating: 1, count: 500)).hexadecimal.count == 1_000)
        #expect(code { _ = try DeviceToken(bytes: [UInt8](repeating: 1, count: 501)) } == .deviceTokenTooLong)
        #expect(code { _ = try DeviceToken(bytes: repeatElement(1, count: .max)) } == .deviceTokenTooLong)
    }

    @Test func aTokenIsNotLoggedWhole() throws {
        let token = try DeviceToken(hexadecimal)
        #expect(token.shortened == "00fc…f0")
        #expect("\(token)" == "00fc…f0")
        #expect(String(reflecting: token) == "00fc…f0")
        #expect(try DeviceToken("abcd").shortened == "ab…")
        do {
            _ = try DeviceToken(hexadecimal + "x")
        } catch {
            #expect(!"\(error)".contains("13adff"))
        }
    }

    @Test func tokensAreCodedAsText() throws {
        let token = try DeviceToken(hexadecimal)
        let data = try JSONEncoder().encode([token])
        #expect(String(decoding: data, as: UTF8.self) == "[\"\(hexadecimal)\"]")
        #expect(try JSONDecoder().decode([DeviceToken].self, from: data) == [token])
        #expect(throws: (any Error).self) { try JSONDecoder().decode([DeviceToken].self, from: Data("[\"zz\"]".utf8)) }
    }
}

struct APNSIDTests {
    @Test func idsParseInEitherCase() throws {
        let text = "eabeae54-14a8-11e5-b60b-1697f925ec7b"
        let id = try #require(APNSID(text))
        #expect(id.description == text)
        #expect(APNSID(text.uppercased()) == id)
        #expect(APNSID(text.dropLast(0)) == id)
        #expect(id.high == 0xEABE_AE54_14A8_11E5)
        #expect(id.low == 0xB60B_1697_F925_EC7B)
        #expect(id.uuid.uuidString.lowercased() == text)
        #expect(APNSID(id.uuid) == id)
    }

    @Test(arguments: [
        "", "eabeae54-14a8-11e5-b60b-1697f925ec7", "eabeae54-14a8-11e5-b60b-1697f925ec7bb",
        "eabeae5414a811e5b60b1697f925ec7b", "eabeae54-14a8-11e5-b60b-1697f925ec7g",
        "{abeae54-14a8-11e5-b60b-1697f925ec7b", "eabeae54_14a8-11e5-b60b-1697f925ec7b",
    ])
    func invalidIDsAreRefused(text: String) {
        #expect(APNSID(text) == nil)
    }

    @Test(.timeLimit(.minutes(5))) func randomIDsAreVersion4() {
        var generator = SeededRandom(seed: 1)
        var seen: Set<APNSID> = []
        for _ in 0..<2_000 {
            let id = APNSID.random(using: &generator)
            let text = Array(id.description)
            #expect(text[14] == "4")
            #expect("89ab".contains(text[19]))
            #expect(id.description == id.uuid.uuidString.lowercased())
            #expect(APNSID(id.description) == id)
            #expect(seen.insert(id).inserted)
        }
        #expect(APNSID.random() != APNSID.random())
    }

    @Test func idsAreCodedAsText() throws {
        let id = APNSID(high: 1, low: .max)
        let data = try JSONEncoder().encode([id])
        #expect(String(decoding: data, as: UTF8.self) == #"["00000000-0000-0001-ffff-ffffffffffff"]"#)
        #expect(try JSONDecoder().decode([APNSID].self, from: data) == [id])
        #expect(throws: DecodingError.self) { try JSONDecoder().decode([APNSID].self, from: Data(#"["x"]"#.utf8)) }
    }
}

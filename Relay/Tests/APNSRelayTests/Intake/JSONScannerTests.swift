import Foundation
import PushQueueConformance
import Testing

@testable import APNSRelay

struct JSONScannerTests {
    private static func scan(_ bytes: [UInt8]) -> Result<JSONScanner.Slice, JSONScanner.Fault> {
        bytes.withUnsafeBufferPointer { buffer in
            var scanner = JSONScanner(buffer)
            return Result { () throws(JSONScanner.Fault) in try scanner.document() }
        }
    }

    private static func isAccepted(_ bytes: [UInt8]) -> Bool {
        if case .success = self.scan(bytes) { true } else { false }
    }

    private static func isAccepted(_ text: String) -> Bool { self.isAccepted(Array(text.utf8)) }

    /// Whether Foundation and the scanner may differ on purpose.
    private static func isException(_ bytes: [UInt8]) -> Bool {
        // Foundation guesses UTF-16 and UTF-32 from zero bytes, and skips a byte order mark.
        if bytes.contains(0) || bytes.starts(with: [0xEF, 0xBB, 0xBF]) || bytes.first == 0xFE || bytes.first == 0xFF {
            return true
        }
        // Foundation allows a comma at the end of an array or an object.
        if case .failure(let fault) = self.scan(bytes), fault.offset < bytes.count,
            [UInt8(ascii: "]"), UInt8(ascii: "}")].contains(bytes[fault.offset]),
            bytes[..<fault.offset].last(where: { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }) == UInt8(ascii: ",")
        {
            return true
        }
        // Foundation refuses numbers that a Double cannot hold.
        let text = String(decoding: bytes, as: UTF8.self)
        return text.contains { $0 == "e" || $0 == "E" } && text.contains { $0.isNumber }
    }

    private static func foundationAccepts(_ bytes: [UInt8]) -> Bool {
        (try? JSONSerialization.jsonObject(with: Data(bytes), options: .fragmentsAllowed)) != nil
    }

    @Test(
        "Valid texts are accepted",
        arguments: [
            "{}", "[]", "null", " true ", "false", "0", "-0", "-0.5e+10", "1E5", "123456789012345678901234567890",
            #""""#, #""\u00e9\uD83D\uDE00\n\/""#, #"{"a":{"b":[1,2,{"c":null}]}}"#, "\n\t\r {\"é\":\"😀\"} \n",
        ]
    )
    func valid(_ text: String) {
        #expect(Self.isAccepted(text))
        #expect(Self.foundationAccepts(Array(text.utf8)))
    }

    @Test(
        "Invalid texts are rejected",
        arguments: [
            "", " ", "{", "}", "[,1]", "[,]", "{,}", "{\"a\"}", "{\"a\":}", "{a:1}", "{'a':1}", "01", "1.", ".5",
            "+1", "-", "1e", "1e+", "tru", "nul", "truex", "NaN", "Infinity", "[1 2]", "{\"a\" 1}", "\"", "\"\\\"",
            "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"a\nb\"", "\"\\ud800\"", "\"\\udc00\"", "\"\\ud800\\u0041\"",
            "1 2",
            "{} x", "/* */ 1", "[1]]",
        ]
    )
    func invalid(_ text: String) {
        #expect(!Self.isAccepted(text))
        #expect(!Self.foundationAccepts(Array(text.utf8)))
    }

    @Test("A comma at the end of an array or an object is rejected", arguments: ["[1,]", "[1, ]", "{\"a\":1,}"])
    func trailingComma(_ text: String) {
        #expect(!Self.isAccepted(text))
    }

    @Test(
        "Bytes that are not UTF-8 are rejected in strings",
        arguments: [
            [0x80], [0xC0, 0xAF], [0xC3], [0xE0, 0x80, 0x80], [0xED, 0xA0, 0x80], [0xF0, 0x80, 0x80, 0x80],
            [0xF4, 0x90, 0x80, 0x80], [0xF5, 0x80, 0x80, 0x80], [0xE2, 0x82], [0xF0, 0x9F, 0x98], [0xFF],
        ] as [[UInt8]]
    )
    func notUTF8(_ bytes: [UInt8]) {
        let text = [UInt8(ascii: "\"")] + bytes + [UInt8(ascii: "\"")]
        #expect(!Self.isAccepted(text))
        #expect(!Self.foundationAccepts(text))
    }

    @Test("Values may be nested up to the limit and no deeper")
    func depth() {
        func nested(_ count: Int) -> String {
            String(repeating: "[", count: count) + String(repeating: "]", count: count)
        }
        #expect(Self.isAccepted(nested(JSONScanner.maximumDepth)))
        #expect(!Self.isAccepted(nested(JSONScanner.maximumDepth + 1)))
        #expect(!Self.isAccepted(String(repeating: #"{"a":"#, count: 100_000)))
    }

    @Test("Text is decoded as Foundation decodes it")
    func text() throws {
        let source = #""a\"\\\/\b\f\n\r\t\u0041\u00e9\uD83D\uDE00 é 😀""#
        let bytes = Array(source.utf8)
        let expected = try JSONSerialization.jsonObject(with: Data(bytes), options: .fragmentsAllowed) as? String
        let text = bytes.withUnsafeBufferPointer { buffer -> String? in
            var scanner = JSONScanner(buffer)
            guard let slice = try? scanner.document() else { return nil }
            return scanner.text(slice)
        }
        #expect(text == expected)
    }

    @Test("Members are found with their exact bytes")
    func members() throws {
        let source = #" { "a" : [1, 2] ,"\u0062": {"c": " } "} } "#
        let found = try Array(source.utf8).withUnsafeBufferPointer { buffer in
            var members: [JSONScanner.Member] = []
            var scanner = JSONScanner(buffer)
            try scanner.object(into: &members)
            return members.map {
                (scanner.text($0.key), String(decoding: buffer[$0.value.range], as: UTF8.self))
            }
        }
        #expect(found.map(\.0) == ["a", "b"])
        #expect(found.map(\.1) == ["[1, 2]", #"{"c": " } "}"#])
    }

    @Test("The scanner and Foundation agree about random texts", arguments: 0..<20)
    func agreement(_ seed: Int) {
        var random = SeededRandom(seed: UInt64(seed))
        for _ in 0..<500 {
            var bytes = Array(RandomJSON.value(depth: 4, using: &random).utf8)
            #expect(Self.isAccepted(bytes), "seed \(seed): \(String(decoding: bytes, as: UTF8.self))")
            for _ in 0..<Int.random(in: 1...3, using: &random) { RandomJSON.mutate(&bytes, using: &random) }
            if Self.isException(bytes) { continue }
            let text = String(decoding: bytes, as: UTF8.self)
            #expect(Self.isAccepted(bytes) == Self.foundationAccepts(bytes), "seed \(seed): \(text) \(bytes)")
        }
    }
}

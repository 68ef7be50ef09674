import Foundation
import TestSupport
import Testing

@_spi(Relay) @testable import APNSModel

/// The strict parser: RFC 8259's grammar, positions of errors, exact bytes of values, and limits.
struct JSONParserTests {
    private typealias Expectation = JSONScanner.Failure.Expectation

    private static func document(
        _ bytes: [UInt8],
        in range: Range<Int>? = nil,
        limits: JSONScanner.Limits = .init()
    ) -> Result<JSONScanner.Slice, JSONScanner.Failure> {
        bytes.withUnsafeBufferPointer { buffer in
            var scanner = JSONScanner(buffer, in: range, limits: limits)
            return Result { () throws(JSONScanner.Failure) in try scanner.document() }
        }
    }

    private static func tree(_ text: String) -> Result<JSONValue, JSONScanner.Failure> {
        Result { () throws(JSONScanner.Failure) in try JSONValue(parsing: Array(text.utf8)) }
    }

    private static func isAccepted(_ bytes: [UInt8]) -> Bool {
        if case .success = self.document(bytes) { true } else { false }
    }

    private static func isAccepted(_ text: String) -> Bool { self.isAccepted(Array(text.utf8)) }

    // MARK: Grammar

    @Test(
        "Bytes that are not UTF-8 are rejected in strings",
        arguments: [
            [0x80], [0xC0, 0xAF], [0xC1, 0xBF], [0xC3], [0xE0, 0x80, 0x80], [0xE0, 0x9F, 0xBF], [0xED, 0xA0, 0x80],
            [0xED, 0xBF, 0xBF], [0xF0, 0x80, 0x80, 0x80], [0xF0, 0x8F, 0xBF, 0xBF], [0xF4, 0x90, 0x80, 0x80],
            [0xF5, 0x80, 0x80, 0x80], [0xE2, 0x82], [0xF0, 0x9F, 0x98], [0xFE], [0xFF],
        ] as [[UInt8]]
    )
    func notUTF8(_ bytes: [UInt8]) {
        let quote = UInt8(ascii: "\"")
        #expect(Self.document([quote] + bytes + [quote]) == .failure(.init(expectation: .utf8, offset: 1)))
        #expect(!Self.isAccepted(bytes))
        // At the end of the buffer, nothing behind it is read.
        #expect(!Self.isAccepted([quote] + bytes))
    }

    @Test("An error has its position and what was expected")
    func positions() {
        let cases: [(String, Int, Expectation)] = [
            ("", 0, .value), ("  x", 2, .value), ("[1,]", 3, .value), ("[1", 2, .commaOrEndOfArray),
            ("[1 2]", 3, .commaOrEndOfArray), ("{\"a\":1", 6, .commaOrEndOfObject), ("{\"a\":1,}", 7, .key),
            ("{a", 1, .key), ("{\"a\" 1}", 5, .colon), ("1.x", 2, .digit), ("-", 1, .digit), ("1e", 2, .digit),
            ("\"abc", 4, .quotationMark), ("\"a\\x\"", 3, .escapeSequence), ("\"\\u12g4\"", 3, .hexadecimalDigits),
            ("\"\\udc00\"", 7, .highSurrogate), ("\"\\ud800\"", 7, .lowSurrogate), ("\"a\nb\"", 2, .noControlCharacter),
            ("{} x", 3, .end), ("01", 1, .end), ("truth", 0, .value),
        ]
        for (text, offset, expectation) in cases {
            let failure = JSONScanner.Failure(expectation: expectation, offset: offset)
            #expect(Self.document(Array(text.utf8)) == .failure(failure), "\(text)")
            #expect(failure.description.hasPrefix("expected "))
        }
    }

    @Test("A text that is no object is refused where an object is needed")
    func noObject() {
        for text in ["[]", "1", "\"{}\"", "", "null"] {
            #expect(JSONParser.members(Array(text.utf8)) == nil, "\(text)")
        }
        #expect(JSONParser.members(Array(" {} ".utf8))?.count == 0)
        #expect(JSONParser.members(Array("{}x".utf8)) == nil)
    }

    // MARK: Limits

    @Test("Values may be nested up to the limit and no deeper")
    func depth() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
            let levels = open.hasPrefix("[{") ? 2 : 1
            func nested(_ count: Int) -> [UInt8] {
                Array((String(repeating: open, count: count) + "1" + String(repeating: close, count: count)).utf8)
            }
            let limits = JSONScanner.Limits(depth: 10)
            #expect((try? Self.document(nested(10 / levels), limits: limits).get()) != nil)
            guard case .failure(let failure) = Self.document(nested(10 / levels + 1), limits: limits) else {
                Issue.record("\(open) is nested too deeply")
                continue
            }
            #expect(failure.expectation == .depth(10))
            #expect(failure.offset == (10 / levels) * open.utf8.count)
            #expect(Self.isAccepted(nested(128 / levels)) && !Self.isAccepted(nested(128 / levels + 1)))
            #expect(!Self.isAccepted(nested(100_000)))
            #expect((try? JSONValue(parsing: nested(100_000))) == nil)
        }
    }

    @Test("A text may have as many bytes as the limit")
    func size() {
        let limits = JSONScanner.Limits(bytes: 4)
        #expect((try? Self.document(Array("true".utf8), limits: limits).get()) != nil)
        #expect(
            Self.document(Array("true ".utf8), limits: limits)
                == .failure(.init(expectation: .bytes(4), offset: 0))
        )
    }

    @Test("Only the given range of the buffer is read")
    func range() throws {
        let bytes = Array(#"xx[12]34"é"\ud83d\ude00"#.utf8)
        for lower in 0...bytes.count {
            for upper in lower...bytes.count {
                let part = Array(bytes[lower..<upper])
                let alone = Self.document(part).map { part[$0.range] }
                let inside = Self.document(bytes, in: lower..<upper).map { bytes[$0.range] }
                switch (alone, inside) {
                case (.success(let one), .success(let other)): #expect(Array(one) == Array(other))
                case (.failure(let one), .failure(let other)):
                    #expect(one.expectation == other.expectation && one.offset + lower == other.offset)
                default: Issue.record("\(lower)..<\(upper)")
                }
            }
        }
        #expect(try Self.document(Array("xx[12]".utf8), in: 2..<1_000).map(\.range).get() == 2..<6)
    }

    // MARK: Values

    @Test("Members are found with their exact bytes")
    func members() throws {
        let source = Array(#" { "a" : [1, 2] ,"\u0062": {"c": " } "} , "a":1.0e0} "#.utf8)
        let members = try #require(JSONParser.members(source))
        #expect(members.map(\.key) == ["a", "b", "a"])
        #expect(
            members.map { String(decoding: source[$0.value], as: UTF8.self) } == ["[1, 2]", #"{"c": " } "}"#, "1.0e0"]
        )
    }

    @Test("Strings are decoded as Foundation decodes them")
    func strings() throws {
        let source = Array(#""a\"\\\/\b\f\n\r\t\u0041\u00e9\uD83D\uDE00 é 😀\u0000""#.utf8)
        let expected = try JSONSerialization.jsonObject(with: Data(source), options: .fragmentsAllowed) as? String
        #expect(try JSONValue(parsing: source) == .string(try #require(expected)))
    }

    @Test("Trees keep order, and numbers exactly as far as their type can")
    func trees() throws {
        let text = #"{"b":[null,true,-1,18446744073709551615,123456789012345678901234567890,-0,0.5],"a":{"é":"\n"}}"#
        let decimal = try #require(Decimal(string: "123456789012345678901234567890"))
        let value = try Self.tree(text).get()
        #expect(
            value
                == .object([
                    .init(
                        key: "b",
                        value: .array([
                            .null, .bool(true), .integer(-1), .unsigned(.max), .decimal(decimal), .double(-0.0),
                            .double(0.5),
                        ])
                    ),
                    .init(key: "a", value: .object([.init(key: "é", value: .string("\n"))])),
                ])
        )
        #expect(String(decoding: value.bytes, as: UTF8.self) == text)
        #expect(Self.tree("[1e308,1e309]") == .failure(.init(expectation: .smallerNumber, offset: 7)))
    }

    @Test("A second key of an object is an error in a tree, also if it is written differently")
    func duplicateKeys() {
        #expect(Self.tree(#"{"a":{"b":1,"c":2,"b":3}}"#) == .failure(.init(expectation: .otherKey, offset: 18)))
        #expect(Self.tree(#"{"a":1,"\u0061":1}"#) == .failure(.init(expectation: .otherKey, offset: 7)))
        #expect((try? Self.tree(#"{"A":1,"a":1,"aa":1}"#).get()) != nil)
        // No dictionary of Swift can have both.
        #expect(Self.tree(#"{"é":1,"e\u0301":1}"#) == .failure(.init(expectation: .otherKey, offset: 8)))
        #expect(JSONValue(json: Array(#"{"a":1,"a":2}"#.utf8))?.bytes == Array(#"{"a":1,"a":2}"#.utf8))
        #expect((try? JSONValue(parsing: Array(#"{"a":1,"a":2}"#.utf8), limits: .exact)) == nil)
    }

    @Test("The first members of a text that is cut off are found")
    func leadingMembers() {
        let text = #"{"reason":"BadDeviceToken","list":[1,{"a":2}],"timestamp":1}"#
        let keys = ["reason", "list", "timestamp"]
        for count in 0...text.utf8.count {
            let found = JSONParser.leadingMembers(Array(text.utf8.prefix(count)))
            #expect(keys.starts(with: found.map(\.key)))
            // A number at the end may be cut off, too.
            #expect(found.count == (count < 26 ? 0 : count < 45 ? 1 : count < 59 ? 2 : 3), "\(count)")
        }
        #expect(JSONParser.leadingMembers([]) == [])
    }

    // MARK: Random texts

    @Test("Inputs of a fuzzer are parsed or refused with a position, and kept bytes are those of the input")
    func fuzzJSONParser() throws {
        try Fuzz.run("json-parser") { try Self.check($0) }
    }

    @Test("Random damage to valid texts is refused with a position, or keeps the bytes")
    func damage() throws {
        let run = PropertyRun(commands: 300, runs: 20)
        for seed in run.seeds {
            var random = SeededRandom(seed: seed)
            for _ in 0..<run.commandsPerRun {
                var bytes = Array(try JSONEncoder().encode(Sample.random(depth: 4, using: &random)))
                #expect(Self.isAccepted(bytes), "\(run.replay(seed))")
                for _ in 0..<Int.random(in: 0...3, using: &random) where !bytes.isEmpty {
                    let index = Int.random(in: 0..<bytes.count, using: &random)
                    bytes[index] = try #require(
                        (Array(#"{}[]",:\/019-+.eEtfnu"#.utf8) + [9, 0x1F, 0x80, 0xED, 0xF0])
                            .randomElement(using: &random)
                    )
                }
                try Self.check(bytes)
            }
        }
    }

    private static func check(_ bytes: [UInt8]) throws {
        switch self.document(bytes) {
        case .failure(let failure):
            #expect((0...bytes.count).contains(failure.offset))
            #expect((try? JSONValue(parsing: bytes)) == nil)
        case .success(let slice):
            let trimmed = bytes.drop { [0x20, 0x09, 0x0A, 0x0D].contains($0) }.reversed()
                .drop { [0x20, 0x09, 0x0A, 0x0D].contains($0) }.reversed()
            #expect(Array(bytes[slice.range]) == Array(trimmed))
            // The bytes of each value are a document of their own, with the same value.
            for member in JSONParser.members(bytes) ?? [] {
                #expect(
                    self.document(bytes, in: member.value)
                        == self.document(bytes, in: member.value.lowerBound..<member.value.upperBound)
                )
                #expect((try? self.document(bytes, in: member.value).get().range) == member.value)
            }
            do throws(JSONScanner.Failure) {
                let tree = try JSONValue(parsing: bytes)
                // 5e2 is written as 500.
                #expect(try JSONValue(parsing: tree.bytes).bytes == tree.bytes)
            } catch {
                #expect([.otherKey, .smallerNumber].contains(error.expectation))
            }
        }
    }
}

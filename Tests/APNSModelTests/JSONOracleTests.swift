import Foundation
import TestSupport
import Testing

@_spi(Relay) @testable import APNSModel

/// Python's json module, made as strict as RFC 8259 with RFC 3629's UTF-8, accepts the same texts as the parser: all texts
/// of some tokens up to a length.
@Suite(
    .enabled(if: ForeignServer.isInstalled("python3"), "python3 is not installed"),
    .timeLimit(.minutes(5))
)
struct JSONOracleTests {
    /// All texts of up to `length` tokens between a beginning and an end.
    private struct Language: Codable {
        var name: String
        var start: [UInt8]
        var tokens: [[UInt8]]
        var end: [UInt8]
        var length: Int
    }

    /// Prints for each language the numbers of the accepted texts, each with its value in Base64 if it is a string.
    private static let script = #"""
        import base64, itertools, json, sys

        def constant(word):
            raise ValueError(word)

        def load(raw):
            value = json.loads(raw.decode("utf-8", "strict"), parse_constant=constant)
            # Python accepts single surrogates, which have no UTF-8.
            json.dumps(value, ensure_ascii=False).encode("utf-8", "strict")
            return value

        for language in json.load(sys.stdin):
            start, end = bytes(language["start"]), bytes(language["end"])
            tokens = [bytes(token) for token in language["tokens"]]
            accepted = []
            number = 0
            for length in range(language["length"] + 1):
                for choice in itertools.product(tokens, repeat=length):
                    try:
                        value = load(start + b"".join(choice) + end)
                        text = ":" + base64.b64encode(value.encode()).decode() if isinstance(value, str) else ""
                        accepted.append(str(number) + text)
                    except ValueError:
                        pass
                    number += 1
            print(number, *accepted)
        """#

    private static let languages =
        [
            Language(
                name: "structure",
                start: [],
                tokens: Array("{}[],:\"1 ".utf8).map { [$0] } + [Array("true".utf8), Array("\"a\":".utf8)],
                end: [],
                length: TestScale.size(4, thorough: 6)
            ),
            Language(
                name: "numbers",
                start: [],
                tokens: Array("-+.eE019 ".utf8).map { [$0] },
                end: [],
                length: TestScale.size(5, thorough: 6)
            ),
            // Up to the length of -1.0e+1, which has every part of a number. The short form adds nothing to "numbers".
            Language(
                name: "long numbers",
                start: [],
                tokens: Array("-+.e01".utf8).map { [$0] },
                end: [],
                length: TestScale.size(3, thorough: 7)
            ),
            Language(
                name: "strings",
                start: Array("\"".utf8),
                tokens: [
                    "\\ud800", "\\uDBFF", "\\udc00", "\\uDFFF", "\\u0041", "\\u00", "\\", "\"", "n", "/", "8", "é",
                ]
                .map { Array($0.utf8) } + [[0x1F], [0x80], [0xED, 0xA0, 0x80]],
                end: Array("\"".utf8),
                length: TestScale.size(4, thorough: 5)
            ),
            // The ends of the ranges in the Unicode Standard, table 3-7.
            Language(
                name: "UTF-8",
                start: Array("[\"".utf8),
                tokens: [
                    0x22, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED,
                    0xEE,
                    0xEF,
                    0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF,
                ].map { [$0] },
                end: Array("\"]".utf8),
                length: TestScale.size(3, thorough: 4)
            ),
            Language(name: "bytes", start: [], tokens: (0...255).map { [$0] }, end: [], length: 2),
            Language(
                name: "bytes in a string",
                start: Array("\"".utf8),
                tokens: (0...255).map { [$0] },
                end: Array("\"".utf8),
                length: 2
            ),
        ]
        // The scanner reads eight bytes of a string at a time, so every position of a byte in them counts.
        + (0..<8).map { count in
            Language(
                name: "bytes after \(count)",
                start: Array("\"".utf8) + Array(repeating: UInt8(ascii: "a"), count: count),
                tokens: (0...255).map { [$0] },
                end: Array("aaaaaaaa\"".utf8),
                length: count == 5 ? 2 : TestScale.size(1, thorough: 2)
            )
        }

    /// Each text of a language, in the order of the script.
    private struct Texts: Sequence, IteratorProtocol {
        let language: Language
        /// The tokens of the next text; nil after the last one.
        private var choice: [Int]? = []

        init(_ language: Language) { self.language = language }

        mutating func next() -> [UInt8]? {
            guard var choice = self.choice else { return nil }
            let text = self.language.start + choice.flatMap { self.language.tokens[$0] } + self.language.end
            if let last = choice.lastIndex(where: { $0 < self.language.tokens.count - 1 }) {
                choice[last] += 1
                for index in choice.index(after: last)..<choice.count { choice[index] = 0 }
                self.choice = choice
            } else {
                let longer = choice.count < self.language.length
                self.choice = longer ? Array(repeating: 0, count: choice.count + 1) : nil
            }
            return text
        }
    }

    @Test("The parser accepts what Python accepts, and decodes the same strings")
    func agreement() async throws {
        let output = try await Self.run(try JSONEncoder().encode(Self.languages))
        #expect(output.count == Self.languages.count)
        for (language, line) in zip(Self.languages, output) {
            let words = line.split(separator: " ")
            var accepted: [Int: Substring] = [:]
            for word in words.dropFirst() {
                let parts = word.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
                accepted[try #require(Int(parts[0]))] = parts.count > 1 ? parts[1] : "-"
            }
            #expect(accepted.count > 10, "\(language.name)")
            var differences: [String] = []
            var count = 0
            for bytes in Texts(language) {
                let wanted = accepted[count]
                let found: Substring? = bytes.withUnsafeBufferPointer { buffer in
                    var scanner = JSONScanner(buffer)
                    guard let slice = try? scanner.document() else { return nil }
                    guard slice.kind == .string else { return "-" }
                    return Substring(Data(scanner.text(slice).utf8).base64EncodedString())
                }
                if wanted != found { differences.append("\(String(decoding: bytes, as: UTF8.self)) \(bytes)") }
                count += 1
                if count.isMultiple(of: 1000) { await TestScale.letOthersRun() }
            }
            #expect(words.first.flatMap { Int($0) } == count, "\(language.name)")
            #expect(differences.isEmpty, "\(language.name): \(differences.count), first \(differences.prefix(5))")
        }
    }

    private static func run(_ input: Data) async throws -> [Substring] {
        let directory = FileManager.default.temporaryDirectory.appending(path: "json-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        // Files, since a full pipe without a reader blocks the writer.
        let output = directory.appending(path: "out")
        try input.write(to: directory.appending(path: "in"))
        try Data().write(to: output)
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["python3", "-c", Self.script]
        process.standardInput = try FileHandle(forReadingFrom: directory.appending(path: "in"))
        process.standardOutput = try FileHandle(forWritingTo: output)
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            process.terminationHandler = { _ in continuation.resume() }
            do {
                try process.start()
            } catch {
                process.terminationHandler = nil
                continuation.resume(throwing: error)
            }
        }
        return String(decoding: try Data(contentsOf: output), as: UTF8.self).split(separator: "\n")
    }
}

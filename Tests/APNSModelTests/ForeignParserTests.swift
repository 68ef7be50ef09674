import APNSModel
import Foundation
import TestSupport
import Testing

/// Python's strict json module reads what the encoder writes.
@Suite(
    .enabled(if: ForeignServer.isInstalled("python3"), "python3 is not installed"),
    .timeLimit(.minutes(2))
)
struct ForeignParserTests {
    /// Reads lines of `kind TAB ours TAB expected` and prints the number of each line that is wrong, with the reason.
    private static let script = #"""
        import base64, json, struct, sys

        def members(pairs):
            names = [name for name, _ in pairs]
            if len(set(names)) != len(names):
                raise ValueError("a key twice")
            return dict(pairs)

        def constant(word):
            raise ValueError("not JSON: " + word)

        def load(raw):
            return json.loads(raw.decode("utf-8", "strict"), object_pairs_hook=members, parse_constant=constant)

        def same(one, other):
            if type(one) is not type(other):
                return False
            if isinstance(one, dict):
                return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
            if isinstance(one, list):
                return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other))
            return one == other

        count = 0
        for number, line in enumerate(sys.stdin.buffer):
            count += 1
            try:
                kind, ours, expected = line.rstrip(b"\n").split(b"\t")
                value = load(ours)
                if kind == b"json":
                    good = same(value, load(expected))
                elif kind == b"text":
                    good = value == base64.b64decode(expected).decode("utf-8", "strict")
                elif kind == b"double":
                    good = struct.pack(">d", float(value)).hex() == expected.decode()
                elif kind == b"integer":
                    good = type(value) is int and value == int(expected)
                else:
                    good = False
                if not good:
                    print(number, "differs")
            except Exception as error:
                print(number, repr(error))
        print("read", count)
        """#

    /// Lines for Python, each with a name for the failure message.
    private struct Lines {
        private(set) var bytes = Data()
        private(set) var names: [String] = []

        mutating func add(_ kind: String, _ ours: Data, _ expected: Data, _ name: String) {
            bytes += Data("\(kind)\t".utf8) + ours + Data("\t".utf8) + expected + Data("\n".utf8)
            names.append(name)
        }
    }

    /// The JSON that `.custom(key:)` writes for a value.
    private func ours(_ value: some Encodable & Sendable) throws -> Data {
        let payload = try PushNotification(topic: "t").custom(key: "v", value).prepared(skippingValidation: true)
            .payload
        return Data(payload.dropFirst(#"{"aps":{},"v":"#.utf8.count).dropLast())
    }

    /// Runs the script and returns its output.
    private func run(_ lines: Lines) async throws -> [Substring] {
        let directory = FileManager.default.temporaryDirectory.appending(path: "json-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        // Files, since a full pipe without a reader blocks the writer.
        let input = directory.appending(path: "in")
        let output = directory.appending(path: "out")
        try lines.bytes.write(to: input)
        try Data().write(to: output)
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["python3", "-c", Self.script]
        process.standardInput = try FileHandle(forReadingFrom: input)
        process.standardOutput = try FileHandle(forWritingTo: output)
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            process.terminationHandler = { _ in continuation.resume() }
            do {
                try process.run()
            } catch {
                process.terminationHandler = nil
                continuation.resume(throwing: error)
            }
        }
        return String(decoding: try Data(contentsOf: output), as: UTF8.self).split(separator: "\n")
    }

    private func check(_ lines: Lines) async throws {
        let results = try await run(lines)
        #expect(results.last == "read \(lines.names.count)")
        for result in results.dropLast() {
            let words = result.split(separator: " ", maxSplits: 1)
            let name = words.first.flatMap { Int($0) }.map { lines.names[$0] }
            Issue.record("\(result): \(name ?? "no such line")")
        }
    }

    @Test func pythonReadsEncodedValues() async throws {
        let encoder = JSONEncoder()
        var lines = Lines()
        let run = PropertyRun(commands: 800, runs: 200)
        for seed in run.seeds {
            await TestScale.letOthersRun()
            var generator = SeededRandom(seed: seed)
            for _ in 0..<run.commandsPerRun {
                let value = Sample.random(depth: 4, using: &generator)
                try lines.add("json", ours(value), encoder.encode(value), run.replay(seed))
                let text = Sample.text(using: &generator)
                try lines.add("text", ours(text), Data(text.utf8).base64EncodedData(), run.replay(seed))
                let bits = generator.next()
                let double = Double(bitPattern: bits)
                if double.isFinite {
                    let digits = String(bits, radix: 16)
                    let hexadecimal = String(repeating: "0", count: 16 - digits.count) + digits
                    try lines.add("double", ours(double), Data(hexadecimal.utf8), "\(double)")
                }
                let whole = Int64(bitPattern: bits)
                try lines.add("integer", ours(whole), Data("\(whole)".utf8), "\(whole)")
                try lines.add("integer", ours(bits), Data("\(bits)".utf8), "\(bits)")
            }
        }
        try await check(lines)
    }

    /// Covers the typed writer too.
    @Test func pythonReadsNotifications() async throws {
        var lines = Lines()
        let run = PropertyRun(commands: 200, runs: 40)
        for seed in run.seeds {
            await TestScale.letOthersRun()
            var generator = SeededRandom(seed: seed)
            for _ in 0..<run.commandsPerRun {
                let text = Sample.text(using: &generator)
                let push = try PushNotification(
                    topic: "t",
                    alert: Alert(title: text, body: Sample.text(using: &generator), locArgs: [text, ""])
                )
                .badge(Int(generator.next() >> 1)).sound(.critical(name: text, volume: 0.125)).threadID(text)
                .aps(key: text + "?", Sample.random(depth: 2, using: &generator))
                .custom(key: text, Sample.random(depth: 2, using: &generator))
                .prepared(skippingValidation: true)
                // Foundation writes the expected document from the payload.
                let object = try JSONSerialization.jsonObject(with: Data(push.payload))
                let theirs = try JSONSerialization.data(withJSONObject: object)
                lines.add("json", Data(push.payload), theirs, run.replay(seed))
            }
        }
        try await check(lines)
    }

    /// The script detects wrong lines.
    @Test func theScriptDetectsWrongLines() async throws {
        var lines = Lines()
        for (kind, one, other) in [
            ("json", "1", "2"), ("json", "1", "1.0"), ("json", "{\"a\":1,\"a\":1}", "{\"a\":1}"),
            ("json", "NaN", "NaN"),
            ("json", "[1]", "[1,2]"), ("json", "\"\u{1}\"", "\"\u{1}\""), ("text", "\"a\"", "Yg=="), ("json", "{", "{"),
            ("double", "0.5", "0000000000000000"), ("integer", "1.0", "1"), ("other", "1", "1"),
        ] {
            lines.add(kind, Data(one.utf8), Data(other.utf8), one)
        }
        #expect(try await run(lines).count == lines.names.count + 1)
    }
}

@_spi(Relay) import APNSModel
import APNSPool
import ArgumentParser
import APNSTransport

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Describes what a run of `apns bulk` sends, and holds the id from which the `apns-id` of each line is derived.
///
/// It is in a file of its own beside the results, because rows have a fixed form and the process may be killed before
/// it writes the first row.
struct BulkJobManifest: Codable, Equatable, Sendable {
    /// The content of a token file, as far as changes to it matter.
    struct Tokens: Codable, Equatable, Sendable {
        var sha256: String
        /// The number of lines that are not blank.
        var lines: Int
    }

    /// A random id. The `apns-id` of a line is this id plus the line's number.
    var run: String
    var topic: String
    var pushType: String
    var payloadSHA256: String
    /// Nil for tokens from a pipe, which cannot be compared with those of a later run.
    var tokens: Tokens?

    init(id: APNSID = .random(), topic: String, pushType: String, payload: [UInt8], tokens: Tokens?) throws {
        self.run = id.description
        self.topic = topic
        self.pushType = pushType
        self.payloadSHA256 = try SHA256Digest.hexadecimal(of: payload)
        self.tokens = tokens
    }

    /// The id of a line's push: the run's 62 lower random bits plus the line's number. Every run that resumes the
    /// results uses the same ids. Two lines of a run never share an id; its form is that of RFC 9562, version 4.
    static func apnsID(run: APNSID, line: Int) -> APNSID {
        let mask: UInt64 = 0x3FFF_FFFF_FFFF_FFFF
        let low = (run.low & mask) &+ UInt64(truncatingIfNeeded: line)
        return APNSID(high: run.high, low: low & mask | 0x8000_0000_0000_0000)
    }

    /// Why the existing results do not belong to the requested run; nil if they do.
    func difference(from earlier: BulkJobManifest) -> String? {
        if let tokens, let earlierTokens = earlier.tokens, tokens != earlierTokens {
            return
                "--tokens: the file differs from that of the first run (it has \(tokens.lines) lines; the first run's "
                + "had \(earlierTokens.lines))"
        }
        if self.payloadSHA256 != earlier.payloadSHA256 {
            return "--payload: the payload differs from that of the first run"
        }
        if self.topic != earlier.topic {
            return "--topic: the first run used '\(earlier.topic)', not '\(self.topic)'"
        }
        if self.pushType != earlier.pushType {
            return "--push-type: the first run used '\(earlier.pushType)', not '\(self.pushType)'"
        }
        return nil
    }
}

/// The file beside the results that identifies their run.
struct BulkManifestFile: Sendable {
    let path: String

    init(results: String) {
        self.path = results + ".run"
    }

    /// Whether a file that begins with these bytes identifies a run. The keys are sorted.
    static func isOurs(_ bytes: [UInt8]) -> Bool { bytes.starts(with: #"{"payloadSHA256":"#.utf8) }

    /// Reads the file; nil if there is none.
    func read() throws -> (run: BulkJobManifest, id: APNSID)? {
        guard Files.exists(self.path) else { return nil }
        let bytes = try Files.contents(of: self.path, option: "--results", limit: 64 * 1024)
        guard let run = try? JSONDecoder().decode(BulkJobManifest.self, from: Data(bytes)), let id = APNSID(run.run)
        else {
            throw UsageError("--results: '\(self.path)' is damaged: it does not identify the run of the results.")
        }
        return (run, id)
    }

    /// Writes the file completely or not at all. It is on the disk when this returns.
    func write(_ run: BulkJobManifest) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        try Files.replace(self.path, with: Array(try encoder.encode(run)) + [UInt8(ascii: "\n")], option: "--results")
    }

    func remove() { Files.remove(self.path) }
}

extension BulkJobManifest.Tokens {
    /// Reads a regular file completely; nil for a pipe.
    init?(path: String, option: String) throws {
        guard path != "-", Files.isRegular(path) else { return nil }
        let descriptor = try Files.open(path).orUsageError(option, path)
        defer { SystemFile.close(descriptor) }
        let digest = try SHA256Digest()
        var lines = LineCount()
        var chunk = [UInt8](repeating: 0, count: 256 * 1024)
        while true {
            switch SystemFile.read(descriptor, into: &chunk) {
            case .failure(let error):
                throw InputOutputError(description: "\(option): '\(path)' cannot be read: \(error)")
            case .success(0):
                self.init(sha256: try digest.finish(), lines: lines.total)
                return
            case .success(let count):
                // Its lines would all be refused one by one.
                if lines.total == 0, (try? JSONFileText.utf8(Array(chunk.prefix(min(count, 2))))) == nil {
                    throw UsageError("\(option): '\(path)' is in UTF-16. Save it as UTF-8 or ASCII.")
                }
                try chunk.withUnsafeBytes { bytes in
                    let bytes = UnsafeRawBufferPointer(rebasing: bytes[..<count])
                    try digest.update(bytes)
                    lines.add(bytes)
                }
            }
        }
    }
}

/// Counts the lines that are not blank, as `LineReader` returns them.
struct LineCount {
    private var ended = 0
    private var isInLine = false

    var total: Int { self.ended + (self.isInLine ? 1 : 0) }

    mutating func add(_ bytes: UnsafeRawBufferPointer) {
        var position = 0
        while position < bytes.count {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[position...])
            let length = Files.firstLineEnd(in: rest) ?? rest.count
            if !self.isInLine { self.isInLine = !rest.prefix(length).allSatisfy(LineReader.isBlank) }
            position += length
            if position < bytes.count {
                if self.isInLine { self.ended += 1 }
                self.isInLine = false
                position += 1
            }
        }
    }
}

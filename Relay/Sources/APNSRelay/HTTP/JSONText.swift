@_spi(Relay) import APNSModel
import Synchronization

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A JSON text that becomes a part of a larger one, byte for byte: decoding it would change numbers such as `1e400`, the
/// order of members, and escape sequences.
///
/// Only `ResponseEncoder` can encode it.
struct JSONText: Encodable, Sendable {
    private let text: String

    /// - Parameter text: valid JSON. Any other text is encoded as a string.
    init(_ text: String) {
        self.text = text
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        let insertions = encoder.userInfo[ResponseEncoder.Insertions.key] as? ResponseEncoder.Insertions
        guard let insertions, Self.isValid(self.text) else { return try container.encode(self.text) }
        try container.encode(insertions.add(self.text))
    }

    private static func isValid(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { bytes in
            var scanner = JSONScanner(bytes)
            return (try? scanner.document()) != nil
        }
    }
}

/// Encodes the bodies of responses and of requests to webhooks. Keys are sorted, so that equal values have equal bytes.
struct ResponseEncoder {
    /// The texts that replace strings after the encoding.
    final class Insertions: Sendable {
        static let key = CodingUserInfoKey(rawValue: "insertions")!

        /// No other string of a body begins with it, because nobody can guess it.
        let marker = "\(UInt64.random(in: .min ... .max))-\(UInt64.random(in: .min ... .max))-"
        private let state = Mutex<[String]>([])

        var texts: [String] { self.state.withLock { $0 } }

        /// Returns the string that the text replaces.
        func add(_ text: String) -> String {
            self.state.withLock { texts in
                texts.append(text)
                return self.marker + "\(texts.count - 1)"
            }
        }
    }

    static func encode(_ value: some Encodable) throws -> [UInt8] {
        let insertions = Insertions()
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.userInfo[Insertions.key] = insertions
        let body = Array(try encoder.encode(value))
        return Self.inserting(insertions.texts, for: "\"" + insertions.marker, in: body)
    }

    private static func inserting(_ texts: [String], for marker: String, in body: [UInt8]) -> [UInt8] {
        guard !texts.isEmpty else { return body }
        let marker = Array(marker.utf8)
        var result: [UInt8] = []
        result.reserveCapacity(body.count + texts.reduce(0) { $0 + $1.utf8.count })
        var done = 0
        var index = 0
        while index < body.count {
            let quote = UInt8(ascii: "\"")
            guard body[index] == quote, body[index...].starts(with: marker),
                let end = body[(index + 1)...].firstIndex(of: quote),
                let number = Int(String(decoding: body[(index + marker.count)..<end], as: UTF8.self))
            else {
                index += 1
                continue
            }
            result += body[done..<index]
            result += Array(texts[number].utf8)
            index = end + 1
            done = index
        }
        return result + body[done...]
    }
}

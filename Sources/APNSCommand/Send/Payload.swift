import ArgumentParser

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A payload from a file or standard input.
enum Payload {
    /// The largest payload read, in bytes: far larger than APNs accepts, but small enough that a wrong file does not
    /// fill the memory.
    private static let limit = 1024 * 1024

    /// Reads the bytes, which are sent unchanged. They must be a JSON object.
    static func read(_ path: String) throws -> [UInt8] {
        let bytes = try Files.contents(of: path, option: "--payload", limit: self.limit)
        do {
            _ = try JSONDecoder().decode(AnyObjectOfJSON.self, from: Data(bytes))
        } catch {
            throw UsageError(
                "--payload: \(Files.name(path)) holds no JSON object, such as {\"aps\":{\"alert\":\"Hello\"}}."
            )
        }
        return bytes
    }

    private struct AnyObjectOfJSON: Decodable {
        private struct Key: CodingKey {
            var stringValue: String
            var intValue: Int? { nil }
            init?(stringValue: String) { self.stringValue = stringValue }
            init?(intValue: Int) { nil }
        }

        init(from decoder: any Decoder) throws {
            _ = try decoder.container(keyedBy: Key.self)
        }
    }
}

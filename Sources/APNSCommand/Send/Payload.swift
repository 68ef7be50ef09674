import ArgumentParser

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A payload that somebody wrote, from a file or standard input.
enum Payload {
    /// Far more than APNs takes, so that a wrong file does not fill the memory.
    private static let limit = 1024 * 1024

    /// The bytes, which are sent as they are. They must be a JSON object.
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

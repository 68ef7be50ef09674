@_spi(Relay) import APNSModel
import ArgumentParser

/// A payload from a file or standard input.
enum Payload {
    /// The largest payload read, in bytes: far larger than APNs accepts, but small enough that a wrong file does not
    /// fill the memory.
    private static let limit = 1024 * 1024

    /// Reads the bytes, which are sent unchanged. They must be a JSON object.
    static func read(_ path: String) throws -> [UInt8] {
        let bytes = try Files.contents(of: path, option: "--payload", limit: self.limit)
        do throws(JSONScanner.Failure) {
            try JSONParser.checkObject(bytes)
        } catch {
            throw UsageError(
                "--payload: \(Files.name(path)) holds no JSON object, such as {\"aps\":{\"alert\":\"Hello\"}}. "
                    + "At byte \(error.offset + 1): \(error)."
            )
        }
        return bytes
    }
}

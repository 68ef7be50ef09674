@_spi(Relay) import APNSModel
import ArgumentParser

/// A payload from a file or standard input.
enum Payload {
    /// The largest payload read, in bytes: far larger than APNs accepts, but small enough that a wrong file does not
    /// fill the memory.
    private static let limit = 1024 * 1024

    /// Reads the bytes, which are sent unchanged, except for a byte order mark. They must be a JSON object.
    static func read(_ path: String) throws -> [UInt8] {
        let contents = try Files.contents(of: path, option: "--payload", limit: self.limit)
        let bytes: [UInt8]
        do throws(JSONScanner.Failure) {
            bytes = try JSONFileText.utf8(contents)
            try JSONParser.checkObject(bytes)
        } catch {
            throw UsageError(
                "--payload: \(Files.name(path)) holds no JSON object, such as {\"aps\":{\"alert\":\"Hello\"}}. "
                    + "At byte \(error.offset + 1): \(error)."
            )
        }
        return bytes
    }

    // MARK: Payloads over the limit

    /// A sentence to add to an error; empty unless the payload is too large because of its blanks.
    static func blanksNote(_ error: APNSModel.ValidationError, _ payload: [UInt8]?) -> String {
        guard error.code == .payloadTooLarge, let payload, let limit = error.limit else { return "" }
        return self.blanksNote(payload, limit: limit)
    }

    /// A sentence to add to an error; empty unless the payload is over the limit and has blanks between its values.
    static func blanksNote(_ payload: [UInt8], limit: Int) -> String {
        let size = self.sizeWithoutBlanks(payload)
        guard payload.count > limit, size < payload.count else { return "" }
        let remedy = size <= limit ? ": remove them, for example with 'jq -c .'" : ""
        return " Without the blanks between its values it has \(size) bytes\(remedy)."
    }

    /// The size of a valid JSON text without blanks outside of strings.
    static func sizeWithoutBlanks(_ json: [UInt8]) -> Int {
        var size = 0
        var isInString = false
        var isEscaped = false
        for byte in json {
            if isInString {
                if byte == UInt8(ascii: "\""), !isEscaped { isInString = false }
                isEscaped = byte == UInt8(ascii: "\\") && !isEscaped
            } else if byte == UInt8(ascii: "\"") {
                isInString = true
            } else if [0x20, 0x09, 0x0A, 0x0D].contains(byte) {
                continue
            }
            size += 1
        }
        return size
    }
}

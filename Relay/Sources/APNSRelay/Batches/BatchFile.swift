@_spi(Relay) import APNSModel
import Crypto
import Foundation

/// A batch in two files: its JSON object, and the devices, one a line. A device is a JSON string, a JSON object, or just the
/// hexadecimal digits of a device token.
package struct BatchFile: Sendable {
    private static let part = 65_536

    /// The batch on one line. It has an idempotency key.
    let object: [UInt8]
    let devices: String
    /// The number of devices.
    package let count: Int

    /// Reads the batch, and the devices once to count them.
    ///
    /// A batch without an idempotency key gets one that depends on the contents of both files, so that the command can be
    /// repeated. If it has no name either, it gets the name of its file.
    ///
    /// - Throws: `BatchFileError`.
    package init(batch: String, devices: String) throws(BatchFileError) {
        let text = try Self.contents(batch)
        let members = try Self.members(text, batch)
        var hash = SHA256()
        hash.update(data: text)
        let reader = try LineReader(devices)
        while let line = try reader.next() { hash.update(data: line) }
        guard reader.count > 0 else { throw BatchFileError("\(devices): the file has no devices.") }
        // On one line: JSON has line breaks only between its parts.
        var object = text.map { $0 == 0x0A || $0 == 0x0D ? 0x20 : $0 }
        if !members.contains("idempotencyKey"), let start = object.firstIndex(of: UInt8(ascii: "{")) {
            let key = hash.finalize().prefix(16).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
            var added = "\"idempotencyKey\":\"\(key)\""
            let name = URL(fileURLWithPath: batch).lastPathComponent
            if !members.contains("name"), BatchIntake.isName(name) {
                added += ",\"name\":\(try Self.json(name, batch))"
            }
            object.insert(contentsOf: Array("\(added)\(members.isEmpty ? "" : ",")".utf8), at: start + 1)
        }
        self.object = object
        self.devices = devices
        self.count = reader.count
    }

    /// The names of the members of the batch.
    private static func members(_ text: Data, _ path: String) throws(BatchFileError) -> Set<String> {
        let names: Set<String>? = Array(text).withUnsafeBufferPointer { bytes in
            var scanner = JSONScanner(bytes)
            var members: [JSONScanner.Member] = []
            guard (try? scanner.object(into: &members)) != nil else { return nil }
            return Set(members.map { scanner.text($0.key) })
        }
        guard let names else {
            throw BatchFileError("\(path): expected a JSON object, the batch. Relay/API.md describes it.")
        }
        return names
    }

    private static func json(_ text: String, _ path: String) throws(BatchFileError) -> String {
        do {
            return String(decoding: try JSONEncoder().encode(text), as: UTF8.self)
        } catch {
            throw BatchFileError("\(path): \(error)")
        }
    }

    private static func contents(_ path: String) throws(BatchFileError) -> Data {
        do {
            return try Data(contentsOf: URL(fileURLWithPath: path))
        } catch {
            throw BatchFileError("\(path): \(error)")
        }
    }

    /// The parts of the request's body; nil at its end.
    ///
    /// - Parameter whenRead: receives the number of devices that were read.
    func body(
        whenRead: @escaping @Sendable (Int) -> Void
    ) throws(BatchFileError) -> @Sendable () throws -> [UInt8]? {
        let object = self.object
        let reader = try LineReader(self.devices)
        return {
            var part: [UInt8] = []
            if reader.count == 0 { part += object + [UInt8(ascii: "\n")] }
            while part.count < Self.part, let line = try reader.next() {
                let isJSON = line.first == UInt8(ascii: "{") || line.first == UInt8(ascii: "\"")
                if !isJSON { part.append(UInt8(ascii: "\"")) }
                part += line
                if !isJSON { part.append(UInt8(ascii: "\"")) }
                part.append(UInt8(ascii: "\n"))
            }
            whenRead(reader.count)
            return part.isEmpty ? nil : part
        }
    }

    /// Reads the lines of a file that have content.
    ///
    /// `@unchecked Sendable`: `init` of the batch, or the one request with the body, uses it, and one call follows the other.
    private final class LineReader: @unchecked Sendable {
        private let path: String
        private let file: FileHandle
        private var splitter = LineSplitter()
        private var isAtEnd = false
        /// The number of lines that were read.
        private(set) var count = 0

        init(_ path: String) throws(BatchFileError) {
            guard let file = FileHandle(forReadingAtPath: path) else {
                throw BatchFileError("\(path): the file cannot be opened.")
            }
            self.path = path
            self.file = file
        }

        deinit { try? self.file.close() }

        func next() throws(BatchFileError) -> ArraySlice<UInt8>? {
            while true {
                if let line = self.splitter.next() {
                    self.count += 1
                    return line.text
                }
                if self.isAtEnd { return nil }
                do {
                    let part = try self.file.read(upToCount: BatchFile.part) ?? Data()
                    self.splitter.append(part)
                    self.isAtEnd = part.isEmpty
                } catch {
                    throw BatchFileError("\(self.path): \(error)")
                }
                if self.isAtEnd { self.splitter.finish() }
            }
        }
    }
}

/// An error in the files of a batch.
package struct BatchFileError: Error, CustomStringConvertible {
    package let description: String

    init(_ description: String) {
        self.description = description
    }
}

@_spi(Relay) import APNSModel
import Crypto
import Foundation
import NIOCore

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
    /// repeated.
    ///
    /// - Throws: `BatchFileError`.
    package init(batch: String, devices: String) throws(BatchFileError) {
        let text = try Self.contents(batch)
        let members = try Self.members(text, batch)
        var hash = SHA256()
        hash.update(data: text)
        var count = 0
        let reader = try LineReader(devices)
        while let line = try reader.next() {
            hash.update(data: line)
            count += 1
        }
        guard count > 0 else { throw BatchFileError("\(devices): the file has no devices.") }
        // On one line: JSON has line breaks only between its parts.
        var object = text.map { $0 == 0x0A || $0 == 0x0D ? 0x20 : $0 }
        if !members.contains("idempotencyKey"), let start = object.firstIndex(of: UInt8(ascii: "{")) {
            let key = hash.finalize().prefix(16).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
            object.insert(
                contentsOf: Array("\"idempotencyKey\":\"\(key)\"\(members.isEmpty ? "" : ",")".utf8),
                at: start + 1
            )
        }
        self.object = object
        self.devices = devices
        self.count = count
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
            throw BatchFileError("\(path): expected a JSON object, the batch. Relay/README.md describes it.")
        }
        return names
    }

    private static func contents(_ path: String) throws(BatchFileError) -> Data {
        do {
            return try Data(contentsOf: URL(fileURLWithPath: path))
        } catch {
            throw BatchFileError("\(path): \(error)")
        }
    }

    /// The body of the request.
    ///
    /// - Parameter whenRead: receives the number of devices that were read.
    func body(whenRead: @escaping @Sendable (Int) -> Void) throws(BatchFileError) -> AsyncThrowingStream<
        ByteBuffer, any Error
    > {
        let reader = try LineReader(self.devices)
        let object = self.object
        let state = BodyState()
        return AsyncThrowingStream {
            var buffer = ByteBuffer()
            if state.isFirst {
                state.isFirst = false
                buffer.writeBytes(object)
                buffer.writeInteger(UInt8(ascii: "\n"))
            }
            while buffer.readableBytes < Self.part, let line = try reader.next() {
                state.count += 1
                let isJSON = line.first == UInt8(ascii: "{") || line.first == UInt8(ascii: "\"")
                if !isJSON { buffer.writeInteger(UInt8(ascii: "\"")) }
                buffer.writeBytes(line)
                if !isJSON { buffer.writeInteger(UInt8(ascii: "\"")) }
                buffer.writeInteger(UInt8(ascii: "\n"))
            }
            whenRead(state.count)
            return buffer.readableBytes > 0 ? buffer : nil
        }
    }

    /// Only the stream's closure uses it, which runs once at a time.
    private final class BodyState: @unchecked Sendable {
        var isFirst = true
        var count = 0
    }

    /// Reads the lines of a file that have content, without blanks around them. One task at a time uses it.
    private final class LineReader: @unchecked Sendable {
        private let path: String
        private let file: FileHandle
        private var buffer: [UInt8] = []
        private var position = 0
        private var isAtEnd = false

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
                if let end = self.buffer[self.position...].firstIndex(of: UInt8(ascii: "\n")) {
                    let line = Self.withoutBlanks(self.buffer[self.position..<end])
                    self.position = end + 1
                    if !line.isEmpty { return line }
                } else if self.isAtEnd {
                    let line = Self.withoutBlanks(self.buffer[self.position...])
                    self.position = self.buffer.count
                    return line.isEmpty ? nil : line
                } else {
                    try self.readMore()
                }
            }
        }

        private func readMore() throws(BatchFileError) {
            self.buffer.removeFirst(self.position)
            self.position = 0
            do {
                let data = try self.file.read(upToCount: BatchFile.part) ?? Data()
                self.isAtEnd = data.isEmpty
                self.buffer += data
            } catch {
                throw BatchFileError("\(self.path): \(error)")
            }
        }

        private static func withoutBlanks(_ line: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
            let isBlank = { (byte: UInt8) in [0x20, 0x09, 0x0D].contains(byte) }
            guard let last = line.lastIndex(where: { !isBlank($0) }) else { return [] }
            return line[...last].drop(while: isBlank)
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

import APNSPool

/// Reads a text file line by line, however long it is, in bounded memory.
///
/// It also reads from pipes whose writer takes its time: `next()` then says `stalled` instead of blocking.
final class LineReader {
    enum Next: Equatable {
        /// Without its line end, with the number that editors show.
        case line(String, number: Int)
        /// Nothing is there; there may be more later.
        case stalled
        case end
    }

    /// What is beyond in a line is dropped: it is no device token anyway.
    static let maximumLineLength = 4096

    private let descriptor: Int32
    private let ownsDescriptor: Bool
    private var chunk: [UInt8]
    private var position = 0
    private var filled = 0
    private var line: [UInt8] = []
    private var number = 0
    private var isOver = false
    /// Why reading ended before the end of the file.
    private(set) var failure: SystemError?

    /// Opens the file, or takes standard input for `-`.
    init(path: String, option: String, chunkSize: Int = 64 * 1024) throws {
        self.ownsDescriptor = path != "-"
        self.descriptor = path == "-" ? ToolProcess.current.input : try Files.open(path).orUsageError(option, path)
        self.chunk = [UInt8](repeating: 0, count: max(chunkSize, 1))
    }

    deinit {
        if self.ownsDescriptor { SystemFile.close(self.descriptor) }
    }

    /// The next line that is not blank. Blank lines count in the numbers.
    func next() -> Next {
        while !self.isOver {
            while self.position < self.filled {
                let byte = self.chunk[self.position]
                self.position += 1
                if byte == UInt8(ascii: "\n") {
                    if let line = self.takeLine() { return line }
                } else if self.line.count < Self.maximumLineLength {
                    self.line.append(byte)
                }
            }
            guard Files.isReadable(self.descriptor, withinMilliseconds: 0) else { return .stalled }
            self.fill()
        }
        return self.takeLine() ?? .end
    }

    /// Returns when there may be something to read. Blocks.
    func waitForInput() {
        _ = Files.isReadable(self.descriptor, withinMilliseconds: 1000)
    }

    private func fill() {
        self.position = 0
        self.filled = 0
        switch SystemFile.read(self.descriptor, into: &self.chunk) {
        case .success(0): self.isOver = true
        case .success(let count): self.filled = count
        case .failure(let error):
            self.failure = error
            self.isOver = true
            // Half a line is none.
            self.line.removeAll()
        }
    }

    private func takeLine() -> Next? {
        self.number += 1
        defer { self.line.removeAll(keepingCapacity: true) }
        var bytes = self.line[...]
        if self.number == 1, bytes.starts(with: [0xEF, 0xBB, 0xBF]) { bytes = bytes.dropFirst(3) }
        while let last = bytes.last, Self.isBlank(last) { bytes = bytes.dropLast() }
        while let first = bytes.first, Self.isBlank(first) { bytes = bytes.dropFirst() }
        return bytes.isEmpty ? nil : .line(String(decoding: bytes, as: UTF8.self), number: self.number)
    }

    private static func isBlank(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") || byte == UInt8(ascii: "\r")
    }
}

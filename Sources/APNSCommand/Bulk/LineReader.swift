import APNSPool

/// Reads a text file of any length line by line, in bounded memory.
///
/// It also reads from pipes with slow writers: `next()` then returns `stalled` instead of blocking.
final class LineReader {
    enum Next: Equatable {
        /// A line without its line end and without blanks around it, with its number as editors show it.
        case line(String, number: Int)
        /// No input is available now; more may follow.
        case stalled
        case end
    }

    /// The longest line in bytes. Any bytes beyond are dropped: such a line is not a device token.
    static let maximumLineLength = 4096

    private let descriptor: Int32
    private let ownsDescriptor: Bool
    private var chunk: [UInt8]
    private var position = 0
    private var filled = 0
    private var line: [UInt8] = []
    private var number = 0
    private var isOver = false
    /// The error that ended reading before the end of the file.
    private(set) var failure: SystemError?

    /// Opens the file; `-` stands for standard input.
    init(path: String, option: String, chunkSize: Int = 64 * 1024) throws {
        self.ownsDescriptor = path != "-"
        self.descriptor = path == "-" ? ToolProcess.current.input : try Files.open(path).orUsageError(option, path)
        self.chunk = [UInt8](repeating: 0, count: max(chunkSize, 1))
    }

    deinit {
        if self.ownsDescriptor { SystemFile.close(self.descriptor) }
    }

    /// The next line that is not blank. Blank lines count in the line numbers.
    func next() -> Next {
        while !self.isOver {
            while self.position < self.filled {
                let rest = self.chunk[self.position..<self.filled]
                let end = rest.firstIndex(of: UInt8(ascii: "\n"))
                let piece = rest[..<(end ?? self.filled)]
                self.line.append(contentsOf: piece.prefix(Self.maximumLineLength - self.line.count))
                self.position = end.map { $0 + 1 } ?? self.filled
                if end != nil, let line = self.takeLine() { return line }
            }
            guard Files.isReadable(self.descriptor, withinMilliseconds: 0) else { return .stalled }
            self.fill()
        }
        return self.takeLine() ?? .end
    }

    /// Blocks until input is available, or for one second.
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
            // An incomplete line is discarded.
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

    static func isBlank(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") || byte == UInt8(ascii: "\r")
    }
}

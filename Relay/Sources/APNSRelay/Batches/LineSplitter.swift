/// Finds the lines of a text that arrives in parts. Lines without content are left out.
struct LineSplitter {
    struct Line {
        /// The line without blanks around it.
        var text: ArraySlice<UInt8>
        /// Its number in the whole text, counted from 1.
        var number: Int
    }

    private var buffer: [UInt8] = []
    private var position = 0
    /// The number of lines that were found, also those without content.
    private(set) var number = 0
    private var isComplete = false

    /// The number of bytes after the last line that was returned.
    var pending: Int { self.buffer.count - self.position }

    mutating func append(_ part: some Collection<UInt8>) {
        self.buffer.removeFirst(self.position)
        self.position = 0
        self.buffer += part
    }

    /// There are no more parts.
    mutating func finish() { self.isComplete = true }

    /// The next line; nil if more parts are needed, or after the last line.
    mutating func next() -> Line? {
        while self.position < self.buffer.count {
            let rest = self.buffer[self.position...]
            guard let end = rest.firstIndex(of: UInt8(ascii: "\n")) ?? (self.isComplete ? rest.endIndex : nil) else {
                return nil
            }
            self.position = min(end + 1, self.buffer.count)
            self.number += 1
            let text = Self.withoutBlanks(rest[..<end])
            if !text.isEmpty { return Line(text: text, number: self.number) }
        }
        return nil
    }

    private static func withoutBlanks(_ line: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let isBlank = { (byte: UInt8) in [0x20, 0x09, 0x0D].contains(byte) }
        guard let last = line.lastIndex(where: { !isBlank($0) }) else { return [] }
        return line[...last].drop(while: isBlank)
    }
}

/// Reads one tag, length and content after another (X.690). Ends at the first that does not fit.
package struct DERReader {
    /// `whole` begins with the tag.
    package struct Element {
        package var tag: UInt8
        package var content: ArraySlice<UInt8>
        package var whole: ArraySlice<UInt8>
    }

    package static let integer: UInt8 = 0x02
    package static let utf8String: UInt8 = 0x0C
    package static let sequence: UInt8 = 0x30
    /// Constructed, context-specific, number 0.
    package static let context0: UInt8 = 0xA0

    private var rest: ArraySlice<UInt8>

    package init(_ bytes: ArraySlice<UInt8>) {
        self.rest = bytes
    }

    package mutating func next() -> Element? {
        let start = self.rest
        guard let tag = self.rest.popFirst(), let first = self.rest.popFirst() else { return nil }
        var length = Int(first)
        if first >= 0x80 {
            guard (0x81...0x83).contains(first) else { return nil }
            length = 0
            for _ in 0..<Int(first & 0x7F) {
                guard let byte = self.rest.popFirst() else { return nil }
                length = length << 8 | Int(byte)
            }
        }
        guard length <= self.rest.count else { return nil }
        let content = self.rest.prefix(length)
        self.rest = self.rest.dropFirst(length)
        return Element(tag: tag, content: content, whole: start[..<content.endIndex])
    }
}

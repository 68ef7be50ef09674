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
        let bytes = self.rest
        // By indices, since a debug build takes long for slices of slices, and a bundle of roots has a thousand elements.
        var index = bytes.startIndex
        let end = bytes.endIndex
        guard end - index >= 2 else { return nil }
        let tag = bytes[index]
        var length = Int(bytes[index + 1])
        index += 2
        if length >= 0x80 {
            guard (0x81...0x83).contains(length) else { return nil }
            let digits = length & 0x7F
            guard end - index >= digits else { return nil }
            length = 0
            for _ in 0..<digits {
                length = length << 8 | Int(bytes[index])
                index += 1
            }
        }
        guard length <= end - index else { return nil }
        let next = index + length
        self.rest = bytes[next...]
        return Element(tag: tag, content: bytes[index..<next], whole: bytes[bytes.startIndex..<next])
    }
}

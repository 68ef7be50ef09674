/// Encodes values as CBOR (RFC 8949), in the shortest form.
package enum CBOREncoder {
    package static func bytes(_ bytes: [UInt8]) -> [UInt8] { self.head(2, bytes.count) + bytes }

    package static func text(_ text: String) -> [UInt8] { self.head(3, text.utf8.count) + text.utf8 }

    package static func array(_ elements: [[UInt8]]) -> [UInt8] { self.head(4, elements.count) + elements.joined() }

    package static func map(_ members: [(String, [UInt8])]) -> [UInt8] {
        self.head(5, members.count) + members.flatMap { self.text($0.0) + $0.1 }
    }

    package static func head(_ kind: UInt8, _ count: Int) -> [UInt8] {
        switch count {
        case ..<24: [kind << 5 | UInt8(count)]
        case ..<256: [kind << 5 | 24, UInt8(count)]
        default: [kind << 5 | 25, UInt8(count >> 8), UInt8(count & 0xFF)]
        }
    }
}

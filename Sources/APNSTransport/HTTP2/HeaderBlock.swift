import CAPNSNghttp2

/// Header fields that are created once and sent many times.
package final class HeaderBlock: Sendable {
    /// How HPACK encodes a field (RFC 7541, section 6.2).
    package enum Indexing: Sendable {
        /// The field repeats, so it is added to the peer's table.
        case indexed
        /// The value does not repeat, or is secret, so the field is never indexed.
        case never
    }

    package struct Field: Sendable {
        package var name: String
        package var value: String
        package var indexing: Indexing

        package init(_ name: String, _ value: String, _ indexing: Indexing = .indexed) {
            self.name = name
            self.value = value
            self.indexing = indexing
        }
    }

    /// A field, with everything about its encoding that does not depend on the peer's table.
    struct Line: Sendable {
        /// The index of the field in the static table; 0 if it is not there.
        var staticIndex: Int
        /// The index of the name in the static table; 0 if it is not there.
        var nameIndex: Int
        var name: [UInt8]
        var value: [UInt8]
        /// The encoded field if it is never indexed; otherwise nil.
        var literal: [UInt8]?
    }

    let lines: [Line]
    /// The most bytes that the encoded fields have.
    let byteLimit: Int

    /// - Parameter fields: Names in lower case, pseudo-header fields (such as `:method`) first (RFC 9113, section 8.3).
    package init(_ fields: [Field]) {
        self.lines = fields.map { field in
            let (name, value) = (Array(field.name.utf8), Array(field.value.utf8))
            // A credential would fill the table, and Apple asks not to index it.
            let isNever = field.indexing == .never || field.name == "authorization"
            return Line(
                staticIndex: isNever ? 0 : StaticTable.index(name: field.name, value: field.value),
                nameIndex: StaticTable.index(name: field.name),
                name: name,
                value: value,
                literal: isNever ? Self.neverIndexed(name, value) : nil
            )
        }
        self.byteLimit = self.lines.reduce(0) {
            $0 + HeaderEncoder.byteLimit(name: $1.name.count, value: $1.value.count)
        }
    }

    /// Encodes a field that is never indexed. Uses nghttp2's encoder for its Huffman code, which is slow but makes the
    /// field shorter. A block is encoded once and sent many times.
    private static func neverIndexed(_ name: [UInt8], _ value: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = []
        var deflater: OpaquePointer?
        guard nghttp2_hd_deflate_new(&deflater, Int(NGHTTP2_DEFAULT_HEADER_TABLE_SIZE)) == 0, let deflater else {
            return HeaderEncoder.neverIndexed(name, value)
        }
        defer { nghttp2_hd_deflate_del(deflater) }
        var (name, value) = (name, value)
        let count = name.withUnsafeMutableBufferPointer { name in
            value.withUnsafeMutableBufferPointer { value in
                var field = nghttp2_nv(
                    name: name.baseAddress,
                    value: value.baseAddress,
                    namelen: name.count,
                    valuelen: value.count,
                    flags: UInt8(NGHTTP2_NV_FLAG_NO_INDEX.rawValue)
                )
                bytes = Array(repeating: 0, count: nghttp2_hd_deflate_bound(deflater, &field, 1))
                return capns_hd_deflate(deflater, &bytes, bytes.count, &field)
            }
        }
        guard count > 0 else { return HeaderEncoder.neverIndexed(name, value) }
        return Array(bytes.prefix(count))
    }
}

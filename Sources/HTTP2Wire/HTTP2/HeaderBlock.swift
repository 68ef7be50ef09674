import CAPNSNghttp2

/// Header fields that are created once and sent many times: names and values at fixed addresses, in nghttp2's form.
///
/// `@unchecked Sendable`: the memory is written only in `init`, freed in `deinit`, and read-only in between. nghttp2
/// does not copy it (NO_COPY), so the submitter of a block must retain it until nghttp2 has produced the HEADERS, or
/// until the stream is closed.
package final class HeaderBlock: @unchecked Sendable {
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

    let fields: UnsafeBufferPointer<nghttp2_nv>
    private let bytes: UnsafeMutablePointer<UInt8>

    /// - Parameter fields: Names in lower case, pseudo-header fields (such as `:method`) first (RFC 9113, section 8.3).
    package init(_ fields: [Field]) {
        let total = fields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count }
        let bytes = UnsafeMutablePointer<UInt8>.allocate(capacity: max(total, 1))
        let entries = UnsafeMutableBufferPointer<nghttp2_nv>.allocate(capacity: fields.count)
        var end = bytes
        func place(_ text: String) -> (UnsafeMutablePointer<UInt8>, Int) {
            let start = end
            for byte in text.utf8 {
                end.initialize(to: byte)
                end += 1
            }
            return (start, start.distance(to: end))
        }
        for (index, field) in fields.enumerated() {
            let name = place(field.name)
            let value = place(field.value)
            var flags = NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue
            if field.indexing == .never { flags |= NGHTTP2_NV_FLAG_NO_INDEX.rawValue }
            entries.initializeElement(
                at: index,
                to: nghttp2_nv(
                    name: name.0,
                    value: value.0,
                    namelen: name.1,
                    valuelen: value.1,
                    flags: UInt8(truncatingIfNeeded: flags)
                )
            )
        }
        self.bytes = bytes
        self.fields = UnsafeBufferPointer(entries)
    }

    deinit {
        self.fields.deallocate()
        self.bytes.deallocate()
    }
}

/// Reads DER (X.690) with OpenSSL's `d2i_…` functions.
package enum DER {
    /// The first byte of a SEQUENCE, and therefore of every key and certificate.
    package static let sequence: UInt8 = 0x30

    /// What may be taken for a private key.
    package enum Content: Sendable {
        case certificate, certificateRequest, pkcs12
    }

    /// Guesses the content from its first elements. Nil for anything else, such as a private key.
    package static func content(of bytes: [UInt8]) -> Content? {
        // A PFX begins with its version, 3 (RFC 7292, section 4).
        let outer = self.contents(of: bytes[...])
        if outer.starts(with: [0x02, 0x01, 0x03]) { return .pkcs12 }
        guard outer.first == self.sequence else { return nil }
        // A certificate begins with [0] for its version (RFC 5280, section 4.1); a request with the version 0 (RFC 2986,
        // section 4.1).
        let inner = self.contents(of: outer)
        if inner.first == 0xA0 { return .certificate }
        return inner.starts(with: [0x02, 0x01, 0x00]) ? .certificateRequest : nil
    }

    /// The bytes after the tag and the length of a SEQUENCE; empty for anything else.
    private static func contents(of bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        guard bytes.first == self.sequence, let length = bytes.dropFirst().first else { return [] }
        return bytes.dropFirst(length < 0x80 ? 2 : 2 + Int(length & 0x7F))
    }

    /// Reads one value from the beginning of `bytes`.
    ///
    /// - Parameter decode: Calls the OpenSSL function, which moves the pointer behind the bytes that it has read.
    /// - Returns: The value and the number of bytes after it; `nil` if the bytes do not begin with such a value.
    static func read<Value>(
        _ bytes: ArraySlice<UInt8>,
        _ decode: (inout UnsafePointer<UInt8>?, Int) -> Value?
    ) -> (value: Value, rest: Int)? {
        bytes.withUnsafeBufferPointer { buffer in
            var next = buffer.baseAddress
            guard let value = decode(&next, buffer.count) else { return nil }
            guard let start = buffer.baseAddress, let next else { return (value, 0) }
            return (value, buffer.count - (next - start))
        }
    }
}

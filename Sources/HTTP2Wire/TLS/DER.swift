/// Reads DER (X.690) with OpenSSL's `d2i_…` functions.
package enum DER {
    /// The first byte of a SEQUENCE, and therefore of every key and certificate.
    package static let sequence: UInt8 = 0x30

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

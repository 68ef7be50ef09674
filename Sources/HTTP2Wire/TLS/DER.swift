/// Reading DER (X.690) with OpenSSL's `d2i_…` functions.
package enum DER {
    /// The first byte of a SEQUENCE, and so of every key and certificate.
    package static let sequence: UInt8 = 0x30

    /// - Parameter decode: the call of the function. It moves the pointer behind what it has read.
    /// - Returns: what was read, and how many bytes stand behind it; nil: the bytes begin with something else.
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

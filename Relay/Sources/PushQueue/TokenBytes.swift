package import APNSModel

/// Converts device tokens to bytes and back. Bytes take half the space of hexadecimal digits.
package enum TokenBytes {
    package static func bytes(of token: DeviceToken) -> [UInt8] {
        let digits = token.hexadecimal.utf8
        return [UInt8](unsafeUninitializedCapacity: digits.count / 2) { buffer, count in
            var high: UInt8?
            for digit in digits {
                let value = digit < 0x3A ? digit &- 0x30 : digit &- 0x57
                if let first = high {
                    buffer[count] = first << 4 | value
                    count += 1
                    high = nil
                } else {
                    high = value
                }
            }
        }
    }

    /// Nil if the bytes are not a device token.
    package static func token(_ bytes: UnsafeRawBufferPointer) -> DeviceToken? {
        guard bytes.count <= DeviceToken.maximumDigits / 2 else { return nil }
        let digits = String(unsafeUninitializedCapacity: bytes.count * 2) { buffer in
            var position = 0
            for byte in bytes {
                buffer[position] = self.digit(byte >> 4)
                buffer[position + 1] = self.digit(byte & 0xF)
                position += 2
            }
            return position
        }
        return try? DeviceToken(digits)
    }

    private static func digit(_ value: UInt8) -> UInt8 { value < 10 ? value &+ 0x30 : value &+ 0x57 }
}

#if canImport(CryptoKit) || Sealing
    /// The plaintext that is encrypted: the content with its time and length, padded with zeros to the size.
    ///
    ///     offset  bytes
    ///     0       6      when it was sealed: milliseconds since 1970, big-endian
    ///     6       2      n, the length of the content, big-endian
    ///     8       n      the content
    ///     8 + n   …      zeros
    struct Frame {
        static let overhead = 8

        /// The lengths that the length field can express, without empty content.
        static let contentLimits = 1...0xFFFF

        let time: Milliseconds
        let content: [UInt8]

        /// The frame, `count` bytes long. The content must fit, which `PayloadSealer` has already checked.
        static func bytes(_ content: [UInt8], time: Milliseconds, count: Int) -> [UInt8] {
            var bytes: [UInt8] = []
            bytes.reserveCapacity(count)
            for shift in stride(from: Int64(40), through: 0, by: -8) {
                bytes.append(UInt8(truncatingIfNeeded: time.count &>> shift))
            }
            bytes.append(UInt8(truncatingIfNeeded: content.count &>> 8))
            bytes.append(UInt8(truncatingIfNeeded: content.count))
            bytes.append(contentsOf: content)
            bytes.append(contentsOf: repeatElement(0, count: max(0, count - bytes.count)))
            return bytes
        }

        /// Parses a frame. Nil if the length field exceeds the available bytes.
        init?(_ bytes: [UInt8]) {
            guard bytes.count >= Self.overhead else { return nil }
            let length = Int(bytes[6]) << 8 | Int(bytes[7])
            guard length <= bytes.count - Self.overhead else { return nil }
            self.time = Milliseconds(count: bytes[..<6].reduce(0) { $0 << 8 | Int64($1) })
            self.content = Array(bytes[Self.overhead..<Self.overhead + length])
        }
    }
#endif

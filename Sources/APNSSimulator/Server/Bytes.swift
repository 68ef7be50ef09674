/// Helpers for the bytes of header fields.
enum Bytes {
    typealias Buffer = UnsafeBufferPointer<UInt8>

    static func equal(_ bytes: Buffer, _ text: StaticString) -> Bool {
        bytes.count == text.utf8CodeUnitCount
            && bytes.elementsEqual(Buffer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    static func hasPrefix(_ bytes: Buffer, _ text: StaticString) -> Bool {
        bytes.count >= text.utf8CodeUnitCount
            && self.equal(Buffer(rebasing: bytes[..<text.utf8CodeUnitCount]), text)
    }

    static func hasSuffix(_ bytes: Buffer, _ suffix: [UInt8]) -> Bool {
        bytes.count >= suffix.count && bytes.suffix(suffix.count).elementsEqual(suffix)
    }

    /// The types of frames that the simulator writes itself, because nghttp2 would not send them.
    enum FrameType: UInt8 {
        case reset = 3
        case ping = 6
        case goAway = 7
    }

    /// A frame without flags (RFC 9113, section 4.1).
    ///
    /// - Parameter payload: at most 255 bytes.
    static func frame(_ type: FrameType, streamID: Int32 = 0, payload: [UInt8]) -> [UInt8] {
        [0, 0, UInt8(clamping: payload.count), type.rawValue, 0] + self.bigEndian(UInt32(bitPattern: streamID))
            + payload
    }

    /// The four bytes of a number in network byte order.
    static func bigEndian(_ number: UInt32) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
    }

    static func text(_ bytes: Buffer) -> String {
        String(decoding: bytes, as: UTF8.self)
    }

    /// Parses a number of at most 18 decimal digits; nil for other text.
    static func decimal(_ bytes: Buffer) -> Int64? {
        guard !bytes.isEmpty, bytes.count <= 18 else { return nil }
        var number: Int64 = 0
        for byte in bytes {
            guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else { return nil }
            number = number * 10 + Int64(byte - UInt8(ascii: "0"))
        }
        return number
    }
}

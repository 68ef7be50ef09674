import APNSBasics

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// The id of one push, sent as `apns-id` and echoed by APNs: a UUID (RFC 9562).
///
/// Ids are compared as values, because APNs may return them in upper case. Coded as the lower-case string.
public struct APNSID: Sendable, Hashable, Codable, CustomStringConvertible {
    /// The first eight bytes, big-endian.
    public let high: UInt64
    /// The last eight bytes, big-endian.
    public let low: UInt64

    /// - Parameters:
    ///   - high: the first eight bytes, big-endian.
    ///   - low: the last eight bytes, big-endian.
    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Parses the canonical form of 8-4-4-4-12 hexadecimal digits in either case. Returns nil for any other text.
    public init?(_ string: String) {
        var string = string
        guard let id = string.withUTF8({ APNSID(utf8: $0) }) else { return nil }
        self = id
    }

    /// Parses the canonical form from the bytes of a header's value.
    package init?(utf8 bytes: UnsafeBufferPointer<UInt8>) {
        guard bytes.count == Self.textLength, bytes[8] == 0x2D, bytes[13] == 0x2D, bytes[18] == 0x2D, bytes[23] == 0x2D
        else { return nil }
        var isValid = true
        func number(_ ranges: (Range<Int>, Range<Int>, Range<Int>)) -> UInt64 {
            var number: UInt64 = 0
            func add(_ range: Range<Int>) {
                for index in range {
                    // Digits and letters in either case; any other character yields a value above 15.
                    let byte = bytes[index]
                    var digit = byte &- 0x30
                    if digit > 9 {
                        digit = (byte | 0x20) &- 0x61
                        digit = digit < 6 ? digit + 10 : 0xFF
                    }
                    if digit > 15 { isValid = false }
                    number = number << 4 | UInt64(digit & 0x0F)
                }
            }
            add(ranges.0)
            add(ranges.1)
            add(ranges.2)
            return number
        }
        let high = number((0..<8, 9..<13, 14..<18))
        let low = number((19..<23, 24..<36, 36..<36))
        guard isValid else { return nil }
        self.init(high: high, low: low)
    }

    /// Parses the canonical form, as `init(_:)` for a `String` does.
    public init?(_ string: some StringProtocol) {
        self.init(String(string))
    }

    /// Takes the value of a Foundation `UUID`.
    public init(_ uuid: UUID) {
        let b = uuid.uuid
        self.init(
            high: Self.join(b.0, b.1, b.2, b.3, b.4, b.5, b.6, b.7),
            low: Self.join(b.8, b.9, b.10, b.11, b.12, b.13, b.14, b.15)
        )
    }

    /// A random id, version 4 (RFC 9562 §5.4).
    public static func random(using generator: inout some RandomNumberGenerator) -> APNSID {
        APNSID(
            high: generator.next() & 0xFFFF_FFFF_FFFF_0FFF | 0x0000_0000_0000_4000,
            low: generator.next() & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
        )
    }

    /// A random id from the system's generator. For many ids, `random(using:)` is far cheaper.
    public static func random() -> APNSID {
        var generator = SystemRandomNumberGenerator()
        return self.random(using: &generator)
    }

    /// The number of bytes that `write(into:)` writes.
    public static let textLength = 36

    /// Writes the 36 ASCII bytes of the lower-case form; `target` must have room for them.
    public func write(into target: UnsafeMutablePointer<UInt8>) {
        let target = UnsafeMutableRawPointer(target)
        let second = Hexadecimal.digits(UInt32(truncatingIfNeeded: self.high))
        let third = Hexadecimal.digits(UInt32(truncatingIfNeeded: self.low &>> 32))
        target.storeBytes(of: Hexadecimal.digits(UInt32(truncatingIfNeeded: self.high &>> 32)), as: UInt64.self)
        target.storeBytes(of: UInt32(truncatingIfNeeded: second), toByteOffset: 9, as: UInt32.self)
        target.storeBytes(of: UInt32(truncatingIfNeeded: second &>> 32), toByteOffset: 14, as: UInt32.self)
        target.storeBytes(of: UInt32(truncatingIfNeeded: third), toByteOffset: 19, as: UInt32.self)
        target.storeBytes(of: UInt32(truncatingIfNeeded: third &>> 32), toByteOffset: 24, as: UInt32.self)
        target.storeBytes(
            of: Hexadecimal.digits(UInt32(truncatingIfNeeded: self.low)),
            toByteOffset: 28,
            as: UInt64.self
        )
        target.storeBytes(of: 0x2D, toByteOffset: 8, as: UInt8.self)
        target.storeBytes(of: 0x2D, toByteOffset: 13, as: UInt8.self)
        target.storeBytes(of: 0x2D, toByteOffset: 18, as: UInt8.self)
        target.storeBytes(of: 0x2D, toByteOffset: 23, as: UInt8.self)
    }

    /// This id as a Foundation `UUID`.
    public var uuid: UUID {
        func byte(_ word: UInt64, _ index: UInt64) -> UInt8 {
            UInt8(truncatingIfNeeded: word &>> (56 &- index &* 8))
        }
        return UUID(
            uuid: (
                byte(self.high, 0), byte(self.high, 1), byte(self.high, 2), byte(self.high, 3),
                byte(self.high, 4), byte(self.high, 5), byte(self.high, 6), byte(self.high, 7),
                byte(self.low, 0), byte(self.low, 1), byte(self.low, 2), byte(self.low, 3),
                byte(self.low, 4), byte(self.low, 5), byte(self.low, 6), byte(self.low, 7)
            )
        )
    }

    /// The lower-case canonical form.
    public var description: String {
        String(unsafeUninitializedCapacity: Self.textLength) { buffer in
            guard let base = buffer.baseAddress else { return 0 }
            self.write(into: base)
            return Self.textLength
        }
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        guard let id = APNSID(text) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not a canonical UUID")
        }
        self = id
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(self.description)
    }

    private static func join(
        _ a: UInt8,
        _ b: UInt8,
        _ c: UInt8,
        _ d: UInt8,
        _ e: UInt8,
        _ f: UInt8,
        _ g: UInt8,
        _ h: UInt8
    ) -> UInt64 {
        let first = UInt64(a) << 56 | UInt64(b) << 48 | UInt64(c) << 40 | UInt64(d) << 32
        return first | UInt64(e) << 24 | UInt64(f) << 16 | UInt64(g) << 8 | UInt64(h)
    }
}

/// Appends JSON text (RFC 8259) to one growing array of bytes.
///
/// Escapes only what §7 demands (quote, backslash, control characters): escaping `/` or non-ASCII would waste the
/// payload's few kilobytes. It knows nothing of commas; its users do.
struct JSONByteWriter {
    var bytes: [UInt8] = []

    init() {}

    init(capacity: Int) {
        bytes.reserveCapacity(capacity)
    }

    @inline(__always)
    mutating func byte(_ value: UInt8) {
        bytes.append(value)
    }

    /// Text that is JSON already.
    @inline(__always)
    mutating func literal(_ text: StaticString) {
        bytes.append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    /// Puts the opening brace of an object whose members were written with a comma before each: in the place of the first
    /// comma, or here if there is no member.
    @inline(__always)
    mutating func open(at start: Int) {
        if start == bytes.count {
            bytes.append(JSONByte.openObject)
        } else {
            bytes[start] = JSONByte.openObject
        }
    }

    mutating func string(_ value: String) {
        bytes.append(JSONByte.quote)
        let done: Void? = value.utf8.withContiguousStorageIfAvailable { escaped($0) }
        if done == nil {
            // Only strings bridged from Objective-C have no contiguous storage.
            var copy = value
            copy.withUTF8 { escaped($0) }
        }
        bytes.append(JSONByte.quote)
    }

    mutating func bool(_ value: Bool) {
        if value {
            literal("true")
        } else {
            literal("false")
        }
    }

    mutating func null() {
        literal("null")
    }

    mutating func integer(_ value: Int64) {
        if value < 0 {
            bytes.append(0x2D)
        }
        unsigned(value.magnitude)
    }

    mutating func unsigned(_ value: UInt64) {
        guard value >= 10 else {
            bytes.append(0x30 &+ UInt8(truncatingIfNeeded: value))
            return
        }
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
            var rest = value
            var position = 20
            while rest > 0 {
                let (quotient, remainder) = rest.quotientAndRemainder(dividingBy: 10)
                position &-= 1
                digits[position] = 0x30 &+ UInt8(truncatingIfNeeded: remainder)
                rest = quotient
            }
            bytes.append(contentsOf: UnsafeBufferPointer(rebasing: digits[position...]))
        }
    }

    /// The shortest text that reads back as the same number, without `.0`, as Foundation's `JSONEncoder` writes it.
    /// False, and nothing written, for infinity and NaN: JSON has no form for them (§6).
    mutating func double(_ value: Double) -> Bool {
        guard value.isFinite else { return false }
        number(value.description)
        return true
    }

    /// As `double(_:)`; a `Float` has a shorter shortest text than the `Double` of the same value.
    mutating func float(_ value: Float) -> Bool {
        guard value.isFinite else { return false }
        number(value.description)
        return true
    }

    /// A number's own text, with a `.0` at its end dropped.
    mutating func number(_ text: String) {
        bytes.append(contentsOf: text.utf8)
        let count = bytes.count
        if count >= 2, bytes[count - 1] == 0x30, bytes[count - 2] == 0x2E {
            bytes.removeLast(2)
        }
    }

    private mutating func escaped(_ units: UnsafeBufferPointer<UInt8>) {
        let count = units.count
        var clean = 0
        var index = 0
        while index < count {
            // Eight bytes at a time as long as none of them needs an escape.
            while index &+ 8 <= count,
                !Self.mayNeedEscape(
                    UnsafeRawBufferPointer(units).loadUnaligned(fromByteOffset: index, as: UInt64.self)
                )
            {
                index &+= 8
            }
            let end = min(index &+ 8, count)
            while index < end {
                let unit = units[index]
                if unit < 0x20 || unit == JSONByte.quote || unit == JSONByte.backslash {
                    bytes.append(contentsOf: UnsafeBufferPointer(rebasing: units[clean..<index]))
                    escape(unit)
                    clean = index &+ 1
                }
                index &+= 1
            }
        }
        bytes.append(contentsOf: UnsafeBufferPointer(rebasing: units[clean..<count]))
    }

    /// Whether any of eight bytes is a quote, a backslash or below 0x20. It may say yes for nothing, never no.
    @inline(__always)
    private static func mayNeedEscape(_ word: UInt64) -> Bool {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let highs: UInt64 = 0x8080_8080_8080_8080
        let quotes = word ^ (ones &* UInt64(JSONByte.quote))
        let backslashes = word ^ (ones &* UInt64(JSONByte.backslash))
        let control = (word &- (ones &* 0x20)) & ~word
        let matches = ((quotes &- ones) & ~quotes) | ((backslashes &- ones) & ~backslashes)
        return (control | matches) & highs != 0
    }

    private mutating func escape(_ unit: UInt8) {
        bytes.append(JSONByte.backslash)
        switch unit {
        case JSONByte.quote, JSONByte.backslash: bytes.append(unit)
        case 0x08: bytes.append(0x62)
        case 0x09: bytes.append(0x74)
        case 0x0A: bytes.append(0x6E)
        case 0x0C: bytes.append(0x66)
        case 0x0D: bytes.append(0x72)
        default:
            literal("u00")
            bytes.append(Hexadecimal.digit(unit >> 4))
            bytes.append(Hexadecimal.digit(unit & 0xF))
        }
    }
}

/// The bytes that JSON gives a meaning.
enum JSONByte {
    static let quote: UInt8 = 0x22
    static let backslash: UInt8 = 0x5C
    static let comma: UInt8 = 0x2C
    static let colon: UInt8 = 0x3A
    static let openObject: UInt8 = 0x7B
    static let closeObject: UInt8 = 0x7D
    static let openArray: UInt8 = 0x5B
    static let closeArray: UInt8 = 0x5D
}

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Reads JSON (RFC 8259) from bytes that anybody may have sent: bounded depth, no traps, nil for what it cannot read.
struct JSONParser {
    /// Enough for any payload of a few kilobytes that means something; keeps recursion far from the stack's end.
    static let maximumDepth = 64

    private let bytes: [UInt8]
    private var position = 0
    /// Something was read that a tree cannot give back exactly: a repeated key, or a number with too many digits.
    private(set) var isLossy = false

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// The members of a whole document that is one object, if a tree of values holds all of it.
    static func exactObject(_ bytes: [UInt8]) -> JSONValue? {
        var parser = JSONParser(bytes)
        guard let value = parser.value(depth: 0), case .object = value else { return nil }
        parser.skipBlanks()
        return parser.position == bytes.count && !parser.isLossy ? value : nil
    }

    /// The members of the root object as far as they can be read: a body that was cut off still tells its first keys.
    static func leadingMembers(_ bytes: [UInt8]) -> [JSONValue.Member] {
        var parser = JSONParser(bytes)
        var members: [JSONValue.Member] = []
        _ = parser.object(depth: 0, into: &members)
        return members
    }

    /// Where the badge of a payload stands or can be put; nil if the payload is no object with one `aps`.
    static func badgeSlot(_ bytes: [UInt8]) -> BadgeSlot? {
        var parser = JSONParser(bytes)
        guard let root = parser.ranges(), parser.position == bytes.count else { return nil }
        let candidates = root.filter { $0.key == "aps" }
        guard candidates.count == 1, let aps = candidates.first, bytes[aps.value.lowerBound] == JSONByte.openObject
        else { return nil }
        parser.position = aps.value.lowerBound
        guard let members = parser.ranges() else { return nil }
        let badges = members.filter { $0.key == "badge" }
        switch badges.count {
        case 0: return BadgeSlot(range: aps.value.lowerBound + 1..<aps.value.lowerBound + 1)
        case 1: return BadgeSlot(range: badges[0].value)
        default: return nil
        }
    }

    /// The text of `aps.event`, if there is one.
    static func apsEvent(_ bytes: [UInt8]) -> String? {
        for member in leadingMembers(bytes) where member.key == "aps" {
            guard case .object(let aps) = member.value else { continue }
            for member in aps where member.key == "event" {
                if case .string(let event) = member.value { return event }
            }
        }
        return nil
    }

    /// Whether the bytes are one JSON value, nested no deeper than `maximumDepth`.
    static func isDocument(_ bytes: [UInt8]) -> Bool {
        var parser = JSONParser(bytes)
        guard parser.value(depth: 0) != nil else { return false }
        parser.skipBlanks()
        return parser.position == bytes.count
    }

    /// The members of a whole document that is one object; nil if it is none.
    static func members(_ bytes: [UInt8]) -> [MemberRange]? {
        var parser = JSONParser(bytes)
        parser.skipBlanks()
        guard let members = parser.ranges(), parser.position == bytes.count else { return nil }
        return members
    }

    struct MemberRange {
        var key: String
        /// The bytes of the value.
        var value: Range<Int>
    }

    /// The members of the object that comes next, by their places; reads on to the next thing behind it.
    private mutating func ranges() -> [MemberRange]? {
        skipBlanks()
        guard take(JSONByte.openObject) else { return nil }
        skipBlanks()
        var members: [MemberRange] = []
        if !take(JSONByte.closeObject) {
            repeat {
                skipBlanks()
                guard let key = string() else { return nil }
                skipBlanks()
                guard take(JSONByte.colon) else { return nil }
                skipBlanks()
                let start = position
                guard value(depth: 1) != nil else { return nil }
                members.append(MemberRange(key: key, value: start..<position))
                skipBlanks()
            } while take(JSONByte.comma)
            guard take(JSONByte.closeObject) else { return nil }
        }
        skipBlanks()
        return members
    }

    private mutating func skipBlanks() {
        while position < bytes.count {
            switch bytes[position] {
            case 0x20, 0x09, 0x0A, 0x0D: position += 1
            default: return
            }
        }
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard position < bytes.count, bytes[position] == byte else { return false }
        position += 1
        return true
    }

    private mutating func take(word: StaticString) -> Bool {
        let count = word.utf8CodeUnitCount
        guard bytes.count - position >= count else { return false }
        let matches = word.withUTF8Buffer { $0.elementsEqual(bytes[position..<position + count]) }
        if matches { position += count }
        return matches
    }

    private mutating func value(depth: Int) -> JSONValue? {
        guard depth < Self.maximumDepth else { return nil }
        skipBlanks()
        guard position < bytes.count else { return nil }
        switch bytes[position] {
        case JSONByte.openObject:
            var members: [JSONValue.Member] = []
            return object(depth: depth, into: &members) ? .object(members) : nil
        case JSONByte.openArray: return array(depth: depth)
        case JSONByte.quote: return string().map(JSONValue.string)
        case 0x74: return take(word: "true") ? .bool(true) : nil
        case 0x66: return take(word: "false") ? .bool(false) : nil
        case 0x6E: return take(word: "null") ? .null : nil
        default: return number()
        }
    }

    private mutating func object(depth: Int, into members: inout [JSONValue.Member]) -> Bool {
        skipBlanks()
        guard take(JSONByte.openObject) else { return false }
        skipBlanks()
        if take(JSONByte.closeObject) { return true }
        var keys: Set<String> = []
        repeat {
            skipBlanks()
            guard let key = string() else { return false }
            skipBlanks()
            guard take(JSONByte.colon), let value = value(depth: depth + 1) else { return false }
            if !keys.insert(key).inserted { isLossy = true }
            members.append(JSONValue.Member(key: key, value: value))
            skipBlanks()
        } while take(JSONByte.comma)
        return take(JSONByte.closeObject)
    }

    private mutating func array(depth: Int) -> JSONValue? {
        guard take(JSONByte.openArray) else { return nil }
        skipBlanks()
        if take(JSONByte.closeArray) { return .array([]) }
        var values: [JSONValue] = []
        repeat {
            guard let value = value(depth: depth + 1) else { return nil }
            values.append(value)
            skipBlanks()
        } while take(JSONByte.comma)
        return take(JSONByte.closeArray) ? .array(values) : nil
    }

    private mutating func number() -> JSONValue? {
        let start = position
        _ = take(0x2D)
        let firstDigit = position
        guard skipDigits() else { return nil }
        guard bytes[firstDigit] != 0x30 || position == firstDigit + 1 else { return nil }
        var isWhole = true
        if take(0x2E) {
            isWhole = false
            guard skipDigits() else { return nil }
        }
        if take(0x65) || take(0x45) {
            isWhole = false
            if !take(0x2B) { _ = take(0x2D) }
            guard skipDigits() else { return nil }
        }
        let text = String(decoding: bytes[start..<position], as: UTF8.self)
        if isWhole {
            if text == "-0" { return .double(-0.0) }
            if let value = Int64(text) { return .integer(value) }
            if let value = UInt64(text) { return .unsigned(value) }
            // Decimal holds 38 digits exactly.
            if position - firstDigit <= 38, let value = Decimal(string: text) { return .decimal(value) }
        }
        guard let value = Double(text), value.isFinite else { return nil }
        // 15 significant digits always survive a Double.
        if position - firstDigit > 16 { isLossy = true }
        return .double(value)
    }

    private mutating func skipDigits() -> Bool {
        let start = position
        while position < bytes.count, bytes[position] >= 0x30, bytes[position] <= 0x39 {
            position += 1
        }
        return position > start
    }

    private mutating func string() -> String? {
        guard take(JSONByte.quote) else { return nil }
        var units: [UInt8] = []
        var start = position
        while position < bytes.count {
            switch bytes[position] {
            case JSONByte.quote:
                units.append(contentsOf: bytes[start..<position])
                position += 1
                return text(units)
            case JSONByte.backslash:
                units.append(contentsOf: bytes[start..<position])
                position += 1
                guard let scalar = escape() else { return nil }
                units.append(contentsOf: String(scalar).utf8)
                start = position
            case 0..<0x20:
                return nil
            default:
                position += 1
            }
        }
        return nil
    }

    private mutating func text(_ units: [UInt8]) -> String {
        if let text = String(validating: units, as: UTF8.self) {
            return text
        }
        isLossy = true
        return String(decoding: units, as: UTF8.self)
    }

    private mutating func escape() -> Unicode.Scalar? {
        guard position < bytes.count else { return nil }
        let byte = bytes[position]
        position += 1
        switch byte {
        case JSONByte.quote, JSONByte.backslash, 0x2F: return Unicode.Scalar(byte)
        case 0x62: return "\u{08}"
        case 0x66: return "\u{0C}"
        case 0x6E: return "\n"
        case 0x72: return "\r"
        case 0x74: return "\t"
        case 0x75: return unicodeEscape()
        default: return nil
        }
    }

    private mutating func unicodeEscape() -> Unicode.Scalar? {
        guard let unit = hexadecimalUnit() else { return nil }
        if let scalar = Unicode.Scalar(unit) { return scalar }
        // Half of a pair: the other half must follow (§7). A lone half has no scalar.
        let mark = position
        if unit < 0xDC00, take(JSONByte.backslash), take(0x75), let second = hexadecimalUnit(),
            second >= 0xDC00, second <= 0xDFFF
        {
            return Unicode.Scalar(0x10000 + (unit - 0xD800) << 10 + (second - 0xDC00))
        }
        position = mark
        isLossy = true
        return "\u{FFFD}"
    }

    private mutating func hexadecimalUnit() -> UInt32? {
        guard bytes.count - position >= 4 else { return nil }
        var unit: UInt32 = 0
        for index in position..<position + 4 {
            guard let digit = Hexadecimal.value(bytes[index]) else { return nil }
            unit = unit << 4 | UInt32(digit)
        }
        position += 4
        return unit
    }
}

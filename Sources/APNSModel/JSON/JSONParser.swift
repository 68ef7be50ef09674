import APNSBasics

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Parses JSON (RFC 8259) from untrusted bytes: bounded depth, no traps, nil for bytes that it cannot parse.
package struct JSONParser {
    /// The deepest nesting accepted: enough for a real payload of a few kilobytes, and far from a stack overflow.
    static let maximumDepth = 64

    private let bytes: [UInt8]
    private var position = 0
    /// Whether the input contained something that a tree of values cannot reproduce exactly: a duplicate key, or a
    /// number with too many digits.
    private(set) var isLossy = false

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// A whole document that is one object; nil if a tree of values cannot hold all of it.
    static func exactObject(_ bytes: [UInt8]) -> JSONValue? {
        var parser = JSONParser(bytes)
        guard let value = parser.value(depth: 0), case .object = value else { return nil }
        parser.skipBlanks()
        return parser.position == bytes.count && !parser.isLossy ? value : nil
    }

    /// The members of the root object as far as they can be parsed: a truncated body still yields its first keys.
    package static func leadingMembers(_ bytes: [UInt8]) -> [JSONValue.Member] {
        var parser = JSONParser(bytes)
        var members: [JSONValue.Member] = []
        _ = parser.object(depth: 0, into: &members)
        return members
    }

    /// The position of a payload's badge, or where one can be inserted. Nil if the payload is not an object with one
    /// `aps`.
    static func badgePosition(_ bytes: [UInt8]) -> BadgePosition? {
        var parser = JSONParser(bytes)
        guard let root = parser.ranges(), parser.position == bytes.count else { return nil }
        let candidates = root.filter { $0.key == "aps" }
        guard candidates.count == 1, let aps = candidates.first, bytes[aps.value.lowerBound] == JSONByte.openObject
        else { return nil }
        parser.position = aps.value.lowerBound
        guard let members = parser.ranges() else { return nil }
        let badges = members.filter { $0.key == "badge" }
        switch badges.count {
        case 0: return BadgePosition(range: aps.value.lowerBound + 1..<aps.value.lowerBound + 1)
        case 1: return BadgePosition(range: badges[0].value)
        default: return nil
        }
    }

    /// The text of `aps.event`, if it exists.
    static func apsEvent(_ bytes: [UInt8]) -> String? {
        for member in self.leadingMembers(bytes) where member.key == "aps" {
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

    /// The members of a whole document that is one object; nil for other documents.
    static func members(_ bytes: [UInt8]) -> [MemberRange]? {
        var parser = JSONParser(bytes)
        parser.skipBlanks()
        guard let members = parser.ranges(), parser.position == bytes.count else { return nil }
        return members
    }

    struct MemberRange {
        var key: String
        /// The position of the value's bytes.
        var value: Range<Int>
    }

    /// The keys and value positions of the next object. Continues to the first character after the object that is not
    /// blank.
    private mutating func ranges() -> [MemberRange]? {
        self.skipBlanks()
        guard self.take(JSONByte.openObject) else { return nil }
        self.skipBlanks()
        var members: [MemberRange] = []
        if !self.take(JSONByte.closeObject) {
            repeat {
                self.skipBlanks()
                guard let key = self.string() else { return nil }
                self.skipBlanks()
                guard self.take(JSONByte.colon) else { return nil }
                self.skipBlanks()
                let start = self.position
                guard self.value(depth: 1) != nil else { return nil }
                members.append(MemberRange(key: key, value: start..<self.position))
                self.skipBlanks()
            } while self.take(JSONByte.comma)
            guard self.take(JSONByte.closeObject) else { return nil }
        }
        self.skipBlanks()
        return members
    }

    private mutating func skipBlanks() {
        while self.position < self.bytes.count {
            switch self.bytes[self.position] {
            case 0x20, 0x09, 0x0A, 0x0D: self.position += 1
            default: return
            }
        }
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard self.position < self.bytes.count, self.bytes[self.position] == byte else { return false }
        self.position += 1
        return true
    }

    private mutating func take(word: StaticString) -> Bool {
        let count = word.utf8CodeUnitCount
        guard self.bytes.count - self.position >= count else { return false }
        let matches = word.withUTF8Buffer { $0.elementsEqual(self.bytes[self.position..<self.position + count]) }
        if matches { self.position += count }
        return matches
    }

    private mutating func value(depth: Int) -> JSONValue? {
        guard depth < Self.maximumDepth else { return nil }
        self.skipBlanks()
        guard self.position < self.bytes.count else { return nil }
        switch self.bytes[self.position] {
        case JSONByte.openObject:
            var members: [JSONValue.Member] = []
            return self.object(depth: depth, into: &members) ? .object(members) : nil
        case JSONByte.openArray: return self.array(depth: depth)
        case JSONByte.quote: return self.string().map(JSONValue.string)
        case 0x74: return self.take(word: "true") ? .bool(true) : nil
        case 0x66: return self.take(word: "false") ? .bool(false) : nil
        case 0x6E: return self.take(word: "null") ? .null : nil
        default: return self.number()
        }
    }

    private mutating func object(depth: Int, into members: inout [JSONValue.Member]) -> Bool {
        self.skipBlanks()
        guard self.take(JSONByte.openObject) else { return false }
        self.skipBlanks()
        if self.take(JSONByte.closeObject) { return true }
        var keys: Set<String> = []
        repeat {
            self.skipBlanks()
            guard let key = self.string() else { return false }
            self.skipBlanks()
            guard self.take(JSONByte.colon), let value = self.value(depth: depth + 1) else { return false }
            if !keys.insert(key).inserted { self.isLossy = true }
            members.append(JSONValue.Member(key: key, value: value))
            self.skipBlanks()
        } while self.take(JSONByte.comma)
        return self.take(JSONByte.closeObject)
    }

    private mutating func array(depth: Int) -> JSONValue? {
        guard self.take(JSONByte.openArray) else { return nil }
        self.skipBlanks()
        if self.take(JSONByte.closeArray) { return .array([]) }
        var values: [JSONValue] = []
        repeat {
            guard let value = self.value(depth: depth + 1) else { return nil }
            values.append(value)
            self.skipBlanks()
        } while self.take(JSONByte.comma)
        return self.take(JSONByte.closeArray) ? .array(values) : nil
    }

    private mutating func number() -> JSONValue? {
        let start = self.position
        _ = self.take(0x2D)
        let firstDigit = self.position
        guard self.skipDigits() else { return nil }
        guard self.bytes[firstDigit] != 0x30 || self.position == firstDigit + 1 else { return nil }
        var isWhole = true
        if self.take(0x2E) {
            isWhole = false
            guard self.skipDigits() else { return nil }
        }
        if self.take(0x65) || self.take(0x45) {
            isWhole = false
            if !self.take(0x2B) { _ = self.take(0x2D) }
            guard self.skipDigits() else { return nil }
        }
        let text = String(decoding: self.bytes[start..<self.position], as: UTF8.self)
        if isWhole {
            if text == "-0" { return .double(-0.0) }
            if let value = Int64(text) { return .integer(value) }
            if let value = UInt64(text) { return .unsigned(value) }
            // A `Decimal` holds 38 digits exactly.
            if self.position - firstDigit <= 38, let value = Decimal(string: text) { return .decimal(value) }
        }
        guard let value = Double(text), value.isFinite else { return nil }
        // A `Double` preserves any 15 significant digits.
        if self.position - firstDigit > 16 { self.isLossy = true }
        return .double(value)
    }

    private mutating func skipDigits() -> Bool {
        let start = self.position
        while self.position < self.bytes.count, self.bytes[self.position] >= 0x30, self.bytes[self.position] <= 0x39 {
            self.position += 1
        }
        return self.position > start
    }

    private mutating func string() -> String? {
        guard self.take(JSONByte.quote) else { return nil }
        var units: [UInt8] = []
        var start = self.position
        while self.position < self.bytes.count {
            switch self.bytes[self.position] {
            case JSONByte.quote:
                units.append(contentsOf: self.bytes[start..<self.position])
                self.position += 1
                return self.text(units)
            case JSONByte.backslash:
                units.append(contentsOf: self.bytes[start..<self.position])
                self.position += 1
                guard let scalar = self.escape() else { return nil }
                units.append(contentsOf: String(scalar).utf8)
                start = self.position
            case 0..<0x20:
                return nil
            default:
                self.position += 1
            }
        }
        return nil
    }

    private mutating func text(_ units: [UInt8]) -> String {
        if let text = String(validating: units, as: UTF8.self) {
            return text
        }
        self.isLossy = true
        return String(decoding: units, as: UTF8.self)
    }

    private mutating func escape() -> Unicode.Scalar? {
        guard self.position < self.bytes.count else { return nil }
        let byte = self.bytes[self.position]
        self.position += 1
        switch byte {
        case JSONByte.quote, JSONByte.backslash, 0x2F: return Unicode.Scalar(byte)
        case 0x62: return "\u{08}"
        case 0x66: return "\u{0C}"
        case 0x6E: return "\n"
        case 0x72: return "\r"
        case 0x74: return "\t"
        case 0x75: return self.unicodeEscape()
        default: return nil
        }
    }

    private mutating func unicodeEscape() -> Unicode.Scalar? {
        guard let unit = self.hexadecimalUnit() else { return nil }
        if let scalar = Unicode.Scalar(unit) { return scalar }
        // Half of a surrogate pair: the other half must follow (§7). A lone half has no scalar value.
        let mark = self.position
        if unit < 0xDC00, self.take(JSONByte.backslash), self.take(0x75), let second = self.hexadecimalUnit(),
            second >= 0xDC00, second <= 0xDFFF
        {
            return Unicode.Scalar(0x10000 + (unit - 0xD800) << 10 + (second - 0xDC00))
        }
        self.position = mark
        self.isLossy = true
        return "\u{FFFD}"
    }

    private mutating func hexadecimalUnit() -> UInt32? {
        guard self.bytes.count - self.position >= 4 else { return nil }
        var unit: UInt32 = 0
        for index in self.position..<self.position + 4 {
            guard let digit = Hexadecimal.value(self.bytes[index]) else { return nil }
            unit = unit << 4 | UInt32(digit)
        }
        self.position += 4
        return unit
    }
}

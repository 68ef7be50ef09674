/// Checks a JSON text (RFC 8259) and finds the members of its objects without decoding them.
///
/// Strict: the text must be UTF-8 without a byte order mark, values may be nested ``maximumDepth`` deep, and an escaped
/// surrogate must be part of a pair. Numbers may have any size. Never reads outside the buffer.
struct JSONScanner {
    /// The most arrays and objects inside each other.
    static let maximumDepth = 128

    /// What is wrong with a text, and where.
    struct Fault: Error, Hashable {
        /// The position in the buffer, in bytes.
        var offset: Int
        /// What was expected.
        var message: String
    }

    /// The kind of a value.
    enum Kind: Hashable {
        case object, array, string, number, bool, null
    }

    /// A value that was checked: its kind and its bytes.
    struct Slice: Hashable {
        var kind: Kind
        /// The bytes of the value in the buffer; of a string including its quotation marks.
        var range: Range<Int>
        /// Whether the value is a string with escape sequences.
        var hasEscapes = false
    }

    /// One member of an object.
    struct Member: Hashable {
        var key: Slice
        var value: Slice
    }

    let bytes: UnsafeBufferPointer<UInt8>
    private(set) var position: Int
    private let end: Int

    /// A scanner of a whole buffer, or of a range in it.
    init(_ bytes: UnsafeBufferPointer<UInt8>, in range: Range<Int>? = nil) {
        self.bytes = bytes
        let whole = 0..<bytes.count
        let range = range?.clamped(to: whole) ?? whole
        self.position = range.lowerBound
        self.end = range.upperBound
    }

    /// Checks that the text is one value, with blanks around it.
    mutating func document() throws(Fault) -> Slice {
        self.skipBlanks()
        let slice = try self.value(depth: 0)
        try self.finish()
        return slice
    }

    /// Checks that the text is one object, with blanks around it, and appends its members.
    mutating func object(into members: inout [Member]) throws(Fault) {
        self.skipBlanks()
        guard self.current == UInt8(ascii: "{") else { throw self.fault("expected a JSON object") }
        try self.members(depth: 1) { members.append($0) }
        try self.finish()
    }

    private mutating func finish() throws(Fault) {
        self.skipBlanks()
        if self.position < self.end { throw self.fault("expected nothing after the JSON value") }
    }

    /// The next byte; 0 at the end. 0 itself is allowed nowhere.
    private var current: UInt8 { self.position < self.end ? self.bytes[self.position] : 0 }

    private func fault(_ message: String) -> Fault { Fault(offset: self.position, message: message) }

    private mutating func skipBlanks() {
        while self.position < self.end {
            switch self.bytes[self.position] {
            case 0x20, 0x09, 0x0A, 0x0D: self.position += 1
            default: return
            }
        }
    }

    /// - Parameter depth: how many arrays and objects are around the value.
    private mutating func value(depth: Int) throws(Fault) -> Slice {
        let start = self.position
        switch self.current {
        case UInt8(ascii: "\""):
            return try self.string()
        case UInt8(ascii: "{"):
            try self.members(depth: depth + 1) { _ in }
            return Slice(kind: .object, range: start..<self.position)
        case UInt8(ascii: "["):
            try self.elements(depth: depth + 1)
            return Slice(kind: .array, range: start..<self.position)
        case UInt8(ascii: "t"):
            try self.word("true")
            return Slice(kind: .bool, range: start..<self.position)
        case UInt8(ascii: "f"):
            try self.word("false")
            return Slice(kind: .bool, range: start..<self.position)
        case UInt8(ascii: "n"):
            try self.word("null")
            return Slice(kind: .null, range: start..<self.position)
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
            try self.number()
            return Slice(kind: .number, range: start..<self.position)
        default:
            throw self.fault("expected a JSON value")
        }
    }

    /// The current byte is an opening brace.
    private mutating func members(depth: Int, _ found: (Member) -> Void) throws(Fault) {
        guard depth <= Self.maximumDepth else {
            throw self.fault("expected at most \(Self.maximumDepth) nested arrays and objects")
        }
        self.position += 1
        self.skipBlanks()
        if self.current == UInt8(ascii: "}") {
            self.position += 1
            return
        }
        while true {
            guard self.current == UInt8(ascii: "\"") else { throw self.fault("expected a key in quotation marks") }
            let key = try self.string()
            self.skipBlanks()
            guard self.current == UInt8(ascii: ":") else { throw self.fault("expected a colon after the key") }
            self.position += 1
            self.skipBlanks()
            found(Member(key: key, value: try self.value(depth: depth)))
            self.skipBlanks()
            switch self.current {
            case UInt8(ascii: ","):
                self.position += 1
                self.skipBlanks()
            case UInt8(ascii: "}"):
                self.position += 1
                return
            default:
                throw self.fault("expected a comma or the end of the object")
            }
        }
    }

    /// The current byte is an opening bracket.
    private mutating func elements(depth: Int) throws(Fault) {
        guard depth <= Self.maximumDepth else {
            throw self.fault("expected at most \(Self.maximumDepth) nested arrays and objects")
        }
        self.position += 1
        self.skipBlanks()
        if self.current == UInt8(ascii: "]") {
            self.position += 1
            return
        }
        while true {
            _ = try self.value(depth: depth)
            self.skipBlanks()
            switch self.current {
            case UInt8(ascii: ","):
                self.position += 1
                self.skipBlanks()
            case UInt8(ascii: "]"):
                self.position += 1
                return
            default:
                throw self.fault("expected a comma or the end of the array")
            }
        }
    }

    private mutating func word(_ word: StaticString) throws(Fault) {
        let count = word.utf8CodeUnitCount
        guard self.end - self.position >= count else { throw self.fault("expected a JSON value") }
        for index in 0..<count where self.bytes[self.position + index] != word.utf8Start[index] {
            throw self.fault("expected a JSON value")
        }
        self.position += count
    }

    private mutating func number() throws(Fault) {
        if self.current == UInt8(ascii: "-") { self.position += 1 }
        if self.current == UInt8(ascii: "0") {
            self.position += 1
        } else {
            try self.digits()
        }
        if self.current == UInt8(ascii: ".") {
            self.position += 1
            try self.digits()
        }
        if self.current == UInt8(ascii: "e") || self.current == UInt8(ascii: "E") {
            self.position += 1
            if self.current == UInt8(ascii: "+") || self.current == UInt8(ascii: "-") { self.position += 1 }
            try self.digits()
        }
    }

    private mutating func digits() throws(Fault) {
        let start = self.position
        while self.position < self.end, self.bytes[self.position] &- 0x30 <= 9 { self.position += 1 }
        if self.position == start { throw self.fault("expected a digit") }
    }
}

// MARK: - Strings

extension JSONScanner {
    /// The current byte is a quotation mark.
    private mutating func string() throws(Fault) -> Slice {
        let start = self.position
        var hasEscapes = false
        self.position += 1
        while self.position < self.end {
            let byte = self.bytes[self.position]
            switch byte {
            case UInt8(ascii: "\""):
                self.position += 1
                return Slice(kind: .string, range: start..<self.position, hasEscapes: hasEscapes)
            case UInt8(ascii: "\\"):
                hasEscapes = true
                try self.escape()
            case 0x20..<0x80:
                self.position += 1
            case 0x80...:
                try self.multibyteCharacter()
            default:
                throw self.fault("expected no control character in a string; escape it")
            }
        }
        throw self.fault("expected a quotation mark at the end of the string")
    }

    private mutating func escape() throws(Fault) {
        self.position += 1
        switch self.current {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            self.position += 1
        case UInt8(ascii: "u"):
            self.position += 1
            let unit = try self.codeUnit()
            if UTF16.isTrailSurrogate(unit) { throw self.fault("expected no low surrogate without a high one") }
            guard UTF16.isLeadSurrogate(unit) else { return }
            guard self.end - self.position >= 2, self.bytes[self.position] == UInt8(ascii: "\\"),
                self.bytes[self.position + 1] == UInt8(ascii: "u")
            else { throw self.fault("expected a low surrogate after a high one") }
            self.position += 2
            guard UTF16.isTrailSurrogate(try self.codeUnit()) else {
                throw self.fault("expected a low surrogate after a high one")
            }
        default:
            throw self.fault("expected a valid escape sequence")
        }
    }

    private mutating func codeUnit() throws(Fault) -> UInt16 {
        guard let unit = self.codeUnit(at: self.position) else {
            throw self.fault("expected four hexadecimal digits")
        }
        self.position += 4
        return unit
    }

    private func codeUnit(at position: Int) -> UInt16? {
        guard self.end - position >= 4 else { return nil }
        var unit: UInt16 = 0
        for index in position..<position + 4 {
            let byte = self.bytes[index]
            let digit: UInt8
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = byte - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = byte - UInt8(ascii: "a") + 10
            case UInt8(ascii: "A")...UInt8(ascii: "F"): digit = byte - UInt8(ascii: "A") + 10
            default: return nil
            }
            unit = unit << 4 | UInt16(digit)
        }
        return unit
    }

    /// Checks one character of two to four bytes (the Unicode Standard, table 3-7).
    private mutating func multibyteCharacter() throws(Fault) {
        let count: Int
        let second: ClosedRange<UInt8>
        switch self.bytes[self.position] {
        case 0xC2...0xDF: (count, second) = (2, 0x80...0xBF)
        case 0xE0: (count, second) = (3, 0xA0...0xBF)
        case 0xED: (count, second) = (3, 0x80...0x9F)
        case 0xE1...0xEF: (count, second) = (3, 0x80...0xBF)
        case 0xF0: (count, second) = (4, 0x90...0xBF)
        case 0xF1...0xF3: (count, second) = (4, 0x80...0xBF)
        case 0xF4: (count, second) = (4, 0x80...0x8F)
        default: throw self.fault("expected UTF-8")
        }
        guard self.end - self.position >= count, second.contains(self.bytes[self.position + 1]) else {
            throw self.fault("expected UTF-8")
        }
        for index in 2..<max(count, 2) where self.bytes[self.position + index] & 0xC0 != 0x80 {
            throw self.fault("expected UTF-8")
        }
        self.position += count
    }

    /// The text of a string that this scanner checked, or the bytes of another value as text.
    func text(_ slice: Slice) -> String {
        guard slice.kind == .string, slice.range.count >= 2 else {
            return String(decoding: self.bytes[slice.range], as: UTF8.self)
        }
        let content = slice.range.lowerBound + 1..<slice.range.upperBound - 1
        guard slice.hasEscapes else {
            return String(decoding: self.bytes[content], as: UTF8.self)
        }
        return self.unescaped(content)
    }

    private func unescaped(_ content: Range<Int>) -> String {
        var result: [UInt8] = []
        result.reserveCapacity(content.count)
        var index = content.lowerBound
        while index < content.upperBound {
            let byte = self.bytes[index]
            index += 1
            guard byte == UInt8(ascii: "\\"), index < content.upperBound else {
                result.append(byte)
                continue
            }
            let escaped = self.bytes[index]
            index += 1
            switch escaped {
            case UInt8(ascii: "b"): result.append(0x08)
            case UInt8(ascii: "f"): result.append(0x0C)
            case UInt8(ascii: "n"): result.append(0x0A)
            case UInt8(ascii: "r"): result.append(0x0D)
            case UInt8(ascii: "t"): result.append(0x09)
            case UInt8(ascii: "u"):
                var units: [UInt16] = []
                if let unit = self.codeUnit(at: index) {
                    units.append(unit)
                    index += 4
                    if UTF16.isLeadSurrogate(unit), let low = self.codeUnit(at: index + 2) {
                        units.append(low)
                        index += 6
                    }
                }
                result += Array(String(decoding: units, as: UTF16.self).utf8)
            default: result.append(escaped)
            }
        }
        return String(decoding: result, as: UTF8.self)
    }
}

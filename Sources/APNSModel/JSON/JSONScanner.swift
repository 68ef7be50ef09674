/// Checks a JSON text (RFC 8259) and finds its values without decoding them.
///
/// It accepts exactly the grammar of RFC 8259: the text must be UTF-8 without a byte order mark, and an escaped surrogate
/// must be part of a pair. Numbers may have any size. No input traps, and nothing outside the buffer is read. A value that
/// was checked is known by the range of its bytes, so a caller can pass on the exact bytes, or decode only what it needs.
///
/// ```swift
/// var scanner = JSONScanner(buffer)
/// var members: [JSONScanner.Member] = []
/// try scanner.object(into: &members)
/// for member in members where scanner.text(member.key) == "payload" { send(buffer[member.value.range]) }
/// ```
/// Duplicate keys: `object(into:)` finds all members, and the caller, which knows the keys, refuses a second one.
/// `tree()` refuses them by default.
@_spi(Relay) public struct JSONScanner {
    /// The size and shape of the texts that are accepted.
    @_spi(Relay) public struct Limits: Sendable, Hashable {
        /// The most arrays and objects inside each other. The scanner recurses, so this also limits its stack.
        @_spi(Relay) public var depth: Int
        /// The most bytes of a text.
        var bytes: Int
        /// Whether `tree()` keeps the members of an object that have the same key. Otherwise they are an error.
        var allowsDuplicateKeys = false
        /// Whether `tree()` refuses a number with more digits than its value has.
        var isExact = false

        @_spi(Relay) public init(depth: Int = 128, bytes: Int = .max) {
            self.depth = depth
            self.bytes = bytes
        }

        /// For the text of others that is only looked at.
        static let tolerant: Limits = {
            var limits = Limits()
            limits.allowsDuplicateKeys = true
            return limits
        }()

        /// For a text that is written again from its tree.
        static let exact: Limits = {
            var limits = Limits(depth: 64)
            limits.isExact = true
            return limits
        }()
    }

    /// An error in a text, with its position.
    @_spi(Relay) public struct Failure: Error, Sendable, Hashable, CustomStringConvertible {
        /// What was expected.
        @_spi(Relay) public enum Expectation: Sendable, Hashable {
            case value, object, key, colon, commaOrEndOfObject, commaOrEndOfArray, digit, quotationMark, escapeSequence
            case hexadecimalDigits, highSurrogate, lowSurrogate, noControlCharacter, utf8, end, otherKey
            /// The text is UTF-16, and only UTF-8 is read.
            case utf8InsteadOfUTF16
            /// A number that a `Double` can hold; only in trees.
            case smallerNumber
            case depth(Int)
            case bytes(Int)
        }

        @_spi(Relay) public let expectation: Expectation
        /// The position in the buffer, in bytes.
        @_spi(Relay) public let offset: Int

        @_spi(Relay) public var description: String {
            switch self.expectation {
            case .value: "expected a JSON value"
            case .object: "expected a JSON object"
            case .key: "expected a key in quotation marks"
            case .colon: "expected a colon after the key"
            case .commaOrEndOfObject: "expected a comma or the end of the object"
            case .commaOrEndOfArray: "expected a comma or the end of the array"
            case .digit: "expected a digit"
            case .quotationMark: "expected a quotation mark at the end of the string"
            case .escapeSequence: "expected a valid escape sequence"
            case .hexadecimalDigits: "expected four hexadecimal digits"
            case .highSurrogate: "expected no low surrogate without a high one"
            case .lowSurrogate: "expected a low surrogate after a high one"
            case .noControlCharacter: "expected no control character in a string; escape it"
            case .utf8: "expected UTF-8"
            case .utf8InsteadOfUTF16: "the text is in UTF-16; save it as UTF-8"
            case .end: "expected nothing after the JSON value"
            case .otherKey: "expected each key only once"
            case .smallerNumber: "expected a number of at most 1.8e308"
            case .depth(let limit): "expected at most \(limit) nested arrays and objects"
            case .bytes(let limit): "expected at most \(limit) bytes"
            }
        }
    }

    /// The kind of a value.
    @_spi(Relay) public enum Kind: Sendable, Hashable {
        case object, array, string, number, bool, null
    }

    /// A value that was checked.
    @_spi(Relay) public struct Slice: Sendable, Hashable {
        @_spi(Relay) public let kind: Kind
        /// The bytes of the value in the buffer; of a string including its quotation marks.
        @_spi(Relay) public let range: Range<Int>
        /// Whether the value is a string with escape sequences.
        let hasEscapes: Bool

        init(kind: Kind, range: Range<Int>, hasEscapes: Bool = false) {
            self.kind = kind
            self.range = range
            self.hasEscapes = hasEscapes
        }
    }

    /// One member of an object.
    @_spi(Relay) public struct Member: Sendable, Hashable {
        @_spi(Relay) public let key: Slice
        @_spi(Relay) public let value: Slice
    }

    /// The buffer with the text.
    @_spi(Relay) public let bytes: UnsafeBufferPointer<UInt8>
    var position: Int
    let end: Int
    let limits: Limits

    /// - Parameters:
    ///   - bytes: The buffer, which must outlive the scanner.
    ///   - range: The bytes of the text; nil for the whole buffer.
    ///   - limits: The limits on the text.
    @_spi(Relay) public init(
        _ bytes: UnsafeBufferPointer<UInt8>,
        in range: Range<Int>? = nil,
        limits: Limits = Limits()
    ) {
        self.bytes = bytes
        let whole = 0..<bytes.count
        let range = range?.clamped(to: whole) ?? whole
        self.position = range.lowerBound
        self.end = range.upperBound
        self.limits = limits
    }

    /// Checks that the text is one value, with blanks around it.
    @_spi(Relay) public mutating func document() throws(Failure) -> Slice {
        try self.start()
        let slice = try self.value(depth: 0)
        try self.finish()
        return slice
    }

    /// Checks that the text is one object, with blanks around it, and appends its members.
    ///
    /// After an error, the members before it have been appended.
    @_spi(Relay) public mutating func object(into members: inout [Member]) throws(Failure) {
        try self.start()
        guard self.current == JSONByte.openObject else { throw self.failure(.object) }
        if try self.open(JSONByte.closeObject, depth: 1) {
            repeat {
                let key = try self.key()
                members.append(Member(key: key, value: try self.value(depth: 1)))
            } while try self.hasNext(orEnd: JSONByte.closeObject, else: .commaOrEndOfObject)
        }
        try self.finish()
    }

    /// Checks that the text is one array, with blanks around it, and appends its elements.
    ///
    /// After an error, the elements before it have been appended.
    ///
    /// - Parameter limit: The most elements. If there are more, the text after them is not checked.
    /// - Returns: Whether there are not more elements.
    @_spi(Relay) public mutating func array(into elements: inout [Slice], limit: Int) throws(Failure) -> Bool {
        try self.start()
        guard self.current == JSONByte.openArray else { throw self.failure(.value) }
        if try self.open(JSONByte.closeArray, depth: 1) {
            repeat {
                if elements.count >= limit { return false }
                elements.append(try self.value(depth: 1))
            } while try self.hasNext(orEnd: JSONByte.closeArray, else: .commaOrEndOfArray)
        }
        try self.finish()
        return true
    }

    mutating func start() throws(Failure) {
        guard self.end - self.position <= self.limits.bytes else { throw self.failure(.bytes(self.limits.bytes)) }
        self.skipBlanks()
    }

    mutating func finish() throws(Failure) {
        self.skipBlanks()
        if self.position < self.end { throw self.failure(.end) }
    }

    /// The next byte; 0 at the end. No text may contain 0.
    var current: UInt8 { self.position < self.end ? self.bytes[self.position] : 0 }

    func failure(_ expectation: Failure.Expectation) -> Failure {
        Failure(expectation: expectation, offset: self.position)
    }

    private mutating func skipBlanks() {
        while self.position < self.end {
            switch self.bytes[self.position] {
            case 0x20, 0x09, 0x0A, 0x0D: self.position += 1
            default: return
            }
        }
    }

    // MARK: - Objects and arrays

    /// Skips the opening byte.
    ///
    /// - Parameter depth: How many arrays and objects there are around its content.
    /// - Returns: Whether the object or array has content.
    mutating func open(_ close: UInt8, depth: Int) throws(Failure) -> Bool {
        guard depth <= self.limits.depth else { throw self.failure(.depth(self.limits.depth)) }
        self.position += 1
        self.skipBlanks()
        guard self.current == close else { return true }
        self.position += 1
        return false
    }

    /// Skips the comma before the next member or element, or the closing byte.
    mutating func hasNext(orEnd close: UInt8, else expectation: Failure.Expectation) throws(Failure) -> Bool {
        self.skipBlanks()
        let byte = self.current
        guard byte == JSONByte.comma || byte == close else { throw self.failure(expectation) }
        self.position += 1
        guard byte == JSONByte.comma else { return false }
        self.skipBlanks()
        return true
    }

    /// Checks a key and skips the colon after it.
    mutating func key() throws(Failure) -> Slice {
        guard self.current == JSONByte.quote else { throw self.failure(.key) }
        let key = try self.string()
        self.skipBlanks()
        guard self.current == JSONByte.colon else { throw self.failure(.colon) }
        self.position += 1
        self.skipBlanks()
        return key
    }

    /// - Parameter depth: How many arrays and objects there are around the value.
    mutating func value(depth: Int) throws(Failure) -> Slice {
        let start = self.position
        let kind: Kind
        switch self.current {
        case JSONByte.quote:
            return try self.string()
        case JSONByte.openObject:
            kind = .object
            if try self.open(JSONByte.closeObject, depth: depth + 1) {
                repeat {
                    _ = try self.key()
                    _ = try self.value(depth: depth + 1)
                } while try self.hasNext(orEnd: JSONByte.closeObject, else: .commaOrEndOfObject)
            }
        case JSONByte.openArray:
            kind = .array
            if try self.open(JSONByte.closeArray, depth: depth + 1) {
                repeat {
                    _ = try self.value(depth: depth + 1)
                } while try self.hasNext(orEnd: JSONByte.closeArray, else: .commaOrEndOfArray)
            }
        default:
            kind = try self.scalar()
        }
        return Slice(kind: kind, range: start..<self.position)
    }

    private mutating func scalar() throws(Failure) -> Kind {
        switch self.current {
        case UInt8(ascii: "t"):
            try self.word("true")
            return .bool
        case UInt8(ascii: "f"):
            try self.word("false")
            return .bool
        case UInt8(ascii: "n"):
            try self.word("null")
            return .null
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
            try self.number()
            return .number
        default:
            throw self.failure(.value)
        }
    }

    private mutating func word(_ word: StaticString) throws(Failure) {
        let count = word.utf8CodeUnitCount
        guard self.end - self.position >= count else { throw self.failure(.value) }
        for index in 0..<count where self.bytes[self.position + index] != word.utf8Start[index] {
            throw self.failure(.value)
        }
        self.position += count
    }

    private mutating func number() throws(Failure) {
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

    private mutating func digits() throws(Failure) {
        let start = self.position
        while self.position < self.end, self.bytes[self.position] &- 0x30 <= 9 { self.position += 1 }
        if self.position == start { throw self.failure(.digit) }
    }
}

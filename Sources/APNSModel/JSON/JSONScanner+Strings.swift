import APNSBasics

extension JSONScanner {
    /// Checks a string. The current byte is a quotation mark.
    mutating func string() throws(Failure) -> Slice {
        let start = self.position
        var hasEscapes = false
        self.position += 1
        while true {
            self.skipPlainBytes()
            guard self.position < self.end else { throw self.failure(.quotationMark) }
            switch self.bytes[self.position] {
            case JSONByte.quote:
                self.position += 1
                return Slice(kind: .string, range: start..<self.position, hasEscapes: hasEscapes)
            case JSONByte.backslash:
                hasEscapes = true
                try self.escape()
            case 0x20..<0x80:
                self.position += 1
            case 0x80...:
                try self.multibyteCharacter()
            default:
                throw self.failure(.noControlCharacter)
            }
        }
    }

    /// Skips bytes that have no meaning in a string, eight at a time: ASCII except quotation marks, backslashes and
    /// control characters.
    private mutating func skipPlainBytes() {
        guard let start = self.bytes.baseAddress else { return }
        let ones: UInt64 = 0x0101_0101_0101_0101
        while self.end &- self.position >= 8 {
            let bytes = UnsafeRawPointer(start + self.position).loadUnaligned(as: UInt64.self)
            let word = UInt64(littleEndian: bytes)
            // A subtraction sets the high bit of a byte that is smaller than what is subtracted, or that is not ASCII.
            // Its borrow may also mark later bytes, but never earlier ones.
            let control = word &- ones &* 0x20
            let quote = (word ^ ones &* UInt64(JSONByte.quote)) &- ones
            let backslash = (word ^ ones &* UInt64(JSONByte.backslash)) &- ones
            let marks = (word | control | quote | backslash) & (ones &* 0x80)
            guard marks == 0 else {
                self.position += marks.trailingZeroBitCount / 8
                return
            }
            self.position += 8
        }
    }

    private mutating func escape() throws(Failure) {
        self.position += 1
        switch self.current {
        case JSONByte.quote, JSONByte.backslash, UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            self.position += 1
        case UInt8(ascii: "u"):
            self.position += 1
            let unit = try self.codeUnit()
            if UTF16.isTrailSurrogate(unit) { throw self.failure(.highSurrogate) }
            guard UTF16.isLeadSurrogate(unit) else { return }
            guard self.end - self.position >= 2, self.bytes[self.position] == JSONByte.backslash,
                self.bytes[self.position + 1] == UInt8(ascii: "u")
            else { throw self.failure(.lowSurrogate) }
            self.position += 2
            guard UTF16.isTrailSurrogate(try self.codeUnit()) else { throw self.failure(.lowSurrogate) }
        default:
            throw self.failure(.escapeSequence)
        }
    }

    private mutating func codeUnit() throws(Failure) -> UInt16 {
        guard let unit = self.codeUnit(at: self.position) else { throw self.failure(.hexadecimalDigits) }
        self.position += 4
        return unit
    }

    private func codeUnit(at position: Int) -> UInt16? {
        guard self.end - position >= 4 else { return nil }
        var unit: UInt16 = 0
        for index in position..<position + 4 {
            guard let digit = Hexadecimal.value(self.bytes[index]) else { return nil }
            unit = unit << 4 | UInt16(digit)
        }
        return unit
    }

    /// Checks one character of two to four bytes (the Unicode Standard, table 3-7).
    private mutating func multibyteCharacter() throws(Failure) {
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
        default: throw self.failure(.utf8)
        }
        guard self.end - self.position >= count, second.contains(self.bytes[self.position + 1]) else {
            throw self.failure(.utf8)
        }
        for index in 2..<max(count, 2) where self.bytes[self.position + index] & 0xC0 != 0x80 {
            throw self.failure(.utf8)
        }
        self.position += count
    }

    /// Decodes a string that this scanner has checked. Of another value, it returns the bytes as text.
    @_spi(Relay) public func text(_ slice: Slice) -> String {
        guard slice.kind == .string, slice.range.count >= 2 else {
            return String(decoding: self.bytes[slice.range], as: UTF8.self)
        }
        let content = slice.range.lowerBound + 1..<slice.range.upperBound - 1
        guard slice.hasEscapes else {
            return String(decoding: UnsafeBufferPointer(rebasing: self.bytes[content]), as: UTF8.self)
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
            guard byte == JSONByte.backslash, index < content.upperBound else {
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

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

extension JSONScanner {
    /// Decodes the text, which must be one value with blanks around it.
    mutating func tree() throws(Failure) -> JSONValue {
        try self.start()
        let value = try self.node(depth: 0)
        try self.finish()
        return value
    }

    /// - Parameter depth: How many arrays and objects there are around the value.
    private mutating func node(depth: Int) throws(Failure) -> JSONValue {
        switch self.current {
        case JSONByte.openObject:
            var members: [JSONValue.Member] = []
            guard try self.open(JSONByte.closeObject, depth: depth + 1) else { return .object(members) }
            // By Swift's equality, so that a dictionary can hold the members.
            var keys: Set<String> = []
            repeat {
                let start = self.position
                let key = self.text(try self.key())
                guard self.limits.allowsDuplicateKeys || keys.insert(key).inserted else {
                    throw Failure(expectation: .otherKey, offset: start)
                }
                members.append(JSONValue.Member(key: key, value: try self.node(depth: depth + 1)))
            } while try self.hasNext(orEnd: JSONByte.closeObject, else: .commaOrEndOfObject)
            return .object(members)
        case JSONByte.openArray:
            var values: [JSONValue] = []
            guard try self.open(JSONByte.closeArray, depth: depth + 1) else { return .array(values) }
            repeat {
                values.append(try self.node(depth: depth + 1))
            } while try self.hasNext(orEnd: JSONByte.closeArray, else: .commaOrEndOfArray)
            return .array(values)
        default:
            return try self.decoded(try self.value(depth: depth))
        }
    }

    /// Decodes a string, a number, a boolean or null that this scanner has checked.
    private mutating func decoded(_ slice: Slice) throws(Failure) -> JSONValue {
        switch slice.kind {
        case .string: return .string(self.text(slice))
        case .bool: return .bool(self.bytes[slice.range.lowerBound] == UInt8(ascii: "t"))
        case .number:
            guard let number = self.number(self.text(slice)) else {
                throw Failure(expectation: .smallerNumber, offset: slice.range.lowerBound)
            }
            return number
        case .null, .object, .array: return .null
        }
    }

    /// Decodes a number; nil if it is too large for a `Double`, or has too many digits for one.
    private func number(_ text: String) -> JSONValue? {
        let digits = text.utf8.count - (text.utf8.first == UInt8(ascii: "-") ? 1 : 0)
        if !text.utf8.contains(where: { $0 == UInt8(ascii: ".") || $0 | 0x20 == UInt8(ascii: "e") }) {
            if text == "-0" { return .double(-0.0) }
            if let number = Int64(text) { return .integer(number) }
            if let number = UInt64(text) { return .unsigned(number) }
            // A `Decimal` holds 38 digits exactly.
            if digits <= 38, let number = Decimal(string: text) { return .decimal(number) }
        }
        guard let number = Double(text), number.isFinite else { return nil }
        // A `Double` preserves any 15 significant digits, and one character is the decimal point.
        return self.limits.isExact && digits > 16 ? nil : .double(number)
    }
}

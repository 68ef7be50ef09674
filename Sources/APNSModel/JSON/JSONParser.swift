/// Answers questions about a whole JSON text in an array. ``JSONScanner`` does the work.
package enum JSONParser {
    /// Deep enough for a real payload of a few kilobytes.
    private static let limits = JSONScanner.Limits(depth: 64)

    /// The members of the root object as far as they can be parsed: a truncated text still has its first keys.
    package static func leadingMembers(_ bytes: [UInt8]) -> [JSONValue.Member] {
        bytes.withUnsafeBufferPointer { buffer in
            var scanner = JSONScanner(buffer, limits: .tolerant)
            return self.leadingMembers(&scanner).compactMap { member in
                var value = JSONScanner(buffer, in: member.value.range, limits: .tolerant)
                return (try? value.tree()).map { JSONValue.Member(key: scanner.text(member.key), value: $0) }
            }
        }
    }

    private static func leadingMembers(_ scanner: inout JSONScanner) -> [JSONScanner.Member] {
        var members: [JSONScanner.Member] = []
        // After an error, the members before it have been appended.
        _ = try? scanner.object(into: &members)
        return members
    }

    /// The text of `aps.event`, if it exists.
    static func apsEvent(_ bytes: [UInt8]) -> String? {
        bytes.withUnsafeBufferPointer { buffer in
            var root = JSONScanner(buffer, limits: self.limits)
            for member in self.leadingMembers(&root) where root.text(member.key) == "aps" {
                var aps = JSONScanner(buffer, in: member.value.range, limits: self.limits)
                for member in self.leadingMembers(&aps)
                where member.value.kind == .string && aps.text(member.key) == "event" {
                    return aps.text(member.value)
                }
            }
            return nil
        }
    }

    /// The position of a payload's badge, or where one can be inserted. Nil if the payload is not an object with one
    /// `aps`.
    static func badgePosition(_ bytes: [UInt8]) -> BadgePosition? {
        guard let root = self.members(bytes)?.filter({ $0.key == "aps" }), root.count == 1, let aps = root.first?.value,
            let badges = self.members(bytes, in: aps)?.filter({ $0.key == "badge" })
        else { return nil }
        switch badges.count {
        case 0: return BadgePosition(range: aps.lowerBound + 1..<aps.lowerBound + 1)
        case 1: return BadgePosition(range: badges[0].value)
        default: return nil
        }
    }

    /// Whether the bytes are one JSON value.
    static func isDocument(_ bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBufferPointer { buffer in
            var scanner = JSONScanner(buffer, limits: self.limits)
            return (try? scanner.document()) != nil
        }
    }

    /// Checks that a text is one object.
    package static func checkObject(_ bytes: [UInt8]) throws(JSONScanner.Failure) {
        try bytes.withUnsafeBufferPointer { buffer throws(JSONScanner.Failure) in
            var scanner = JSONScanner(buffer)
            var members: [JSONScanner.Member] = []
            try scanner.object(into: &members)
        }
    }

    struct MemberRange {
        var key: String
        /// The position of the value's bytes.
        var value: Range<Int>
    }

    /// The members of a whole document that is one object; nil for other documents.
    ///
    /// - Parameter range: The bytes of the document; nil for all.
    static func members(_ bytes: [UInt8], in range: Range<Int>? = nil) -> [MemberRange]? {
        bytes.withUnsafeBufferPointer { buffer in
            var scanner = JSONScanner(buffer, in: range, limits: self.limits)
            var members: [JSONScanner.Member] = []
            guard (try? scanner.object(into: &members)) != nil else { return nil }
            return members.map { MemberRange(key: scanner.text($0.key), value: $0.value.range) }
        }
    }
}

extension JSONValue {
    /// Decodes a JSON text.
    ///
    /// - Parameters:
    ///   - json: one value, with blanks around it.
    ///   - limits: what the text may contain.
    /// - Throws: a failure with its position.
    package init(parsing json: [UInt8], limits: JSONScanner.Limits = JSONScanner.Limits()) throws(JSONScanner.Failure) {
        self = try json.withUnsafeBufferPointer { buffer throws(JSONScanner.Failure) in
            var scanner = JSONScanner(buffer, limits: limits)
            return try scanner.tree()
        }
    }

    /// Decodes a JSON text of others, which is only looked at: an object may have a key twice. Nil for bytes that are not
    /// JSON.
    package init?(json: [UInt8]) {
        guard let value = try? JSONValue(parsing: json, limits: .tolerant) else { return nil }
        self = value
    }
}

@_spi(Relay) import APNSModel

/// Merges JSON texts: the members of objects with the same place, and the elements of arrays. Everything else stays as it
/// is, byte for byte.
enum JSONMerge {
    /// - Parameters:
    ///   - text: valid JSON.
    ///   - addition: valid JSON. Of two values that are neither objects nor arrays, the one in `text` stays.
    static func merged(_ text: String, _ addition: String) -> String {
        if let members = Self.members(of: text), let more = Self.members(of: addition) {
            var all = members
            for (key, value) in more {
                if let index = all.firstIndex(where: { $0.key == key }) {
                    all[index].value = Self.merged(all[index].value, value)
                } else {
                    all.append((key, value))
                }
            }
            return "{" + all.map { "\($0.key): \($0.value)" }.joined(separator: ",\n") + "}"
        }
        guard text.hasPrefix("["), addition.hasPrefix("[") else { return text }
        return "\(text.dropLast()), \(addition.dropFirst())"
    }

    /// The members of an object as texts, with the quotation marks of the keys; nil for any other value.
    private static func members(of text: String) -> [(key: String, value: String)]? {
        var text = text
        return text.withUTF8 { bytes in
            var scanner = JSONScanner(bytes)
            var members: [JSONScanner.Member] = []
            guard (try? scanner.object(into: &members)) != nil else { return nil }
            func text(_ slice: JSONScanner.Slice) -> String { String(decoding: bytes[slice.range], as: UTF8.self) }
            return members.map { (text($0.key), text($0.value)) }
        }
    }
}

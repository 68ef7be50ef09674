/// The parameters of a header field such as `Crypto-Key: keyid=p256dh;dh="BNo…", p256ecdsa=BDd…`.
///
/// Senders put both semicolons and commas between them, with and without quotation marks, so this is more tolerant than
/// the grammar. A text in quotation marks may have separators.
struct HeaderParameters: Sendable, Hashable {
    private var values: [String: String] = [:]

    /// Reads the parameters of all fields with one name. The first value of each parameter counts.
    init(_ fields: [String]) {
        for field in fields {
            for part in Self.parts(field) { self.add(part) }
        }
    }

    /// The value of a parameter, whose name is in lower case.
    subscript(name: String) -> String? { self.values[name] }

    private mutating func add(_ part: Substring) {
        guard let equals = part.firstIndex(of: "=") else { return }
        let name = Self.trimmed(part[..<equals]).lowercased()
        var value = Self.trimmed(part[part.index(after: equals)...])
        if value.count >= 2, value.first == "\"", value.last == "\"" { value = value.dropFirst().dropLast() }
        guard !name.isEmpty, self.values[name] == nil else { return }
        self.values[name] = String(value)
    }

    private static func parts(_ field: String) -> [Substring] {
        var isQuoted = false
        return field.split { character in
            if character == "\"" { isQuoted.toggle() }
            return !isQuoted && (character == ";" || character == ",")
        }
    }

    private static func trimmed(_ text: Substring) -> Substring {
        var text = text
        while let first = text.first, first == " " || first == "\t" { text.removeFirst() }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        return text
    }
}

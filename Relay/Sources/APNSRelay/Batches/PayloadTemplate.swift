import PushQueue

/// A payload with placeholders, which the values of each device replace.
///
/// A placeholder is `{{name}}` inside a string of the payload, also with spaces around the name; the name has 1 to 64 ASCII
/// letters, digits and underscores. It is replaced by the text of its value. If a string is nothing but a placeholder and its
/// value is a number or a boolean, the value replaces the whole string with its quotation marks. Values are inserted once: a
/// placeholder inside a value stays as it is. Two braces that begin anything else are an error, because a device would show
/// them.
struct PayloadTemplate: Sendable {
    private enum Part: Sendable {
        case bytes(ArraySlice<UInt8>)
        /// A placeholder inside a longer string, or in a key.
        case text(String)
        /// A placeholder that is a whole string.
        case value(String)
    }

    private static let longestName = 64

    private let parts: [Part]

    /// - Parameter payload: valid JSON.
    /// - Throws: `PushFault` if two braces do not begin a placeholder. Its field is `payload`.
    init(_ payload: [UInt8]) throws(PushFault) {
        var parts: [Part] = []
        // The end of the bytes that are in `parts`.
        var done = 0
        var index = 0
        while index < payload.count {
            guard payload[index] == UInt8(ascii: "\"") else {
                index += 1
                continue
            }
            let quote = index
            let end = Self.endOfString(payload, quote)
            index = quote + 1
            while index < end {
                guard Self.isOpening(payload, at: index, end: end) else {
                    index += 1
                    continue
                }
                guard let (name, next) = Self.placeholder(payload, at: index, end: end) else {
                    throw Self.fault(payload[index..<end])
                }
                let isWhole = index == quote + 1 && next == end && !Self.isKey(payload, after: end)
                let start = isWhole ? quote : index
                if done < start { parts.append(.bytes(payload[done..<start])) }
                parts.append(isWhole ? .value(name) : .text(name))
                done = isWhole ? end + 1 : next
                index = next
            }
            index = end + 1
        }
        if done < payload.count { parts.append(.bytes(payload[done...])) }
        self.parts = parts
    }

    /// Whether all devices get the same payload.
    var isConstant: Bool {
        self.parts.allSatisfy { if case .bytes = $0 { true } else { false } }
    }

    /// The payload of one device.
    ///
    /// - Parameters:
    ///   - values: the device's values.
    ///   - defaults: the values of placeholders that the device has none for.
    /// - Throws: `PushFault` if a placeholder has no value. Its field is `values`.
    func payload(_ values: PlaceholderValues, defaults: PlaceholderValues) throws(PushFault) -> [UInt8] {
        var payload: [UInt8] = []
        for part in self.parts {
            switch part {
            case .bytes(let bytes): payload += bytes
            case .text(let name): payload += try Self.value(name, values, defaults).inString
            case .value(let name):
                let value = try Self.value(name, values, defaults)
                payload += value.text
            }
        }
        return payload
    }

    private static func value(
        _ name: String,
        _ values: PlaceholderValues,
        _ defaults: PlaceholderValues
    ) throws(PushFault) -> PlaceholderValues.Value {
        guard let value = values[name] ?? defaults[name] else {
            throw .invalid("values", "the placeholder {{\(name)}} of the payload has no value")
        }
        return value
    }

    /// The position of the quotation mark that ends a string.
    private static func endOfString(_ text: [UInt8], _ quote: Int) -> Int {
        var index = quote + 1
        while index < text.count, text[index] != UInt8(ascii: "\"") {
            index += text[index] == UInt8(ascii: "\\") ? 2 : 1
        }
        return min(index, text.count)
    }

    private static func isOpening(_ text: [UInt8], at start: Int, end: Int) -> Bool {
        start + 1 < end && text[start] == UInt8(ascii: "{") && text[start + 1] == UInt8(ascii: "{")
    }

    /// The placeholder whose braces begin at a position, and the position after it.
    private static func placeholder(_ text: [UInt8], at start: Int, end: Int) -> (name: String, next: Int)? {
        func position(after index: Int, while isPart: (UInt8) -> Bool) -> Int {
            text[index..<end].firstIndex { !isPart($0) } ?? end
        }
        let isSpace = { (byte: UInt8) in byte == UInt8(ascii: " ") }
        let name = position(after: start + 2, while: isSpace)
        let nameEnd = position(after: name, while: Self.isName)
        let index = position(after: nameEnd, while: isSpace)
        guard (1...Self.longestName).contains(nameEnd - name), index + 1 < end,
            text[index] == UInt8(ascii: "}"), text[index + 1] == UInt8(ascii: "}")
        else { return nil }
        return (String(decoding: text[name..<nameEnd], as: UTF8.self), index + 2)
    }

    /// The fault of braces that begin no placeholder.
    private static func fault(_ text: ArraySlice<UInt8>) -> PushFault {
        let shown = printable(String(decoding: text, as: UTF8.self))
        return .invalid(
            "payload",
            "expected a placeholder such as {{name}}, whose name has 1 to \(Self.longestName) ASCII letters, digits and "
                + "underscores, and not \(shown). To send {{ itself, use a placeholder whose value is {{"
        )
    }

    /// Whether a text has two braces that look like a placeholder.
    static func hasBraces(_ text: some StringProtocol) -> Bool { text.contains("{{") }

    private static func isName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    /// Whether the string that ends at a position is the key of a member.
    private static func isKey(_ text: [UInt8], after end: Int) -> Bool {
        let next = text[min(end + 1, text.count)...].first { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
        return next == UInt8(ascii: ":")
    }
}

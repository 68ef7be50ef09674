/// Makes text that a peer has chosen safe for logs and terminals.
package enum PeerText {
    /// How much of a text is kept, in bytes of UTF-8.
    package static let limit = 256

    /// Escapes characters that move a cursor, end a line or change the order of letters. With them, a peer could forge
    /// log lines or send commands to a terminal. Cuts text longer than ``limit``.
    package static func printable(_ text: String) -> String {
        var text = text
        let isPlain = text.withUTF8 { $0.count <= Self.limit && $0.allSatisfy { $0 >= 0x20 && $0 < 0x7F } }
        if isPlain { return text }
        var result = ""
        for scalar in text.unicodeScalars {
            let piece = Self.isPrintable(scalar) ? String(scalar) : "\\u{\(String(scalar.value, radix: 16))}"
            guard result.utf8.count + piece.utf8.count <= Self.limit else { return result + "…" }
            result += piece
        }
        return result
    }

    package static func printable(_ bytes: some Collection<UInt8>) -> String {
        // A scalar has at most four bytes, so this cut damages only a scalar beyond the limit.
        self.printable(String(decoding: bytes.prefix(Self.limit + 4), as: UTF8.self))
    }

    private static func isPrintable(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: false
        default: true
        }
    }
}

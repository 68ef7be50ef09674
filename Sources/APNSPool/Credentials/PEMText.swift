import APNSBasics
import APNSTransport

/// PEM text (RFC 7468) as environment variables and secret stores hold it.
enum PEMText {
    struct Block {
        /// For example `PRIVATE KEY`.
        var label: String
        /// The bytes between the first and the last line.
        var body: [UInt8] = []
        /// Whether its END line is present.
        var isComplete = false

        /// Whether it has header fields (RFC 1421), as encrypted keys in the old format have.
        var isEncrypted: Bool { self.body.contains(UInt8(ascii: ":")) }

        /// The block in the form that OpenSSL reads.
        fileprivate var text: [UInt8] {
            var result = Array("-----BEGIN \(self.label)-----\n".utf8)
            if self.isEncrypted {
                result += self.body.drop { $0 == 0x0A }
            } else {
                let digits = PEMText.digits(self.body)
                for start in stride(from: 0, to: digits.count, by: 64) {
                    result += digits[start..<min(start + 64, digits.count)] + [0x0A]
                }
            }
            return self.isComplete ? result + Array("-----END \(self.label)-----\n".utf8) : result
        }
    }

    /// Returns PEM text in the form that OpenSSL reads, without base64 around the whole text. If the text is the body of
    /// a block without its first and last line, returns its DER. DER, and input that is not PEM text, is returned
    /// unchanged.
    static func plain(_ bytes: [UInt8]) -> [UInt8] {
        // DER starts with this byte, 0x30. No accepted text does: base64 of PEM starts with L, base64 of DER with M.
        guard bytes.first != DER.sequence else { return bytes }
        var blocks = self.blocks(in: self.withoutEscapes(bytes))
        if blocks.isEmpty {
            guard let decoded = Base64.decode(self.digits(self.withoutEscapes(bytes))) else { return bytes }
            if decoded.first == DER.sequence { return decoded }
            blocks = self.blocks(in: self.withoutEscapes(decoded))
        }
        return blocks.isEmpty ? bytes : blocks.flatMap(\.text)
    }

    /// All blocks, also those without an END line. Text around them is skipped.
    static func blocks(in text: [UInt8]) -> [Block] {
        var blocks: [Block] = []
        for part in text.split(separator: UInt8(ascii: "-")) {
            if part.starts(with: "BEGIN ".utf8) {
                let label = part.dropFirst("BEGIN ".utf8.count)
                // Otherwise the rest of a damaged first line would become part of an error: it may be the key.
                let isLabel = label.count <= 40 && label.allSatisfy { $0 == 0x20 || (0x41...0x5A).contains($0) }
                blocks.append(Block(label: isLabel ? String(decoding: label, as: UTF8.self) : "PRIVATE KEY"))
            } else if let last = blocks.indices.last, !blocks[last].isComplete {
                if part.elementsEqual("END \(blocks[last].label)".utf8) {
                    blocks[last].isComplete = true
                } else {
                    if !blocks[last].body.isEmpty { blocks[last].body.append(UInt8(ascii: "-")) }
                    blocks[last].body += part
                }
            }
        }
        return blocks
    }

    /// The text without blanks, quotes and a byte order mark.
    static func digits(_ text: [UInt8]) -> [UInt8] {
        text.filter { byte in
            switch byte {
            case 0...0x20, UInt8(ascii: "\""), UInt8(ascii: "'"), 0xEF, 0xBB, 0xBF: false
            default: true
            }
        }
    }

    /// Converts the letters `n` and `r` after one or more backslashes to line ends. PEM and base64 contain no other
    /// backslashes.
    private static func withoutEscapes(_ text: [UInt8]) -> [UInt8] {
        let backslash = UInt8(ascii: "\\")
        guard text.contains(backslash) else { return text }
        var result: [UInt8] = []
        var isEscaped = false
        for byte in text {
            if byte == backslash {
                isEscaped = true
            } else {
                let isLineEnd = isEscaped && (byte == UInt8(ascii: "n") || byte == UInt8(ascii: "r"))
                result.append(isLineEnd ? 0x0A : byte)
                isEscaped = false
            }
        }
        return result
    }
}

import APNSBasics
import HTTP2Wire

/// Parses a private key as users supply it: the text of a `.p8` file (PEM, RFC 7468, around PKCS#8, RFC 5958), possibly
/// altered by an environment variable.
///
/// Accepts CRLF, missing line ends, `\n` as two characters, surrounding quotes and blanks, a byte order mark, and
/// base64 around the whole text. Also accepts the key in DER. Any other input is rejected with an error that identifies
/// it.
enum PrivateKeyText {
    /// - Parameter setting: The setting that the errors name.
    /// - Throws: `missing`, `notAKey`, `keyEncrypted`, `keyDamaged` or `keyTypeWrong`.
    static func key(in text: [UInt8], setting: String) throws(APNSConfigurationError) -> ES256PrivateKey {
        do throws(Fault) {
            return try self.key(in: text)
        } catch {
            throw APNSConfigurationError(error.code, setting: setting, message: error.message)
        }
    }

    /// An error that does not name its setting yet.
    struct Fault: Error {
        var code: APNSConfigurationError.Code
        var message: String

        init(_ code: APNSConfigurationError.Code, _ message: String) {
            self.code = code
            self.message = message
        }
    }

    private static func key(in text: [UInt8]) throws(Fault) -> ES256PrivateKey {
        let text = self.plainPEM(text)
        if text.first == DER.sequence { return try self.key(inDER: text) }
        if let block = PEMBlock.mostPromising(in: text) { return try self.key(in: block) }
        if text.range(of: PEMBlock.begin) != nil {
            throw Fault(
                .keyDamaged,
                "Its first line is cut off: it should be '-----BEGIN PRIVATE KEY-----'. \(self.copyAgain)"
            )
        }
        guard !self.trimmed(text[...]).isEmpty else {
            throw Fault(.missing, "It is empty. It must hold the text of the .p8 file from the developer portal.")
        }
        throw Fault(
            .notAKey,
            "It is not a private key in PEM form: there is no '-----BEGIN PRIVATE KEY-----' line. "
                + "Give the .p8 file from the developer portal as it is."
        )
    }

    private static func key(in block: PEMBlock) throws(Fault) -> ES256PrivateKey {
        switch block.label {
        case "PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY", "DSA PRIVATE KEY":
            break
        case "ENCRYPTED PRIVATE KEY":
            throw self.encrypted
        case "OPENSSH PRIVATE KEY":
            throw self.wrongType("an SSH key")
        case "CERTIFICATE", "TRUSTED CERTIFICATE", "X509 CERTIFICATE":
            throw Fault(
                .notAKey,
                "It is a certificate, not a key. A provider token needs the .p8 file of a key, "
                    + "made under 'Keys' in the developer portal."
            )
        case "PUBLIC KEY", "RSA PUBLIC KEY", "EC PUBLIC KEY":
            throw Fault(.notAKey, "It is a public key. Signing needs the private key in the .p8 file.")
        default:
            throw Fault(.notAKey, "It is a PEM text of another kind ('\(block.label)'). Give the .p8 file of the key.")
        }
        guard block.isComplete else {
            throw Fault(
                .keyDamaged,
                "It is cut off: the line '-----END \(block.label)-----' is missing. "
                    + "Download or copy it again (.env files often keep the first line only)."
            )
        }
        // RFC 1421 header fields, which encrypted keys in the old format have.
        if block.body.range(of: Array("ENCRYPTED".utf8)) != nil { throw self.encrypted }
        guard let der = self.base64(Array(block.body)), !der.isEmpty else {
            throw Fault(.keyDamaged, "The text between its BEGIN and END lines is not base64. \(self.copyAgain)")
        }
        return try self.key(inDER: der)
    }

    private static func key(inDER bytes: [UInt8]) throws(Fault) -> ES256PrivateKey {
        do throws(ES256KeyFault) {
            return try ES256PrivateKey(der: bytes)
        } catch {
            switch error {
            case .encrypted:
                throw self.encrypted
            case .wrongAlgorithm(let name):
                throw self.wrongType("a key of the type \(name)")
            case .wrongCurve(let name):
                throw self.wrongType("an EC key on the curve \(name)")
            case .unreadable:
                throw Fault(
                    .keyDamaged,
                    "Its bytes are not a complete private key: it is damaged or cut off. \(self.copyAgain)"
                )
            case .inconsistent:
                throw Fault(
                    .keyDamaged,
                    "It looks like a P-256 key, but its numbers are invalid or do not match. \(self.copyAgain)"
                )
            }
        }
    }

    private static let copyAgain = "Copy the complete .p8 file again."

    private static let encrypted = Fault(
        .keyEncrypted,
        "It is protected by a password. Keys from the developer portal are not: give that .p8 file, "
            + "or remove the password with 'openssl pkcs8 -in KEY -topk8 -nocrypt'."
    )

    private static func wrongType(_ found: String) -> Fault {
        Fault(
            .keyTypeWrong,
            "It is \(found), but APNs accepts EC keys on the curve P-256 only. "
                + "Give the .p8 file of a key made for Apple Push Notifications service in the developer portal."
        )
    }

    // MARK: - PEM of any kind

    /// Normalizes PEM text of any kind, as stored in environment variables, to the form that OpenSSL reads: with line
    /// ends, and without base64 around the whole text. DER, and input that is not PEM text, is returned unchanged.
    static func plainPEM(_ bytes: [UInt8]) -> [UInt8] {
        // DER starts with this byte, 0x30. No accepted text does: base64 of PEM starts with L, base64 of DER with M.
        guard bytes.first != DER.sequence else { return bytes }
        var text = self.withoutEscapes(self.trimmed(bytes[...]))
        if text.range(of: PEMBlock.begin) == nil {
            guard let decoded = self.base64(text) else { return bytes }
            // The text was the body of PEM text, without its first and last line.
            if decoded.first == DER.sequence { return decoded }
            text = self.withoutEscapes(self.trimmed(decoded[...]))
            guard text.range(of: PEMBlock.begin) != nil else { return bytes }
        }
        return text.contains(0x0A) ? text + [0x0A] : PEMBlock.withLines(text)
    }

    // MARK: - Bytes

    fileprivate static func isBlank(_ byte: UInt8) -> Bool {
        byte == 0x20 || (0x09...0x0D).contains(byte)
    }

    /// Removes a byte order mark, surrounding blanks and one pair of quotes.
    private static func trimmed(_ text: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        var text = text
        if text.starts(with: [0xEF, 0xBB, 0xBF]) { text = text.dropFirst(3) }
        func dropBlanks() {
            while let first = text.first, self.isBlank(first) { text.removeFirst() }
            while let last = text.last, self.isBlank(last) { text.removeLast() }
        }
        dropBlanks()
        for quote in [UInt8(ascii: "\""), UInt8(ascii: "'")]
        where text.count >= 2 && text.first == quote && text.last == quote {
            text = text.dropFirst().dropLast()
        }
        dropBlanks()
        return text
    }

    /// Converts the letters `n` and `r` after one or more backslashes to line ends. PEM and base64 contain no other
    /// backslashes.
    private static func withoutEscapes(_ text: ArraySlice<UInt8>) -> [UInt8] {
        let backslash = UInt8(ascii: "\\")
        guard text.contains(backslash) else { return Array(text) }
        var result: [UInt8] = []
        var isEscaped = false
        for byte in text {
            if byte == backslash {
                isEscaped = true
            } else if isEscaped {
                let isLineEnd = byte == UInt8(ascii: "n") || byte == UInt8(ascii: "r")
                result.append(isLineEnd ? 0x0A : byte)
                isEscaped = false
            } else {
                result.append(byte)
            }
        }
        return Array(self.trimmed(result[...]))
    }

    /// Decodes base64 with blanks anywhere. `nil` if the text is not base64.
    private static func base64(_ text: [UInt8]) -> [UInt8]? {
        Base64.decode(text.filter { !self.isBlank($0) })
    }
}

/// One block of PEM text.
private struct PEMBlock {
    static let begin = Array("-----BEGIN ".utf8)
    private static let dashes = Array("-----".utf8)

    var label: String
    var body: ArraySlice<UInt8>
    /// Whether its END line is present.
    var isComplete: Bool

    /// Restores the line ends in all blocks of the text. Text without a block is returned unchanged.
    static func withLines(_ text: [UInt8]) -> [UInt8] {
        let blocks = self.all(in: text)
        guard !blocks.isEmpty else { return text }
        var result: [UInt8] = []
        for block in blocks {
            result += Array("-----BEGIN \(block.label)-----\n".utf8)
            let digits = block.body.filter { !PrivateKeyText.isBlank($0) }
            for start in stride(from: 0, to: digits.count, by: 64) {
                result += digits[start..<min(start + 64, digits.count)] + [0x0A]
            }
            if block.isComplete { result += Array("-----END \(block.label)-----\n".utf8) }
        }
        return result
    }

    /// The first private key in the text, or else the first block of another kind.
    static func mostPromising(in text: [UInt8]) -> PEMBlock? {
        let blocks = self.all(in: text)
        return blocks.first { $0.label.hasSuffix("PRIVATE KEY") } ?? blocks.first
    }

    /// All blocks with complete BEGIN lines.
    private static func all(in text: [UInt8]) -> [PEMBlock] {
        var blocks: [PEMBlock] = []
        var rest = text[...]
        while let start = rest.range(of: self.begin) {
            rest = rest[start.upperBound...]
            guard let labelEnd = rest.range(of: self.dashes), labelEnd.lowerBound - rest.startIndex <= 64 else { break }
            let label = String(decoding: rest[..<labelEnd.lowerBound], as: UTF8.self)
            rest = rest[labelEnd.upperBound...]
            let end = rest.range(of: Array("-----END \(label)-----".utf8))
            let body = rest[..<(end?.lowerBound ?? rest.endIndex)]
            blocks.append(PEMBlock(label: label, body: body, isComplete: end != nil))
            if let end { rest = rest[end.upperBound...] }
        }
        return blocks
    }
}

extension BidirectionalCollection<UInt8> {
    /// The first range of these bytes. The standard library's `firstRange` is fully generic and costs a process that
    /// reads one key a third of a MiB.
    fileprivate func range(of pattern: [UInt8]) -> Range<Index>? {
        var start = self.startIndex
        while true {
            let rest = self[start...]
            if rest.starts(with: pattern) { return start..<rest.index(start, offsetBy: pattern.count) }
            guard !rest.isEmpty else { return nil }
            start = self.index(after: start)
        }
    }
}

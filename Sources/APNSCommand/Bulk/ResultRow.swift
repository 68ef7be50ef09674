import APNSPool

/// One push and its outcome, as a row of the results file: a JSON object on one line without blanks, with all keys
/// always present in a fixed order.
struct ResultRow: Sendable {
    /// The token as it is in the input.
    var token: String
    var outcome: PushOutcome
    /// The line number, counted from 1.
    var line: Int

    func append(to bytes: inout [UInt8]) {
        let rejection = self.outcome.certainty == .rejected ? self.outcome.error?.rejection : nil
        let status = self.outcome.certainty == .accepted ? 200 : rejection?.status
        bytes.append(contentsOf: #"{"token":"#.utf8)
        Self.append(self.token, to: &bytes)
        bytes.append(contentsOf: #","outcome":"#.utf8)
        Self.append(self.outcome.certainty.rawValue, to: &bytes)
        bytes.append(contentsOf: #","status":"#.utf8)
        Self.append(number: status, to: &bytes)
        bytes.append(contentsOf: #","reason":"#.utf8)
        Self.append(rejection?.reason?.rawValue ?? self.outcome.error?.validation?.code.rawValue, to: &bytes)
        bytes.append(contentsOf: #","apnsID":"#.utf8)
        Self.append(self.outcome.apnsID, to: &bytes)
        bytes.append(contentsOf: #","attempts":"#.utf8)
        Self.append(number: self.outcome.attempts, to: &bytes)
        bytes.append(contentsOf: #","tokenInvalidSince":"#.utf8)
        Self.append(number: self.outcome.invalidation?.millisecondsSince1970, to: &bytes)
        bytes.append(contentsOf: #","advice":"#.utf8)
        Self.append(self.outcome.advice.rawValue, to: &bytes)
        bytes.append(contentsOf: #","retryAfterSeconds":"#.utf8)
        bytes.append(contentsOf: (self.outcome.retryAfter.map(Self.seconds) ?? "null").utf8)
        bytes.append(contentsOf: #","line":"#.utf8)
        Self.append(number: self.line, to: &bytes)
        bytes.append(contentsOf: #","apnsUniqueID":"#.utf8)
        Self.append(self.outcome.receipt?.apnsUniqueID, to: &bytes)
        bytes.append(UInt8(ascii: "}"))
    }

    var json: String {
        var bytes: [UInt8] = []
        self.append(to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The row for people: the token as given, then the outcome.
    var text: String {
        var text = "\(self.token) \(self.outcome.certainty.rawValue)"
        if let receipt = self.outcome.receipt {
            text += " 200 apns-id \(receipt.apnsID)"
            if let unique = receipt.apnsUniqueID { text += " apns-unique-id \(unique)" }
        } else if let error = self.outcome.error {
            if error.certainty == .rejected, let rejection = error.rejection {
                text += " \(rejection.status) \(rejection.reason?.rawValue ?? "without a reason")"
            } else {
                text += " \(error.code)"
            }
            if let id = error.apnsID { text += " apns-id \(id)" }
            text += " advice \(error.advice)"
            if let wait = error.retryAfter { text += " retry-after \(Self.seconds(wait)) s" }
            if let since = error.invalidation?.millisecondsSince1970 { text += " token-invalid-since \(since)" }
            text += ": \(error.message)"
        }
        if self.outcome.attempts > 1 { text += " (\(self.outcome.attempts) attempts)" }
        return text.replacing("\n", with: " ")
    }

    /// Seconds, rounded down to a millisecond, without trailing zeros.
    private static func seconds(_ duration: Duration) -> String {
        let (seconds, attoseconds) = max(duration, .zero).components
        let milliseconds = Int(attoseconds / 1_000_000_000_000_000)
        if milliseconds == 0 { return "\(seconds)" }
        var digits = String(1000 + milliseconds).dropFirst()
        while digits.last == "0" { digits.removeLast() }
        return "\(seconds).\(digits)"
    }

    private static func append(number: (some BinaryInteger)?, to bytes: inout [UInt8]) {
        bytes.append(contentsOf: (number.map { String($0) } ?? "null").utf8)
    }

    private static func append(_ id: APNSID?, to bytes: inout [UInt8]) {
        guard let id else {
            bytes.append(contentsOf: "null".utf8)
            return
        }
        bytes.append(UInt8(ascii: "\""))
        let start = bytes.count
        bytes.append(contentsOf: repeatElement(0, count: APNSID.textLength))
        bytes.withUnsafeMutableBufferPointer { buffer in
            if let base = buffer.baseAddress { id.write(into: base + start) }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    /// A JSON string (RFC 8259, section 7).
    static func append(_ text: String?, to bytes: inout [UInt8]) {
        guard let text else {
            bytes.append(contentsOf: "null".utf8)
            return
        }
        bytes.append(UInt8(ascii: "\""))
        // Almost every text is written as it is.
        if text.utf8.allSatisfy({ !Self.isEscaped($0) }) {
            bytes.append(contentsOf: text.utf8)
        } else {
            for byte in text.utf8 { Self.append(byte, to: &bytes) }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    private static func isEscaped(_ byte: UInt8) -> Bool {
        byte < 0x20 || byte == 0x7F || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
    }

    /// One byte of the text of a JSON string.
    private static func append(_ byte: UInt8, to bytes: inout [UInt8]) {
        guard self.isEscaped(byte) else { return bytes.append(byte) }
        bytes.append(UInt8(ascii: "\\"))
        if byte >= 0x20, byte != 0x7F { return bytes.append(byte) }
        bytes.append(contentsOf: "u00".utf8)
        bytes.append(Self.digit(byte >> 4))
        bytes.append(Self.digit(byte & 0xF))
    }

    private static func digit(_ nibble: UInt8) -> UInt8 {
        nibble < 10 ? UInt8(ascii: "0") + nibble : UInt8(ascii: "a") + (nibble - 10)
    }
}

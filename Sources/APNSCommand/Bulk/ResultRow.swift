import APNSPool

/// One push and its outcome, as a row of the results file: a JSON object on one line without blanks, with all keys
/// always present in a fixed order.
struct ResultRow: Sendable {
    /// The token as it is in the input.
    var token: String
    var outcome: PushOutcome
    /// The line number, counted from 1.
    var line: Int

    func append(to writer: inout JSONByteWriter) {
        let rejection = self.outcome.certainty == .rejected ? self.outcome.error?.rejection : nil
        let status = self.outcome.certainty == .accepted ? 200 : rejection?.status
        writer.literal(#"{"token":"#)
        writer.string(self.token)
        writer.literal(#","outcome":"#)
        writer.string(self.outcome.certainty.rawValue)
        writer.literal(#","status":"#)
        writer.integer(orNull: status)
        writer.literal(#","reason":"#)
        writer.string(orNull: rejection?.reason?.rawValue ?? self.outcome.error?.validation?.code.rawValue)
        writer.literal(#","apnsID":"#)
        writer.string(orNull: self.outcome.apnsID?.description)
        writer.literal(#","attempts":"#)
        writer.integer(Int64(self.outcome.attempts))
        writer.literal(#","tokenInvalidSince":"#)
        writer.integer(orNull: self.outcome.invalidation?.millisecondsSince1970)
        writer.literal(#","advice":"#)
        writer.string(self.outcome.advice.rawValue)
        writer.literal(#","retryAfterSeconds":"#)
        writer.append((self.outcome.retryAfter.map(Self.seconds) ?? "null").utf8)
        writer.literal(#","line":"#)
        writer.integer(Int64(self.line))
        writer.literal(#","apnsUniqueID":"#)
        writer.string(orNull: self.outcome.receipt?.apnsUniqueID)
        writer.literal("}")
    }

    var json: String {
        var writer = JSONByteWriter()
        self.append(to: &writer)
        return String(decoding: writer.bytes(), as: UTF8.self)
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
}

extension JSONByteWriter {
    fileprivate mutating func string(orNull text: String?) {
        if let text { self.string(text) } else { self.null() }
    }

    fileprivate mutating func integer(orNull number: (some BinaryInteger)?) {
        if let number { self.integer(Int64(number)) } else { self.null() }
    }
}

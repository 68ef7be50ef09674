import APNSPool

/// The outcomes from the rows of earlier runs, by line. If a line has several rows, the last one counts. Pure.
///
/// Needs five bytes of memory for each line of the token file.
struct EarlierResults: Sendable {
    struct Mistake: Error, CustomStringConvertible {
        var description: String
    }

    /// What to do with a line.
    enum Plan: Equatable {
        /// Send it: it has no row.
        case send
        /// Send it again: the next row replaces its row.
        case resend(Certainty)
        case skip
    }

    private static let certainties = Certainty.allCases
    /// The outcome of a line that was rejected because of the environment or the credential. Its device token may be
    /// valid.
    private static let misconfigured = UInt8(certainties.count + 1)

    let resendsUnknown: Bool
    /// By line: 0 without a row, the index in `certainties` plus one, or `misconfigured`.
    private var outcomes = LineTable<UInt8>(missing: 0)
    /// By line: the fingerprint of the token in the row.
    private var tokens = LineTable<UInt32>(missing: 0)
    private(set) var rows = 0
    /// Whether any line has more than one row.
    private(set) var hasSuperseded = false

    init(resendsUnknown: Bool) {
        self.resendsUnknown = resendsUnknown
    }

    /// Adds a row, without its line end.
    mutating func add(_ bytes: some BidirectionalCollection<UInt8>) throws(Mistake) {
        self.rows += 1
        guard let row = RowScan(bytes),
            let place = Self.certainties.firstIndex(of: row.outcome)
        else { throw Mistake(description: "line \(self.rows) is not a row of results") }
        if self.outcomes[row.line] > 0 { self.hasSuperseded = true }
        self.outcomes[row.line] = row.isMisconfigured ? Self.misconfigured : UInt8(place + 1)
        self.tokens[row.line] = row.token
    }

    func outcome(ofLine line: Int) -> Certainty? {
        guard self.outcomes[line] > 0 else { return nil }
        if self.outcomes[line] == Self.misconfigured { return .rejected }
        return Self.certainties[Int(self.outcomes[line]) - 1]
    }

    func plan(forLine line: Int) -> Plan {
        self.plan(for: self.outcomes[line])
    }

    private func plan(for entry: UInt8) -> Plan {
        if entry == 0 { return .send }
        if entry == Self.misconfigured { return .resend(.rejected) }
        let outcome = Self.certainties[Int(entry) - 1]
        switch outcome {
        case .notSent, .notProcessed: return .resend(outcome)
        case .unknown where self.resendsUnknown: return .resend(outcome)
        default: return .skip
        }
    }

    /// Whether the line's row contains this token.
    func isRow(ofLine line: Int, for token: String) -> Bool {
        guard self.outcome(ofLine: line) != nil else { return true }
        return self.tokens[line] == RowScan.fingerprint(of: token)
    }

    /// How many lines have each outcome.
    var counts: [(certainty: Certainty, count: Int)] {
        var counts = [Int](repeating: 0, count: Self.certainties.count + 2)
        for outcome in self.outcomes.values { counts[Int(outcome)] += 1 }
        return zip(Self.certainties, counts.dropFirst()).map { certainty, count in
            (certainty, certainty == .rejected ? count + counts[Int(Self.misconfigured)] : count)
        }
    }

    /// The number of lines that are not sent again.
    var done: Int {
        self.outcomes.values.count { self.plan(for: $0) == .skip }
    }
}

/// The parts of a row in a results file that a later run needs. It accepts the form that `ResultRow` writes, and the
/// older form that ends with the line's number. Pure.
struct RowScan {
    var outcome: Certainty
    /// Whether the push was rejected because of the environment or the credential.
    var isMisconfigured: Bool
    var line: Int
    /// The fingerprint of the token in its JSON form.
    var token: UInt32

    /// A row with this line number or a larger one is damaged.
    private static let limit = 1 << 31
    private static let start = Array(#"{"token":""#.utf8)
    private static let middle = Array(#","outcome":""#.utf8)
    private static let end = Array(#","line":"#.utf8)
    private static let misconfigurations = [Advice.checkEnvironment, .fixCredential].map {
        Array(#""advice":"\#($0.rawValue)""#.utf8)
    }
    private static let uniqueID = Array(#","apnsUniqueID":"#.utf8)

    init?(_ bytes: some BidirectionalCollection<UInt8>) {
        guard let bytes = Self.withoutUniqueID(Array(bytes)), bytes.starts(with: Self.start),
            bytes.last == UInt8(ascii: "}")
        else { return nil }
        var position = Self.start.count
        var hash = Fingerprint()
        while position < bytes.count, bytes[position] != UInt8(ascii: "\"") {
            if bytes[position] == UInt8(ascii: "\\"), position + 1 < bytes.count {
                hash.add(bytes[position])
                position += 1
            }
            hash.add(bytes[position])
            position += 1
        }
        position += 1
        guard position < bytes.count, bytes[position...].starts(with: Self.middle) else { return nil }
        position += Self.middle.count
        guard let quote = bytes[position...].firstIndex(of: UInt8(ascii: "\"")) else { return nil }
        let name = String(decoding: bytes[position..<quote], as: UTF8.self)
        guard let outcome = Certainty(rawValue: name) else { return nil }
        var start = bytes.count - 1
        while start > quote, (0x30...0x39).contains(bytes[start - 1]) { start -= 1 }
        guard start < bytes.count - 1, start - Self.end.count > quote,
            bytes[(start - Self.end.count)...].starts(with: Self.end),
            let line = Int(String(decoding: bytes[start..<(bytes.count - 1)], as: UTF8.self)),
            line > 0, line < Self.limit
        else { return nil }
        self.outcome = outcome
        // The tool writes all keys in between, and none of their values contains this key.
        let rest = bytes[quote...]
        self.isMisconfigured =
            outcome == .rejected && Self.misconfigurations.contains { rest.firstRange(of: $0) != nil }
        self.line = line
        self.token = hash.value
    }

    /// The row without the key that older rows lack; nil if that key has no valid value.
    private static func withoutUniqueID(_ bytes: [UInt8]) -> [UInt8]? {
        guard bytes.last == UInt8(ascii: "}") else { return nil }
        // An id contains no escaped quotation marks.
        var start = bytes.count - 1
        if bytes[start - 1 < 0 ? 0 : start - 1] == UInt8(ascii: "\"") {
            guard let quote = bytes[..<(start - 1)].lastIndex(of: UInt8(ascii: "\"")) else { return nil }
            start = quote
        } else if bytes.dropLast().suffix(4).elementsEqual("null".utf8) {
            start -= 4
        } else {
            return bytes
        }
        guard bytes[..<start].suffix(self.uniqueID.count).elementsEqual(self.uniqueID) else { return nil }
        return bytes[..<(start - self.uniqueID.count)] + [UInt8(ascii: "}")]
    }

    static func fingerprint(of token: String) -> UInt32 {
        var bytes: [UInt8] = []
        ResultRow.append(token, to: &bytes)
        var hash = Fingerprint()
        for byte in bytes.dropFirst().dropLast() { hash.add(byte) }
        return hash.value
    }

    /// FNV-1a.
    private struct Fingerprint {
        var value: UInt32 = 2_166_136_261

        mutating func add(_ byte: UInt8) {
            self.value = (self.value ^ UInt32(byte)) &* 16_777_619
        }
    }
}

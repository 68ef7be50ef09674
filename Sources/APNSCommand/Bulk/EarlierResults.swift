import APNSPool

/// The outcomes from the rows of earlier runs, by line. If a line has several rows, the last one counts. Pure.
///
/// Needs five bytes of memory for each line of the token file.
struct EarlierResults: Sendable {
    struct Mistake: Error, CustomStringConvertible {
        var description: String
    }

    /// What a row says about its line.
    struct Row: Equatable, Sendable {
        var certainty: Certainty
        var prospect: LineProspect
    }

    /// What to do with a line.
    enum Plan: Equatable {
        /// Send it: it has no row.
        case send
        /// Send it again: the next row replaces its row.
        case resend(Row)
        case skip
    }

    private static let certainties = Certainty.allCases
    /// The number of values of `LineProspect`.
    private static let prospects = UInt8(LineProspect.allCases.count)

    let resendsUnknown: Bool
    /// By line: 0 without a row, or one more than the index in `certainties` times `prospects` plus the prospect.
    private var entries = LineTable<UInt8>(missing: 0)
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
        if self.entries[row.line] > 0 { self.hasSuperseded = true }
        let prospect = LineProspect(row.outcome, row.advice, resendsUnknown: self.resendsUnknown)
        self.entries[row.line] = 1 + UInt8(place) * Self.prospects + prospect.rawValue
        self.tokens[row.line] = row.token
    }

    func plan(forLine line: Int) -> Plan {
        guard let row = Self.row(self.entries[line]) else { return .send }
        return row.prospect == .done ? .skip : .resend(row)
    }

    /// Nil for a line without a row.
    private static func row(_ entry: UInt8) -> Row? {
        guard entry > 0 else { return nil }
        let (place, prospect) = (entry - 1).quotientAndRemainder(dividingBy: Self.prospects)
        return LineProspect(rawValue: prospect).map { Row(certainty: Self.certainties[Int(place)], prospect: $0) }
    }

    /// Whether the line's row contains this token.
    func isRow(ofLine line: Int, for token: String) -> Bool {
        self.entries[line] == 0 || self.tokens[line] == RowScan.fingerprint(of: token)
    }

    /// How many lines have each kind of row.
    var counts: [(row: Row, count: Int)] {
        var counts = [Int](repeating: 0, count: 1 + Self.certainties.count * Int(Self.prospects))
        for entry in self.entries.values { counts[Int(entry)] += 1 }
        return counts.enumerated().compactMap { entry, count in
            Self.row(UInt8(entry)).map { (row: $0, count: count) }
        }
    }

    /// The number of lines that are not sent again.
    var done: Int { self.counts.reduce(0) { $0 + ($1.row.prospect == .done ? $1.count : 0) } }

    /// The limits that stop a run which resumes these results.
    ///
    /// Device tokens that were rejected before are sent again first, and most of them are rejected again. That says nothing
    /// about the environment and the topic if other pushes were accepted, so that many more rejections are allowed.
    func widened(_ limits: MassRejectionLimits) -> MassRejectionLimits {
        let counts = self.counts
        let isProven = counts.contains { $0.row.certainty == .accepted && $0.count > 0 }
        let rejected = counts.reduce(0) { $0 + ($1.row.prospect == .misdirected ? $1.count : 0) }
        guard isProven, limits.rejections <= limits.window else { return limits }
        return MassRejectionLimits(window: limits.window + rejected, rejections: limits.rejections + rejected)
    }
}

/// The parts of a row in a results file that a later run needs. It accepts the form that `ResultRow` writes, and the
/// older form that ends with the line's number. Pure.
struct RowScan {
    var outcome: Certainty
    /// The recommended action; `none` for an accepted push.
    var advice: Advice
    var line: Int
    /// The fingerprint of the token in its JSON form.
    var token: UInt32

    /// A row with this line number or a larger one is damaged.
    private static let limit = 1 << 31
    private static let start = Array(#"{"token":""#.utf8)
    private static let middle = Array(#","outcome":""#.utf8)
    private static let end = Array(#","line":"#.utf8)
    private static let advice = Array(#","advice":""#.utf8)
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
        self.advice = .none
        if outcome != .accepted {
            // The tool writes all keys in between, and none of their values contains this key.
            guard let key = bytes[quote...].firstRange(of: Self.advice),
                let end = bytes[key.upperBound...].firstIndex(of: UInt8(ascii: "\""))
            else { return nil }
            self.advice = Advice(rawValue: String(decoding: bytes[key.upperBound..<end], as: UTF8.self))
        }
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

    /// Whether a file that begins with these bytes holds rows: a token, and then an outcome. Objects with a token and other
    /// members are another program's list of devices. A row that a kill has cut off counts.
    static func isBeginning(_ bytes: [UInt8]) -> Bool {
        guard bytes.starts(with: self.start.prefix(bytes.count)) else { return false }
        var position = self.start.count
        while position < bytes.count, bytes[position] != UInt8(ascii: "\"") {
            position += bytes[position] == UInt8(ascii: "\\") ? 2 : 1
        }
        let rest = bytes.dropFirst(position + 1)
        return rest.starts(with: self.middle.prefix(rest.count))
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

@_spi(Relay) import APNSPool

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
    mutating func add(_ bytes: some Collection<UInt8>) throws(Mistake) {
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

/// The parts of a row in a results file that a later run needs. Pure.
struct RowScan: Equatable {
    var outcome: Certainty
    /// The recommended action; `none` for an accepted push.
    var advice: Advice
    var line: Int
    /// The fingerprint of the token.
    var token: UInt32

    /// A row with this line number or a larger one is damaged.
    private static let limit = 1 << 31

    /// Nil unless the bytes are one JSON object with the keys of `ResultRow` at their places.
    init?(_ bytes: some Collection<UInt8>) {
        let row = Array(bytes).withUnsafeBufferPointer { buffer -> RowScan? in
            var scanner = JSONScanner(buffer)
            var members: [JSONScanner.Member] = []
            guard (try? scanner.object(into: &members)) != nil, members.count == 11 else { return nil }
            func text(_ place: Int, _ key: String, _ kind: JSONScanner.Kind) -> String? {
                let member = members[place]
                guard member.value.kind == kind, scanner.text(member.key) == key else { return nil }
                return scanner.text(member.value)
            }
            guard let token = text(0, "token", .string),
                let outcome = text(1, "outcome", .string).flatMap(Certainty.init(rawValue:)),
                let advice = text(7, "advice", .string).map(Advice.init(rawValue:)),
                let line = text(9, "line", .number).flatMap({ Int($0) }), line > 0, line < Self.limit
            else { return nil }
            return RowScan(outcome: outcome, advice: advice, line: line, token: Self.fingerprint(of: token))
        }
        guard let row else { return nil }
        self = row
    }

    private init(outcome: Certainty, advice: Advice, line: Int, token: UInt32) {
        self.outcome = outcome
        self.advice = advice
        self.line = line
        self.token = token
    }

    /// Whether a file that begins with these bytes holds rows: a token, and then an outcome. Objects with a token and other
    /// members are another program's list of devices. A row that a kill has cut off counts.
    static func isBeginning(_ bytes: [UInt8]) -> Bool {
        let start = Array(#"{"token":""#.utf8)
        let middle = Array(#","outcome":""#.utf8)
        guard bytes.starts(with: start.prefix(bytes.count)) else { return false }
        var position = start.count
        while position < bytes.count, bytes[position] != UInt8(ascii: "\"") {
            position += bytes[position] == UInt8(ascii: "\\") ? 2 : 1
        }
        let rest = bytes.dropFirst(position + 1)
        return rest.starts(with: middle.prefix(rest.count))
    }

    /// FNV-1a.
    static func fingerprint(of token: String) -> UInt32 {
        token.utf8.reduce(2_166_136_261) { ($0 ^ UInt32($1)) &* 16_777_619 }
    }
}

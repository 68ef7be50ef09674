/// A line on a terminal that changes while something is under way. Nowhere else does it print anything.
struct Progress {
    private static let interval = Duration.milliseconds(100)

    private let isShown: Bool
    private let total: Int
    private var shownAt: ContinuousClock.Instant?
    private var width = 0

    init(total: Int) {
        self.isShown = Standard.error.isTerminal
        self.total = total
    }

    /// Shows the state, not more often than ten times a second.
    mutating func update(_ done: Int, _ text: @autoclosure () -> String) {
        guard self.isShown else { return }
        let now = ContinuousClock.now
        if let shownAt, shownAt.duration(to: now) < Self.interval { return }
        self.shownAt = now
        let percent = self.total > 0 ? done * 100 / self.total : 100
        let line = "\(percent) %  \(text())"
        Standard.error.write("\r" + line + String(repeating: " ", count: max(0, self.width - line.count)))
        self.width = line.count
    }

    /// Takes the line away.
    mutating func clear() {
        guard self.isShown, self.width > 0 else { return }
        Standard.error.write("\r" + String(repeating: " ", count: self.width) + "\r")
        self.width = 0
    }
}

/// Names and numbers in two columns.
struct Table {
    private var rows: [(name: String, value: String)] = []

    mutating func add(_ name: String, _ value: some CustomStringConvertible) {
        self.rows.append((name, value.description))
    }

    var text: String {
        let names = self.rows.map(\.name.count).max() ?? 0
        let values = self.rows.map(\.value.count).max() ?? 0
        return self.rows.map { row in
            let dots = String(repeating: " ", count: names - row.name.count + 2 + values - row.value.count)
            return "  \(row.name)\(dots)\(row.value)"
        }
        .joined(separator: "\n")
    }
}

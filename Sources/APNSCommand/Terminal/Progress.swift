import Synchronization

/// Reports progress on standard error: on a terminal as a line that is updated ten times per second, elsewhere as an
/// occasional line.
final class Progress: Sendable {
    private struct State {
        var speedometer = Speedometer()
        var shownAt: ContinuousClock.Instant?
    }

    private static let interval = Duration.milliseconds(100)

    private let total: Int?
    /// The number of items completed by earlier runs.
    private let earlier: Int
    /// The interval between two lines without a terminal; nil for no lines.
    private let plainInterval: Duration?
    private let isQuiet: Bool
    private let start = ContinuousClock.now
    private let state = Mutex(State())

    init(total: Int?, earlier: Int = 0, plainInterval: Duration? = nil, isQuiet: Bool = false) {
        self.total = total
        self.earlier = earlier
        self.plainInterval = plainInterval
        self.isQuiet = isQuiet
    }

    /// - Parameters:
    ///   - done: the number of items completed in this run.
    ///   - details: adds further details to the text.
    func update(_ done: Int, _ details: (inout ProgressText) -> Void = { _ in }) {
        guard !self.isQuiet else { return }
        let isTerminal = StatusLine.shared.isAvailable
        guard let interval = isTerminal ? Self.interval : self.plainInterval else { return }
        let now = ContinuousClock.now
        let time = self.start.duration(to: now) / .seconds(1)
        let text: ProgressText? = self.state.withLock { state in
            state.speedometer.add(time: time, count: done)
            // The first plain line follows only after an interval, because it would have no news before.
            let shownAt = state.shownAt ?? (isTerminal ? now - interval : self.start)
            guard shownAt.duration(to: now) >= interval else { return nil }
            state.shownAt = now
            var text = ProgressText(done: self.earlier + done, total: self.total)
            text.rate = state.speedometer.rate(time: time, count: done)
            return text
        }
        guard var text else { return }
        details(&text)
        if isTerminal {
            let line = text.line(width: StatusLine.shared.width - 1, hasColor: StatusLine.shared.hasColor)
            StatusLine.shared.show(line)
        } else {
            Standard.error.print(text.plain)
        }
    }

    /// Clears the line.
    func clear() {
        StatusLine.shared.clear()
    }
}

/// A table of names and numbers in two columns.
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

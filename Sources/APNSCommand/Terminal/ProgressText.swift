/// The progress as text. Pure.
struct ProgressText {
    /// The number of completed items, including those of earlier runs.
    var done = 0
    /// The total; nil if unknown.
    var total: Int?
    /// Items per second; nil at the start.
    var rate: Double?
    var inFlight: Int?
    /// Why nothing is sent at present.
    var hold: String?
    /// The numbers of failures by name.
    var failures: [(name: String, count: Int)] = []

    private static let barWidths = 10...30

    /// A line of at most `width` columns. The least important parts are left out first.
    func line(width: Int, hasColor: Bool) -> String {
        let percent = self.total.map { self.percent(of: $0) }
        var parts: [(text: String, rank: Int, isBad: Bool)] = []
        if let percent { parts.append(("\(percent) %", 0, false)) }
        parts.append((self.total.map { "\(self.done)/\($0)" } ?? "\(self.done)", 1, false))
        if let rate { parts.append(("\(Self.rate(rate))/s", 2, false)) }
        if let left { parts.append(("\(Self.time(left)) left", 3, false)) }
        if let inFlight { parts.append(("\(inFlight) in flight", 5, false)) }
        for failure in self.failures where failure.count > 0 {
            parts.append(("\(failure.count) \(failure.name)", 4, true))
        }
        if let hold { parts.append(("waiting: \(hold.prefix(40))", 4, true)) }
        func length() -> Int { parts.reduce(-2) { $0 + $1.text.count + 2 } }
        while length() > width, let worst = parts.indices.max(by: { parts[$0].rank < parts[$1].rank }) {
            parts.remove(at: worst)
        }
        let room = min(width - length() - 4, Self.barWidths.upperBound)
        var texts = parts.map { part in
            part.isBad && hasColor ? "\u{1B}[33m\(part.text)\u{1B}[0m" : part.text
        }
        if let percent, room >= Self.barWidths.lowerBound, !texts.isEmpty {
            texts.insert(Self.bar(percent, width: room, hasColor: hasColor), at: 1)
        }
        return texts.joined(separator: "  ")
    }

    /// The text for logs.
    var plain: String {
        var parts = [self.total.map { "\(self.done) of \($0)" } ?? "\(self.done)"]
        if let rate { parts.append("\(Self.rate(rate))/s") }
        if let inFlight { parts.append("\(inFlight) in flight") }
        if let hold { parts.append("waiting: \(hold)") }
        parts += self.failures.filter { $0.count > 0 }.map { "\($0.count) \($0.name)" }
        if let left { parts.append("\(Self.time(left)) left") }
        return parts.joined(separator: ", ")
    }

    private func percent(of total: Int) -> Int {
        guard total > 0 else { return 100 }
        return min(100, max(0, Int(Double(self.done) / Double(total) * 100)))
    }

    /// The remaining time in seconds.
    private var left: Int? {
        guard let total, let rate, rate > 0, total > self.done else { return nil }
        return Int(min((Double(total - self.done) / rate).rounded(.up), 8_640_000))
    }

    private static func rate(_ rate: Double) -> String {
        rate >= 10 || rate == 0 ? "\(Int(rate.rounded()))" : "\((rate * 10).rounded() / 10)"
    }

    static func time(_ seconds: Int) -> String {
        func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
        if seconds < 3600 { return "\(seconds / 60):\(two(seconds % 60))" }
        return "\(seconds / 3600):\(two(seconds / 60 % 60)):\(two(seconds % 60))"
    }

    /// A progress bar. Including its brackets it is two columns wider than `width`.
    private static func bar(_ percent: Int, width: Int, hasColor: Bool) -> String {
        let filled = width * percent / 100
        var full = String(repeating: "=", count: filled)
        if filled < width, filled > 0 { full = String(full.dropLast()) + ">" }
        let empty = String(repeating: " ", count: width - filled)
        return hasColor ? "[\u{1B}[32m\(full)\u{1B}[0m\(empty)]" : "[\(full)\(empty)]"
    }
}

/// Measures the rate per second over the last ten seconds. Pure.
struct Speedometer {
    private static let memory = 10.0
    private static let spacing = 0.5

    private var samples: [(time: Double, count: Int)] = []

    /// - Parameters:
    ///   - time: seconds since any fixed time.
    ///   - count: the number of items since then.
    mutating func add(time: Double, count: Int) {
        if let last = self.samples.last, time - last.time < Self.spacing { return }
        self.samples.append((time, count))
        while self.samples.count > 2, time - self.samples[1].time >= Self.memory { self.samples.removeFirst() }
    }

    /// The rate; nil during the first half second.
    func rate(time: Double, count: Int) -> Double? {
        guard let first = self.samples.first, time - first.time >= Self.spacing else { return nil }
        return Double(count - first.count) / (time - first.time)
    }
}

import Dispatch
import Foundation
import Logging
import Synchronization
import TestSupport

@testable import APNSPool
@testable import APNSPoolTestSupport

/// A signal for the person on call, with its time.
struct NightEvent: Sendable, CustomStringConvertible {
    enum Source: String, Sendable {
        case health, log, metric, alert
    }

    /// Seconds since the fault began.
    var after: Int
    var source: Source
    var text: String

    var time: String { "\(self.after / 60):" + (self.after % 60 < 10 ? "0" : "") + "\(self.after % 60)" }
    var description: String { "\(self.time) \(self.source.rawValue): \(self.text)" }

    /// Whether two signals are equal and at most two minutes apart.
    func fits(_ other: NightEvent) -> Bool {
        self.source == other.source && self.text == other.text && abs(self.after - other.after) <= 120
    }
}

/// Records health, log and metrics of one run, in simulated time.
final class NightRecorder: Sendable {
    private struct State {
        var now = Duration.zero
        var faultBegan: Duration?
        var events: [NightEvent] = []
        var linesRead = 0
        /// The values of each series, by step.
        var series: [String: [Int: String]] = [:]
        var steps = 0
        /// Signals that existed before the fault are not recorded.
        var known: Set<String> = []
        var health = ""
    }

    private let metrics: PrometheusText
    private let lines: Journal<RecordingLog.Line>
    private let step: Duration
    private let state = Mutex(State())

    init(_ metrics: PrometheusText, _ lines: Journal<RecordingLog.Line>, step: Duration) {
        self.metrics = metrics
        self.lines = lines
        self.step = step
    }

    func pass(_ time: Duration) { self.state.withLock { $0.now += time } }

    /// The time since the fault began; before that, since the beginning.
    var clockTime: String {
        self.state.withLock { state in
            state.faultBegan.map { "\(state.now - $0) after the fault began" } ?? "\(state.now) after the beginning"
        }
    }

    func beginFault() { self.state.withLock { $0.faultBegan = $0.now } }

    func record(_ health: APNSHealth) {
        let lines = self.lines.entries
        self.state.withLock { state in
            let words = health.cause.map { "\(health.name): \($0.code)" } ?? health.name
            // A repeated state is recorded once. Only the last return to serving is kept.
            if words != state.health {
                state.health = words
                Self.note(.health, words, &state)
            }
            for line in lines.dropFirst(state.linesRead) where line.level >= .warning || line.message.contains("again")
            {
                Self.note(.log, "\(line.level): \(line.message)", &state)
            }
            state.linesRead = lines.count
        }
    }

    /// Records the current values, like a scrape by Prometheus.
    func scrape() {
        let text = self.metrics.text()
        self.state.withLock { state in
            for line in text.split(separator: "\n") where !line.hasPrefix("#") {
                guard let blank = line.lastIndex(of: " ") else { continue }
                let name = String(line[..<blank])
                let value = String(line[line.index(after: blank)...])
                state.series[name, default: [:]][state.steps] = value
                if name.hasPrefix("apns_pushes_total{"), value != "0" {
                    let outcome = Self.label("outcome", of: name)
                    Self.note(.metric, "\(outcome) pushes, reason \(Self.label("reason", of: name))", &state)
                }
            }
            state.steps += 1
        }
    }

    private static func note(_ source: NightEvent.Source, _ text: String, _ state: inout State) {
        guard state.known.insert("\(source) \(text)").inserted || text == "serving" else { return }
        guard let began = state.faultBegan else { return }
        if text == "serving" { state.events.removeAll { $0.source == .health && $0.text == text } }
        // Rounded up to half a minute, since the exact times vary.
        let after = (Int((state.now - began) / .milliseconds(1)) + 29_999) / 30_000 * 30
        state.events.append(NightEvent(after: after, source: source, text: text))
    }

    private static func label(_ name: String, of series: String) -> String {
        guard let range = series.range(of: "\(name)=\"") else { return "" }
        return String(series[range.upperBound...].prefix { $0 != "\"" })
    }

    /// All signals in order, with the alerts that Prometheus would have raised.
    func events() throws -> [NightEvent] {
        let state = self.state.withLock { $0 }
        guard let began = state.faultBegan else { return [] }
        let alerts = try Promtool.firing(
            series: state.series,
            steps: state.steps,
            interval: Int(self.step.components.seconds)
        )
        var events = state.events
        let end = Int(state.now.components.seconds)
        for (alert, times) in alerts {
            guard let first = times.min(), let last = times.max() else { continue }
            let start = Int(began.components.seconds)
            events.append(NightEvent(after: first - start, source: .alert, text: "\(alert) fires"))
            guard last + 60 < end else { continue }
            events.append(NightEvent(after: last + 60 - start, source: .alert, text: "\(alert) ends"))
        }
        return events.sorted { ($0.after, $0.source.rawValue, $0.text) < ($1.after, $1.source.rawValue, $1.text) }
    }
}

/// Prometheus' own tool, which evaluates the alert rules over recorded metrics.
enum Promtool {
    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    private static func path() throws -> String {
        let own = Runbook.root.appending(path: ".build/promtool/usr/bin/promtool").path
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        let all = [own] + folders.map { "\($0)/promtool" }
        guard let found = all.first(where: { FileManager.default.isExecutableFile(atPath: $0) }) else {
            throw Failure(description: "there is no promtool: run ci/lib/promtool, which fetches it")
        }
        return found
    }

    /// The alerts of Docs/Monitoring/alerts.yml that fire, evaluated each minute, with their times (seconds since the
    /// first step).
    ///
    /// promtool has no such query. The test file claims that no alert fires, and promtool reports each time at which
    /// that is wrong.
    static func firing(series: [String: [Int: String]], steps: Int, interval: Int) throws -> [String: [Int]] {
        let rules = Runbook.root.appending(path: "Docs/Monitoring/alerts.yml")
        let names = try Runbook.alerts()
        var text = "rule_files: ['\(rules.path)']\nevaluation_interval: \(interval)s\ntests:\n"
        text += "  - interval: \(interval)s\n    input_series:\n"
        for (name, values) in series.sorted(by: { $0.key < $1.key }) {
            let list = (0..<steps).map { values[$0] ?? "_" }.joined(separator: " ")
            text += "      - {series: '\(name)', values: '\(list)'}\n"
        }
        text += "    alert_rule_test:\n"
        for minute in 1..<(steps * interval / 60) {
            for name in names { text += "      - {alertname: \(name), eval_time: \(minute)m, exp_alerts: []}\n" }
        }
        let folder = FileManager.default.temporaryDirectory.appending(path: "night-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appending(path: "night.yml")
        let output = folder.appending(path: "output")
        try text.write(to: file, atomically: true, encoding: .utf8)
        try "".write(to: output, atomically: true, encoding: .utf8)
        let process = Process()
        process.executableURL = URL(filePath: try self.path())
        process.arguments = ["test", "rules", file.path]
        let handle = try FileHandle(forWritingTo: output)
        process.standardOutput = handle
        process.standardError = handle
        try process.start()
        let isLate = DispatchWorkItem { process.terminate() }
        DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(Patience.seconds), execute: isLate)
        process.waitUntilExit()
        isLate.cancel()
        let report = try String(contentsOf: output, encoding: .utf8)
        var firing: [String: [Int]] = [:]
        for line in report.split(separator: "\n") {
            // "    alertname: APNSClientFailing, time: 11m, "
            let words = line.split(separator: " ")
            guard words.count >= 4, words[0] == "alertname:", words[2] == "time:" else { continue }
            firing[String(words[1].dropLast()), default: []].append(try Self.seconds(String(words[3].dropLast())))
        }
        guard report.contains("SUCCESS") || !firing.isEmpty else {
            throw Failure(description: String(report.prefix(2_000)))
        }
        return firing
    }

    /// The seconds of a time such as "1h2m30s".
    private static func seconds(_ text: String) throws -> Int {
        var total = 0
        var number = 0
        for character in text {
            switch character {
            case "h": total += number * 3600
            case "m": total += number * 60
            case "s": total += number
            default:
                guard let digit = character.wholeNumberValue else { throw Failure(description: "no time: \(text)") }
                number = number * 10 + digit
                continue
            }
            number = 0
        }
        return total
    }
}

/// Docs/Runbook.md, the files that it describes, and the record of faults that it names.
enum Runbook {
    static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
    private static let record = "Tests/Reference/nights-on-call.txt"

    static func text(_ path: String) throws -> String {
        try String(contentsOf: root.appending(path: path), encoding: .utf8)
    }

    /// The names of all alerts.
    static func alerts() throws -> [String] {
        try self.text("Docs/Monitoring/alerts.yml").matches(of: /- alert: (\w+)/).map { String($0.1) }
    }

    /// All headings, without code marks.
    static func headings() throws -> [String] {
        try self.text("Docs/Runbook.md").split(separator: "\n").filter { $0.hasPrefix("#") }
            .map { $0.drop { $0 == "#" }.replacing("`", with: "").trimmingCharacters(in: .whitespaces) }
    }

    /// The table under a story's heading.
    static func events(of story: String) throws -> [NightEvent] {
        try self.section(of: story).lines.compactMap { line in
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            guard cells.count == 3, let source = NightEvent.Source(rawValue: cells[1]) else { return nil }
            let time = cells[0].split(separator: ":").compactMap { Int($0) }
            guard time.count == 2 else { return nil }
            return NightEvent(after: time[0] * 60 + time[1], source: source, text: cells[2].replacing("`", with: ""))
        }
    }

    static func write(_ events: [NightEvent], of story: String) throws {
        let (before, lines, after) = try self.section(of: story)
        var table = lines.filter { !$0.hasPrefix("|") }
        while table.last?.isEmpty == true { table.removeLast() }
        table += ["", "| After | Source | Signal |", "|---|---|---|"]
        for event in events {
            let text = event.source == .log ? event.text : "`\(event.text)`"
            table.append("| \(event.time) | \(event.source.rawValue) | \(text) |")
        }
        let all = (before + table + (after.isEmpty ? [] : [""]) + after).joined(separator: "\n")
        try (all + "\n").write(to: self.root.appending(path: self.record), atomically: true, encoding: .utf8)
    }

    /// The lines up to and including the heading, those up to the next heading, and the rest.
    private static func section(of story: String) throws -> (before: [String], lines: [String], after: [String]) {
        var all = try self.text(self.record).split(separator: "\n", omittingEmptySubsequences: false).map(
            String.init
        )
        while all.last?.isEmpty == true { all.removeLast() }
        guard let heading = all.firstIndex(of: "### \(story)") else {
            throw Promtool.Failure(description: "\(self.record) has no heading '### \(story)'")
        }
        let end = all[(heading + 1)...].firstIndex { $0.hasPrefix("#") } ?? all.count
        return (Array(all[...heading]), Array(all[(heading + 1)..<end]), Array(all[end...]))
    }
}

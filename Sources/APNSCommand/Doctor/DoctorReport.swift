import ArgumentParser

/// The findings of `apns doctor`, step by step.
struct DoctorReport: Sendable {
    enum State: String, Encodable, Sendable {
        case ok
        case warning
        case failed
        /// Skipped, because an earlier step failed.
        case skipped
    }

    /// What a failure means for the user of the tool.
    enum Blame: Sendable {
        case usage
        case configuration
        case unreachable
        case overload

        var status: ExitCode {
            switch self {
            case .usage: ExitStatus.usage
            case .configuration: ExitStatus.configuration
            case .unreachable: ExitStatus.unavailable
            case .overload: ExitStatus.resumable
            }
        }
    }

    struct Step: Encodable, Sendable {
        var name: String
        var state: State
        /// The findings, line by line.
        var found: [String]
        /// The recommended action; nil if there is none.
        var advice: String?
    }

    private(set) var steps: [Step] = []
    /// The status of the first failure.
    private(set) var status = ExitStatus.success
    var settings: [GivenSetting] = []

    /// Whether further steps make sense.
    var isOK: Bool { self.status == ExitStatus.success }

    mutating func pass(_ name: String, _ found: [String]) {
        self.steps.append(Step(name: name, state: .ok, found: found))
    }

    mutating func warn(_ name: String, _ found: [String], _ advice: String) {
        self.steps.append(Step(name: name, state: .warning, found: found, advice: advice))
    }

    mutating func fail(_ name: String, _ found: [String], _ advice: String, _ blame: Blame) {
        self.steps.append(Step(name: name, state: .failed, found: found, advice: advice))
        if self.isOK { self.status = blame.status }
    }

    mutating func skip(_ name: String, _ why: String = "not tried, because an earlier step failed") {
        self.steps.append(Step(name: name, state: .skipped, found: [why]))
    }

    // MARK: Output

    struct JSON: Encodable {
        var isOK: Bool
        var exitStatus: Int32
        var settings: [GivenSetting]
        var steps: [Step]
    }

    var json: String {
        JSONText.encode(
            JSON(isOK: self.isOK, exitStatus: self.status.rawValue, settings: self.settings, steps: self.steps)
        )
    }

    func text(hasColor: Bool) -> String {
        self.steps.map { $0.text(hasColor: hasColor) }.joined(separator: "\n") + "\n\n" + self.verdict
    }

    private var verdict: String {
        let warnings = self.steps.count { $0.state == .warning }
        guard let failed = self.steps.first(where: { $0.state == .failed }) else {
            return warnings == 0 ? "All is well." : "It works. Warnings: \(warnings)."
        }
        return "It does not work: \(failed.name)."
    }
}

extension DoctorReport.Step {
    private static let nameWidth = 14

    func text(hasColor: Bool) -> String {
        let (word, color) =
            switch self.state {
            case .ok: ("ok", "32")
            case .warning: ("warning", "33")
            case .failed: ("FAILED", "31")
            case .skipped: ("-", "2")
            }
        let padded = word + String(repeating: " ", count: max(0, 9 - word.count))
        let mark = hasColor ? "\u{1B}[\(color)m\(padded)\u{1B}[0m" : padded
        let title = self.name + String(repeating: " ", count: max(1, Self.nameWidth - self.name.count))
        let indent = String(repeating: " ", count: 9 + Self.nameWidth)
        var lines = self.found.isEmpty ? [""] : self.found
        if let advice { lines.append("-> \(advice)") }
        return mark + title + lines.joined(separator: "\n" + indent)
    }
}

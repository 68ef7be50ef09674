import ArgumentParser

/// The goals besides the cost of a push, which `make bench` sets beside h2load's.
struct Goals: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Measures memory, latency beside bulk, several loops and the like; fails if a goal is missed.",
        discussion: """
            memory: a million device tokens in one bulk call. memory-in-flight: of a push beyond its payload. lanes: \
            single sends beside a bulk call. loops: CPU per push with two connections on two event loops. stall: the \
            server answers nothing for a minute in the middle. idle: a pool that does nothing. in-flight: CPU per push \
            by pushes in flight. half-load: latency at half of the rate that a connection carries. first-push: time of \
            a process that sends one push, beside curl.
            """
    )

    @Option(help: ArgumentHelp("Only these, separated by commas.", valueName: "GOALS"), transform: Goals.list)
    var only: [Goal] = []

    @Option(help: "A part of the pushes and of the waiting, for a try: from 0.001 to 1. Verdicts need 1.")
    var scale = 1.0

    private static func list(_ text: String) throws -> [Goal] {
        try text.split(separator: ",").map { name in
            guard let goal = Goal(rawValue: String(name)) else {
                let all = Goal.allCases.map(\.rawValue).joined(separator: ", ")
                throw ValidationError("no goal '\(name)': there are \(all)")
            }
            return goal
        }
    }

    func validate() throws {
        guard (0.001...1).contains(scale) else { throw ValidationError("--scale must be 0.001 to 1") }
    }

    func run() throws {
        let runner = GoalRunner(scale: scale)
        var missed = 0
        print(Self.row("goal", "measured", "must", ""))
        for goal in only.isEmpty ? Goal.allCases : only {
            let results: [GoalResult]
            do {
                results = try runner.results(goal)
            } catch {
                results = [GoalResult(name: goal.rawValue, measured: "\(error)", must: "a figure", isMet: false)]
            }
            for result in results {
                if !result.isMet { missed += 1 }
                let verdict = result.must.isEmpty ? "" : result.isMet ? "ok" : "MISSED"
                print(Self.row(result.name, result.measured, result.must, verdict))
            }
        }
        guard missed == 0 else {
            writeError("\(missed) missed")
            throw ExitCode(1)
        }
    }

    private static func row(_ name: String, _ measured: String, _ must: String, _ verdict: String) -> String {
        func padded(_ text: String, _ width: Int, toLeft: Bool = false) -> String {
            let blanks = String(repeating: " ", count: max(0, width - text.count))
            return toLeft ? blanks + text : text + blanks
        }
        return padded(name, 66) + padded(measured, 26, toLeft: true) + padded(must, 13, toLeft: true) + "  " + verdict
    }
}

/// How much a property test runs and from which seeds. All but the last run begin with the same seeds each time; the last
/// one, and all that `TEST_SCALE` adds, with random ones.
///
/// `COMMANDS=n` makes each test run that many random commands in all its runs; with `SEED=n` beside it, one run of that
/// many from that seed.
public struct PropertyRun: Sendable {
    /// One for each run.
    public let seeds: [UInt64]
    /// Random commands in each run.
    public let commandsPerRun: Int

    /// - Parameters:
    ///   - commands: Random commands in all, at the scale 1.
    ///   - runs: Runs that they are spread over, each from the beginning; at the scale 1.
    public init(commands: Int, runs: Int) {
        let runs = max(1, runs)
        let wanted = TestScale.environment("COMMANDS").map { Int(clamping: $0) }
        if let seed = TestScale.environment("SEED") {
            seeds = [seed]
            commandsPerRun = max(1, wanted ?? commands / runs)
            return
        }
        var fixed = SeededRandom(seed: 1)
        var random = SeededRandom()
        let all = TestScale.times(runs)
        seeds = (0..<all).map { $0 < runs - 1 ? fixed.next() : random.next() }
        commandsPerRun = max(1, wanted.map { $0 / all } ?? commands / runs)
        // A run that traps says no more.
        print("random seeds:", seeds.dropFirst(runs - 1).prefix(8).map { "\($0)" }.joined(separator: " "))
    }

    /// What to say of a run that failed.
    public func replay(_ seed: UInt64) -> String {
        "SEED=\(seed) COMMANDS=\(commandsPerRun) replays this"
    }
}

/// The number of runs of a property test and their seeds. All runs but the last use the same seeds each time. The last
/// run, and all runs that `TEST_SCALE` adds, use random seeds.
///
/// `COMMANDS=n` makes each test run that many random commands in all its runs together. With `SEED=n` as well, it makes
/// one run of that many commands from that seed.
public struct PropertyRun: Sendable {
    /// One seed for each run.
    public let seeds: [UInt64]
    /// Random commands in each run.
    public let commandsPerRun: Int

    /// - Parameters:
    ///   - commands: the number of random commands in all runs together, at scale 1.
    ///   - runs: the number of runs, each from a new start, at scale 1.
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
        // A run that traps prints nothing after this.
        print("random seeds:", seeds.dropFirst(runs - 1).prefix(8).map { "\($0)" }.joined(separator: " "))
    }

    /// The message for a run that failed.
    public func replay(_ seed: UInt64) -> String {
        "SEED=\(seed) COMMANDS=\(commandsPerRun) replays this"
    }
}

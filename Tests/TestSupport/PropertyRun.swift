#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// How much a property test runs and from which seeds. `COMMANDS=n` makes each test run that many
/// random commands in all its runs; with `SEED=n` beside it, one run of that many from that seed.
public struct PropertyRun: Sendable {
    /// One for each run.
    public let seeds: [UInt64]
    /// Random commands in each run.
    public let commandsPerRun: Int

    /// - Parameters:
    ///   - commands: Random commands in all.
    ///   - runs: Runs that they are spread over, each from the beginning.
    public init(commands: Int, runs: Int) {
        let wanted = Self.environment("COMMANDS").map { Int(clamping: $0) }
        if let seed = Self.environment("SEED") {
            seeds = [seed]
            commandsPerRun = max(1, wanted ?? commands / max(1, runs))
        } else {
            var random = SeededRandom()
            seeds = (0..<max(1, runs)).map { _ in random.next() }
            commandsPerRun = max(1, (wanted ?? commands) / max(1, runs))
        }
    }

    /// What to say of a run that failed.
    public func replay(_ seed: UInt64) -> String {
        "SEED=\(seed) COMMANDS=\(commandsPerRun) replays this"
    }

    private static func environment(_ name: String) -> UInt64? {
        getenv(name).flatMap { UInt64(String(cString: $0)) }
    }
}

import APNSPool
import ArgumentParser

/// Single sends at a steady rate, first alone and then beside a bulk call of the same client.
struct Probe: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Prints the 99th percentile of single sends in ms, without and with a bulk call.",
        shouldDisplay: false
    )

    @OptionGroup var client: ClientOptions

    @Option(help: "Pushes of the bulk call.")
    var pushes = 1_000_000

    @Option(help: "Single sends a second.")
    var rate = 200.0

    @Option(help: "How many single sends are made without the bulk call; with it they go on as long as it does.")
    var singles = 2000

    func validate() throws {
        guard pushes > 0, singles > 0, rate >= 1 else {
            throw ValidationError("--pushes, --singles and --rate must be 1 or more")
        }
    }

    func run() throws {
        let (alone, beside) = try blocking { try await percentiles() }
        print(decimal(alone, places: 3), decimal(beside, places: 3))
    }

    private func percentiles() async throws -> (alone: Double, beside: Double) {
        let workload = try Workload(topic: client.topic, payloadBytes: nil)
        let client = try APNSClient(configuration: try client.configuration(server: nil, maxQueued: 10_000))
        try await client.start()
        let alone = OpenLoop(client: client, workload: workload, pushes: singles, rate: rate)
        try await alone.warmUp(connections: self.client.poolSize)
        let before = await alone.run()

        let bulk = Task.detached { [pushes] in
            try await ClosedLoop(client: client, workload: workload, pushes: pushes, inFlight: 1000).run(.prepared)
        }
        let isDone = Signal()
        let waiting = Task { [isDone] in
            let tally = try await bulk.value
            isDone.raise()
            return tally
        }
        // The first moments are those of a bulk call that is not under way yet.
        try await Task.sleep(for: .milliseconds(500))
        var loop = OpenLoop(client: client, workload: workload, pushes: 1_000_000, rate: rate)
        loop.isOver = { isDone.isRaised }
        let during = await loop.run()
        let bulkTally = try await waiting.value
        await client.shutdown()

        for tally in [before, during, bulkTally] where tally.failed > 0 {
            throw ProcessError("a push failed: \(tally.failures.sorted().first ?? "")")
        }
        guard during.outcomes >= 100 else {
            throw ProcessError("the bulk call was over after \(during.outcomes) single sends: too few to judge")
        }
        return (before.latencies.milliseconds(percentile: 99), during.latencies.milliseconds(percentile: 99))
    }
}

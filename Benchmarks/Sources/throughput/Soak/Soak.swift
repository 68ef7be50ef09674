import APNSPool
import APNSSimulator
import ArgumentParser
import Logging
import NIOCore
import NIOPosix

/// Hours of mixed load with faults, and a table of what the process holds.
struct Soak: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Sends mixed load with faults for hours; fails if memory or anything else grows.",
        discussion: """
            The load is single pushes, bulk calls, changes of settings and key, and short-lived clients. The simulator \
            in a second process refuses, delays, drops and stalls. Every few minutes the load stops until each push \
            has its outcome, and a row is printed: resident set, heap, descriptors, threads, leases, waiting pushes, \
            pushes in flight, and the delay of the event loops. The values must be flat after the first quarter.
            """
    )

    /// The shortest time between two rows, in seconds.
    private static let shortestRow = 10.0
    private static let usualRow = 300.0

    @Option(help: "How long to run.")
    var hours = 2.0

    @Option(help: ArgumentHelp("Single pushes a second; bulk calls send as many again.", valueName: "R"))
    var rate = 500.0

    @Option(help: ArgumentHelp("Keep this many bytes for each single push.", valueName: "N", visibility: .hidden))
    var leak = 0

    func validate() throws {
        guard (0.02...1000).contains(hours) else { throw ValidationError("--hours must be 0.02 to 1000") }
        guard (1...10_000).contains(rate) else { throw ValidationError("--rate must be 1 to 10000 pushes a second") }
        guard (0...1 << 20).contains(leak) else { throw ValidationError("--leak must be 0 to 1048576 bytes") }
    }

    func run() throws {
        Heap.useOneArena()
        guard try blocking({ try await execute() }) else { throw ExitCode(1) }
    }

    /// False if the soak failed.
    private func execute() async throws -> Bool {
        var behaviour = ServerBehaviour()
        behaviour.hasSoakFaults = true
        let server = try ServerProcess(behaviour)
        defer { server.end() }
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        let configuration = configuration(server, group)
        let client = try APNSClient(configuration: configuration)
        try await client.start()
        let load = SoakLoad(
            client: client,
            configuration: configuration,
            workload: try Workload(topic: "com.grasscove.Fern", payloadBytes: nil),
            rate: rate,
            leakedBytes: leak
        )
        let rows = try await rows(client, load, LoopDelay(group))
        await client.shutdown()
        let verdict = SoakVerdict(rows: rows, counts: load.total, processed: server.end())
        report(load.total, verdict)
        return verdict.faults.isEmpty
    }

    private func rows(_ client: APNSClient, _ load: SoakLoad, _ delays: LoopDelay) async throws -> [SoakRow] {
        let seconds = hours * 3600
        let count = max(8, Int(seconds / Self.usualRow))
        let begin = ContinuousClock.now
        var rows: [SoakRow] = []
        Server.announce(SoakRow.header + "\n")
        for number in 1...count {
            let end = begin.advanced(by: .seconds(seconds * Double(number) / Double(count)))
            let time = max(.seconds(Self.shortestRow), end - .now)
            try await load.run(for: time)
            let status = try await rest(client)
            let row = SoakRow(
                seconds: (ContinuousClock.now - begin) / .seconds(1),
                pushes: load.total.pushes,
                status: status,
                loopDelays: delays.take()
            )
            rows.append(row)
            Server.announce(row.text + "\n")
        }
        return rows
    }

    /// The status when nothing is in flight any more, or after a minute.
    private func rest(_ client: APNSClient) async throws -> APNSClientStatus {
        let limit = ContinuousClock.now.advanced(by: .seconds(60))
        while true {
            let status = await client.status
            let isAtRest = status.pool.leased == 0 && status.pool.queueDepth == 0 && status.pushesInFlight == 0
            if isAtRest || ContinuousClock.now > limit { return status }
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    private func configuration(
        _ server: ServerProcess,
        _ group: any EventLoopGroup
    ) -> APNSClientConfiguration {
        APNSClientConfiguration(
            authentication: .token(privateKeyPEM: SimulatedKey().p8, keyID: "ABC123DEFG", teamID: "ABCDE12345"),
            environment: .custom(host: "localhost", port: server.port),
            pool: .init(size: 3, maxOverflow: 2),
            timeouts: .init(deadline: .seconds(10), response: .seconds(3)),
            trust: .init(caFile: server.caFile),
            logger: Logger(label: "soak") { _ in SwiftLogNoOpLogHandler() },
            eventLoopGroup: group
        )
    }

    private func report(_ counts: SoakCounts, _ verdict: SoakVerdict) {
        print(
            """

            \(counts.pushes) pushes: \(counts.accepted) accepted, \(counts.rejected) rejected, \
            \(counts.notProcessed) not processed, \(counts.notSent) not sent, \(counts.unknown) unknown
            """
        )
        for fault in verdict.faults { print("FAILED: \(fault)") }
        if verdict.faults.isEmpty { print("flat after the warm-up") }
    }
}

import APNSPool
import ArgumentParser

#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

enum Mode: String, CaseIterable, ExpressibleByArgument, Codable {
    case prepared, encoded, single
}

enum Format: String, CaseIterable, ExpressibleByArgument {
    case text, json
}

/// One run: pushes in, figures out.
struct Measure: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Sends pushes and prints the figures of the run.",
        discussion: """
            A closed loop by default: --in-flight pushes are under way until --pushes have their outcome. With --rate an \
            open loop: pushes come at fixed times whatever became of those before, and latency is counted from the time \
            at which a push should have been sent (no coordinated omission). Without --endpoint they go to a simulator in \
            a second process. The exit status is 1 if a push was not accepted.
            """
    )

    static let defaultInFlight = 500

    @OptionGroup var client: ClientOptions
    @OptionGroup(title: "The simulator") var simulator: SimulatorOptions

    @Option(help: ArgumentHelp("How many pushes to send.", valueName: "N"))
    var pushes = 200_000

    @Option(help: ArgumentHelp("Pushes under way at once (default: \(defaultInFlight)).", valueName: "N"))
    var inFlight: Int?

    @Option(help: ArgumentHelp("Open loop: so many pushes a second, evenly spaced, each sent singly.", valueName: "R"))
    var rate: Double?

    @Option(help: ArgumentHelp("The payload's size. Without it: that of the sample notification.", valueName: "N"))
    var payloadBytes: Int?

    @Option(
        help: """
            prepared: one payload to all devices by the bulk call; encoded: the bulk call with each push built and \
            encoded anew; single: tasks that each await one push after the other, built and encoded anew.
            """
    )
    var mode = Mode.prepared

    @Option(help: "The form of the report.")
    var format = Format.text

    @Flag(help: "Run the simulator only: prints port and CA file, and ends when its standard input does.")
    var serve = false

    @Option(
        help: ArgumentHelp(
            "Write payload, URIs and authorization for another load tool, and send nothing.",
            valueName: "DIRECTORY"
        )
    )
    var writeRequests: String?

    @Option(
        help: ArgumentHelp(
            "Sends through a group of so many apps, each with a key and a client of its own. Connecting is not measured.",
            valueName: "N"
        )
    )
    var apps: Int?

    @Flag(help: ArgumentHelp("No two payloads are alike.", visibility: .hidden))
    var distinct = false

    func validate() throws {
        guard (1...1_000_000_000).contains(pushes) else {
            throw ValidationError("--pushes must be 1 to 1,000,000,000")
        }
        if let inFlight, !(1...100_000).contains(inFlight) {
            throw ValidationError("--in-flight must be 1 to 100000")
        }
        if let rate {
            guard rate >= 0.1, rate <= 1_000_000 else {
                throw ValidationError("--rate must be 0.1 to 1000000 a second")
            }
            if inFlight != nil { throw ValidationError("--rate and --in-flight exclude one another") }
            if mode == .encoded { throw ValidationError("--rate sends single pushes: --mode prepared or single") }
            if pushes > 1_000_000 { throw ValidationError("with --rate, --pushes must be 1 to 1,000,000") }
        }
        if client.endpoint != nil, simulator.behaviour != ServerBehaviour() {
            throw ValidationError("--rtt, --service-time and --stream-limit are the simulator's: not with --endpoint")
        }
        if serve, client.endpoint != nil { throw ValidationError("--serve and --endpoint exclude one another") }
        if writeRequests != nil, client.endpoint == nil { throw ValidationError("--write-requests needs --endpoint") }
        if writeRequests != nil, client.key != nil { throw ValidationError("--write-requests makes a key of its own") }
        if let apps {
            guard (1...10_000).contains(apps) else { throw ValidationError("--apps must be 1 to 10000") }
            if rate != nil { throw ValidationError("--apps and --rate exclude one another") }
            if apps > pushes { throw ValidationError("--pushes must be at least --apps") }
        }
        if distinct, mode == .prepared { throw ValidationError("--distinct needs --mode encoded or single") }
        do {
            _ = try workload()
        } catch {
            throw ValidationError("\(error)")
        }
    }

    func run() throws {
        guard try blocking({ try await execute() }) else { throw ExitCode(1) }
    }

    private func workload() throws -> Workload {
        try Workload(topic: client.topic, payloadBytes: payloadBytes, isDistinct: distinct)
    }

    /// False if a push was not accepted.
    private func execute() async throws -> Bool {
        if serve {
            try await Server.serve(simulator.behaviour)
            return true
        }
        let workload = try workload()
        if let writeRequests, let endpoint = client.endpoint {
            try RequestFiles(
                workload: workload,
                endpoint: endpoint.text,
                teamID: client.teamID
            ).write(to: writeRequests)
            return true
        }
        let server = client.endpoint == nil ? try ServerProcess(simulator.behaviour) : nil
        defer { server?.end() }
        let report = try await measure(workload, server)
        print(format == .json ? report.json : report.text)
        for failure in report.tally.failures.sorted() { writeError("a push failed: \(failure)") }
        if report.tally.outcomes != pushes { writeError("\(pushes) pushes, but \(report.tally.outcomes) outcomes") }
        return report.tally.accepted == pushes
    }

    private func measure(_ workload: Workload, _ server: ServerProcess?) async throws -> Report {
        let inFlight = self.inFlight ?? Self.defaultInFlight
        let configuration = try client.configuration(server: server, maxQueued: rate == nil ? inFlight : pushes)

        if let apps {
            let loop = try GroupLoop(
                configuration,
                apps: apps,
                workload: workload,
                pushes: pushes,
                inFlight: inFlight
            )
            return try await measure(loop)
        }
        let before = ProcessUsage.now()
        var start = MonotonicTime.microseconds()
        let client = try APNSClient(configuration: configuration)
        try await client.start()
        let tally: Tally
        if let rate {
            let loop = OpenLoop(
                client: client,
                workload: workload,
                prepared: mode == .prepared ? try workload.notification().prepared() : nil,
                pushes: pushes,
                rate: rate
            )
            // A push that comes while connections are made would say how long that takes.
            try await loop.warmUp(connections: self.client.poolSize)
            start = MonotonicTime.microseconds()
            tally = await loop.run()
        } else {
            let loop = ClosedLoop(client: client, workload: workload, pushes: pushes, inFlight: inFlight)
            tally = try await loop.run(mode)
        }
        let report = report(tally, start: start, before)
        await client.shutdown()
        return report
    }

    private func measure(_ loop: GroupLoop) async throws -> Report {
        let running = Task { try await loop.group.run() }
        await loop.warmUp()
        let before = ProcessUsage.now()
        let start = MonotonicTime.microseconds()
        let tally = try await loop.run(mode)
        let report = report(tally, start: start, before)
        loop.group.shutdown()
        try await running.value
        return report
    }

    private func report(_ tally: Tally, start: UInt64, _ before: ProcessUsage) -> Report {
        let seconds = Double(MonotonicTime.microseconds() - start) / 1e6
        let after = ProcessUsage.now()
        return Report(
            mode: mode,
            pushes: pushes,
            tally: tally,
            seconds: seconds,
            cpuMicroseconds: after.cpuMicroseconds - before.cpuMicroseconds,
            peakRSSBytes: after.peakRSSBytes
        )
    }
}

func writeError(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    _ = bytes.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
}

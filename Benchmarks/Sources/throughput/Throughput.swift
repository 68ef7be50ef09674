import APNSPool
import ArgumentParser
import Crypto
import Logging

#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

enum Mode: String, CaseIterable, ExpressibleByArgument {
    case prepared, encoded, single
}

enum Format: String, CaseIterable, ExpressibleByArgument {
    case text, json
}

@main
struct Throughput: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "throughput",
        abstract: "Measures how fast, and at what cost, pushes go through the client.",
        discussion: """
            A closed loop: --in-flight pushes are under way until --pushes have their outcome. Without --endpoint they \
            go to a simulator in a second process. The exit status is 1 if a push was not accepted.
            """
    )

    @Option(
        help: ArgumentHelp("The server. Without it: a simulator in another process.", valueName: "https://HOST:PORT")
    )
    var endpoint: String?

    @Option(help: ArgumentHelp("Further trust roots.", valueName: "PEM"))
    var caFile: String?

    @Option(help: "How many pushes to send.")
    var pushes = 200_000

    @Option(help: "Connections that are kept.")
    var poolSize = 1

    @Option(help: "Connections on demand.")
    var maxOverflow = 0

    @Option(help: "Pushes under way at once.")
    var inFlight = 500

    @Option(
        help: ArgumentHelp(
            "The time that each push has, queue and answer. Without it: the client's own.",
            valueName: "SECONDS"
        )
    )
    var deadline: Double?

    @Option(help: "The payload's size. Without it: that of the sample notification.")
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

    @Option(help: ArgumentHelp("A key to sign with. Without it: a throw-away key.", valueName: "P8"))
    var key: String?

    @Option(help: ArgumentHelp("The key's id.", valueName: "ID"))
    var keyID: String?

    @Option(help: ArgumentHelp("The team's id.", valueName: "ID"))
    var teamID = "ABCDE12345"

    @Option(help: "The topic.")
    var topic = "com.grasscove.Fern"

    @Flag(help: "Run the simulator only: prints port and CA file, and ends when its standard input does.")
    var serve = false

    @Option(
        help: ArgumentHelp(
            "Write payload, URIs and authorization for another load tool, and send nothing.",
            valueName: "DIRECTORY"
        )
    )
    var writeRequests: String?

    func validate() throws {
        if pushes < 1 { throw ValidationError("--pushes must be 1 or more") }
        if inFlight < 1 { throw ValidationError("--in-flight must be 1 or more") }
        if let deadline, !(0.001...86_400).contains(deadline) {
            throw ValidationError("--deadline must be 0.001 to 86400 seconds")
        }
        if key == nil, keyID != nil { throw ValidationError("--key-id needs --key") }
        if writeRequests != nil, endpoint == nil { throw ValidationError("--write-requests needs --endpoint") }
    }

    func run() throws {
        try blocking { try await execute() }
    }

    private func execute() async throws {
        if serve {
            try await Server.serve()
            return
        }
        let workload = try Workload(topic: topic, payloadBytes: payloadBytes)
        if let writeRequests, let endpoint {
            try RequestFiles(workload: workload, endpoint: endpoint, key: key, keyID: keyID, teamID: teamID)
                .write(to: writeRequests)
            return
        }
        guard try await measure(workload) else { throw ExitCode(1) }
    }

    /// True if every push was accepted.
    private func measure(_ workload: Workload) async throws -> Bool {
        let server = endpoint == nil ? try ServerProcess() : nil
        defer { server?.end() }
        let environment: APNSEnvironment
        if let server {
            environment = .custom(host: "localhost", port: server.port)
        } else {
            environment = try Self.environment(endpoint ?? "")
        }
        let configuration = APNSClientConfiguration(
            authentication: try authentication(),
            environment: environment,
            // All connections at once: what is measured is sending, not the pauses between connects.
            pool: .init(
                size: poolSize,
                maxOverflow: maxOverflow,
                maxQueued: max(10_000, inFlight),
                connectSpacing: .zero
            ),
            timeouts: deadline.map { .init(deadline: .seconds($0), answer: .seconds($0)) } ?? .init(),
            trust: .init(caFile: server?.caFile ?? caFile),
            logger: Logger(label: "throughput") { label in
                var handler = StreamLogHandler.standardError(label: label)
                handler.logLevel = .warning
                return handler
            }
        )

        let before = ProcessUsage.now()
        let start = MonotonicTime.microseconds()
        let client = try APNSClient(configuration: configuration)
        try await client.start()
        let loop = ClosedLoop(client: client, workload: workload, pushes: pushes, inFlight: inFlight)
        let tally =
            switch mode {
            case .prepared: try await loop.prepared()
            case .encoded: await loop.encoded()
            case .single: await loop.single()
            }
        let seconds = Double(MonotonicTime.microseconds() - start) / 1e6
        let after = ProcessUsage.now()
        await client.shutdown()

        let report = Report(
            mode: mode.rawValue,
            pushes: pushes,
            accepted: tally.accepted,
            failed: tally.failed,
            seconds: seconds,
            cpuMicroseconds: after.cpuMicroseconds - before.cpuMicroseconds,
            latencies: tally.latencies,
            peakRSSBytes: after.peakRSSBytes
        )
        print(format == .json ? report.json : report.text)
        for failure in tally.failures.sorted() { writeError("a push failed: \(failure)") }
        if tally.accepted + tally.failed != pushes {
            writeError("\(pushes) pushes, but \(tally.accepted + tally.failed) outcomes")
        }
        return tally.accepted == pushes
    }

    private func authentication() throws -> APNSAuthentication {
        guard let key else {
            return .token(privateKey: P256.Signing.PrivateKey(), keyID: "ABC123DEFG", teamID: teamID)
        }
        return .token(keyFile: key, keyID: keyID, teamID: teamID)
    }

    /// Takes `https://HOST[:PORT]`, the host of an IPv6 address in brackets.
    private static func environment(_ endpoint: String) throws -> APNSEnvironment {
        let scheme = "https://"
        guard endpoint.hasPrefix(scheme) else { throw UsageError("--endpoint must begin with https://") }
        var authority = endpoint.dropFirst(scheme.count)
        if authority.hasSuffix("/") { authority.removeLast() }
        var port = 443
        if let colon = authority.lastIndex(of: ":"), !authority[colon...].contains("]") {
            guard let number = UInt16(authority[authority.index(after: colon)...]) else {
                throw UsageError("--endpoint has no valid port")
            }
            port = Int(number)
            authority = authority[..<colon]
        }
        if authority.hasPrefix("["), authority.hasSuffix("]") { authority = authority.dropFirst().dropLast() }
        return .custom(host: String(authority), port: port)
    }
}

func writeError(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    _ = bytes.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
}

import APNSPool
import APNSSimulator
import ArgumentParser
import Logging

/// Where a client sends to and what it is made of.
struct ClientOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("The server. Without it: a simulator in another process.", valueName: "https://HOST:PORT"),
        transform: Endpoint.init
    )
    var endpoint: Endpoint?

    @Option(help: ArgumentHelp("Further trust roots.", valueName: "PEM"))
    var caFile: String?

    @Option(help: ArgumentHelp("Connections that are kept.", valueName: "N"))
    var poolSize = 1

    @Option(help: ArgumentHelp("Connections on demand.", valueName: "N"))
    var maxOverflow = 0

    @Option(
        help: ArgumentHelp(
            "The time of each push, and of the response to it. Without it: the client's own.",
            valueName: "SECONDS"
        )
    )
    var deadline: Double?

    @Option(help: ArgumentHelp("A key to sign with. Without it: a throw-away key.", valueName: "P8"))
    var key: String?

    @Option(help: ArgumentHelp("The key's id.", valueName: "ID"))
    var keyID: String?

    @Option(help: ArgumentHelp("The team's id.", valueName: "ID"))
    var teamID = "ABCDE12345"

    @Option(help: "The topic.")
    var topic = "com.grasscove.Fern"

    func validate() throws {
        guard (0...1000).contains(poolSize) else { throw ValidationError("--pool-size must be 0 to 1000") }
        guard (0...1000).contains(maxOverflow) else { throw ValidationError("--max-overflow must be 0 to 1000") }
        guard (1...1000).contains(poolSize + maxOverflow) else {
            throw ValidationError("--pool-size and --max-overflow must be 1 to 1000 together")
        }
        if let deadline, !(0.001...86_400).contains(deadline) {
            throw ValidationError("--deadline must be 0.001 to 86400 seconds")
        }
        if key == nil, keyID != nil { throw ValidationError("--key-id needs --key") }
        if endpoint == nil, caFile != nil { throw ValidationError("--ca-file needs --endpoint") }
    }

    /// - Parameters:
    ///   - server: the own simulator, if there is no `--endpoint`.
    ///   - maxQueued: pushes that may wait for a stream.
    func configuration(server: ServerProcess?, maxQueued: Int) throws -> APNSClientConfiguration {
        let environment: APNSEnvironment
        if let server {
            environment = .custom(host: "localhost", port: server.port)
        } else if let endpoint {
            environment = endpoint.environment
        } else {
            throw UsageError("neither an endpoint nor a server of its own")
        }
        return APNSClientConfiguration(
            authentication: try authentication(),
            environment: environment,
            // All connections at once: what is measured is sending, not the pauses between connects.
            pool: .init(
                size: poolSize,
                maxOverflow: maxOverflow,
                maxQueued: min(max(10_000, maxQueued), 1_000_000),
                maxQueuedBytes: 1 << 30,
                connectSpacing: .zero
            ),
            timeouts: deadline.map { .init(deadline: .seconds($0), response: .seconds($0)) } ?? .init(),
            trust: .init(caFile: server?.caFile ?? caFile),
            logger: Logger(label: "throughput") { label in
                var handler = StreamLogHandler.standardError(label: label)
                handler.logLevel = .warning
                return handler
            }
        )
    }

    private func authentication() throws -> APNSAuthentication {
        guard let key else {
            return .token(privateKeyPEM: SimulatedKey().p8, keyID: "ABC123DEFG", teamID: teamID)
        }
        return .token(keyFile: key, keyID: keyID, teamID: teamID)
    }
}

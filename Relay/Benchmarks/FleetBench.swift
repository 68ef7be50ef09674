import APNSModel
import APNSRelay
import APNSSimulator
import ArgumentParser
import Foundation
import Logging
import PostgresPushQueue
import PostgresTestServer
import PushQueue

/// `relay-bench fleet`
struct FleetRun: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fleet",
        abstract: "Sends a full queue in a PostgreSQL database with 1, 2 and 4 relays, each a process of its own.",
        discussion: """
            The database server, the relays and the simulator run on this machine. With a --delay and a small \
            --in-flight, the round trips to APNs limit each relay; without, the cores of this machine do.
            """
    )

    /// The program of a relay that was built beside this one.
    static let relayBesideThis = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
        .appending(path: "apns-relay").path

    @Option(help: "The relay's program.")
    var relay = Self.relayBesideThis

    @Option(help: "Numbers of relays, separated by commas.")
    var relays = "1,2,4"

    @Option(help: "How many pushes each run sends.")
    var pushes = 40_000

    @Option(help: "The most pushes in flight of each relay.")
    var inFlight = 200

    @Option(help: "How long the simulator waits before each response, in milliseconds.")
    var delay = 100

    func run() async throws {
        let server = try PostgresServer()
        defer { server.end() }
        var configuration = Simulator.Configuration()
        configuration.environment = .production
        configuration.responseDelay = .milliseconds(self.delay)
        configuration.credential = .none
        let simulator = try await Simulator.start(configuration)
        var first: Double?
        for text in self.relays.split(separator: ",") {
            let count = Int(text) ?? 1
            let result = try await self.measure(count, server, simulator)
            first = first ?? result.rate
            print(
                String(
                    format:
                        "%@: %.0f pushes/s, %.2f times the first; CPU a push: relays %.0f us, database %.0f us",
                    count == 1 ? "1 relay" : "\(count) relays",
                    result.rate,
                    result.rate / (first ?? 1),
                    result.relays,
                    result.database
                )
            )
        }
        await simulator.stop()
    }

    private func measure(
        _ count: Int,
        _ server: PostgresServer,
        _ simulator: Simulator
    ) async throws -> (rate: Double, relays: Double, database: Double) {
        let bench = try BenchQueue()
        defer { bench.remove() }
        let authority = bench.folder.appending(path: "ca.pem")
        try Data(simulator.certificateAuthorityPEM.utf8).write(to: authority)
        let url = server.url(try server.createDatabase())
        var storage = bench.settings.storage
        storage.postgres = try ConnectionSettings(url)
        let queue = try await storage.open(logger: bench.logger).queue
        try await bench.fill(queue, self.pushes)
        let environment = [
            "APPS": "fern", "APP_FERN_TOPIC": "com.grasscove.Fern", "APP_FERN_ENVIRONMENTS": "production",
            "SERVER_PRODUCTION": "localhost:\(simulator.port)", "CLIENT_CA_FILE": authority.path, "HTTP_PORT": "0",
            "STORAGE_POSTGRES": url, "DISPATCH_MAX_IN_FLIGHT": "\(self.inFlight)",
            "DISPATCH_BATCH": "\(max(self.inFlight / 4, 1))",
        ]
        let before = ProcessFigures.cpuSeconds(of: server)
        var processes: [Process] = []
        for _ in 0..<count { processes.append(try Self.start(self.relay, environment)) }
        defer { for process in processes { process.terminate() } }
        while try await queue.counts().unsettled > 0 { try await Task.sleep(for: .milliseconds(20)) }
        let cpu = processes.map { ProcessFigures.cpuSeconds(of: $0.processIdentifier) }.reduce(0, +)
        let after = ProcessFigures.cpuSeconds(of: server)
        let rate = try await Self.rate(queue)
        await queue.close()
        let micros = 1e6 / Double(self.pushes)
        return (rate, cpu * micros, (after - before) * micros)
    }

    static func start(_ relay: String, _ environment: [String: String]) throws -> Process {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: relay)
        process.arguments = ["serve"]
        process.environment = Dictionary(uniqueKeysWithValues: environment.map { ("APNS_RELAY_\($0)", $1) })
        process.standardError = FileHandle.nullDevice
        try process.run()
        return process
    }

    /// Outcomes a second, between the first and the last tenth of them.
    private static func rate(_ queue: any PushQueue) async throws -> Double {
        var times: [QueueTime] = []
        var cursor: FeedCursor?
        while true {
            let page = try await queue.outcomes(after: cursor, apps: nil, kind: .outcomes, limit: 10_000)
            times += page.entries.compactMap(\.push.settledAt)
            guard page.cursor != cursor else { break }
            cursor = page.cursor
        }
        let (first, last) = (times.count / 10, times.count * 9 / 10)
        guard last > first else { return 0 }
        return Double(last - first) / (times[first].duration(to: times[last]) / .seconds(1))
    }
}

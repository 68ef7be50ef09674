import APNSSimulator
import Foundation
import PostgresTestServer
import PushQueueConformance
import RelayTestSupport
import Synchronization
import Testing

/// Relays in processes of their own that share a queue, a simulated APNs, and applications that hand pushes in.
final class FleetUnderTest: Sendable {
    /// The most pushes of each relay that are marked and have no outcome.
    static let maxInFlight = 200
    /// Lets pushes whose relay was killed end soon.
    static let shortLeases = ["DISPATCH_ATTEMPT_DEADLINE": "2s", "DISPATCH_SETTLE_MARGIN": "5s"]

    /// The number of kills in each test of kills: `FLEET_KILLS`, by default 4.
    static var kills: Int { self.killsSetting ?? 4 }
    /// The number of promotions in each test of them: `FLEET_KILLS`, by default 2.
    static var promotions: Int { self.killsSetting ?? 2 }
    private static var killsSetting: Int? { ProcessInfo.processInfo.environment["FLEET_KILLS"].flatMap(Int.init) }

    let simulator: Simulator
    /// The server with the queue, which lives as long as the fleet.
    private let server: PostgresServer
    /// The name of the database with the queue.
    let database: String
    /// How relays connect to it.
    let url: String
    let relays: [RelayUnderTest]
    let load = PushLoad()
    private let nextNumber = Mutex(0)

    /// - Parameters:
    ///   - simulator: what stands in for APNs.
    ///   - server: the server with the queue, which gets a database of its own.
    ///   - standby: another server whose address the relays know; nil for none.
    ///   - settings: settings of all relays, as environment variables without the prefix.
    ///   - proxy: stands between the first relay and the server; nil for no proxy.
    ///   - first: settings of the first relay.
    init(
        _ simulator: Simulator,
        _ server: PostgresServer,
        standby: PostgresServer? = nil,
        settings: [String: String] = [:],
        proxy: TestProxy? = nil,
        first: [String: String] = [:]
    ) throws {
        self.database = try server.createDatabase()
        self.url = server.url(self.database, standby: standby)
        let common = [
            "STORAGE_POSTGRES": self.url, "DISPATCH_MAX_IN_FLIGHT": "\(Self.maxInFlight)",
            "DISPATCH_BATCH": "50",
        ].merging(settings) { $1 }
        var own = first
        if let proxy {
            own["STORAGE_POSTGRES"] =
                "host=127.0.0.1 port=\(proxy.port) dbname=\(self.database) user=postgres sslmode=disable"
        }
        self.simulator = simulator
        self.server = server
        self.relays = try (0..<3).map { number in
            try RelayUnderTest(
                port: simulator.port,
                certificateAuthority: simulator.certificateAuthorityPEM,
                settings: number == 0 ? common.merging(own) { $1 } : common
            )
        }
    }

    /// Creates a server that relays can also reach through a proxy.
    static func server() async throws -> PostgresServer {
        try await blocking { try PostgresServer(["listen_addresses = '127.0.0.1'"]) }
    }

    static func simulator(delay: Duration = .milliseconds(5)) async throws -> Simulator {
        var configuration = Simulator.Configuration()
        configuration.credential = .none
        configuration.environment = .production
        configuration.responseDelay = delay
        return try await Simulator.start(configuration)
    }

    /// Starts three relays that end the leases of a killed one soon, and a server of their own.
    static func started() async throws -> FleetUnderTest {
        let fleet = try FleetUnderTest(
            // Longer than the pauses of the load, so that a kill interrupts pushes.
            try await Self.simulator(delay: .milliseconds(300)),
            try await Self.server(),
            settings: Self.shortLeases
        )
        try await fleet.start()
        return fleet
    }

    func start() async throws {
        for relay in self.relays { try await relay.start() }
    }

    func end() async {
        for relay in self.relays { await relay.kill() }
        await self.simulator.stop()
    }

    // MARK: Load

    /// Runs a body while three applications hand pushes in. An application that is refused tries the next relay.
    ///
    /// - Parameters:
    ///   - batch: the pushes of a request.
    ///   - pause: how long an application waits between its requests.
    ///   - relays: who gets the pushes; nil for all relays.
    func underLoad(
        batch: Int = 20,
        pause: Duration = .milliseconds(150),
        to relays: [RelayUnderTest]? = nil,
        _ body: () async throws -> Void
    ) async throws {
        let end = LoadEnd()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for application in 0..<3 {
                group.addTask {
                    var round = application
                    while !end.isReached {
                        try await self.post(batch, to: relays ?? self.relays, &round)
                        try await Task.sleep(for: pause)
                    }
                }
            }
            defer { end.reach() }
            try await body()
            end.reach()
            try await group.waitForAll()
        }
    }

    /// Hands pushes in until a relay has acknowledged them.
    func post(_ count: Int, to relays: [RelayUnderTest], _ round: inout Int) async throws {
        let numbers = self.nextNumber.withLock { next in
            defer { next += count }
            return next..<(next + count)
        }
        while true {
            try Task.checkCancellation()
            round += 1
            if try await self.load.post(numbers, to: relays[round % relays.count]) == .acknowledged { return }
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    /// Waits until more pushes were acknowledged.
    func waitForAcknowledgements(_ count: Int) async throws {
        let goal = self.load.ids.count + count
        try await Patience.wait(for: "\(count) more pushes are acknowledged") { self.load.ids.count >= goal }
    }

    /// Waits until more requests were refused.
    func waitForRefusals(_ count: Int) async throws {
        let goal = (self.load.statuses[503] ?? 0) + count
        try await Patience.wait(for: "\(count) more requests are refused") { (self.load.statuses[503] ?? 0) >= goal }
    }

    /// Waits until a relay has more outcomes in its feed.
    func waitForOutcomes(_ count: Int, at relay: RelayUnderTest) async throws {
        let goal = try await relay.feed().count + count
        try await Patience.wait(for: "\(count) more pushes have an outcome") { try await relay.feed().count >= goal }
    }

    // MARK: Results

    /// Waits until each acknowledged push has an outcome in the feeds of all relays, and compares.
    ///
    /// - Parameters:
    ///   - unknown: how many pushes may end as unknown; all others must be accepted.
    ///   - lost: the ids of pushes that the database has lost.
    ///   - relays: whose feeds to read; nil for all relays.
    @discardableResult
    func check(
        unknownAtMost unknown: Int = 0,
        lost: Set<String> = [],
        of relays: [RelayUnderTest]? = nil,
        limit: Duration = Patience.limit,
        _ test: String = #function
    ) async throws -> KillReport {
        let count = self.load.ids.count - lost.count
        var feeds: [[SettledPush]] = []
        for relay in relays ?? self.relays {
            var feed: [SettledPush] = []
            try await Patience.wait(for: "each of \(count) pushes has an outcome", limit: limit) {
                guard try await relay.depth().unsettled == 0 else { return false }
                feed = try await relay.feed()
                return feed.count >= count
            } explanation: {
                """
                \(try await relay.depth()), \(try await relay.feed().count) outcomes, \(await self.places() ?? ""); \
                \(relay.output.suffix(6_000))
                """
            }
            feeds.append(feed)
        }
        if let places = await self.places() {
            #expect(places.split(separator: ", ").allSatisfy { $0.hasSuffix(" 0 and 0") }, "\(places)")
        }
        for feed in feeds.dropFirst() { #expect(feed == feeds.first, "the feeds differ") }
        let report = KillReport(self.load, feeds.first ?? [], lost: lost, self.simulator)
        print("\(test): \(report); responses \(self.load.statuses)")
        #expect(report.faults == [])
        #expect(report.duplicates == 0)
        #expect(report.unknown <= unknown)
        #expect(report.unknown + (report.outcomes["accepted"] ?? 0) == count)
        return report
    }
}

extension FleetUnderTest {
    /// How many pushes are in each place, by the tables of the pushes and by the tally; nil if the server that was the
    /// primary at first is not one now.
    private func places() async -> String? {
        let (server, database) = (self.server, self.database)
        return try? await blocking {
            guard try server.run("SELECT pg_is_in_recovery()").hasPrefix("f") else { return nil }
            return try server.run(
                """
                SELECT concat_ws(', ',
                  'queued ' || (SELECT count(*) FROM apns.queue) || ' and ' || coalesce(sum(queued), 0),
                  'claimed ' || (SELECT count(*) FROM apns.flight WHERE state = 1) || ' and ' || coalesce(sum(claimed), 0),
                  'written ' || (SELECT count(*) FROM apns.flight WHERE state = 2) || ' and ' || coalesce(sum(written), 0))
                FROM apns.tally
                """,
                in: database
            ).trimmingCharacters(in: .whitespacesAndNewlines)
        }
    }
}

/// Whether applications should submit no more pushes.
private final class LoadEnd: Sendable {
    private let state = Mutex(false)

    var isReached: Bool { self.state.withLock { $0 } }

    func reach() { self.state.withLock { $0 = true } }
}

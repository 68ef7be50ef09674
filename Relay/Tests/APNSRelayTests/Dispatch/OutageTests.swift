import APNSModel
import APNSSimulator
import RelayTestSupport
import Testing

/// How soon pushes leave that have no part in what is wrong with others, against the simulator.
struct OutageTests {
    private func simulator() async throws -> Simulator {
        var configuration = Simulator.Configuration()
        configuration.credential = .none
        configuration.environment = .production
        return try await Simulator.start(configuration)
    }

    private func outcomes(_ relay: RelayUnderTest) async throws -> [String: Int] {
        Dictionary(grouping: try await relay.feed(), by: \.outcome.outcome).mapValues(\.count)
    }

    @Test("5,000 bad tokens are rejected at once, and hold up no other push of their route", .timeLimit(.minutes(5)))
    func badTokens() async throws {
        let simulator = try await self.simulator()
        for number in 0..<5_000 { simulator.setToken(PushLoad.token(number), .bad) }
        let relay = try RelayUnderTest(port: simulator.port, certificateAuthority: simulator.certificateAuthorityPEM)
        try await relay.start()
        let load = PushLoad()
        try #require(try await load.post(0..<5_000, to: relay) == .acknowledged)
        try #require(try await load.post(5_000..<5_010, to: relay) == .acknowledged)
        // Ten probes in each pause, which doubled to a minute, took hours.
        try await relay.wait(for: "all pushes have an outcome") { $0.unsettled == 0 }
        #expect(try await self.outcomes(relay) == ["rejected": 5_000, "accepted": 10])
        await relay.kill()
        await simulator.stop()
    }

    @Test("After an outage, bad tokens do not prolong the pause of their route", .timeLimit(.minutes(5)))
    func badTokensAfterAnOutage() async throws {
        let simulator = try await self.simulator()
        for number in 0..<1_000 where !number.isMultiple(of: 10) { simulator.setToken(PushLoad.token(number), .bad) }
        await simulator.stopListening()
        let relay = try RelayUnderTest(
            port: simulator.port,
            certificateAuthority: simulator.certificateAuthorityPEM,
            settings: ["CLIENT_POOL_UNAVAILABLE_AFTER": "200ms"]
        )
        try await relay.start()
        let load = PushLoad()
        try #require(try await load.post(0..<1_000, to: relay) == .acknowledged)
        try await relay.wait(for: "the route is paused") { $0.isPaused }
        await simulator.startListening()
        try await relay.wait(for: "all pushes have an outcome") { $0.unsettled == 0 }
        #expect(try await self.outcomes(relay) == ["rejected": 900, "accepted": 100])
        await relay.kill()
        await simulator.stop()
    }
}

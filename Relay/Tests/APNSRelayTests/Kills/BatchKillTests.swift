import APNSSimulator
import RelayTestSupport
import Testing

/// Kills a relay while it stores and sends a batch.
struct BatchKillTests {
    @Test("Each device of a batch is stored and sent once, however often the relay is killed", .timeLimit(.minutes(5)))
    func killed() async throws {
        var configuration = Simulator.Configuration()
        configuration.credential = .none
        configuration.environment = .production
        configuration.responseDelay = .milliseconds(2)
        let simulator = try await Simulator.start(configuration)
        let relay = try RelayUnderTest(
            port: simulator.port,
            certificateAuthority: simulator.certificateAuthorityPEM,
            settings: ["DISPATCH_MAX_IN_FLIGHT": "200", "DISPATCH_BATCH": "50"]
        )
        try await relay.start()
        let counts = try await BatchUnderTest([relay], simulator).run(kills: 8)
        print("batch: \(counts)")
        #expect((counts["accepted"] ?? 0) + (counts["unknown"] ?? 0) == counts.values.reduce(0, +))
        await relay.kill()
        await simulator.stop()
    }
}

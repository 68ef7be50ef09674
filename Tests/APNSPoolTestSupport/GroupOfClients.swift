import APNSSimulator
import Testing

@testable import APNSPool

/// A group of clients with a simulator, for the suites that test it.
protocol GroupOfClients {}

extension GroupOfClients {
    func topic(_ number: Int) -> String { "com.example.app\(number)" }

    func app(
        _ number: Int,
        _ simulator: Simulator,
        key: SimulatedKey = SimulatedKey(),
        hosts: [String] = ["localhost"]
    ) -> APNSApp {
        self.app("app\(number)", key, simulator, hosts: hosts)
    }

    func app(
        _ name: String,
        _ key: SimulatedKey,
        _ simulator: Simulator,
        hosts: [String] = ["localhost"]
    ) -> APNSApp {
        APNSApp(
            name: name,
            topic: "com.example.\(name)",
            authentication: .token(privateKeyPEM: key.p8, keyID: key.keyID, teamID: key.teamID),
            environments: Set(hosts.map { .custom(host: $0, port: simulator.port) })
        )
    }

    /// A simulator that accepts only the provider tokens of this key.
    func simulation(knowing key: SimulatedKey) -> Simulator.Configuration {
        var simulation = Simulator.Configuration()
        simulation.credential = .keys([.init(key)])
        return simulation
    }

    func withGroup(
        simulation: Simulator.Configuration = Simulator.Configuration(),
        configure: (inout APNSClientGroup.Configuration) -> Void = { _ in },
        _ body: (APNSClientGroup, Simulator) async throws -> Void
    ) async throws {
        let simulator = try await Simulator.start(simulation)
        var configuration = APNSClientGroup.Configuration(
            client: .local(port: simulator.port, caPEM: simulator.certificateAuthorityPEM)
        )
        configuration.client.environment = .production
        configure(&configuration)
        let group = try APNSClientGroup(configuration: configuration)
        let life = Task { try await group.run() }
        do {
            try await body(group, simulator)
        } catch {
            life.cancel()
            try? await life.value
            await simulator.stop()
            throw error
        }
        group.shutdown()
        try await life.value
        #expect(group.reservedConnections == 0)
        await until { simulator.openConnections == 0 }
        await simulator.stop()
    }

    func deliver(
        _ group: APNSClientGroup,
        _ number: Int,
        _ simulator: Simulator,
        host: String = "localhost"
    ) async -> PushOutcome {
        await group.sender(for: "app\(number)", in: .custom(host: host, port: simulator.port))
            .deliver(samplePush(topic: self.topic(number)), to: deviceToken)
    }
}

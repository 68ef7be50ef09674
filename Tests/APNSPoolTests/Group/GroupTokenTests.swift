import APNSSimulator
import Synchronization
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Which apps of a group share a provider token.
struct GroupTokenTests: GroupOfClients {
    private func withGroup(
        _ isolation: APNSClientGroup.Isolation,
        knows key: SimulatedKey,
        _ body: (APNSClientGroup, Simulator) async throws -> Void
    ) async throws {
        try await self.withGroup(
            simulation: self.simulation(knowing: key),
            configure: { $0.isolation = isolation },
            body
        )
    }

    @Test("An app whose signer hangs blocks neither the group's only connection nor its shutdown")
    func hangingSignerInAGroup() async throws {
        let simulator = try await Simulator.start()
        var configuration = APNSClientGroup.Configuration(
            maxConnections: 1,
            client: .local(port: simulator.port, caPEM: simulator.certificateAuthorityPEM)
        )
        let clock = ManualClock()
        configuration.client.environment = .production
        configuration.client.use(clock)
        let group = try APNSClientGroup(configuration: configuration)
        let life = Task { try await group.run() }
        let signer = HangingSigner()
        var hanging = self.app("hanging", SimulatedKey(), simulator)
        hanging.authentication = signer.authentication
        try group.add(hanging)
        try group.add(self.app("other", SimulatedKey(), simulator))
        let late = Task { await self.deliver(group, "hanging", simulator) }
        await until { signer.count == 1 }
        clock.advance(by: .seconds(11))
        #expect(await ends { _ = await late.value })
        let other = Task { await self.deliver(group, "other", simulator) }
        #expect(await ends { _ = await other.value })
        group.shutdown()
        #expect(await ends(advancing: clock) { try? await life.value })
        signer.release()
        try await life.value
        #expect(await late.value.error?.code == .credential)
        #expect(await other.value.certainty == .accepted)
        await simulator.stop()
    }

    @Test("A key's token survives the last app that has the key by an hour, so that the app may come back")
    func tokenOfAKeyThatComesBack() async throws {
        let key = SimulatedKey()
        var simulation = self.simulation(knowing: key)
        simulation.limitsProviderTokenUpdates = true
        try await self.withGroup(simulation: simulation, configure: { $0.isolation = .perApp }) { group, simulator in
            try group.add(self.app("app", key, simulator))
            #expect(await self.deliver(group, "app", simulator).certainty == .accepted)
            let other = SimulatedKey()
            simulator.addKey(other)
            try await group.replace(self.app("app", other, simulator))
            try await group.replace(self.app("app", key, simulator))
            #expect(await self.deliver(group, "app", simulator).certainty == .accepted)
            group.remove("app")
            try group.add(self.app("app", key, simulator))
            #expect(await self.deliver(group, "app", simulator).certainty == .accepted)
        }
    }

    @Test("Two hosts with the same key get one token, and after a 429 of one of them it is not renewed for the other")
    func secondHost() async throws {
        let key = SimulatedKey()
        let clock = ManualClock()
        let start = clock.now
        var simulation = self.simulation(knowing: key)
        simulation.clock = { 1_800_000_000 + start.duration(to: clock.now).components.seconds }
        try await self.withGroup(
            simulation: simulation,
            configure: {
                $0.client.use(clock)
                $0.client.wallClock = { 1_800_000_000 + start.duration(to: clock.now).components.seconds }
                $0.idleTimeout = .seconds(86_400)
            }
        ) { group, simulator in
            try group.add(self.app(1, simulator, key: key, hosts: ["localhost", "127.0.0.1"]))
            #expect(await self.deliver(group, 1, simulator).certainty == .accepted)
            #expect(await self.deliver(group, 1, simulator, host: "127.0.0.1").certainty == .accepted)
            let clients = group.registry.state.withLock { $0.clients.values.compactMap(\.client) }
            let caches = clients.map { $0.runtime.credentials.latest.tokens }
            #expect(caches.count == 2 && caches[0] === caches[1])
            #expect(caches[0].status.generation == 1)
            clock.advance(by: .seconds(45 * 60))
            let verdict = caches[0].rejected(.tooManyProviderTokenUpdates, generation: 1)
            guard case .tooManyUpdates = verdict else {
                Issue.record("\(verdict)")
                return
            }
            // The renewal after 50 minutes waits.
            clock.advance(by: .seconds(6 * 60))
            for host in ["localhost", "127.0.0.1"] {
                let push = Task { await self.deliver(group, 1, simulator, host: host) }
                #expect(await ends(advancing: clock, for: clients) { _ = await push.value })
                #expect(await push.value.certainty == .accepted)
            }
            #expect(caches[0].status.generation == 1)
        }
    }

    private func deliver(_ group: APNSClientGroup, _ name: String, _ simulator: Simulator) async -> PushOutcome {
        await group.sender(for: name, in: .custom(host: "localhost", port: simulator.port))
            .deliver(samplePush(topic: "com.example.\(name)"), to: deviceToken)
    }

    @Test(
        "An app with the ids of another app's key, but a different key, is refused even beside that app",
        arguments: [APNSClientGroup.Isolation.perApp, .perKey]
    )
    func foreignKeyIsNotUsed(isolation: APNSClientGroup.Isolation) async throws {
        let key = SimulatedKey()
        try await self.withGroup(isolation, knows: key) { group, simulator in
            try group.add(self.app("owner", key, simulator))
            try group.add(self.app("other", SimulatedKey(keyID: key.keyID, teamID: key.teamID), simulator))
            #expect(await self.deliver(group, "owner", simulator).certainty == .accepted)
            #expect(await self.deliver(group, "other", simulator).error?.rejection?.reason == .invalidProviderToken)
            #expect(await self.deliver(group, "owner", simulator).certainty == .accepted)
        }
    }

    @Test("An app with a wrong key sends with the right key as soon as the app is replaced")
    func correctedKeyIsUsed() async throws {
        let key = SimulatedKey()
        try await self.withGroup(.perApp, knows: key) { group, simulator in
            try group.add(self.app("app", SimulatedKey(keyID: key.keyID, teamID: key.teamID), simulator))
            #expect(await self.deliver(group, "app", simulator).error?.rejection?.reason == .invalidProviderToken)
            try await group.replace(self.app("app", key, simulator))
            #expect(await self.deliver(group, "app", simulator).certainty == .accepted)
        }
    }
}

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

    @Test("Apps that share a key do not wait for a hanging call of its signer")
    func hangingCallIsNotShared() async throws {
        let clock = ManualClock()
        let source = ProcessTokenSource(clock: clock)
        let signer = ScriptedSigner()
        let request = ProviderTokenRequest(
            signer: try signer.signer(),
            now: 1_800_000_000,
            refreshAge: .seconds(3000),
            refused: nil
        )
        signer.close()
        let first = Task { try await source.token(for: request) }
        await signer.arrival()
        clock.advance(by: TokenPolicy.longestWait)
        let second = Task { try await source.token(for: request) }
        await until { signer.count == 2 }
        signer.open()
        #expect(try await second.value.issuedAt == request.now)
        _ = try await first.value
        #expect(try await source.token(for: request).issuedAt == request.now)
        #expect(signer.count == 2)
    }

    @Test("A token source is removed with the last app that has its key, however often apps come and go")
    func sourcesEndWithTheirApps() throws {
        let group = try APNSClientGroup()
        let key = SimulatedKey()
        func app(_ name: String, _ key: SimulatedKey) -> APNSApp {
            APNSApp(
                name: name,
                topic: "com.example.\(name)",
                authentication: .token(privateKeyPEM: key.p8, keyID: key.keyID, teamID: key.teamID)
            )
        }
        for name in ["a", "b"] { try group.add(app(name, key)) }
        #expect(group.registry.tokenSourceCount == 1)
        for number in 0..<20 {
            try group.add(app("c\(number)", SimulatedKey()))
            try group.replace(app("b", SimulatedKey()))
            #expect(group.registry.tokenSourceCount == 3)
            group.remove("c\(number)")
        }
        try group.replace(app("b", key))
        try group.replace(app("b", key))
        group.remove("a")
        #expect(group.registry.tokenSourceCount == 1)
        group.remove("b")
        #expect(group.registry.tokenSourceCount == 0)
    }

    @Test("A key's token survives the last app that has the key by an hour, so that the app may come back")
    func tokenOfAKeyThatComesBack() async throws {
        let key = SimulatedKey()
        var simulation = self.simulation(knowing: key)
        simulation.limitsProviderTokenUpdates = true
        try await self.withGroup(simulation: simulation, configure: { $0.isolation = .perApp }) { group, simulator in
            try group.add(self.app("app", key, simulator))
            #expect(await self.deliver(group, "app", simulator).certainty == .accepted)
            try group.replace(self.app("app", SimulatedKey(), simulator))
            try group.replace(self.app("app", key, simulator))
            #expect(await self.deliver(group, "app", simulator).certainty == .accepted)
            group.remove("app")
            try group.add(self.app("app", key, simulator))
            #expect(await self.deliver(group, "app", simulator).certainty == .accepted)
        }
    }

    @Test("A source without an app is forgotten after an hour, and the oldest ones beyond a limit")
    func sourcesAreForgotten() throws {
        let clock = ManualClock()
        var sources = ProcessTokenSources()
        func key(_ number: UInt8) throws -> SigningKey {
            SigningKey(
                identifiers: try TokenIdentifiers(keyID: "9UC9ZLQ8YW", teamID: "ABBM6U9RM5", keyFile: nil),
                publicKey: [number]
            )
        }
        let first = try key(1)
        let source = sources.retain(first, clock: clock)
        sources.release(first, now: clock.now)
        #expect(sources.count == 0 && sources.kept == 1)
        #expect(sources.retain(first, clock: clock) === source)
        sources.release(first, now: clock.now)
        clock.advance(by: ProcessTokenSources.memory)
        let second = try key(2)
        _ = sources.retain(second, clock: clock)
        #expect(sources.kept == 1 && sources.count == 1)
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
            try group.replace(self.app("app", key, simulator))
            #expect(await self.deliver(group, "app", simulator).certainty == .accepted)
        }
    }
}

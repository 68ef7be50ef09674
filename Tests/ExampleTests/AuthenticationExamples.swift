import APNSSimulator
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

// The examples in the documentation of authentication, with the parts that they leave out.

private struct VaultSigner: APNSTokenSigner {
    let vault: Vault

    func signature(for bytes: [UInt8]) async throws -> [UInt8] {
        try await vault.sign(bytes, key: "apns", algorithm: "ES256")
    }
}

private struct Vault: Sendable {
    let key: SimulatedKey

    func sign(_ bytes: [UInt8], key: String, algorithm: String) async throws -> [UInt8] {
        try self.key.signature(for: bytes)
    }
}

private struct StoreTokenSource: ProviderTokenSource {
    let store: Store

    func token(for request: ProviderTokenRequest) async throws -> SharedProviderToken {
        if let token = try await store.read(), request.accepts(token) { return token }
        return try await store.withLock {
            // Another process may have been faster.
            if let token = try await store.read(), request.accepts(token) { return token }
            let token = try await request.sign()
            try await store.write(token)
            return token
        }
    }
}

private actor Store {
    private var token: SharedProviderToken?
    private(set) var writes = 0

    func read() throws -> SharedProviderToken? { self.token }
    func write(_ token: SharedProviderToken) throws {
        self.token = token
        self.writes += 1
    }

    nonisolated func withLock(
        _ body: () async throws -> SharedProviderToken
    ) async throws -> SharedProviderToken { try await body() }
}

struct AuthenticationExamples {
    @Test func aCustomSignerAndTokenSourceWork() async throws {
        var simulation = Simulator.Configuration()
        let key = SimulatedKey()
        simulation.credential = .keys([.init(key)])
        simulation.limitsProviderTokenUpdates = true
        let simulator = try await Simulator.start(simulation)
        let store = Store()
        var authentication = APNSAuthentication.token(
            signer: VaultSigner(vault: Vault(key: key)),
            keyID: key.keyID,
            teamID: key.teamID
        )
        authentication.tokenSource = StoreTokenSource(store: store)
        // The service starts twice.
        for _ in 0..<2 {
            var configuration = APNSClientConfiguration.local(
                port: simulator.port,
                caPEM: simulator.certificateAuthorityPEM
            )
            configuration.authentication = authentication
            try await withAPNSClient(configuration: configuration) { client in
                #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            }
        }
        #expect(await store.writes == 1)
        await simulator.stop()
    }

    @Test func aGroupDeliversForAnApp() async throws {
        let simulator = try await Simulator.start()
        let key = SimulatedKey()
        let fernKey = APNSAuthentication.token(privateKeyPEM: key.p8, keyID: key.keyID, teamID: key.teamID)
        let here = APNSEnvironment.custom(host: "localhost", port: simulator.port)
        let common = APNSClientConfiguration.local(port: simulator.port, caPEM: simulator.certificateAuthorityPEM)
        let group = try APNSClientGroup(configuration: .init(maxConnections: 50, client: common))
        try group.add(
            APNSApp(name: "fern", topic: "com.grasscove.Fern", authentication: fernKey, environments: [here])
        )
        async let life: Void = group.run()
        let notification = PushNotification(topic: "com.grasscove.Fern", alert: "Hey There")
        let outcome = await group.sender(for: "fern", in: here).deliver(notification, to: deviceToken)
        #expect(outcome.certainty == .accepted)
        group.shutdown()
        try await life
        await simulator.stop()
    }
}

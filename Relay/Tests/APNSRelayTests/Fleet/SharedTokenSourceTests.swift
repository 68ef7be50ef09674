import APNSModel
import APNSPool
import APNSSimulator
import Foundation
import PushQueue
import Synchronization
import Testing

@testable import APNSRelay

/// Relays that share a provider token, in front of a server that refuses a second token within 20 minutes.
struct SharedTokenSourceTests {
    private static func simulator(_ key: SimulatedKey) async throws -> Simulator {
        var configuration = Simulator.Configuration()
        configuration.credential = .keys([Simulator.Key(key)])
        configuration.environment = .production
        configuration.limitsProviderTokenUpdates = true
        return try await Simulator.start(configuration)
    }

    /// A relay's clients. Each has its own source, as each relay has.
    private static func group(
        _ key: SimulatedKey,
        _ simulator: Simulator,
        _ queue: any PushQueue,
        clock: any QueueClock = SystemQueueClock()
    ) throws -> APNSClientGroup {
        var client = APNSClientConfiguration(authentication: .withoutToken, environment: .custom(host: "localhost"))
        client.trust.caPEM = simulator.certificateAuthorityPEM
        client.logger = FleetFixture.logger
        client.pool.size = 1
        client.timeouts.response = .seconds(600)
        let app = RelayApp(
            name: "fern",
            topic: "com.example.fern",
            authentication: .token(privateKeyPEM: key.p8, keyID: key.keyID, teamID: key.teamID),
            environments: ["production": .custom(host: "localhost", port: simulator.port)]
        )
        var settings = RelaySettings(apps: [app])
        settings.group.client = client
        return try settings.makeGroup(tokens: SharedTokenSource(queue, clock: clock), logger: FleetFixture.logger)
    }

    private static func deliver(_ group: APNSClientGroup, _ simulator: Simulator) async throws -> PushOutcome {
        let push = try PreparedPush(topic: "com.example.fern", pushType: .alert, payload: Array("{}".utf8))
        return await group.sender(for: "fern", in: .custom(host: "localhost", port: simulator.port))
            .deliver(push, to: try DeviceToken(String(repeating: "a1", count: 32)), options: DeliveryOptions())
    }

    /// Runs a body with clients of several relays.
    private static func run(
        _ count: Int,
        _ body: (_ fixture: FleetFixture, SimulatedKey, Simulator, [APNSClientGroup], [SharedQueue]) async throws ->
            Void
    ) async throws {
        let key = SimulatedKey()
        let simulator = try await Self.simulator(key)
        try await FleetFixture.run { fixture in
            let queues = (0..<count).map { _ in SharedQueue(fixture.base) }
            let groups = try queues.map { try Self.group(key, simulator, $0) }
            let lives = groups.map { group in Task { try await group.run() } }
            do {
                try await body(fixture, key, simulator, groups, queues)
            } catch {
                for life in lives { life.cancel() }
                throw error
            }
            for group in groups { group.shutdown() }
            for life in lives { _ = await life.result }
        }
        await simulator.stop()
    }

    /// Sends a push with each group, all at the same time.
    private static func deliver(_ groups: [APNSClientGroup], _ simulator: Simulator) async throws -> [PushOutcome] {
        try await withThrowingTaskGroup(of: PushOutcome.self) { tasks in
            for group in groups { tasks.addTask { try await Self.deliver(group, simulator) } }
            return try await tasks.reduce(into: []) { $0.append($1) }
        }
    }

    private static func stored(_ fixture: FleetFixture, _ key: SimulatedKey) async throws -> [UInt8]? {
        try await fixture.base.value(forKey: "fleet/token/\(key.keyID)-\(key.teamID)")
    }

    private static func store(
        _ fixture: FleetFixture,
        _ key: SimulatedKey,
        issuedAt: Int64,
        signedBy signer: SimulatedKey? = nil
    ) async throws {
        let jwt = try (signer ?? key).providerToken(issuedAt: issuedAt)
        let value =
            #"{"issuedAt":\#(issuedAt),"jwt":"\#(jwt)","keyID":"\#(key.keyID)","teamID":"\#(key.teamID)"}"#
        try await fixture.base.setValue(
            Array(value.utf8),
            forKey: "fleet/token/\(key.keyID)-\(key.teamID)"
        )
    }

    private static var now: Int64 { Int64(Date().timeIntervalSince1970) }

    @Test("Twenty relays that start at once present one token", .timeLimit(.minutes(5)))
    func oneToken() async throws {
        try await Self.run(20) { fixture, key, simulator, groups, _ in
            for _ in 0..<2 {
                let outcomes = try await Self.deliver(groups, simulator)
                #expect(outcomes.allSatisfy { $0.certainty == .accepted })
            }
            let refused = simulator.record.pushes.compactMap(\.reason)
            #expect(refused == [])
            let stored = try await Self.stored(fixture, key)
            #expect(stored != nil)
        }
    }

    @Test("A token that APNs refuses is replaced once by the whole fleet", .timeLimit(.minutes(5)))
    func refused() async throws {
        try await Self.run(10) { fixture, key, simulator, groups, _ in
            try await Self.store(fixture, key, issuedAt: Self.now - 600)
            let first = try await Self.stored(fixture, key)
            let before = try await Self.deliver(groups, simulator)
            #expect(before.allSatisfy { $0.certainty == .accepted })
            let unchanged = try await Self.stored(fixture, key)
            #expect(unchanged == first)
            // The stored token becomes 62 minutes old for the server, and a new one 52.
            simulator.setClockOffset(seconds: 52 * 60)
            let after = try await Self.deliver(groups, simulator)
            #expect(after.allSatisfy { $0.certainty == .accepted })
            let reasons = Set(simulator.record.pushes.compactMap(\.reason))
            #expect(reasons == [.expiredProviderToken])
            let second = try await Self.stored(fixture, key)
            #expect(second != nil && second != first)
        }
    }

    @Test("A relay that starts later, or again, uses the stored token", .timeLimit(.minutes(5)))
    func later() async throws {
        try await Self.run(1) { fixture, key, simulator, groups, _ in
            _ = try await Self.deliver(groups, simulator)
            let first = try await Self.stored(fixture, key)
            let group = try Self.group(key, simulator, SharedQueue(fixture.base))
            let life = Task { try await group.run() }
            let outcome = try await Self.deliver(group, simulator)
            #expect(outcome.certainty == .accepted)
            let second = try await Self.stored(fixture, key)
            #expect(second == first)
            group.shutdown()
            _ = await life.result
        }
    }

    @Test(
        "A token that is too old, that another key signed, or that is damaged, is replaced",
        .timeLimit(.minutes(5)),
        arguments: ["old", "foreign", "damaged"]
    )
    func replaced(kind: String) async throws {
        try await Self.run(1) { fixture, key, simulator, groups, _ in
            switch kind {
            case "old": try await Self.store(fixture, key, issuedAt: Self.now - 56 * 60)
            case "foreign": try await Self.store(fixture, key, issuedAt: Self.now, signedBy: SimulatedKey())
            default:
                try await fixture.base.setValue([1, 2], forKey: "fleet/token/\(key.keyID)-\(key.teamID)")
            }
            let first = try await Self.stored(fixture, key)
            let outcomes = try await Self.deliver(groups, simulator)
            #expect(outcomes.map(\.certainty) == [.accepted])
            let second = try await Self.stored(fixture, key)
            #expect(second != first)
        }
    }

    @Test("While the queue is away, the relay goes on with the token that it has", .timeLimit(.minutes(5)))
    func queueIsAway() async throws {
        try await Self.run(1) { _, _, simulator, groups, queues in
            _ = try await Self.deliver(groups, simulator)
            queues[0].kill()
            let outcomes = try await Self.deliver(groups, simulator)
            #expect(outcomes.map(\.certainty) == [.accepted])
        }
    }

    @Test("A token ahead of this machine's clock is not replaced within 20 minutes", .timeLimit(.minutes(5)))
    func clocksDiffer() async throws {
        try await Self.run(0) { fixture, key, simulator, _, _ in
            try await Self.store(fixture, key, issuedAt: Self.now + 300)
            let first = try await Self.stored(fixture, key)
            let clock = ManualQueueClock(QueueTime(secondsSince1970: 0))
            let group = try Self.group(key, simulator, SharedQueue(fixture.base), clock: clock)
            let life = Task { try await group.run() }
            let outcome = try await Self.deliver(group, simulator)
            #expect(outcome.certainty == .notSent)
            #expect(outcome.error?.message.contains("Set the clocks") == true, "\(String(describing: outcome.error))")
            let unchanged = try await Self.stored(fixture, key)
            #expect(unchanged == first)
            clock.advance(by: .seconds(20 * 60))
            let isReplaced = try await eventually {
                try await Self.deliver(group, simulator).certainty == .accepted
            }
            #expect(isReplaced)
            group.shutdown()
            _ = await life.result
        }
    }
}

import APNSSimulator
import Logging
import Synchronization
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

private struct FailingSigner: APNSTokenSigner {
    struct OutOfOrder: Error {}

    func signature(for bytes: [UInt8]) async throws -> [UInt8] { throw OutOfOrder() }
}

/// The provider token on the wire, and the consequences of its refusal.
struct ProviderTokenTests {
    /// The number of seconds by which the wall clock is ahead.
    private final class Offset: Sendable {
        let seconds = Atomic<Int64>(0)
    }

    private func configure(_ configuration: inout APNSClientConfiguration) {
        configuration.authentication = .token(
            privateKeyPEM: KeyTexts.p256,
            keyID: "9UC9ZLQ8YW",
            teamID: "ABBM6U9RM5"
        )
    }

    @Test func allPushesCarryOneToken() async throws {
        try await withServer(configure: configure) { client, server in
            let outcomes = await deliver(100, with: client)
            #expect(outcomes.allSatisfy { $0.certainty == .accepted })
            let tokens = Set(server.record.pushes.map { $0.field("authorization") ?? "" })
            #expect(tokens.count == 1)
            #expect(tokens.first?.hasPrefix("bearer ") == true)
        }
    }

    @Test func anExpiredTokenIsReplacedAndThePushIsResentOnce() async throws {
        let script: ScriptedServer.Script = { push in
            push.number == 2 ? [.respond(403, reason: "ExpiredProviderToken")] : [.respond(200)]
        }
        try await withServer(script: script, configure: configure) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.certainty == .accepted)
            #expect(outcome.attempts == 2)
            let pushes = server.record.pushes
            #expect(pushes.map(\.connection) == [1, 1, 2])
            #expect(Set(pushes.dropFirst().map(\.id)).count == 1)
        }
    }

    @Test("A route that was made before its provider token was refused is renewed before it is used")
    func refusedTokenOutdatesRoutes() async throws {
        let clock = ManualClock()
        try await withServer(
            configure: {
                self.configure(&$0)
                $0.use(clock)
            }
        ) { client, _ in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            // A token that was signed less than a minute ago is not replaced.
            clock.advance(by: .seconds(120))
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let router = client.runtime.sending.router
            let route = try router.next(now: clock.now)
            #expect(try router.next(now: clock.now) === route)
            #expect(router.renewed(route, now: clock.now) === route)
            #expect(route.credentialSession.tokens.rejected(.expiredProviderToken, generation: 1) == .replaced)
            #expect(!router.isCurrent(route.version))
            #expect(router.renewed(route, now: clock.now) == nil)
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let renewed = try #require(router.renewed(route, now: clock.now))
            #expect(renewed.token?.generation == 2)
            #expect(renewed.pool === route.pool)
        }
    }

    @Test("If APNs refuses tokens and its clock differs from this machine's, the log has the difference, once")
    func wrongClockIsLogged() async throws {
        let (logger, lines) = RecordingLog.make()
        // 1,800,000,000 seconds since 1970.
        let date = ("date", "Fri, 15 Jan 2027 08:00:00 GMT")
        let script: ScriptedServer.Script = { _ in
            [.respond(403, reason: "ExpiredProviderToken", fields: [date])]
        }
        try await withServer(
            script: script,
            configure: {
                self.configure(&$0)
                $0.wallClock = { 1_800_000_000 - 7_200 }
                $0.logger = logger
            }
        ) { client, _ in
            let options = DeliveryOptions(deadline: .milliseconds(200))
            for _ in 0..<3 { _ = await client.deliver(samplePush(), to: deviceToken, options: options) }
        }
        let reports = lines.entries.filter { $0.metadata["clock"] != nil }
        #expect(reports.map(\.level) == [.error] && reports.first?.message == "APNs refuses the provider token")
        #expect(reports.first?.metadata["clock"] == "this machine's clock is 2 h behind APNs", "\(reports)")
    }

    @Test func constantExpiryRefusalsCauseNoResendStorm() async throws {
        let script: ScriptedServer.Script = { _ in [.respond(403, reason: "ExpiredProviderToken")] }
        let clock = ManualClock()
        try await withServer(
            script: script,
            configure: {
                self.configure(&$0)
                $0.use(clock)
                $0.timeouts.deadline = .seconds(2)
            }
        ) { client, server in
            let pushes = Task { await deliver(200, with: client) }
            await server.wait { !$0.pushes.isEmpty }
            #expect(await ends(advancing: clock, for: [client]) { _ = await pushes.value })
            let outcomes = await pushes.value
            #expect(outcomes.allSatisfy { $0.status == 403 || $0.certainty == .notSent })
            // Those in flight when it began, each once more with a fresh token, and then one at a time.
            #expect(server.record.pushes.count <= 450)
            #expect(Set(server.record.pushes.map { $0.field("authorization") ?? "" }).count <= 2)
        }
    }

    @Test("A wall clock that is two hours ahead for a while fails no push: the previous token stays in use")
    func clockAheadForAWhile() async throws {
        let simulator = try await Simulator.start()
        let clock = ManualClock()
        let offset = Offset()
        var configuration = APNSClientConfiguration.local(
            port: simulator.port,
            caPEM: simulator.certificateAuthorityPEM
        )
        self.configure(&configuration)
        configuration.use(clock)
        configuration.wallClock = { WallClock.secondsSince1970() + offset.seconds.load(ordering: .relaxed) }
        try await withAPNSClient(configuration: configuration) { client in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            clock.advance(by: .seconds(120))
            offset.seconds.store(7_200, ordering: .relaxed)
            for _ in 0..<5 {
                #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
                clock.advance(by: .seconds(31))
            }
            offset.seconds.store(0, ordering: .relaxed)
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
        }
        #expect(simulator.record.pushes.count { $0.status == 403 } == 1)
        await simulator.stop()
    }

    @Test(
        "A wall clock that is set wrong and right again five minutes later fails no push",
        arguments: [-3_600, -1_800, -300, 300, 1_800, 3_600] as [Int64],
        [5, 25, 30, 45, 52]
    )
    func wallClockIsSet(_ step: Int64, _ minute: Int) async throws {
        var simulation = Simulator.Configuration()
        simulation.limitsProviderTokenUpdates = true
        let began = WallClock.secondsSince1970()
        let (truth, wall) = (Offset(), Offset())
        simulation.clock = { began + truth.seconds.load(ordering: .relaxed) }
        let simulator = try await Simulator.start(simulation)
        let key = SimulatedKey()
        simulator.addKey(key)
        let clock = ManualClock()
        var configuration = APNSClientConfiguration.local(
            port: simulator.port,
            caPEM: simulator.certificateAuthorityPEM
        )
        configuration.authentication = .token(privateKeyPEM: key.p8, keyID: key.keyID, teamID: key.teamID)
        configuration.use(clock)
        configuration.wallClock = { began + wall.seconds.load(ordering: .relaxed) }
        try await withAPNSClient(configuration: configuration) { client in
            for passed in 0..<80 {
                let error: Int64 = minute <= passed && passed < minute + 5 ? step : 0
                truth.seconds.store(Int64(passed) * 60, ordering: .relaxed)
                wall.seconds.store(Int64(passed) * 60 + error, ordering: .relaxed)
                let push = Task { await client.deliver(samplePush(), to: deviceToken) }
                // A retry waits on the client's clock.
                #expect(await ends(advancing: clock, for: [client]) { _ = await push.value })
                let outcome = await push.value
                #expect(outcome.certainty == .accepted, "minute \(passed): \(outcome)")
                clock.advance(by: .seconds(60))
            }
        }
        await simulator.stop()
    }

    @Test func lateRefusalsOnTheOldConnectionKeepTheNewOne() async throws {
        // 30 pushes wait on the first connection; they are refused one after another while the second one serves.
        let script: ScriptedServer.Script = { push in
            push.connection == 1 && push.number > 1 ? [.hold] : [.respond(200)]
        }
        try await withServer(script: script, configure: self.configure) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let pushes = Task { await deliver(30, with: client) }
            await server.wait { $0.held == 30 }
            for number in 0..<30 {
                server.release(.sample(number), status: 403, reason: "ExpiredProviderToken")
                await server.wait { $0.held == 29 - number }
            }
            #expect(await pushes.value.allSatisfy { $0.certainty == .accepted })
            #expect(server.record.connections == 2)
            #expect(server.record.processed.count == 31)
        }
    }
}

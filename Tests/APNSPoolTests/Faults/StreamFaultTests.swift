import APNSTransport
import NIOCore
import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The streams of a connection over real sockets: limits, ids, GOAWAY, shutdown.
struct StreamFaultTests {
    // MARK: Limits

    @Test func theStreamLimitCanRiseFallAndBeZero() async throws {
        try await withServer(limit: 1, script: { _ in [.hold] }) { client, server in
            let first = Task { await deliver(50, with: client) }
            await server.wait { $0.held == 1 }
            server.limitAll(1000)
            await server.wait { $0.held == 50 }
            server.limitAll(1)
            await until { await client.status.pool.capacity == 1 }
            server.release()
            #expect(await first.value.allSatisfy { $0.certainty == .accepted && $0.attempts == 1 })
            let second = Task { await deliver(5, with: client) }
            for left in (0..<5).reversed() {
                await server.wait { $0.held == 1 }
                #expect(await client.status.pool.leased == 1)
                if left == 0 { server.limitAll(0) }
                server.release()
                await server.wait { $0.accepted.count == 55 - left }
            }
            #expect(await second.value.allSatisfy { $0.certainty == .accepted })
            await until { await client.status.pool.capacity == 0 }
            let third = Task { await client.deliver(samplePush(), to: deviceToken) }
            await until { await client.status.pool.queueDepth == 1 }
            #expect(server.record.pushes.count == 55)
            server.follow { _ in [.respond(200)] }
            server.limitAll(1000)
            #expect(await third.value.certainty == .accepted)
            #expect(server.record.connections == 1)
        }
    }

    @Test func aConnectionIsReplacedBeforeItsStreamIDsRunOut() async throws {
        // Ten streams are left until the last id that the client uses. nghttp2 would allow far more.
        let first = Int32.max - 2048 - 20
        try await withServer(configure: { $0.adjustConnection = { $0.firstStreamID = first } }) { client, server in
            for number in 0..<45 {
                let outcome = await client.deliver(samplePush(), to: DeviceToken.sample(number))
                #expect(outcome.certainty == .accepted && outcome.attempts == 1)
            }
            let outcomes = await deliver(200, with: client)
            #expect(outcomes.allSatisfy { $0.certainty == .accepted })
            #expect(server.record.connections > 4)
            #expect(server.record.processed.values.allSatisfy { $0 == 1 })
        }
    }

    // MARK: Responses

    @Test(arguments: [HTTP2ErrorCode.noError, .internalError, .cancel])
    func aResetAfterTheResponseChangesNothing(_ code: HTTP2ErrorCode) async throws {
        // A response to the headers leaves the stream open for the body; the reset ends it.
        try await withServer(early: true, script: { _ in [.respond(200), .flush, .reset(code)] }) { client, server in
            let push = samplePush(payload: #"{"aps":{},"pad":"\#(String(repeating: "x", count: 4000))"}"#)
            for number in 0..<50 {
                let outcome = await client.deliver(push, to: DeviceToken.sample(number))
                #expect(outcome.certainty == .accepted && outcome.attempts == 1)
            }
            #expect(server.record.connections == 1)
        }
    }

    @Test func aResendWaitsForTheRetryAfterDelay() async throws {
        let script: ScriptedServer.Script = { push in
            push.number == 2
                ? [.respond(503, reason: "ServiceUnavailable", fields: [("retry-after", "1")])] : [.respond(200)]
        }
        try await withServer(script: script) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let began = ContinuousClock.now
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.certainty == .accepted && outcome.attempts == 2)
            #expect(ContinuousClock.now - began >= .seconds(1))
            // A delay beyond the push's deadline ends the push.
            server.follow { _ in [.respond(503, reason: "ServiceUnavailable", fields: [("retry-after", "900")])] }
            let late = await client.deliver(samplePush(), to: deviceToken)
            #expect(late.status == 503 && late.attempts == 1 && late.retryAfter == .seconds(900))
        }
    }

    @Test func aLostPushIsResentIfConfigured() async throws {
        let script: ScriptedServer.Script = { $0.number == 1 ? [.drop] : [.respond(200)] }
        try await withServer(script: script, configure: { $0.retry.resendsUnknown = true }) { client, server in
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.certainty == .accepted && outcome.attempts == 2)
            // The server received the push twice, as configured.
            #expect(server.record.processed.count == 1)
            #expect(Set(server.record.pushes.map(\.id)).count == 1)
        }
    }

    // MARK: GOAWAY

    @Test func pushesContinueWhileTheOldConnectionDrains() async throws {
        let script: ScriptedServer.Script = { push in
            push.connection == 1 && push.numberOnConnection > 1 ? [.hold] : [.respond(200)]
        }
        try await withServer(script: script) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let held = Task { await deliver(30, with: client) }
            await server.wait { $0.held == 30 }
            server.goAwayAll()
            // The replacement opens and serves pushes before the drain ends.
            await server.wait { $0.connections == 2 }
            let others = await withTaskGroup(of: PushOutcome.self) { group in
                for number in 100..<200 {
                    group.addTask { await client.deliver(samplePush(), to: DeviceToken.sample(number)) }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(others.allSatisfy { $0.certainty == .accepted })
            #expect(server.record.held == 30)
            #expect(server.record.openConnections == 2)
            server.release()
            #expect(await held.value.allSatisfy { $0.certainty == .accepted && $0.attempts == 1 })
            await server.wait { $0.openConnections == 1 }
            #expect(server.record.processed.count == 131)
            #expect(server.record.processed.values.allSatisfy { $0 == 1 })
        }
    }

    // MARK: Half-open

    @Test func aPushIsUnknownIfThePeerIgnoresPings() async throws {
        let server = try await ScriptedServer.start(script: { $0.number > 1 ? [.hold] : [.respond(200)] })
        var configuration = APNSClientConfiguration.local(server)
        let clock = ManualClock()
        configuration.use(clock)
        // A PING is sent two seconds after the last bytes, and its acknowledgement may take five.
        configuration.adjustConnection = { _ in }
        let client = try APNSClient(configuration: configuration)
        try await client.start()
        #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
        let push = Task { await client.deliver(samplePush(), to: deviceToken) }
        await server.wait { $0.held == 1 }
        await server.muteAll()
        #expect(await ends(advancing: clock) { _ = await push.value })
        let outcome = await push.value
        #expect(outcome.certainty == .unknown && outcome.error?.code == .connectionLost)
        server.follow { _ in [.respond(200)] }
        #expect(await client.deliver(samplePush(), to: DeviceToken.sample(1)).certainty == .accepted)
        await client.shutdown(within: .zero)
        await server.stop()
    }

    @Test("After an idle time on a dead path, a push uses a new connection and is accepted")
    func quietPath() async throws {
        let server = try await ScriptedServer.start()
        var configuration = APNSClientConfiguration.local(server)
        configuration.adjustConnection = {
            // Any idle time is long enough for a check.
            $0.pathCheck.trust = .zero
            // The new connection is checked too, and a busy machine needs this time to respond.
            $0.pathCheck.check = .seconds(2)
        }
        let client = try APNSClient(configuration: configuration)
        try await client.start()
        #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
        await server.muteAll()
        let outcomes = await deliver(5, with: client)
        #expect(outcomes.allSatisfy { $0.certainty == .accepted && $0.attempts == 1 }, "\(outcomes)")
        #expect(server.record.connections == 2)
        let status = await client.status
        #expect(status.connectionLosses == 1 && status.connects == 2)
        await client.shutdown()
        await server.stop()
    }

    @Test("If a server sends GOAWAY after every ten responses, the client connects again at once")
    func frequentGoAway() async throws {
        let script: ScriptedServer.Script = { push in
            push.numberOnConnection == 10 ? [.respond(200), .goAway(includingThis: true)] : [.respond(200)]
        }
        // The clock stands still, so a client that waits before a connect never ends.
        let clock = ManualClock()
        try await withServer(limit: 10, script: script, configure: { $0.use(clock) }) { client, server in
            let run = Task {
                await client.sendAll(
                    samplePush(),
                    to: (0..<200).map { DeviceToken.sample($0) },
                    options: BulkOptions(lane: .interactive)
                )
            }
            #expect(await ends { _ = await run.value })
            run.cancel()
            let summary = await run.value
            #expect(summary.accepted == 200, "\(summary)")
            #expect(server.record.connections >= 20)
        }
    }

    // MARK: Shutdown

    @Test func pushesCutOffByAShutdownReportIt() async throws {
        let server = try await ScriptedServer.start(limit: 2, script: { _ in [.hold] })
        let client = try APNSClient(configuration: .local(server))
        try await client.start()
        let pushes = Task { await deliver(5, with: client) }
        await server.wait { $0.held == 2 }
        await until { await client.status.pool.queueDepth == 3 }
        await client.shutdown(within: .milliseconds(20))
        let outcomes = await pushes.value
        #expect(outcomes.allSatisfy { $0.error?.code == .shuttingDown })
        #expect(outcomes.count { $0.certainty == .unknown } == 2)
        #expect(outcomes.count { $0.certainty == .notSent } == 3)
        await server.stop()
    }

    @Test func aBulkCallCutOffByAShutdownReportsIt() async throws {
        let server = try await ScriptedServer.start(limit: 2, script: { _ in [.hold] })
        let client = try APNSClient(configuration: .local(server))
        try await client.start()
        let pushes = Task {
            var outcomes: [PushOutcome] = []
            let tokens = (0..<5).map { DeviceToken.sample($0) }
            for await delivery in client.deliveries(of: samplePush(), to: tokens, token: { $0 }) {
                outcomes.append(delivery.outcome)
            }
            return outcomes
        }
        await server.wait { $0.held == 2 }
        await client.shutdown(within: .milliseconds(20))
        let outcomes = await pushes.value
        #expect(outcomes.count == 5)
        #expect(outcomes.allSatisfy { $0.error?.code == .shuttingDown }, "\(outcomes)")
        #expect(outcomes.count { $0.certainty == .unknown } == 2)
        await server.stop()
    }
}

import Logging
import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// A connection that accepts pushes but does not serve them, while its server works.
struct WedgedConnectionTests {
    private func capacity(_ client: APNSClient) async -> Int { await client.status.pool.capacity }

    /// Waits until the connection gets no new pushes. The client may begin to measure its silence a moment after the server
    /// has the pushes, so a single step of the clock could come too early.
    private func waitForSilence(_ client: APNSClient, _ clock: ManualClock) async {
        await until {
            clock.advance(by: .milliseconds(100))
            return await self.capacity(client) == 0
        }
    }

    @Test func aConnectionThatResponds500IsReplaced() async throws {
        let script: ScriptedServer.Script = { push in
            push.connection == 1 && push.numberOnConnection > 1
                ? [.respond(500, reason: "InternalServerError")] : [.respond(200)]
        }
        try await withServer(script: script) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let outcomes = await deliver(20, with: client)
            #expect(outcomes.allSatisfy { $0.certainty == .accepted })
            #expect(server.record.connections == 2)
            #expect(server.record.processed.values.allSatisfy { $0 == 1 })
        }
    }

    @Test func aConnectionWithMissedDeadlinesIsReplaced() async throws {
        let script: ScriptedServer.Script = { push in
            push.connection == 1 && push.numberOnConnection > 1 ? [.hold] : [.respond(200)]
        }
        let clock = ManualClock()
        func configure(_ configuration: inout APNSClientConfiguration) {
            configuration.use(clock)
            configuration.timeouts.response = .seconds(10)
        }
        try await withServer(script: script, configure: configure) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let held = Task { await deliver(5, with: client) }
            await server.wait { $0.held == 5 }
            await self.waitForSilence(client, clock)
            clock.advance(by: .seconds(10))
            let outcomes = await held.value
            #expect(outcomes.allSatisfy { $0.certainty == .unknown && $0.error?.code == .deadlineExceeded })
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            #expect(server.record.pushes.last?.connection == 2)
        }
    }

    @Test func shortDeadlinesDoNotReplaceAConnection() async throws {
        let script: ScriptedServer.Script = { push in
            push.deviceToken == .sample(0xbad) ? [.hold] : [.respond(200)]
        }
        try await withServer(script: script) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            for _ in 0..<12 {
                let options = DeliveryOptions(deadline: .milliseconds(20))
                let outcome = await client.deliver(samplePush(), to: DeviceToken.sample(0xbad), options: options)
                #expect(outcome.error?.code == .deadlineExceeded)
            }
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            #expect(server.record.connections == 1)
        }
    }

    @Test func aSilentConnectionGetsNoMorePushesAndIsReplaced() async throws {
        let script: ScriptedServer.Script = { push in
            push.connection == 1 && push.numberOnConnection > 1 ? [.hold] : [.respond(200)]
        }
        let clock = ManualClock()
        try await withServer(script: script, configure: { $0.use(clock) }) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let silent = Task { await deliver(8, with: client) }
            await server.wait { $0.held == 8 }
            await self.waitForSilence(client, clock)
            // The server's HTTP/2 layer works all the time. This push waits for the next connection.
            let next = Task { await client.deliver(samplePush(), to: DeviceToken.sample(9)) }
            await until { await client.status.pool.queueDepth == 1 }
            clock.advance(by: .seconds(5))
            #expect(await next.value.certainty == .accepted)
            #expect(server.record.pushes.last?.connection == 2)
            // The pushes in flight on the first connection keep their deadlines.
            #expect(server.record.held == 8)
            server.release()
            #expect(await silent.value.allSatisfy { $0.certainty == .accepted && $0.attempts == 1 })
            #expect(server.record.connections == 2)
        }
    }

    @Test func aConnectionThatRespondsAgainGetsPushesAgain() async throws {
        let script: ScriptedServer.Script = { $0.number > 1 && $0.number < 10 ? [.hold] : [.respond(200)] }
        let clock = ManualClock()
        try await withServer(script: script, configure: { $0.use(clock) }) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let silent = Task { await deliver(8, with: client) }
            await server.wait { $0.held == 8 }
            await self.waitForSilence(client, clock)
            let waiting = Task { await client.deliver(samplePush(), to: DeviceToken.sample(9)) }
            await until { await client.status.pool.queueDepth == 1 }
            #expect(server.record.pushes.count == 9)
            server.release(.sample(3))
            #expect(await waiting.value.certainty == .accepted)
            #expect(await capacity(client) == 1000)
            server.release()
            #expect(await silent.value.allSatisfy { $0.certainty == .accepted })
            #expect(server.record.connections == 1)
        }
    }

    @Test func withoutABudgetTheStreamLimitHalvesAndRecovers() async throws {
        // The first 503 uses up the budget. The second one, on a connection that works, finds none left.
        let script: ScriptedServer.Script = { push in
            push.numberOnConnection == 2 ? [.respond(503, reason: "ServiceUnavailable")] : [.respond(200)]
        }
        let (logger, lines) = RecordingLog.make()
        try await withServer(limit: 8, script: script, configure: { $0.logger = logger }) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            #expect(server.record.connections == 2)
            await until { await capacity(client) == 4 }
            #expect(await client.status.degradedConnections == 1)
            // Ten successes per stream restore the limit.
            for _ in 0..<40 { _ = await client.deliver(samplePush(), to: deviceToken) }
            await until { await capacity(client) == 8 }
            #expect(await client.status.degradedConnections == 0)
            #expect(server.record.connections == 2)
            await lines.wait { $0.contains { $0.message.contains("the usual number of pushes at once again") } }
        }
        #expect(lines.count(.warning, containing: "503") == 1)
    }
}

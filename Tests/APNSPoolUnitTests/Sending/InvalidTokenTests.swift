import Foundation
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

struct InvalidTokenTests {
    /// Every tenth device has deleted the app.
    private static let script: ScriptedServer.Script = { push in
        guard let last = push.token.last?.hexDigitValue, last == 10 else { return [.respond(200)] }
        let body = #"{"reason":"Unregistered","timestamp":1700000000123}"#
        return [.responseBytes(410, Array(body.utf8))]
    }

    @Test func singleAndBulkPushesFillTheStreamUntilTheClientEnds() async throws {
        let journal = Journal<InvalidToken>()
        var reader: Task<Void, Never>?
        try await withServer(script: Self.script) { client, _ in
            let stream = client.invalidTokens
            reader = Task {
                for await token in stream { journal.write(token) }
            }
            let outcome = await client.deliver(samplePush(), to: DeviceToken.sample(10))
            #expect(outcome.invalidation?.millisecondsSince1970 == 1_700_000_000_123)
            let summary = await client.sendAll(samplePush(), to: (0..<160).map { DeviceToken.sample($0) })
            #expect(summary.rejected == 10)
            await journal.wait(count: 11)
        }
        await reader?.value
        #expect(journal.entries.count == 11)
        #expect(Set(journal.entries.map(\.deviceToken)) == Set((0..<10).map { DeviceToken.sample($0 * 16 + 10) }))
        #expect(journal.entries.allSatisfy { $0.topic == "com.example.app" })
        let since = try #require(journal.entries.first?.invalidation)
        #expect(since.shouldRemove(registeredAt: Date(timeIntervalSince1970: 1_600_000_000)))
        #expect(!since.shouldRemove(registeredAt: Date(timeIntervalSince1970: 1_800_000_000)))
    }

    @Test func aSlowReaderSeesTheMissedCountAndDelaysNoPush() async throws {
        try await withServer(script: Self.script) { client, _ in
            let stream = client.invalidTokens(bufferingNewest: 3)
            let summary = await client.sendAll(samplePush(), to: (0..<160).map { DeviceToken.sample($0) })
            #expect(summary.rejected == 10)
            var iterator = stream.makeAsyncIterator()
            for _ in 0..<3 { #expect(await iterator.next() != nil) }
            #expect(stream.missedCount == 7)
        }
    }

    @Test func badDeviceTokensAreNotInTheStream() async throws {
        try await withServer(script: { _ in [.respond(400, reason: "BadDeviceToken")] }) { client, _ in
            let stream = client.invalidTokens
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.certainty == .rejected && outcome.invalidation == nil)
            await client.shutdown()
            var iterator = stream.makeAsyncIterator()
            #expect(await iterator.next() == nil)
        }
    }
}

struct PrewarmTests {
    @Test func connectionsAreOpenBeforeTheFirstPush() async throws {
        try await withServer(configure: {
            $0.pool.size = 0; $0.pool.maxOverflow = 3
        }) { client, server in
            #expect(server.record.connections == 0)
            try await client.prewarm(3, within: Patience.limit)
            #expect(server.record.openConnections == 3)
            let workers = await client.status.pool.workers
            #expect(workers.allSatisfy { $0.state == .ready })
        }
    }

    @Test func aConnectionThatReachesTheEndOfItsLifeLosesNoPush() async throws {
        let clock = ManualClock()
        try await withServer(configure: {
            $0.pool.maxOverflow = 0
            $0.pool.maximumLifetime = .seconds(60)
            $0.use(clock)
        }) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            await until { await client.status.pool.workers.contains { $0.latency != nil } }
            clock.advance(by: .seconds(70))
            let summary = await client.sendAll(samplePush(), to: (0..<3000).map { DeviceToken.sample($0) })
            #expect(summary.accepted == 3000)
            await server.wait { $0.connections == 2 && $0.openConnections == 1 }
            #expect(await client.status.restarts == 0)
        }
    }

    @Test func anUnreachableServerMakesPrewarmThrow() async throws {
        var configuration = APNSClientConfiguration.local(port: 1, caPEM: nil)
        configuration.pool.unavailableAfter = .milliseconds(100)
        let client = try APNSClient(configuration: configuration)
        try await client.start()
        await #expect(throws: PoolError.self) { try await client.prewarm(1, within: .seconds(30)) }
        await client.shutdown(within: .zero)
    }
}

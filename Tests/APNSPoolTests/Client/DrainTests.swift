import Logging
import ServiceLifecycle
import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// A client in a service group, as on SIGTERM.
struct DrainTests {
    private func withGroup(
        clock: ManualClock,
        _ body: (APNSClient, ScriptedServer, ServiceGroup, Journal<RecordingLog.Line>) async throws -> Void
    ) async throws {
        let server = try await ScriptedServer.start(limit: 3) { _ in [.hold] }
        var (logger, lines) = RecordingLog.make()
        logger.logLevel = .info
        var configuration = APNSClientConfiguration.local(server)
        configuration.use(clock)
        configuration.timeouts.drain = APNSClientConfiguration.Timeouts().drain
        configuration.logger = logger
        let client = try APNSClient(configuration: configuration)
        let group = ServiceGroup(
            configuration: .init(services: [client], logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        )
        let run = Task { try await group.run() }
        try await body(client, server, group, lines)
        try await run.value
        await server.stop()
    }

    @Test func afterTwentySecondsTheRemainingPushesEnd() async throws {
        let clock = ManualClock()
        try await self.withGroup(clock: clock) { client, server, group, lines in
            let pushes = Task { await deliver(9, with: client) }
            await server.wait { $0.held == 3 }
            await until { await client.status.pool.queueDepth == 6 }
            await group.triggerGracefulShutdown()
            await lines.wait { $0.contains { $0.message == "draining" } }
            await until { clock.nextWakeUp.map { clock.now.duration(to: $0) <= .seconds(20) } ?? false }
            let late = await client.deliver(samplePush(), to: deviceToken)
            #expect(late.error?.code == .shuttingDown && late.certainty == .notSent)
            // One push gets its response in time, and a waiting push takes its stream.
            server.release(try #require(server.record.pushes.first?.deviceToken))
            await server.wait { $0.pushes.count == 4 }
            clock.advance(by: .milliseconds(19_999))
            #expect(client.runtime.lifecycle.current == .draining)
            clock.advance(by: .milliseconds(1))
            let outcomes = await pushes.value
            #expect(outcomes.count { $0.certainty == .accepted } == 1)
            #expect(outcomes.count { $0.certainty == .unknown && $0.error?.code == .shuttingDown } == 3)
            #expect(outcomes.count { $0.certainty == .notSent && $0.error?.code == .shuttingDown } == 5)
            await lines.wait { $0.contains { $0.level == .warning } }
            let line = try #require(lines.entries.first { $0.level == .warning })
            #expect(line.message.hasPrefix("the time for the drain is over"))
            #expect(line.metadata["in-flight"] == "8" && line.metadata["within"] == "20.0 seconds", "\(line.metadata)")
            // A second shutdown changes nothing.
            await client.shutdown()
            #expect(lines.entries.count { $0.level == .warning } == 1)
        }
    }

    @Test func aCompleteDrainLogsOneInfoLine() async throws {
        let clock = ManualClock()
        try await self.withGroup(clock: clock) { client, server, group, lines in
            let pushes = Task { await deliver(3, with: client) }
            await server.wait { $0.held == 3 }
            await group.triggerGracefulShutdown()
            await lines.wait { $0.contains { $0.message == "draining" } }
            clock.advance(by: .seconds(2))
            server.release()
            #expect(await pushes.value.allSatisfy { $0.certainty == .accepted })
            await lines.wait { $0.contains { $0.message == "drained" } }
            #expect(lines.entries.first { $0.message == "drained" }?.metadata["took"] == "2.0 seconds")
            #expect(!lines.entries.contains { $0.level >= .warning })
        }
    }

    @Test func aCancelledRunEndsItsPushes() async throws {
        let server = try await ScriptedServer.start(limit: 3) { _ in [.hold] }
        let (logger, lines) = RecordingLog.make()
        var configuration = APNSClientConfiguration.local(server)
        configuration.logger = logger
        let client = try APNSClient(configuration: configuration)
        let run = Task { try await client.run() }
        let pushes = Task { await deliver(5, with: client) }
        await server.wait { $0.held == 3 }
        await until { await client.status.pool.queueDepth == 2 }
        run.cancel()
        try await run.value
        let outcomes = await pushes.value
        #expect(outcomes.count { $0.certainty == .notSent } == 2 && outcomes.count { $0.certainty == .unknown } == 3)
        #expect(lines.count(.notice, containing: "the run was cancelled") == 1)
        await server.stop()
    }
}

import Logging
import ServiceLifecycle
import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

struct DrainCounterTests {
    private func at(_ seconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: seconds * 1_000_000_000) }

    private func pushes(accepted: Int, notSent: Int = 0, unknown: Int = 0) -> [PushCounters.Key: Int] {
        [
            .init(type: "alert", outcome: .accepted, reason: "none"): accepted,
            .init(type: "alert", outcome: .notSent, reason: "shuttingDown"): notSent,
            .init(type: "alert", outcome: .unknown, reason: "shuttingDown"): unknown,
        ]
    }

    @Test func onlyPushesThatEndedDuringTheDrainCount() {
        var counter = DrainCounter()
        counter.begin(self.pushes(accepted: 100), refused: 0, within: .seconds(20), now: self.at(5))
        var end = self.pushes(accepted: 107, notSent: 3, unknown: 2)
        // The network caused this outcome, not the shutdown, so the push counts as finished.
        end[.init(type: "alert", outcome: .unknown, reason: "connectionLost")] = 1
        let report = counter.report(end, refused: 0, now: self.at(25))
        #expect(
            report
                == DrainReport(within: .seconds(20), took: .seconds(20), finished: 8, notSent: 3, unknown: 2)
        )
        #expect(!report.isComplete)
        #expect("\(report)" == "8 pushes finished, 3 not sent, 2 unknown, in 20.0 seconds")
    }

    @Test func refusedPushesAreNotCountedAsNotSent() {
        var counter = DrainCounter()
        counter.begin(self.pushes(accepted: 10), refused: 0, within: .seconds(20), now: self.at(0))
        let report = counter.report(self.pushes(accepted: 12, notSent: 4), refused: 4, now: self.at(1))
        #expect(report.finished == 2 && report.isComplete)
        // One push is refused, but not yet counted as ended.
        #expect(counter.report(self.pushes(accepted: 12), refused: 1, now: self.at(1)).notSent == 0)
    }

    @Test func onlyTheFirstBeginCounts() {
        var counter = DrainCounter()
        counter.begin([:], refused: 0, within: .seconds(20), now: self.at(0))
        counter.begin(self.pushes(accepted: 5), refused: 0, within: .seconds(1), now: self.at(9))
        #expect(counter.report(self.pushes(accepted: 5), refused: 0, now: self.at(10)).finished == 5)
        #expect(counter.report([:], refused: 0, now: self.at(10)).within == .seconds(20))
        let none = DrainCounter().report(self.pushes(accepted: 5, notSent: 1), refused: 0, now: self.at(10))
        #expect(none == DrainReport(within: nil, took: .zero, finished: 0, notSent: 1, unknown: 0))
    }
}

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
        #expect(await client.status.drain == nil)
        try await body(client, server, group, lines)
        try await run.value
        await server.stop()
    }

    @Test func afterTwentySecondsTheRemainingPushesEndAndAreReported() async throws {
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
            await until { await client.status.drain != nil }
            #expect(
                await client.status.drain
                    == DrainReport(within: .seconds(20), took: .seconds(20), finished: 1, notSent: 5, unknown: 3)
            )
            let line = try #require(lines.entries.first { $0.level == .warning })
            #expect(line.message == "the client ended before all pushes had a response")
            #expect(line.metadata["not-sent"] == "5" && line.metadata["unknown"] == "3", "\(line.metadata)")
            #expect(line.metadata["finished"] == "1")
            // A second shutdown changes nothing.
            await client.shutdown()
            #expect(await client.status.drain?.notSent == 5)
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
            await until { await client.status.drain != nil }
            let report = try #require(await client.status.drain)
            #expect(report.isComplete && report.finished == 3 && report.took == .seconds(2))
            #expect(lines.count(.info, containing: "drained") == 1)
            #expect(!lines.entries.contains { $0.level >= .warning })
        }
    }

    @Test func aCancelledRunReportsThePushesItEnded() async throws {
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
        _ = await pushes.value
        #expect(await client.status.drain?.notSent == 2)
        #expect(lines.count(.warning, containing: "before all pushes had a response") == 1)
        await server.stop()
    }
}

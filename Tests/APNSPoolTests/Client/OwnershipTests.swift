import Logging
import ServiceLifecycle
import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The ways to run a client, and how it ends.
struct OwnershipTests {
    private struct Failure: Error {}

    // MARK: run()

    @Test func runInATaskServesUntilItIsCancelled() async throws {
        let server = try await ScriptedServer.start { _ in [.respond(200)] }
        let client = try APNSClient(configuration: .local(server))
        let run = Task { try await client.run() }
        #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
        run.cancel()
        try await run.value
        #expect(await client.deliver(samplePush(), to: deviceToken).error?.code == .shuttingDown)
        await server.wait { $0.openConnections == 0 }
        await server.stop()
    }

    @Test func runTwiceThrowsTheSecondTime() async throws {
        try await withServer { client, _ in
            let error = await #expect(throws: APNSConfigurationError.self) { try await client.run() }
            #expect(error?.code == .alreadyRunning)
            await #expect(throws: APNSConfigurationError.self) { try await client.start() }
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
        }
    }

    @Test func aClientThatHasEndedDoesNotRunAgain() async throws {
        let client = try APNSClient.unstarted()
        await client.shutdown()
        await #expect(throws: APNSConfigurationError.self) { try await client.run() }
        await #expect(throws: APNSConfigurationError.self) { try await client.start() }
        await client.shutdown()
    }

    @Test func cancellingRunGivesEachPushAnOutcomeBeforeItReturns() async throws {
        let server = try await ScriptedServer.start(limit: 10) { _ in [.hold] }
        let client = try APNSClient(configuration: .local(server))
        let run = Task { try await client.run() }
        let pushes = Task { await deliver(50, with: client) }
        await server.wait { $0.held == 10 }
        await until { await client.status.pool.queueDepth >= 40 }
        run.cancel()
        try await run.value
        #expect(client.runtime.lifecycle.pushesInFlight == 0)
        let outcomes = await pushes.value
        #expect(outcomes.count { $0.certainty == .unknown } == 10)
        #expect(outcomes.count { $0.error?.code == .shuttingDown && $0.certainty == .notSent } == 40)
        #expect(server.record.pushes.count == 10)
        await server.stop()
    }

    @Test func runInACancelledTaskEndsWaitingPushes() async throws {
        let server = try await ScriptedServer.start()
        let client = try APNSClient(configuration: .local(server))
        let push = Task { await client.deliver(samplePush(), to: deviceToken) }
        await until { client.runtime.lifecycle.pushesInFlight > 0 }
        let run = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await client.run()
        }
        try await run.value
        #expect(await push.value.error?.code == .shuttingDown)
        await server.stop()
    }

    // MARK: start() and shutdown()

    @Test func shutdownWaitsForPushesInFlight() async throws {
        let server = try await ScriptedServer.start(limit: 2) { _ in [.hold] }
        let client = try APNSClient(configuration: .local(server))
        try await client.start()
        let pushes = Task { await deliver(6, with: client) }
        // All six pushes have entered: a push that arrives after the shutdown began is refused.
        await server.wait { $0.held == 2 }
        await until { await client.status.pool.queueDepth == 4 }
        let shutdown = Task { await client.shutdown() }
        await until { client.runtime.lifecycle.current == .draining }
        let late = await client.deliver(samplePush(), to: deviceToken)
        #expect(late.error?.code == .shuttingDown && late.certainty == .notSent)
        for done in 1...3 {
            await server.wait { $0.held == 2 && $0.pushes.count == 2 * done }
            server.release()
        }
        #expect(await pushes.value.allSatisfy { $0.certainty == .accepted })
        await shutdown.value
        #expect(client.runtime.lifecycle.current == .stopped)
        await server.wait { $0.openConnections == 0 }
        await server.stop()
    }

    @Test func shutdownEndsPushesThatDoNotFinishInTime() async throws {
        let server = try await ScriptedServer.start(limit: 3) { _ in [.hold] }
        let client = try APNSClient(configuration: .local(server))
        try await client.start()
        let pushes = Task { await deliver(9, with: client) }
        await until { await client.status.pool.queueDepth >= 6 }
        await server.wait { $0.held == 3 }
        await client.shutdown(within: .milliseconds(100))
        #expect(client.runtime.lifecycle.pushesInFlight == 0)
        let outcomes = await pushes.value
        #expect(outcomes.count { $0.certainty == .unknown } == 3)
        #expect(outcomes.count { $0.certainty == .notSent && $0.error?.code == .shuttingDown } == 6)
        await server.stop()
    }

    @Test func concurrentShutdownsAllReturn() async throws {
        let server = try await ScriptedServer.start()
        let client = try APNSClient(configuration: .local(server))
        try await client.start()
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<20 { group.addTask { await client.shutdown() } }
        }
        #expect(client.runtime.lifecycle.current == .stopped)
        await server.stop()
    }

    @Test func shutdownIsQuickWhileAPNsIsUnreachable() async throws {
        let closed = try #require(ClosedPort())
        defer { withExtendedLifetime(closed) {} }
        var configuration = APNSClientConfiguration.local(port: closed.number, caPEM: nil)
        // Longer than this test may take.
        configuration.timeouts.deadline = .seconds(300)
        let client = try APNSClient(configuration: configuration)
        try await client.start()
        let push = Task { await client.deliver(samplePush(), to: deviceToken) }
        await until { await client.status.pool.queueDepth > 0 }
        await client.shutdown(within: .milliseconds(50))
        #expect(await push.value.certainty == .notSent)
    }

    @Test func aStartedClientEndsWhenItIsReleased() async throws {
        let server = try await ScriptedServer.start()
        var client: APNSClient? = try APNSClient(configuration: .local(server))
        try await client?.start()
        #expect(await client?.deliver(samplePush(), to: deviceToken).certainty == .accepted)
        weak let runtime = client?.runtime
        client = nil
        await server.wait { $0.openConnections == 0 }
        await until { runtime == nil }
        await server.stop()
    }

    @Test("A client that is released while it runs logs it, and its pushes fail as if its task had been cancelled")
    func releaseWhileRunning() async throws {
        let (logger, lines) = RecordingLog.make()
        let server = try await ScriptedServer.start(limit: 2) { $0.number == 1 ? [.respond(200)] : [.hold] }
        var configuration = APNSClientConfiguration.local(server)
        configuration.logger = logger
        var client: APNSClient? = try APNSClient(configuration: configuration)
        try await client?.start()
        weak let runtime = client?.runtime
        // Unlike a call for one push, the iterator of a bulk call does not keep its client.
        let tokens = (0..<5).map { DeviceToken.sample($0) }
        var iterator = client?.deliveries(of: samplePush(), to: tokens, token: { $0 }).makeAsyncIterator()
        #expect(await iterator?.next()?.outcome.certainty == .accepted)
        await server.wait { $0.held >= 1 }
        #expect(lines.entries.isEmpty, "\(lines.entries)")
        client = nil
        var outcomes: [PushOutcome] = []
        while let delivery = await iterator?.next() { outcomes.append(delivery.outcome) }
        iterator = nil
        // At most two pushes were sent.
        #expect(outcomes.count == 4, "\(outcomes)")
        #expect((1...2).contains(outcomes.count { $0.certainty == .unknown }), "\(outcomes)")
        #expect(outcomes.allSatisfy { [.unknown, .notSent].contains($0.certainty) }, "\(outcomes)")
        #expect(lines.count(.error, containing: "an APNSClient was released while running") == 1)
        await server.wait { $0.openConnections == 0 }
        await until { runtime == nil }
        await server.stop()
    }

    @Test func nothingKeepsAClientAliveAfterItsShutdown() async throws {
        let server = try await ScriptedServer.start()
        var client: APNSClient? = try APNSClient(configuration: .local(server))
        weak let runtime = client?.runtime
        weak let pool = client?.runtime.pool
        try await client?.start()
        #expect(await client?.deliver(samplePush(), to: deviceToken).certainty == .accepted)
        #expect(await client?.sendAll(samplePush(), to: [deviceToken, deviceToken]).accepted == 2)
        await client?.shutdown()
        client = nil
        await until { runtime == nil && pool == nil }
        await server.stop()
    }

    // MARK: Before the run

    @Test func aPushBeforeTheRunWaitsAndSucceeds() async throws {
        let server = try await ScriptedServer.start()
        let client = try APNSClient(configuration: .local(server))
        let pushes = Task { await deliver(10, with: client) }
        await until { client.runtime.lifecycle.pushesInFlight >= 10 }
        try await client.start()
        #expect(await pushes.value.allSatisfy { $0.certainty == .accepted })
        await client.shutdown()
        await server.stop()
    }

    @Test func withoutARunAPushEndsAtItsDeadline() async throws {
        let client = try APNSClient.unstarted()
        let outcome = await client.deliver(
            samplePush(),
            to: deviceToken,
            options: DeliveryOptions(deadline: .milliseconds(100))
        )
        #expect(outcome.certainty == .notSent)
        #expect(outcome.error?.code == .notRunning)
        #expect(outcome.error?.message.contains("run()") == true)
    }

    @Test("While a client is not running, its pushes wait, and the log warns once, after a second")
    func notRunningIsLogged() async throws {
        let clock = ManualClock()
        let (logger, lines) = RecordingLog.make()
        let server = try await ScriptedServer.start()
        var configuration = APNSClientConfiguration.local(server)
        configuration.use(clock)
        configuration.logger = logger
        let client = try APNSClient(configuration: configuration)
        let pushes = Task { await deliver(3, with: client) }
        await until { clock.sleepers == 3 }
        clock.advance(by: .milliseconds(999))
        #expect(lines.entries.isEmpty && clock.sleepers == 3)
        clock.advance(by: .milliseconds(1))
        // Now each push waits until its deadline.
        await until {
            clock.nextWakeUp.map { clock.now.duration(to: $0) > .seconds(10) } ?? false && clock.sleepers == 3
        }
        #expect(lines.entries.map(\.level) == [.warning], "\(lines.entries)")
        #expect(lines.count(.warning, containing: "the client is not running: call run()") == 1)
        try await client.start()
        #expect(await pushes.value.allSatisfy { $0.certainty == .accepted })
        await client.shutdown()
        await server.stop()
    }

    @Test func withoutARunABulkCallEndsAtItsDeadlines() async throws {
        let client = try APNSClient.unstarted()
        var outcomes: [PushOutcome] = []
        let options = BulkOptions(deadline: .milliseconds(50))
        let rows = (0..<100).map { DeviceToken.sample($0) }
        for await delivery in client.deliveries(of: samplePush(), to: rows, token: { $0 }, options: options) {
            outcomes.append(delivery.outcome)
        }
        #expect(outcomes.count == 100)
        #expect(outcomes.allSatisfy { $0.error?.code == .notRunning && $0.certainty == .notSent })
    }

    @Test func shutdownBeforeTheRunEndsWaitingPushes() async throws {
        let client = try APNSClient.unstarted()
        let push = Task { await client.deliver(samplePush(), to: deviceToken) }
        let bulk = Task { await client.sendAll(samplePush(), to: [deviceToken]) }
        await until { client.runtime.lifecycle.pushesInFlight >= 2 }
        await client.shutdown()
        #expect(await push.value.error?.code == .shuttingDown)
        #expect(await bulk.value.notSent == 1)
    }

    @Test func aPushCancelledBeforeTheRunEndsAsCancelled() async throws {
        let client = try APNSClient.unstarted()
        let push = Task { await client.deliver(samplePush(), to: deviceToken) }
        await until { client.runtime.lifecycle.pushesInFlight > 0 }
        push.cancel()
        #expect(await push.value.error?.code == .cancelled)
    }

    // MARK: Other owners

    @Test func aServiceGroupShutsTheClientDownGracefully() async throws {
        let server = try await ScriptedServer.start { _ in [.hold] }
        let client = try APNSClient(configuration: .local(server))
        let group = ServiceGroup(
            configuration: .init(services: [client], logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        )
        let run = Task { try await group.run() }
        let push = Task { await client.deliver(samplePush(), to: deviceToken) }
        await server.wait { $0.held == 1 }
        await group.triggerGracefulShutdown()
        await until { client.runtime.lifecycle.current == .draining }
        server.release()
        #expect(await push.value.certainty == .accepted)
        try await run.value
        await server.stop()
    }

    @Test func withAPNSClientRethrowsTheErrorAndShutsDown() async throws {
        let server = try await ScriptedServer.start()
        var client: APNSClient?
        await #expect(throws: Failure.self) {
            try await withAPNSClient(configuration: .local(server)) {
                client = $0
                #expect(await $0.deliver(samplePush(), to: deviceToken).certainty == .accepted)
                throw Failure()
            }
        }
        #expect(client?.runtime.lifecycle.current == .stopped)
        let number = try await withAPNSClient(configuration: .local(server)) { _ in 7 }
        #expect(number == 7)
        await server.wait { $0.openConnections == 0 }
        await server.stop()
    }

    @Test func settingsOutOfTheirLimitsAreNamed() throws {
        func setting(_ change: (inout APNSClientConfiguration) -> Void) -> String? {
            var configuration = APNSClientConfiguration.local(port: 443, caPEM: nil)
            change(&configuration)
            do throws(APNSConfigurationError) {
                _ = try APNSClient(configuration: configuration)
                return nil
            } catch {
                return error.setting
            }
        }
        #expect(setting { _ in } == nil)
        #expect(setting { $0.environment.port = 0 } == "environment.port")
        #expect(setting { $0.environment.host = "a b" } == "environment.host")
        #expect(setting { $0.pool.size = 0 } == "pool.size")
        #expect(setting { $0.pool.size = -1 } == "pool.size")
        #expect(
            setting {
                $0.pool.size = 900; $0.pool.maxOverflow = 900
            } == "pool.size + pool.maxOverflow"
        )
        #expect(setting { $0.pool.maxQueued = 1_000_001 } == "pool.maxQueued")
        #expect(setting { $0.pool.maxQueued = 1_000_000 } == nil)
        #expect(setting { $0.pool.maxConcurrentStreams = 0 } == "pool.maxConcurrentStreams")
        #expect(setting { $0.timeouts.deadline = .zero } == "timeouts.deadline")
        #expect(setting { $0.retry.maxAttempts = 6 } == "retry.maxAttempts")
        #expect(setting { $0.trust.caPEM = "nonsense" } == "trust.caPEM")
    }
}

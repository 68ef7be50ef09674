import APNSSimulator
import SupervisedPool
import Synchronization
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// A client whose settings change while it runs.
struct UpdateTests {
    /// The outcomes by the push ids that the test chose.
    private final class Book: Sendable {
        private let outcomes = Mutex<[APNSID: [PushOutcome]]>([:])

        var count: Int { self.outcomes.withLock { $0.count } }

        func write(_ id: APNSID, _ outcome: PushOutcome) {
            self.outcomes.withLock { $0[id, default: []].append(outcome) }
        }

        func compare(with ledger: Ledger, total: Int) {
            let outcomes = self.outcomes.withLock { $0 }
            #expect(outcomes.count == total)
            let others = outcomes.values.filter { $0.map(\.certainty) != [.accepted] }
            #expect(others.isEmpty, "\(others.count) were not accepted once: \(others.prefix(5))")
            let wrong = outcomes.keys.filter { ledger.processedCount(of: $0) != 1 }
            #expect(wrong.isEmpty, "\(wrong.count) were not processed once")
            #expect(ledger.duplicates.isEmpty)
            #expect(ledger.requestsProcessed == total)
        }
    }

    private func withLoad(
        singles: Int,
        bulk: Int,
        configure: (inout APNSClientConfiguration) -> Void,
        _ body:
            @escaping @Sendable (APNSClient, Simulator, @escaping @Sendable (Int) async -> Void) async throws -> Void
    ) async throws {
        var simulation = Simulator.Configuration()
        simulation.responseDelay = .milliseconds(3)
        let patient: (inout APNSClientConfiguration) -> Void = {
            configure(&$0)
            // Beside other tests a push may have to wait longer than the default of 30 s.
            $0.timeouts.deadline = .seconds(300)
        }
        try await withPatientSimulator(simulation: simulation, configure: patient) { client, simulator in
            let book = Book()
            let total = 20 * singles + 2 * bulk
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<20 {
                    group.addTask {
                        for _ in 0..<singles {
                            let id = APNSID.random()
                            let outcome = await client.deliver(
                                samplePush(),
                                to: deviceToken,
                                options: DeliveryOptions(apnsID: id)
                            )
                            book.write(id, outcome)
                        }
                    }
                }
                for _ in 0..<2 {
                    group.addTask {
                        let rows = (0..<bulk).map { _ in APNSID.random() }
                        let deliveries = client.deliveries(
                            of: samplePush(),
                            to: rows,
                            token: { _ in deviceToken },
                            apnsID: { $0 }
                        )
                        for await delivery in deliveries { book.write(delivery.element, delivery.outcome) }
                    }
                }
                group.addTask {
                    try await body(client, simulator) { done in await until { book.count >= min(done, total) } }
                }
                try await group.waitForAll()
            }
            book.compare(with: simulator.record, total: total)
            #expect(await client.status.pool.leased == 0)
            #expect(await client.status.restarts == 0)
        }
    }

    /// Waits until this number of connections and workers is in use.
    private func expect(_ count: Int, _ client: APNSClient, _ simulator: Simulator) async {
        await until { simulator.connectionNumbers.count == count }
        await until { await client.status.pool.workers.count == count }
    }

    @Test func thePoolGrowsFromOneToFourAndBackUnderLoad() async throws {
        try await self.withLoad(singles: TestScale.size(75, thorough: 150), bulk: TestScale.size(2000, thorough: 4000))
        {
            $0.pool = .init(size: 1, maxOverflow: 0, maxConcurrentStreams: 40, connectSpacing: .zero)
        } _: { client, simulator, reached in
            await reached(200)
            await self.expect(1, client, simulator)
            try client.update { $0.pool.size = 4 }
            try await client.prewarm(4, within: Patience.limit)
            await self.expect(4, client, simulator)
            await until { await client.status.pool.capacity == 160 }
            await reached(TestScale.size(1500, thorough: 3000))
            try client.update { $0.pool.size = 1 }
            #expect(client.runtime.lifecycle.pushesInFlight > 0, "the load was over too soon")
            // No later call gets a stream of the removed connections.
            #expect(await client.status.pool.capacity == 40)
            await self.expect(1, client, simulator)
            await reached(TestScale.size(3000, thorough: 6000))
            try client.update { $0.pool.size = 4 }
            try await client.prewarm(4, within: Patience.limit)
            await self.expect(4, client, simulator)
        }
    }

    /// Each change arrives before the previous one is complete.
    @Test func rapidChangesLoseNoPush() async throws {
        try await self.withLoad(singles: TestScale.size(50, thorough: 100), bulk: TestScale.size(750, thorough: 1500)) {
            $0.pool = .init(size: 2, maxOverflow: 0, maxConcurrentStreams: 40, connectSpacing: .zero)
        } _: { client, simulator, reached in
            var random = SeededRandom(seed: 7)
            for step in 1...TestScale.size(20, thorough: 40) {
                let size = Int.random(in: 1...5, using: &random)
                try client.update { settings in
                    settings.pool.size = size
                    settings.pool.maxOverflow = size % 3
                    settings.pool.maxQueued = 1000 * size
                }
                await reached(step * 100)
            }
            try client.update { settings in
                settings.pool.size = 3
                settings.pool.maxOverflow = 0
            }
            try await client.prewarm(3, within: Patience.limit)
            await self.expect(3, client, simulator)
        }
    }

    @Test func anUpdateOutsideTheLimitsIsRefusedAndChangesNothing() async throws {
        let client = try APNSClient.unstarted()
        func setting(_ change: (inout APNSClientSettings) -> Void) -> String? {
            do throws(APNSConfigurationError) {
                try client.update(change)
                return nil
            } catch {
                #expect(error.code == .outOfRange)
                return error.setting
            }
        }
        let before = client.settings
        #expect(setting { $0.pool.size = -1 } == "pool.size")
        #expect(setting { $0.pool.size = 0 } == "pool.size")
        #expect(setting { $0.pool.maxOverflow = 1001 } == "pool.maxOverflow")
        #expect(setting { $0.pool.maxQueued = 0 } == "pool.maxQueued")
        #expect(setting { $0.pool.maxConcurrentStreams = 1001 } == "pool.maxConcurrentStreams")
        #expect(setting { $0.timeouts.deadline = .zero } == "timeouts.deadline")
        // An update with one invalid setting changes no setting.
        #expect(
            setting { settings in
                settings.pool.size = 5
                settings.timeouts.response = .zero
            } == "timeouts.response"
        )
        #expect(client.settings.pool.size == before.pool.size)
        #expect(await client.status.pool.workers.count == 1)
    }

    @Test func anUpdateBeforeTheRunAppliesFromTheStart() async throws {
        let server = try await ScriptedServer.start { _ in [.respond(200)] }
        let client = try APNSClient(configuration: .local(server))
        try client.update { $0.pool.size = 3 }
        try await client.start()
        try await client.prewarm(3, within: Patience.limit)
        #expect(server.record.openConnections == 3)
        #expect(client.settings.pool.size == 3)
        await client.shutdown()
        await server.stop()
    }

    @Test func newTimeoutsApplyToLaterPushes() async throws {
        try await withServer(script: { _ in [.hold] }) { client, server in
            try client.update { $0.timeouts.deadline = .milliseconds(50) }
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.error?.code == .deadlineExceeded)
            try client.update { settings in
                settings.timeouts.deadline = Patience.limit
                settings.timeouts.response = .milliseconds(50)
            }
            let second = await client.deliver(samplePush(), to: deviceToken)
            #expect(second.error?.message.contains("no response came within 0.05 seconds") == true)
            server.release()
        }
    }

    @Test func aShorterQueueAppliesToLaterPushes() async throws {
        try await withServer(
            script: { _ in [.hold] },
            configure: { $0.pool.maxConcurrentStreams = 1 }
        ) { client, server in
            let tasks = (0..<3).map { _ in Task { await client.deliver(samplePush(), to: deviceToken) } }
            await server.wait { $0.held == 1 }
            await until { await client.status.pool.queueDepth == 2 }
            try client.update { $0.pool.maxQueued = 1 }
            #expect(await client.deliver(samplePush(), to: deviceToken).error?.code == .queueFull)
            for held in 1...3 {
                await server.wait { $0.pushes.count == held && $0.held == 1 }
                server.release()
            }
            for task in tasks { #expect(await task.value.certainty == .accepted) }
        }
    }

    @Test func aNewStreamLimitAppliesFromTheNextSession() async throws {
        try await withServer { client, server in
            try await client.prewarm(1, within: Patience.limit)
            try client.update { $0.pool.maxConcurrentStreams = 7 }
            #expect(await client.status.pool.capacity == 1000)
            server.dropAll()
            await until { await client.status.pool.capacity == 7 }
            try client.update { $0.pool.maxConcurrentStreams = 500 }
            server.dropAll()
            await until { await client.status.pool.capacity == 500 }
        }
    }

    /// An overflow worker that becomes a base worker connects, although it was not started as one.
    @Test func anOverflowWorkerCanBecomeABaseWorker() async throws {
        try await withServer(configure: { $0.pool.maxOverflow = 2 }) { client, server in
            try await client.prewarm(1, within: Patience.limit)
            try client.update { settings in
                settings.pool.size = 3
                settings.pool.maxOverflow = 0
            }
            await server.wait { $0.openConnections == 3 }
            // The server counts a connection before it can drop it.
            try await client.prewarm(3, within: Patience.limit)
            server.dropAll()
            await server.wait { $0.connections >= 6 && $0.openConnections == 3 }
        }
    }

    @Test func aRestartedPoolHasTheNewSize() async throws {
        let client = try APNSClient.unstarted()
        let currentPool = client.runtime.credentials.latest.currentPool
        let first = currentPool.forChild()
        try client.update { $0.pool.size = 6 }
        #expect(await first.status().workers.count == 6)
        let second = currentPool.forChild()
        #expect(second !== first)
        #expect(await second.status().workers.count == 6)
    }
}

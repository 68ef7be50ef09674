import APNSSimulator
import Synchronization
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The features of a group for each app and for all apps: bulk calls, health, check, settings, invalid device tokens.
struct GroupSenderTests: GroupOfClients {
    private let key = SimulatedKey()

    private func environment(_ simulator: Simulator) -> APNSEnvironment {
        .custom(host: "localhost", port: simulator.port)
    }

    /// Runs `body` with a group of the apps `fern` and `moss`, which have one key.
    private func withGroup(
        configure: (inout APNSClientGroup.Configuration) -> Void = { _ in },
        _ body: (APNSClientGroup, APNSAppSender, Simulator) async throws -> Void
    ) async throws {
        let simulation = self.simulation(knowing: self.key)
        try await self.withGroup(simulation: simulation, configure: configure) { group, simulator in
            for name in ["fern", "moss"] { try group.add(self.app(name, self.key, simulator)) }
            await until { await group.health != .starting }
            try await body(group, group.sender(for: "fern", in: self.environment(simulator)), simulator)
        }
    }

    @Test("A bulk call of a group can be woken any number of times")
    func wakes() {
        let wake = GroupBulkRun.EngineWake()
        let calls = Atomic<Int>(0)
        wake.set { calls.add(1, ordering: .relaxed) }
        for _ in 0..<500_000 { wake.call() }
        #expect(calls.load(ordering: .relaxed) == 500_000)
    }

    /// Runs `body` with a group that has one connection. A bulk call of `moss` uses it, and a bulk call of `fern` with
    /// these rows waits for its turn.
    private func withWaitingCall(
        _ clock: ManualClock = ManualClock(),
        rows numbers: some Sequence<Int> & Sendable,
        _ body: (APNSClientGroup, Task<BulkSummary, Never>, BulkControl, _ endOther: () -> Void) async throws -> Void
    ) async throws {
        try await self.withGroup(configure: {
            $0.client.use(clock)
            // The push of `moss` never times out, however far the clock advances.
            $0.client.timeouts.deadline = .seconds(3600)
            $0.client.timeouts.response = .seconds(3600)
            $0.maxConnections = 1
            $0.isolation = .perApp
        }) { group, fern, simulator in
            let moss = group.sender(for: "moss", in: self.environment(simulator))
            let (others, other) = AsyncStream<DeviceToken>.makeStream()
            other.yield(.sample(0))
            let busy = Task { await moss.sendAll(samplePush(topic: "com.example.moss"), to: others) }
            try await simulator.waitUntil(timeout: Patience.limit) { $0.requestsProcessed == 1 }
            let control = BulkControl()
            let options = BulkOptions(deadline: .seconds(20), control: control)
            let run = Task {
                var summary = BulkSummary()
                let deliveries = fern.deliveries(
                    of: self.push,
                    to: numbers,
                    token: { DeviceToken.sample($0) },
                    options: options
                )
                for await delivery in deliveries { summary.count(delivery.outcome.certainty) }
                return summary
            }
            await until { group.registry.waiting("fern", self.environment(simulator)) == 1 }
            try await body(group, run, control) { other.finish() }
            other.finish()
            #expect(await busy.value.accepted == 1)
        }
    }

    private let push = samplePush(topic: "com.example.fern")

    @Test("A bulk call starts the app's client, and keeps it until the call has ended")
    func bulk() async throws {
        try await self.withGroup { group, fern, simulator in
            let control = BulkControl()
            let tokens = (0..<1000).map { DeviceToken.sample($0) }
            #expect(await fern.sendAll(self.push, to: tokens, options: BulkOptions(control: control)).accepted == 1000)
            #expect(control.progress.completedPrefix == 1000)
            #expect(simulator.record.requestsProcessed == 1000)
            #expect(group.status.allSatisfy { $0.inFlight == 0 })
            // During a call the client is in use.
            var iterator = fern.deliveries(of: self.push, to: tokens).makeAsyncIterator()
            #expect(await iterator.next() != nil)
            #expect(group.status.first?.inFlight == 1)
            while await iterator.next() != nil {}
            #expect(group.status.first?.inFlight == 0)
        }
    }

    @Test("A bulk call with an asynchronous input and one that is left early release the client")
    func bulkInputs() async throws {
        try await self.withGroup { group, fern, _ in
            let (rows, row) = AsyncStream<DeviceToken>.makeStream()
            let run = Task { await fern.sendAll(self.push, to: rows) }
            for number in 0..<10 {
                await Task.yield()
                row.yield(.sample(number))
            }
            row.finish()
            #expect(await run.value.accepted == 10)
            for await _ in fern.deliveries(of: self.push, to: (0...).lazy.map { DeviceToken.sample($0) }) { break }
            await until { group.status.allSatisfy { $0.inFlight == 0 } }
        }
    }

    @Test("Pushes for another app's topic are not sent, even in a bulk call")
    func foreignTopic() async throws {
        try await self.withGroup { _, fern, simulator in
            let foreign = samplePush(topic: "com.example.moss")
            let voip = samplePush(topic: "com.example.fern.voip")
            let deliveries = fern.deliveries(0..<9) { row in
                (row % 3 == 0 ? foreign : row % 3 == 1 ? self.push : voip, DeviceToken.sample(row))
            }
            for await delivery in deliveries {
                #expect((delivery.outcome.error?.code == .configuration) == (delivery.element % 3 == 0))
            }
            #expect(Set(simulator.record.pushes.map(\.topic)) == ["com.example.fern", "com.example.fern.voip"])
        }
    }

    @Test("Without a client, each push of a bulk call fails with the reason")
    func noClient() async throws {
        try await self.withGroup { group, fern, simulator in
            let unknown = group.sender(for: "nobody", in: self.environment(simulator))
            let (rows, row) = AsyncStream<DeviceToken>.makeStream()
            for number in 0..<3 { row.yield(.sample(number)) }
            row.finish()
            var codes: [PushError.Code?] = []
            for await delivery in unknown.deliveries(of: self.push, to: rows) {
                codes.append(delivery.outcome.error?.code)
            }
            #expect(codes.first == .configuration && codes.count <= 3)
            // An endless input ends after one row.
            let endless = (0...).lazy.map { DeviceToken.sample($0) }
            #expect(await unknown.sendAll(self.push, to: endless).notSent == 1)
            let production = group.sender(for: "fern")
            let error = await production.deliver(self.push, to: deviceToken).error
            #expect(error?.message.contains("the app 'fern' has no environment") == true, "\(error as Any)")
            #expect(await unknown.health.cause?.code == .configuration)
            #expect(await unknown.status == nil)
            #expect(await !unknown.check().isOK)
        }
    }

    @Test("If the group does not run, a bulk call ends with its first push")
    func notRunning() async throws {
        let simulator = try await Simulator.start()
        let group = try APNSClientGroup(
            configuration: .init(client: .local(port: simulator.port, caPEM: simulator.certificateAuthorityPEM))
        )
        try group.add(self.app("fern", self.key, simulator))
        let fern = group.sender(for: "fern", in: self.environment(simulator))
        let options = BulkOptions(deadline: .milliseconds(20))
        #expect(await fern.sendAll(self.push, to: [DeviceToken.sample(1)], options: options).notSent == 1)
        #expect(await fern.health == .starting)
        #expect(await group.health == .starting)
        await simulator.stop()
    }

    @Test("A bulk call pulls nothing while its app waits for a client, and sends everything afterwards")
    func pullsNothingBeforeItsClientRuns() async throws {
        let clock = ManualClock()
        try await self.withWaitingCall(clock, rows: 0..<100) { _, run, control, endOther in
            // Longer than the pushes' deadline.
            clock.advance(by: .seconds(60))
            #expect(control.progress.pulled == 0)
            endOther()
            // The group looks every 100 ms for a client that can make room.
            await until {
                clock.advance(by: .milliseconds(100))
                return control.progress.pulled > 0
            }
            #expect(await run.value.accepted == 100)
        }
    }

    @Test("A stop, a cancellation and a shutdown end a bulk call that waits for a client", arguments: 0..<3)
    func waitEnds(_ way: Int) async throws {
        try await self.withWaitingCall(rows: 0...) { group, run, control, _ in
            switch way {
            case 0: control.stop()
            case 1: run.cancel()
            default: group.shutdown()
            }
            #expect(await run.value.total == 0)
        }
    }

    @Test("A bulk call that begins after the shutdown pulls nothing")
    func afterShutdown() async throws {
        try await self.withGroup { group, fern, _ in
            group.shutdown()
            #expect(await fern.sendAll(self.push, to: (0...).lazy.map { DeviceToken.sample($0) }).total == 0)
        }
    }

    @Test("The health of an app and of the group follow the clients")
    func health() async throws {
        try await self.withGroup { group, fern, simulator in
            #expect(await fern.health == .serving)
            #expect(await group.health == .serving)
            #expect(await fern.status == nil)
            #expect(await fern.deliver(self.push, to: deviceToken).certainty == .accepted)
            #expect(await fern.health == .serving)
            #expect(await group.health == .serving)
            #expect(await fern.status?.pool.workers.count == 1)
            simulator.removeKey(keyID: self.key.keyID)
            // One refusal on the connection that worked, then two on fresh connections.
            for _ in 0..<3 { _ = await fern.deliver(self.push, to: deviceToken) }
            #expect(await fern.health.cause?.code == .credential)
            let cause = await group.health.cause
            #expect(cause?.code == .credential && cause?.message.hasPrefix("fern, moss: ") == true, "\(cause as Any)")
            group.shutdown()
            #expect(await fern.health == .stopped)
            #expect(await group.health == .stopped)
        }
    }

    @Test("A check uses the app's topic and credential")
    func check() async throws {
        try await self.withGroup { group, fern, simulator in
            let check = await fern.check()
            #expect(check.isOK, "\(check)")
            #expect(check.roundTrip != nil)
            #expect(simulator.record.pushes.map(\.topic) == ["com.example.fern"])
            #expect(group.status.allSatisfy { $0.inFlight == 0 })
        }
    }

    @Test("Invalid device tokens of all apps arrive in one stream, which ends with the group")
    func invalidTokens() async throws {
        var stream: EventStream<InvalidToken>?
        try await self.withGroup { group, fern, simulator in
            stream = group.invalidTokens
            let moss = group.sender(for: "moss", in: self.environment(simulator))
            simulator.setToken("00fa11ce", .unregistered(sinceMilliseconds: 1_700_000_000_000))
            _ = await fern.deliver(self.push, to: "00fa11ce")
            _ = await moss.sendAll(samplePush(topic: "com.example.moss"), to: ["00fa11ce", "00fa11cf"])
        }
        var topics: [String] = []
        for await invalid in try #require(stream) {
            #expect(invalid.deviceToken.hexadecimal == "00fa11ce")
            topics.append(invalid.topic)
        }
        #expect(topics == ["com.example.fern", "com.example.moss"])
    }

    @Test("A settings update applies to clients that run and to those that start later")
    func update() async throws {
        try await self.withGroup(configure: { $0.isolation = .perApp }) { group, fern, simulator in
            let moss = group.sender(for: "moss", in: self.environment(simulator))
            #expect(await fern.deliver(self.push, to: deviceToken).certainty == .accepted)
            try group.update { settings in
                settings.timeouts.deadline = .seconds(7)
                settings.pool.size = 2
                settings.pool.maxOverflow = 1
            }
            #expect(group.settings.timeouts.deadline == .seconds(7))
            #expect(await moss.deliver(samplePush(topic: "com.example.moss"), to: deviceToken).certainty == .accepted)
            for sender in [fern, moss] {
                try await group.withClient(for: sender.app, in: sender.environment) { client in
                    #expect(client.settings.timeouts.deadline == .seconds(7))
                    #expect(client.settings.pool.size == 2 && client.settings.pool.maxOverflow == 1)
                }
            }
            #expect(throws: APNSConfigurationError.self) { try group.update { $0.pool.size = -1 } }
            #expect(group.settings.pool.size == 2)
        }
    }
}

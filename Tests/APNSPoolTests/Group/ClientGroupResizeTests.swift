import APNSModel
import APNSSimulator
import Synchronization
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// A group whose clients get more and fewer connections while they send.
struct ClientGroupResizeTests: GroupOfClients {
    /// The numbers of apps, and how many pushes each of them sends.
    private struct Load {
        var apps: Range<Int>
        var singles: Int
        var bulk: Int
        var total: Int { self.apps.count * (10 * self.singles + self.bulk) }
    }

    /// Runs `body` while apps send pushes. Afterwards each push has been accepted once. At all times the clients have
    /// no more connections than are reserved, and no more are reserved than allowed.
    private func withLoad(
        _ load: Load,
        configure: (inout APNSClientGroup.Configuration) -> Void,
        _ body:
            @escaping @Sendable (APNSClientGroup, Simulator, @escaping @Sendable (Int) async -> Void) async throws ->
            Void
    ) async throws {
        var simulation = Simulator.Configuration()
        simulation.responseDelay = .milliseconds(3)
        try await self.withGroup(simulation: simulation) {
            $0.isolation = .perApp
            $0.client.pool.maxConcurrentStreams = 20
            configure(&$0)
        } _: { group, simulator in
            for number in load.apps { try group.add(self.app(number, simulator)) }
            let environment = APNSEnvironment.custom(host: "localhost", port: simulator.port)
            let book = OutcomeBook()
            let isOver = Latch()
            async let watch: Void = {
                while !isOver.isOpen {
                    self.checkConnections(of: group)
                    try? await ContinuousClock().sleep(for: .milliseconds(1))
                }
            }()
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                for number in load.apps {
                    let sender = group.sender(for: "app\(number)", in: environment)
                    let push = samplePush(topic: self.topic(number))
                    for _ in 0..<10 {
                        tasks.addTask {
                            for _ in 0..<load.singles {
                                let id = APNSID.random()
                                let options = DeliveryOptions(apnsID: id)
                                book.write(id, await sender.deliver(push, to: deviceToken, options: options))
                            }
                        }
                    }
                    tasks.addTask {
                        let rows = (0..<load.bulk).map { _ in APNSID.random() }
                        let deliveries = sender.deliveries(
                            of: push,
                            to: rows,
                            token: { _ in deviceToken },
                            apnsID: { $0 }
                        )
                        for await delivery in deliveries { book.write(delivery.element, delivery.outcome) }
                    }
                }
                tasks.addTask {
                    try await body(group, simulator) { await book.wait(for: min($0, load.total)) }
                }
                try await tasks.waitForAll()
            }
            isOver.open()
            await watch
            let outcomes = book.outcomes.values.flatMap { $0 }
            #expect(outcomes.count == load.total)
            let others = outcomes.filter { $0.certainty != .accepted }
            #expect(others.isEmpty, "\(others.count) were not accepted: \(others.prefix(3))")
            book.compare(with: simulator.record, "resized")
            #expect(simulator.record.duplicates.isEmpty)
        }
    }

    private func checkConnections(of group: APNSClientGroup) {
        // Under the lock, no connection passes from one client to another.
        let (open, reserved) = group.registry.state.withLock { state in
            let counts = state.clients.values.compactMap { $0.client?.runtime.workers.count }
            return (counts.reduce(0) { $0 + $1.limit + $1.surplus }, state.quota.totalReserved)
        }
        #expect(open <= reserved && reserved <= group.registry.configuration.maxConnections)
    }

    private func expect(_ connections: Int, _ group: APNSClientGroup, _ simulator: Simulator) async {
        await until { group.reservedConnections == connections && simulator.connectionNumbers.count == connections }
    }

    @Test("A client grows under load as far as the limit allows, and shrinks again, without losing a push")
    func growsAndShrinksUnderLoad() async throws {
        let load = Load(
            apps: 0..<1,
            singles: TestScale.size(150, thorough: 300),
            bulk: TestScale.size(1500, thorough: 3000)
        )
        try await self.withLoad(load) {
            $0.maxConnections = 4
        } _: { group, simulator, reached in
            await reached(200)
            await self.expect(1, group, simulator)
            try group.update { $0.pool.size = 3 }
            await self.expect(3, group, simulator)
            try group.update { $0.pool.size = 9 }
            await self.expect(4, group, simulator)
            #expect(group.settings.pool.size == 9)
            await reached(load.total / 2)
            try group.update { $0.pool.size = 1 }
            #expect(group.status.map(\.connections) == [1])
            #expect(group.status.allSatisfy { $0.inFlight > 0 }, "the load was over too soon")
            await self.expect(1, group, simulator)
            try group.update { $0.pool.size = 2 }
            await self.expect(2, group, simulator)
        }
    }

    @Test("Apps that share a small limit lose no push, however often their number of connections changes")
    func severalAppsWithASmallLimit() async throws {
        let load = Load(
            apps: 0..<4,
            singles: TestScale.size(30, thorough: 100),
            bulk: TestScale.size(300, thorough: 1000)
        )
        try await self.withLoad(load) {
            $0.maxConnections = 5
            $0.client.pool.size = 3
        } _: { group, simulator, reached in
            var random = SeededRandom(seed: 11)
            for step in 1...20 {
                let size = Int.random(in: 1...4, using: &random)
                try group.update { settings in
                    settings.pool.size = size
                    settings.pool.maxOverflow = size % 2
                }
                await reached(step * load.total / 40)
            }
            // Now there is room for all apps.
            try group.update { settings in
                settings.pool.size = 1
                settings.pool.maxOverflow = 0
            }
            await reached(load.total)
            #expect(group.status.allSatisfy { $0.connections <= 1 })
        }
    }

    @Test("A client that had to start with few connections gets more when others end")
    func growsIntoFreeRoom() async throws {
        try await self.withGroup(configure: {
            $0.maxConnections = 4
            $0.client.pool.size = 3
        }) { group, simulator in
            for number in 0..<2 {
                try group.add(self.app(number, simulator))
                #expect(await self.deliver(group, number, simulator).certainty == .accepted)
            }
            #expect(group.status.map(\.connections) == [3, 1])
            await self.expect(4, group, simulator)
            #expect(group.remove("app0"))
            await self.expect(3, group, simulator)
            #expect(group.status.map(\.connections) == [3])
        }
    }

    @Test("A surplus connection with a push in flight counts until the push has its outcome; then another app gets it")
    func surplusConnectionsCount() async throws {
        let server = try await ScriptedServer.start { push in
            push.field("apns-topic") == "com.example.app0" ? [.hold] : [.respond(200)]
        }
        var configuration = APNSClientGroup.Configuration(maxConnections: 2, client: .local(server))
        configuration.client.pool.size = 2
        configuration.client.pool.maxConcurrentStreams = 1
        let group = try APNSClientGroup(configuration: configuration)
        let environment = APNSEnvironment.custom(host: "localhost", port: server.port)
        for number in 0..<2 {
            let key = SimulatedKey()
            let authentication = APNSAuthentication.token(privateKeyPEM: key.p8, keyID: key.keyID, teamID: key.teamID)
            try group.add(
                APNSApp(
                    name: "app\(number)",
                    topic: self.topic(number),
                    authentication: authentication,
                    environments: [environment]
                )
            )
        }
        let life = Task { try await group.run() }
        func deliver(_ number: Int) -> Task<PushOutcome, Never> {
            let sender = group.sender(for: "app\(number)", in: environment)
            let push = samplePush(topic: self.topic(number))
            return Task { await sender.deliver(push, to: deviceToken) }
        }
        // Keeps the first client from making room as an idle one.
        let isOver = Latch()
        async let call: Bool = group.withClient(for: "app0", in: environment) { _ in await isOver.wait() }
        let held = [deliver(0), deliver(0)]
        await server.wait { $0.held == 2 && $0.openConnections == 2 }
        try group.update { $0.pool.size = 1 }
        #expect(group.status.map(\.connections) == [1, 0])
        #expect(group.reservedConnections == 2)
        let other = deliver(1)
        await until { group.registry.waiting("app1", environment) == 1 }
        #expect(server.record.connections == 2 && group.reservedConnections == 2)
        server.release()
        for push in held + [other] { #expect(await push.value.certainty == .accepted) }
        #expect(server.record.connections == 3)
        #expect(group.status.map(\.connections) == [1, 1])
        isOver.open()
        _ = try await call
        group.shutdown()
        try await life.value
        #expect(group.reservedConnections == 0)
        await server.stop()
    }
}

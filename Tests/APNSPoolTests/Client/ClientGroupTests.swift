import APNSSimulator
import Foundation
import Logging
import Metrics
import Synchronization
import TestSupport
import Testing

@testable import APNSPool

/// Many apps in one process.
@Suite(.timeLimit(.minutes(2)), .serialized)
struct ClientGroupTests {
    private func topic(_ number: Int) -> String { "com.example.app\(number)" }

    private func app(
        _ number: Int,
        _ simulator: Simulator,
        key: SimulatedKey = SimulatedKey(),
        hosts: [String] = ["localhost"]
    ) -> APNSApp {
        APNSApp(
            name: "app\(number)",
            topic: self.topic(number),
            authentication: .token(privateKeyPEM: key.p8, keyID: key.keyID, teamID: key.teamID),
            environments: Set(hosts.map { .custom(host: $0, port: simulator.port) })
        )
    }

    private func withGroup(
        simulation: Simulator.Configuration = Simulator.Configuration(),
        configure: (inout APNSClientGroup.Configuration) -> Void = { _ in },
        _ body: (APNSClientGroup, Simulator) async throws -> Void
    ) async throws {
        let simulator = try await Simulator.start(simulation)
        var configuration = APNSClientGroup.Configuration(
            client: .local(port: simulator.port, caPEM: simulator.certificateAuthorityPEM)
        )
        configuration.client.environment = .production
        configure(&configuration)
        let group = try APNSClientGroup(configuration: configuration)
        let life = Task { try await group.run() }
        do {
            try await body(group, simulator)
        } catch {
            life.cancel()
            try? await life.value
            await simulator.stop()
            throw error
        }
        group.shutdown()
        try await life.value
        #expect(group.reservedConnections == 0)
        await until { simulator.openConnections == 0 }
        await simulator.stop()
    }

    private func deliver(
        _ group: APNSClientGroup,
        _ number: Int,
        _ simulator: Simulator,
        host: String = "localhost"
    ) async -> PushOutcome {
        await group.sender(for: "app\(number)", in: .custom(host: host, port: simulator.port))
            .deliver(samplePush(topic: self.topic(number)), to: deviceToken)
    }

    @Test func appsOfOneKeyShareAConnectionAndOthersDoNot() async throws {
        try await self.withGroup { group, simulator in
            let key = SimulatedKey()
            for number in 0..<3 { try group.add(self.app(number, simulator, key: key)) }
            try group.add(self.app(3, simulator))
            #expect(simulator.openConnections == 0)
            for number in 0..<4 { #expect(await self.deliver(group, number, simulator).certainty == .accepted) }
            #expect(simulator.openConnections == 2)
            #expect(group.status.map(\.app) == ["app0", "app1", "app2", "app3"])
            #expect(group.status.allSatisfy { $0.isRunning })
            #expect(group.status.allSatisfy { $0.inFlight == 0 })
        }
    }

    @Test func perAppEachHasItsOwnButAllHaveOneToken() async throws {
        var simulation = Simulator.Configuration()
        simulation.limitsProviderTokenUpdates = true
        try await self.withGroup(simulation: simulation, configure: { $0.isolation = .perApp }) { group, simulator in
            let key = SimulatedKey()
            simulator.addKey(key)
            for number in 0..<3 { try group.add(self.app(number, simulator, key: key)) }
            for number in 0..<3 { #expect(await self.deliver(group, number, simulator).certainty == .accepted) }
            #expect(simulator.openConnections == 3)
        }
    }

    @Test func anUnknownAppAForeignTopicAndASecondOneOfTheNameAreRefused() async throws {
        try await self.withGroup { group, simulator in
            try group.add(self.app(0, simulator))
            let error = #expect(throws: APNSConfigurationError.self) { try group.add(self.app(0, simulator)) }
            #expect(error?.code == .conflict)
            #expect(await self.deliver(group, 1, simulator).error?.code == .configuration)
            let sender = group.sender(for: "app0", in: .custom(host: "localhost", port: simulator.port))
            let foreign = await sender.deliver(samplePush(topic: "com.example.app01"), to: deviceToken)
            #expect(foreign.error?.code == .configuration && foreign.certainty == .notSent)
            #expect(simulator.record.connectionsOpened == 0)
            #expect(await sender.deliver(samplePush(topic: "com.example.app0.voip"), to: deviceToken).status != nil)
            #expect(group.remove("app0") && !group.remove("app0"))
            #expect(await self.deliver(group, 0, simulator).error?.code == .configuration)
            await until { simulator.openConnections == 0 }
        }
    }

    @Test func aReplacedKeyGetsConnectionsOfItsOwn() async throws {
        for isolation in [APNSClientGroup.Isolation.perKey, .perApp] {
            try await self.withGroup(configure: { $0.isolation = isolation }) { group, simulator in
                try group.add(self.app(0, simulator))
                #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
                // Another team: its token on the old connection would be refused.
                try group.replace(self.app(0, simulator))
                #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
                #expect(simulator.record.connectionsOpened == 2)
                await until { simulator.openConnections == 1 }
            }
        }
    }

    @Test func whatWaitsGoesWithTheReplacedKey() async throws {
        try await self.withGroup(configure: { $0.maxConnections = 1 }) { group, simulator in
            for number in 0..<2 { try group.add(self.app(number, simulator)) }
            let environment = APNSEnvironment.custom(host: "localhost", port: simulator.port)
            let gate = Gate()
            async let busy: Bool = group.withClient(for: "app0", in: environment) { _ in await gate.wait() }
            await until { group.status.contains { $0.isRunning } }
            async let waiting = self.deliver(group, 1, simulator)
            await until { group.core.waiting("app1", environment) == 1 }
            try group.replace(self.app(1, simulator))
            await until { group.core.waiting("app1", environment) == 1 }
            gate.open()
            #expect(await waiting.certainty == .accepted)
            _ = try await busy
        }
    }

    @Test("What waits for a client that other apps keep goes with the replaced key")
    func waitsBesideANeighbour() async throws {
        let keys = [SimulatedKey(), SimulatedKey()]
        var simulation = Simulator.Configuration()
        simulation.credential = .keys(keys.map { .init($0) })
        try await self.withGroup(simulation: simulation, configure: { $0.maxConnections = 1 }) { group, simulator in
            let wrongKey = SimulatedKey()
            try group.add(self.app(0, simulator, key: keys[0]))
            for number in 1...2 { try group.add(self.app(number, simulator, key: wrongKey)) }
            let environment = APNSEnvironment.custom(host: "localhost", port: simulator.port)
            let gate = Gate()
            async let busy: Bool = group.withClient(for: "app0", in: environment) { _ in await gate.wait() }
            await until { group.status.contains { $0.isRunning } }
            async let waiting = self.deliver(group, 1, simulator)
            await until { group.core.waiting("app1", environment) == 1 }
            try group.replace(self.app(1, simulator, key: keys[1]))
            gate.open()
            #expect(await waiting.certainty == .accepted)
            _ = try await busy
        }
    }

    @Test func whatIdlesIsStoppedAndStartsAgain() async throws {
        let clock = ShiftedClock()
        try await self.withGroup(configure: {
            $0.client.clock = clock
            $0.idleTimeout = .seconds(60)
        }) { group, simulator in
            try group.add(self.app(0, simulator))
            #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
            clock.advance(by: .seconds(61))
            await until { simulator.openConnections == 0 && group.reservedConnections == 0 }
            #expect(group.status.allSatisfy { !$0.isRunning })
            #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
        }
    }

    @Test func moreAppsThanConnectionsTakeTurns() async throws {
        let clock = ShiftedClock()
        try await self.withGroup(configure: {
            $0.maxConnections = 3
            $0.client.clock = clock
        }) { group, simulator in
            for number in 0..<12 { try group.add(self.app(number, simulator)) }
            let most = Atomic<Int>(0)
            let mostSeen = Atomic<Int>(0)
            let isOver = Atomic<Bool>(false)
            async let watch: Void = {
                while !isOver.load(ordering: .relaxed) {
                    most.max(group.reservedConnections, ordering: .relaxed)
                    mostSeen.max(simulator.openConnections, ordering: .relaxed)
                    try? await ContinuousClock().sleep(for: .milliseconds(1))
                }
            }()
            let outcomes = await withTaskGroup(of: PushOutcome.self) { tasks in
                for round in 0..<5 {
                    for number in 0..<12 {
                        tasks.addTask { await self.deliver(group, number, simulator) }
                    }
                    _ = round
                }
                return await tasks.reduce(into: []) { $0.append($1) }
            }
            isOver.store(true, ordering: .relaxed)
            await watch
            let failed = outcomes.filter { $0.certainty != .accepted }
            #expect(failed.isEmpty, "\(failed.prefix(3))")
            #expect(most.load(ordering: .relaxed) == 3)
            // The server may accept a connection before it hears of the end of those that made room for it.
            #expect(mostSeen.load(ordering: .relaxed) <= 6)
        }
    }

    @Test(
        "A long call of an app that should yield fails neither its own pushes nor an app that finds an idle connection"
    )
    func longCallStarvesNobody() async throws {
        let clock = ShiftedClock()
        try await self.withGroup(configure: {
            $0.maxConnections = 2
            $0.client.clock = clock
        }) { group, simulator in
            for number in 0..<3 { try group.add(self.app(number, simulator)) }
            let environment = APNSEnvironment.custom(host: "localhost", port: simulator.port)
            let gates = [Gate(), Gate()]
            async let long: Bool = group.withClient(for: "app0", in: environment) { _ in await gates[0].wait() }
            async let short: Bool = group.withClient(for: "app1", in: environment) { _ in await gates[1].wait() }
            await until { group.status.filter { $0.isRunning }.count == 2 }
            async let third = self.deliver(group, 2, simulator)
            await until { group.core.waiting("app2", environment) == 1 }
            // The turn of both is over, and a push of the first asks it to yield.
            clock.advance(by: .seconds(11))
            async let own = self.deliver(group, 0, simulator)
            await until {
                group.core.waiting("app0", environment) == 1 || simulator.record.requestsProcessed > 0
            }
            gates[1].open()
            #expect(await ends { await until { simulator.record.requestsProcessed == 2 } })
            gates[0].open()
            #expect(await own.certainty == .accepted)
            #expect(await third.certainty == .accepted)
            _ = try await (long, short)
        }
    }

    @Test("The metrics of apps that have one key but pools of their own name the app")
    func metricsNameTheApp() async throws {
        let metrics = RememberingMetrics()
        try await withMetricsFactory(metrics) {
            try await self.withGroup(configure: { $0.isolation = .perApp }) { group, simulator in
                let key = SimulatedKey()
                for number in 0..<2 { try group.add(self.app(number, simulator, key: key)) }
                for number in [0, 1, 1] {
                    #expect(await self.deliver(group, number, simulator).certainty == .accepted)
                }
            }
        }
        let accepted = ["outcome": "accepted"]
        #expect(metrics.sum("apns_pushes_total", accepted) == 3)
        #expect(metrics.sum("apns_pushes_total", accepted.merging(["app": "app0"]) { $1 }) == 1)
        #expect(metrics.sum("apns_pushes_total", accepted.merging(["app": "app1"]) { $1 }) == 2)
    }

    @Test func aGroupThatDoesNotRunSaysSo() async throws {
        let simulator = try await Simulator.start()
        let group = try APNSClientGroup(
            configuration: .init(client: .local(port: simulator.port, caPEM: simulator.certificateAuthorityPEM))
        )
        try group.add(self.app(0, simulator))
        let outcome = await group.sender(for: "app0", in: .custom(host: "localhost", port: simulator.port))
            .deliver(
                samplePush(topic: self.topic(0)),
                to: deviceToken,
                options: DeliveryOptions(deadline: .milliseconds(50))
            )
        #expect(outcome.error?.code == .notRunning)
        await simulator.stop()
    }

    // MARK: Measured

    private static func residentKiB() throws -> Int {
        let text = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
        let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("VmRSS:") })
        return try #require(Int(line.split(separator: " ").dropFirst().first ?? ""))
    }

    /// 40 apps in two environments each, which nobody sends to.
    @Test func fortyIdleAppsCostNoConnectionAndLittleMemory() async throws {
        try await self.withGroup { group, simulator in
            // A first one, so that what all have in common is there before it is measured.
            try group.add(self.app(100, simulator))
            #expect(await self.deliver(group, 100, simulator).certainty == .accepted)
            let before = try Self.residentKiB()
            for number in 0..<40 { try group.add(self.app(number, simulator, hosts: ["localhost", "127.0.0.1"])) }
            let growth = try Self.residentKiB() - before
            #expect(group.status.count == 81)
            #expect(simulator.openConnections == 1)
            #expect(growth <= 40 * 1024, "\(growth) KiB")
            print("idle: 40 apps x 2 environments, \(growth) KiB")
        }
    }

    /// The same after each was used: clients that run, one connection each.
    @Test func fortyUsedAppsShareTheirTrustRoots() async throws {
        try await self.withGroup { group, simulator in
            try group.add(self.app(100, simulator))
            #expect(await self.deliver(group, 100, simulator).certainty == .accepted)
            let before = try Self.residentKiB()
            for number in 0..<40 {
                try group.add(self.app(number, simulator, hosts: ["localhost", "127.0.0.1"]))
                #expect(await self.deliver(group, number, simulator).certainty == .accepted)
                #expect(await self.deliver(group, number, simulator, host: "127.0.0.1").certainty == .accepted)
            }
            let growth = try Self.residentKiB() - before
            #expect(simulator.openConnections == 81)
            // The simulator's ends of the connections are in it. 80 copies of the system's roots would be 340 MiB.
            #expect(growth <= 100 * 1024, "\(growth) KiB")
            print("running: 80 clients with a connection each, both ends, \(growth) KiB")
        }
    }

    /// One app's flood, seen from its neighbour.
    @Test(arguments: [APNSClientGroup.Isolation.perKey, .perApp])
    func aNeighboursFloodIsSurvived(_ isolation: APNSClientGroup.Isolation) async throws {
        try await self.withGroup(configure: { $0.isolation = isolation }) { group, simulator in
            let key = SimulatedKey()
            try group.add(self.app(0, simulator, key: key))
            try group.add(self.app(1, simulator, key: key))
            func times() async throws -> [Duration] {
                var times: [Duration] = []
                for _ in 0..<200 {
                    let start = ContinuousClock.now
                    #expect(await self.deliver(group, 1, simulator).certainty == .accepted)
                    times.append(start.duration(to: .now))
                }
                return times.sorted()
            }
            _ = await self.deliver(group, 0, simulator)
            _ = try await times()
            let calm = try await times()
            let isOver = Gate()
            let environment = APNSEnvironment.custom(host: "localhost", port: simulator.port)
            let push = samplePush(topic: self.topic(0))
            async let flood = group.withClient(for: "app0", in: environment) { client in
                var accepted = 0
                while !isOver.isOpen {
                    accepted += await client.sendAll(push, to: (0..<2000).map { DeviceToken.sample($0) }).accepted
                }
                return accepted
            }
            try await simulator.waitUntil { $0.requestsProcessed > 3000 }
            let flooded = try await times()
            isOver.open()
            let sent = try await flood
            #expect(sent > 2000)
            print(
                "\(isolation == .perKey ? "per key" : "per app"): alone median \(calm[100]), p99 \(calm[197]);",
                "beside a flood median \(flooded[100]), p99 \(flooded[197])"
            )
            #expect(flooded[197] < .seconds(2))
        }
    }
}

import APNSSimulator
import Foundation
import Logging
import Metrics
import TestSupport
import Synchronization
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Many apps in one process.
struct ClientGroupTests: GroupOfClients {
    @Test func onlyAppsWithTheSameKeyShareAConnection() async throws {
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

    @Test func perAppConnectionsShareOneToken() async throws {
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

    @Test func unknownAppsForeignTopicsAndDuplicateNamesAreRefused() async throws {
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

    /// A function that runs once, from within the next reading of the group's wall clock.
    private final class Interruption: Sendable {
        private struct Body: Sendable {
            var call: (@Sendable () -> Void)?
        }

        private let body = Mutex(Body())
        func set(_ body: @escaping @Sendable () -> Void) { self.body.withLock { $0.call = body } }
        func run() { self.body.withLock { $0.call.take() }?() }
    }

    @Test("An app that is removed while its client is being made causes no error in the log")
    func removedWhileItsClientIsMade() async throws {
        let (logger, log) = RecordingLog.make()
        let interruption = Interruption()
        try await self.withGroup(configure: {
            $0.client.logger = logger
            $0.client.wallClock = {
                interruption.run()
                return WallClock.secondsSince1970()
            }
        }) { group, simulator in
            for _ in 0..<TestScale.times(200) {
                try group.add(self.app(0, simulator))
                // A client reads the clock when it is made.
                interruption.set { _ = group.remove("app0") }
                let outcome = await self.deliver(group, 0, simulator)
                #expect(outcome.certainty == .notSent || outcome.certainty == .accepted, "\(outcome)")
            }
            await until { group.registry.state.withLock { $0.clients.isEmpty } }
        }
        let errors = log.entries.filter { $0.level >= .error }
        #expect(errors.isEmpty, "\(errors)")
    }

    @Test func aReplacedKeyGetsItsOwnConnections() async throws {
        for isolation in [APNSClientGroup.Isolation.perKey, .perApp] {
            try await self.withGroup(configure: { $0.isolation = isolation }) { group, simulator in
                try group.add(self.app(0, simulator))
                #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
                // Another team: its token on the old connection would be refused.
                try await group.replace(self.app(0, simulator))
                #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
                #expect(simulator.record.connectionsOpened == 2)
                await until { simulator.openConnections == 1 }
            }
        }
    }

    @Test("If APNs refuses an app's new key, the old key stays in use, also for an app without traffic")
    func refusedKey() async throws {
        let key = SimulatedKey()
        var simulation = Simulator.Configuration()
        simulation.credential = .keys([.init(key)])
        for isolation in [APNSClientGroup.Isolation.perKey, .perApp] {
            try await self.withGroup(simulation: simulation, configure: { $0.isolation = isolation }) {
                group,
                simulator in
                try group.add(self.app(0, simulator, key: key))
                await until { group.registry.hasRun }
                for _ in 0..<2 {
                    let error = await #expect(throws: APNSAuthenticationError.self) {
                        try await group.replace(self.app(0, simulator, key: SimulatedKey()))
                    }
                    #expect(error?.code == .refused && error?.message.contains("InvalidProviderToken") == true)
                    #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
                }
                await until { group.registry.state.withLock { $0.clients.count == 1 } }
                await until { simulator.openConnections == 1 }
            }
        }
    }

    @Test("If other apps keep all connections, a new key gets no verdict, and the old key stays")
    func noRoomForAProbe() async throws {
        try await self.withGroup(configure: { $0.maxConnections = 1 }) { group, simulator in
            for number in 0..<2 { try group.add(self.app(number, simulator)) }
            let environment = APNSEnvironment.custom(host: "localhost", port: simulator.port)
            try await group.withClient(for: "app0", in: environment) { _ in
                let error = await #expect(throws: APNSAuthenticationError.self) {
                    try await group.replace(self.app(1, simulator), within: .milliseconds(50))
                }
                #expect(error?.code == .noVerdict && error?.message.contains("maxConnections") == true)
            }
            await until { group.registry.state.withLock { $0.clients.count == 2 } }
            #expect(await self.deliver(group, 1, simulator).certainty == .accepted)
        }
    }

    @Test func aWaitingPushUsesTheReplacedKey() async throws {
        try await self.withGroup(configure: { $0.maxConnections = 1 }) { group, simulator in
            for number in 0..<2 { try group.add(self.app(number, simulator)) }
            let environment = APNSEnvironment.custom(host: "localhost", port: simulator.port)
            let latch = Latch()
            async let busy: Bool = group.withClient(for: "app0", in: environment) { _ in await latch.wait() }
            await until { group.status.contains { $0.isRunning } }
            async let waiting = self.deliver(group, 1, simulator)
            await until { group.registry.waiting("app1", environment) == 1 }
            // The probe of the new key comes before the push.
            async let replaced: Void = group.replace(self.app(1, simulator))
            await until { group.registry.waiting == 2 }
            latch.open()
            #expect(await waiting.certainty == .accepted)
            _ = try await (busy, replaced)
        }
    }

    @Test("A push that waits for a client that other apps keep is sent with the replaced key")
    func waitsBesideANeighbour() async throws {
        let keys = [SimulatedKey(), SimulatedKey()]
        var simulation = Simulator.Configuration()
        simulation.credential = .keys(keys.map { .init($0) })
        try await self.withGroup(simulation: simulation, configure: { $0.maxConnections = 1 }) { group, simulator in
            let wrongKey = SimulatedKey()
            try group.add(self.app(0, simulator, key: keys[0]))
            for number in 1...2 { try group.add(self.app(number, simulator, key: wrongKey)) }
            let environment = APNSEnvironment.custom(host: "localhost", port: simulator.port)
            let latch = Latch()
            async let busy: Bool = group.withClient(for: "app0", in: environment) { _ in await latch.wait() }
            await until { group.status.contains { $0.isRunning } }
            async let waiting = self.deliver(group, 1, simulator)
            await until { group.registry.waiting("app1", environment) == 1 }
            async let replaced: Void = group.replace(self.app(1, simulator, key: keys[1]))
            await until { group.registry.waiting == 2 }
            latch.open()
            #expect(await waiting.certainty == .accepted)
            _ = try await (busy, replaced)
        }
    }

    @Test func anIdleClientStopsAndStartsAgain() async throws {
        let clock = ManualClock()
        try await self.withGroup(configure: {
            $0.client.use(clock)
            $0.idleTimeout = .seconds(60)
        }) { group, simulator in
            try group.add(self.app(0, simulator))
            #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
            await until {
                clock.advance(by: .seconds(1))
                return simulator.openConnections == 0 && group.reservedConnections == 0
            }
            #expect(group.status.allSatisfy { !$0.isRunning })
            #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
        }
    }

    @Test("A key that changes in its file is the app's key from then on: for its status, and for apps that come later")
    func changedKeyFile() async throws {
        let clock = ManualClock()
        try await self.withGroup(configure: {
            $0.client.use(clock)
            // An idle client does not watch its file.
            $0.idleTimeout = .seconds(86_400)
        }) { group, simulator in
            let links = try LinkedKeys()
            defer { links.remove() }
            var app = self.app(0, simulator)
            app.authentication = .token(keyFile: links.file, teamID: LinkedKeys.team)
            try group.add(app)
            #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
            #expect(group.status.allSatisfy { $0.credential.contains(links.keys[0].keyID) })
            try links.change()
            await until {
                clock.advance(by: .seconds(1))
                return group.status.allSatisfy { $0.credential.contains(links.keys[1].keyID) }
            }
            #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
            // The old key again, from memory: it has its own connection, and the first app keeps the new one.
            try group.add(self.app(1, simulator, key: links.keys[0]))
            #expect(await self.deliver(group, 1, simulator).certainty == .accepted)
            #expect(group.registry.state.withLock { $0.clients.count } == 2)
            // The same key as the first app, by the same file.
            app.name = "app2"
            app.topic = self.topic(2)
            try group.add(app)
            #expect(await self.deliver(group, 2, simulator).certainty == .accepted)
            #expect(group.registry.state.withLock { $0.clients.count } == 2)
            // Back to the old key: it is another one, and so it is probed.
            let requests = simulator.record.requestsProcessed
            try await group.replace(self.app(0, simulator, key: links.keys[0]))
            #expect(simulator.record.requestsProcessed == requests + 1)
            #expect(group.status.filter { $0.app == "app0" }.allSatisfy { $0.credential.contains(links.keys[0].keyID) })
        }
    }

    @Test("Apps with one key in two files do not share a client: each follows its own file")
    func oneKeyInTwoFiles() async throws {
        try await self.withGroup { group, simulator in
            let links = try LinkedKeys()
            defer { links.remove() }
            for number in 0..<2 {
                var app = self.app(number, simulator)
                let file = number == 0 ? links.file : links.targets[0]
                app.authentication = .token(keyFile: file, teamID: LinkedKeys.team)
                try group.add(app)
                #expect(await self.deliver(group, number, simulator).certainty == .accepted)
            }
            #expect(group.registry.state.withLock { $0.clients.count } == 2)
        }
    }

    @Test("An app that is removed while its new key is probed stays removed")
    func removedWhileProbed() async throws {
        try await self.withGroup { group, simulator in
            try group.add(self.app(0, simulator))
            #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
            simulator.inject(Fault(.respond(.serviceUnavailable), when: .always))
            let replacement = Task { try await group.replace(self.app(0, simulator)) }
            try await simulator.waitUntil(timeout: Patience.limit) { $0.requestsReceived > 1 }
            #expect(group.remove("app0"))
            simulator.removeFaults()
            let error = await #expect(throws: APNSAuthenticationError.self) { try await replacement.value }
            #expect(error?.code == .superseded, "\(String(describing: error))")
            #expect(group.status == [])
        }
    }

    enum Change: CaseIterable {
        case addedAgain, rolledBack, replacedAgain
    }

    @Test("A change of an app while an earlier new key is probed stays", arguments: Change.allCases)
    func changedWhileProbed(change: Change) async throws {
        try await self.withGroup { group, simulator in
            let (old, last) = (SimulatedKey(), SimulatedKey())
            try group.add(self.app(0, simulator, key: old))
            #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
            simulator.inject(Fault(.respond(.serviceUnavailable), when: .always))
            let first = Task { try await group.replace(self.app(0, simulator)) }
            try await simulator.waitUntil(timeout: Patience.limit) { $0.requestsReceived > 1 }
            var second: Task<Void, any Error>?
            switch change {
            case .addedAgain:
                group.remove("app0")
                try group.add(self.app(0, simulator, key: last))
            case .rolledBack:
                try await group.replace(self.app(0, simulator, key: old))
            case .replacedAgain:
                second = Task { try await group.replace(self.app(0, simulator, key: last)) }
                try await simulator.waitUntil(timeout: Patience.limit) { $0.connectionsOpened == 3 }
            }
            simulator.removeFaults()
            let error = await #expect(throws: APNSAuthenticationError.self) { try await first.value }
            #expect(error?.code == .superseded, "\(String(describing: error))")
            try await second?.value
            let key = change == .rolledBack ? old : last
            #expect(group.status.map(\.credential).allSatisfy { $0.contains(key.keyID) })
            #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
        }
    }

    @Test("The end of a call that replaces a key does not end another one's probe of the same key")
    func twoReplacementsWithOneKey() async throws {
        try await self.withGroup(configure: { $0.maxConnections = 1 }) { group, simulator in
            for number in 0..<2 { try group.add(self.app(number, simulator)) }
            let environment = APNSEnvironment.custom(host: "localhost", port: simulator.port)
            let app = self.app(1, simulator)
            let calls = try await group.withClient(for: "app0", in: environment) { _ in
                var calls: [Task<Void, any Error>] = []
                for number in 1...2 {
                    calls.append(Task { try await group.replace(app) })
                    await until { group.registry.waiting == number }
                }
                calls[0].cancel()
                let error = await #expect(throws: APNSAuthenticationError.self) { try await calls[0].value }
                #expect(error?.code == .cancelled)
                return calls
            }
            try await calls[1].value
            await until { group.registry.state.withLock { $0.clients.count == 2 } }
            #expect(await self.deliver(group, 1, simulator).certainty == .accepted)
        }
    }

    @Test("A group drains its clients within the time that was set last")
    func changedDrainTime() async throws {
        try await self.withGroup(configure: { $0.client.timeouts.drain = .seconds(60) }) { group, simulator in
            try group.add(self.app(0, simulator))
            simulator.inject(Fault(.stall()))
            async let outcome = self.deliver(group, 0, simulator)
            try await simulator.waitUntil(timeout: Patience.limit) { $0.requestsReceived == 1 }
            try group.update { $0.timeouts.drain = .zero }
            group.shutdown()
            // With the earlier time, the push would end at its deadline.
            #expect(await outcome.error?.code == .shuttingDown)
        }
    }

    @Test(
        "A long call of an app that has had its turn blocks neither its own pushes nor an app that finds an idle connection"
    )
    func longCallStarvesNoApp() async throws {
        let clock = ManualClock()
        try await self.withGroup(configure: {
            $0.maxConnections = 2
            $0.client.use(clock)
            // No push times out, however far the clock advances while a busy machine connects.
            $0.client.timeouts.deadline = .seconds(86_400)
        }) { group, simulator in
            for number in 0..<3 { try group.add(self.app(number, simulator)) }
            let environment = APNSEnvironment.custom(host: "localhost", port: simulator.port)
            // Both clients have their provider tokens, so the clock's step cannot end the wait for a signature.
            for number in 0..<2 { #expect(await self.deliver(group, number, simulator).certainty == .accepted) }
            let latches = [Latch(), Latch()]
            async let long: Bool = group.withClient(for: "app0", in: environment) { _ in await latches[0].wait() }
            async let short: Bool = group.withClient(for: "app1", in: environment) { _ in await latches[1].wait() }
            await until { group.status.filter { $0.inFlight == 1 }.count == 2 }
            async let third = self.deliver(group, 2, simulator)
            await until { group.registry.waiting("app2", environment) == 1 }
            // The turn of both clients is over.
            clock.advance(by: .seconds(11))
            #expect(await self.deliver(group, 0, simulator).certainty == .accepted)
            latches[1].open()
            await until {
                clock.advance(by: .milliseconds(100))
                return simulator.record.requestsProcessed == 4
            }
            #expect(await third.certainty == .accepted)
            latches[0].open()
            _ = try await (long, short)
        }
    }

    @Test("The metrics of apps with one key and separate pools name the app")
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

    @Test func aGroupThatDoesNotRunReportsIt() async throws {
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
}

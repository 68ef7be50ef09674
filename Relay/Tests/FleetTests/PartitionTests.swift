import APNSSimulator
import PostgresTestServer
import PushQueueConformance
import RelayTestSupport
import Testing

/// One relay of three has a bad network.
@Suite(.timeLimit(.minutes(10))) struct PartitionTests {
    @Test("A relay that loses the database for a minute refuses pushes, and stores its outcomes afterwards")
    func relayAndDatabase() async throws {
        let server = try await FleetUnderTest.server()
        let proxy = try TestProxy(to: server.port)
        let fleet = try FleetUnderTest(
            try await FleetUnderTest.simulator(delay: .milliseconds(50)),
            server,
            settings: [
                "STORAGE_TIMEOUT": "5s", "DISPATCH_ATTEMPT_DEADLINE": "10s", "DISPATCH_SETTLE_MARGIN": "80s",
            ],
            proxy: proxy
        )
        try await fleet.start()
        let cutOff = fleet.relays[0]
        try await fleet.underLoad {
            try await fleet.waitForOutcomes(300, at: cutOff)
            proxy.reset()
            let start = ContinuousClock.now
            try await Patience.wait(for: "the relay is not ready") {
                try await cutOff.request("GET", "/ready").status == 503
            }
            let reply = try await fleet.load.post(1_000_000..<1_000_001, to: cutOff)
            #expect(reply == .refused(status: 503))
            try await fleet.waitForOutcomes(500, at: fleet.relays[1])
            // The condition itself: a minute.
            try await Task.sleep(until: start.advanced(by: .seconds(60)))
            proxy.heal()
            try await cutOff.wait(for: "the relay is ready again") { $0.isReady }
        }
        // What it has refused may have been stored.
        var round = 0
        let again = try await fleet.load.post(1_000_000..<1_000_001, to: fleet.relays[1])
        #expect(again == .acknowledged)
        try await fleet.post(20, to: [cutOff], &round)
        // A mark whose result the relay has not learned leaves its push unknown.
        try await fleet.check(unknownAtMost: FleetUnderTest.maxInFlight, limit: Patience.limit * 2)
        await fleet.end()
        proxy.close()
    }

    @Test("A relay whose connections to the database hang for a minute goes on when they do, and repeats nothing")
    func hangingConnections() async throws {
        let server = try await FleetUnderTest.server()
        let proxy = try TestProxy(to: server.port)
        let fleet = try FleetUnderTest(
            try await FleetUnderTest.simulator(delay: .milliseconds(50)),
            server,
            settings: ["DISPATCH_ATTEMPT_DEADLINE": "10s", "DISPATCH_SETTLE_MARGIN": "20s"],
            proxy: proxy
        )
        try await fleet.start()
        let cutOff = fleet.relays[0]
        try await fleet.underLoad(to: Array(fleet.relays[1...])) {
            try await fleet.waitForOutcomes(300, at: cutOff)
            proxy.cut()
            let start = ContinuousClock.now
            try await fleet.waitForOutcomes(500, at: fleet.relays[1])
            // The condition itself: longer than the leases of its claims and marks, which the others end.
            try await Task.sleep(until: start.advanced(by: .seconds(75)))
            proxy.heal()
            try await Patience.wait(for: "the relay is ready again") {
                try await cutOff.request("GET", "/ready").status == 200
            }
        }
        try await fleet.check(unknownAtMost: FleetUnderTest.maxInFlight, limit: Patience.limit * 2)
        await fleet.end()
        proxy.close()
    }

    @Test("A relay that cannot reach APNs for a minute pauses its route, and the others send")
    func relayAndAPNs() async throws {
        let server = try await FleetUnderTest.server()
        let simulator = try await FleetUnderTest.simulator()
        let proxy = try TestProxy(to: simulator.port)
        let fleet = try FleetUnderTest(
            simulator,
            server,
            settings: ["DISPATCH_ATTEMPT_DEADLINE": "5s"],
            first: ["SERVER_PRODUCTION": "localhost:\(proxy.port)"]
        )
        try await fleet.start()
        let cutOff = fleet.relays[0]
        try await fleet.underLoad {
            try await fleet.waitForOutcomes(300, at: cutOff)
            proxy.cut()
            let start = ContinuousClock.now
            try await cutOff.wait(for: "the route is paused") { $0.isPaused }
            let before = try await fleet.relays[1].feed().count
            try await fleet.waitForOutcomes(500, at: fleet.relays[1])
            let after = try await fleet.relays[1].feed()[before...]
            // Probes of the paused route may end as unknown.
            #expect(after.count { $0.outcome.outcome != "accepted" } <= FleetUnderTest.maxInFlight)
            // The condition itself: a minute.
            try await Task.sleep(until: start.advanced(by: .seconds(60)))
            let accepted = simulator.record.requestsProcessed
            proxy.heal()
            try await Patience.wait(for: "the others and the relay send") {
                let depth = try await cutOff.depth()
                return !depth.isPaused && simulator.record.requestsProcessed > accepted + 300
            }
        }
        // Pushes on their way when the network went away.
        try await fleet.check(unknownAtMost: FleetUnderTest.maxInFlight)
        await fleet.end()
        proxy.close()
    }
}

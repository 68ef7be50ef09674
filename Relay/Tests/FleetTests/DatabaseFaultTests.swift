import PostgresTestServer
import PushQueueConformance
import RelayTestSupport
import Testing

/// Relays under load whose database dies, alone or in turn with relays.
@Suite(.timeLimit(.minutes(10))) struct DatabaseFaultTests {
    @Test("A database that is killed and comes back costs no push")
    func killed() async throws {
        let server = try await FleetUnderTest.server()
        let fleet = try FleetUnderTest(try await FleetUnderTest.simulator(), server)
        try await fleet.start()
        try await fleet.underLoad {
            for round in 0..<FleetUnderTest.kills {
                try await fleet.waitForAcknowledgements(200)
                server.kill()
                // The outage itself: none, and up to three seconds.
                try await Task.sleep(for: .seconds(round % 4))
                try await blocking { try server.start() }
            }
            try await fleet.waitForAcknowledgements(200)
        }
        try await fleet.check()
        await fleet.end()
    }

    @Test("Relays and the database that are killed in turn lose nothing and repeat nothing")
    func inTurn() async throws {
        let server = try await FleetUnderTest.server()
        let fleet = try FleetUnderTest(
            try await FleetUnderTest.simulator(),
            server,
            settings: FleetUnderTest.shortLeases
        )
        try await fleet.start()
        let kills = FleetUnderTest.kills
        try await fleet.underLoad {
            for round in 0..<kills {
                try await fleet.waitForAcknowledgements(200)
                let relay = fleet.relays[round % 3]
                await relay.kill()
                server.kill()
                try await blocking { try server.start() }
                try await fleet.waitForAcknowledgements(100)
                try await relay.start()
            }
        }
        try await fleet.check(unknownAtMost: kills * FleetUnderTest.maxInFlight, limit: Patience.limit * 2)
        await fleet.end()
    }

    @Test("While the database is away longer than calls wait, pushes are refused; then everything goes on")
    func outage() async throws {
        let server = try await FleetUnderTest.server()
        let fleet = try FleetUnderTest(
            try await FleetUnderTest.simulator(),
            server,
            settings: ["STORAGE_TIMEOUT": "2s", "DISPATCH_ATTEMPT_DEADLINE": "2s", "DISPATCH_SETTLE_MARGIN": "60s"]
        )
        try await fleet.start()
        try await fleet.underLoad {
            try await fleet.waitForAcknowledgements(200)
            server.kill()
            try await fleet.waitForRefusals(5)
            for relay in fleet.relays {
                let ready = try await relay.request("GET", "/ready")
                #expect(ready.status == 503)
                // The overview answers from memory.
                try await Patience.wait(for: "the overview names the database") {
                    let overview = try await relay.request("GET", "/v1/overview")
                    return overview.status == 200 && overview.text.contains(#""cause":"storage""#)
                }
            }
            try await blocking { try server.start() }
            try await fleet.waitForAcknowledgements(300)
        }
        // A mark whose result no relay has learned leaves its push unknown.
        try await fleet.check(unknownAtMost: 3 * FleetUnderTest.maxInFlight, limit: Patience.limit * 2)
        await fleet.end()
    }

    @Test("While the database is away, the metrics are there, without the wait of its calls")
    func metrics() async throws {
        let server = try await FleetUnderTest.server()
        let fleet = try FleetUnderTest(
            try await FleetUnderTest.simulator(),
            server,
            // Longer than requests of this test wait.
            settings: ["STORAGE_TIMEOUT": "600s"]
        )
        let relay = fleet.relays[0]
        try await relay.start()
        let metric = "\napns_relay_database_table_bytes{table=\"push\"}"
        let before = try await relay.request("GET", "/metrics")
        #expect(before.text.contains(metric))
        server.kill()
        for _ in 0..<3 {
            let away = try await relay.request("GET", "/metrics")
            #expect(away.status == 200)
            #expect(away.text.contains(metric))
            // The next request reads the queue again.
            try await Task.sleep(for: .seconds(1))
        }
        await fleet.end()
    }
}

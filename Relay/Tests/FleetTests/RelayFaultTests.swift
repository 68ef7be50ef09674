import PushQueueConformance
import RelayTestSupport
import Testing

/// Relays that race, join, are replaced, stop, or die.
@Suite(.timeLimit(.minutes(10))) struct RelayFaultTests {
    @Test("Relays that race for single pushes send each once")
    func race() async throws {
        let server = try await FleetUnderTest.server()
        let fleet = try FleetUnderTest(try await FleetUnderTest.simulator(), server)
        try await fleet.start()
        try await fleet.underLoad(batch: 1, pause: .zero) { try await fleet.waitForAcknowledgements(500) }
        let report = try await fleet.check()
        #expect(report.outcomes["accepted"] == report.pushes)
        await fleet.end()
    }

    @Test("Relays that are killed under load lose nothing and repeat nothing")
    func killed() async throws {
        let fleet = try await FleetUnderTest.started()
        let kills = FleetUnderTest.kills
        try await fleet.underLoad {
            for round in 0..<kills {
                try await fleet.waitForAcknowledgements(200)
                let relay = fleet.relays[round % 3]
                await relay.kill()
                try await fleet.waitForAcknowledgements(100)
                try await relay.start()
            }
        }
        try await fleet.check(unknownAtMost: kills * FleetUnderTest.maxInFlight, limit: Patience.limit * 2)
        await fleet.end()
    }

    @Test("A relay whose claims have expired cannot mark them, and sends none of the pushes")
    func staleClaims() async throws {
        let server = try await FleetUnderTest.server()
        let fleet = try FleetUnderTest(try await FleetUnderTest.simulator(), server)
        let stopped = fleet.relays[0]
        let others = Array(fleet.relays[1...])
        for relay in others { try await relay.start() }
        try await stopped.start(stopPoint: "markWritten.before:1")
        // More than the others send at once, so that it gets some.
        try await fleet.underLoad(batch: 300, pause: .zero, to: others) { try await stopped.waitForStop() }
        // A minute: then the claims of the stopped relay end, and the others send its pushes.
        try await fleet.check(of: others, limit: Patience.limit * 2)
        stopped.resume()
        var round = 0
        try await fleet.post(20, to: [stopped], &round)
        try await fleet.check()
        await fleet.end()
    }

    @Test("A relay that hangs between the mark and the attempt sends each push at most once")
    func staleMarks() async throws {
        let server = try await FleetUnderTest.server()
        let fleet = try FleetUnderTest(
            try await FleetUnderTest.simulator(),
            server,
            settings: FleetUnderTest.shortLeases
        )
        let stopped = fleet.relays[0]
        let others = Array(fleet.relays[1...])
        for relay in others { try await relay.start() }
        try await stopped.start(stopPoint: "markWritten.after:2")
        // More than the others send at once, so that it gets some.
        try await fleet.underLoad(batch: 300, pause: .zero, to: others) { try await stopped.waitForStop() }
        let unknown = FleetUnderTest.maxInFlight
        let report = try await fleet.check(unknownAtMost: unknown, of: others, limit: Patience.limit * 2)
        #expect(report.unknown > 0)
        // It may send what it has marked: these pushes are unknown, and stay so.
        stopped.resume()
        var round = 0
        try await fleet.post(20, to: [stopped], &round)
        let later = try await fleet.check(unknownAtMost: unknown)
        #expect(later.unknown == report.unknown)
        await fleet.end()
    }

    @Test("Relays that join and leave under load delay pushes and leave none unknown")
    func joinAndLeave() async throws {
        let server = try await FleetUnderTest.server()
        let fleet = try FleetUnderTest(try await FleetUnderTest.simulator(), server)
        let (first, others) = (fleet.relays[0], Array(fleet.relays[1...]))
        try await first.start()
        try await fleet.underLoad(to: [first]) {
            for _ in 0..<2 {
                try await fleet.waitForAcknowledgements(100)
                for relay in others { try await relay.start() }
                try await Patience.wait(for: "the relays know each other") {
                    let metrics = try await first.request("GET", "/metrics").text
                    return metrics.contains("apns_relay_fleet_members 3")
                }
                try await fleet.waitForOutcomes(100, at: others[0])
                for relay in others {
                    await relay.terminate()
                    #expect(relay.exitStatus == 0)
                }
            }
        }
        try await fleet.check(of: [first])
        await fleet.end()
    }

    @Test("A rolling update under load delays pushes and leaves none unknown")
    func rollingUpdate() async throws {
        let server = try await FleetUnderTest.server()
        let fleet = try FleetUnderTest(try await FleetUnderTest.simulator(), server)
        try await fleet.start()
        try await fleet.underLoad {
            for relay in fleet.relays + fleet.relays {
                try await fleet.waitForAcknowledgements(100)
                await relay.terminate()
                #expect(relay.exitStatus == 0)
                try await relay.start()
            }
        }
        try await fleet.check()
        await fleet.end()
    }

    @Test("What relays that never come back have claimed is sent by others, and what they have marked is unknown")
    func lostRelays() async throws {
        let server = try await FleetUnderTest.server()
        let fleet = try FleetUnderTest(
            try await FleetUnderTest.simulator(),
            server,
            settings: FleetUnderTest.shortLeases
        )
        try await fleet.relays[0].start(killPoint: "markWritten.after:2")
        try await fleet.relays[1].start(killPoint: "claim.after:2")
        try await fleet.relays[2].start()
        try await fleet.underLoad {
            await fleet.relays[0].waitForEnd()
            await fleet.relays[1].waitForEnd()
        }
        let report = try await fleet.check(
            unknownAtMost: FleetUnderTest.maxInFlight,
            of: [fleet.relays[2]],
            limit: Patience.limit * 2
        )
        #expect(report.unknown > 0)
        await fleet.end()
    }
}

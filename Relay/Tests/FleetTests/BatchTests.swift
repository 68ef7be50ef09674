import RelayTestSupport
import Testing

/// A batch that several relays store and send.
@Suite(.timeLimit(.minutes(10))) struct BatchTests {
    @Test("Relays that are killed while they share a batch send it once to each device")
    func killed() async throws {
        let fleet = try await FleetUnderTest.started()
        let counts = try await BatchUnderTest(fleet.relays, fleet.simulator).run(kills: FleetUnderTest.kills * 2)
        print("batch: \(counts)")
        #expect((counts["accepted"] ?? 0) + (counts["unknown"] ?? 0) == counts.values.reduce(0, +))
        await fleet.end()
    }
}

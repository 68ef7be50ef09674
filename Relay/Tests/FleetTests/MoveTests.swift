import APNSSimulator
import Foundation
import PostgresTestServer
import RelayTestSupport
import Testing

/// `apns-relay move` between a relay with a file and a fleet.
@Suite(.timeLimit(.minutes(10))) struct MoveTests {
    @Test("A queue that moves from a file to a fleet and back, with kills, loses nothing and repeats nothing")
    func thereAndBack() async throws {
        let server = try await FleetUnderTest.server()
        let simulator = try await FleetUnderTest.simulator(delay: .milliseconds(50))
        let fleet = try FleetUnderTest(simulator, server, settings: FleetUnderTest.shortLeases)
        // It sends slowly, so that pushes are left.
        let first = try RelayUnderTest(
            port: simulator.port,
            certificateAuthority: simulator.certificateAuthorityPEM,
            settings: ["DISPATCH_MAX_IN_FLIGHT": "5"]
        )
        try await first.start()
        var round = 0
        for _ in 0..<20 { try await fleet.post(100, to: [first], &round) }
        #expect(try await first.depth().unsettled > 0)
        await first.kill()

        let kills = try await Self.move(first.file, fleet.url, killing: 5)
        await #expect(throws: RelayTestFailure.self) { try await first.start() }
        try await fleet.start()
        try await fleet.underLoad { try await fleet.waitForAcknowledgements(200) }
        try await fleet.check(unknownAtMost: 5)

        // Back. The claims of the killed relays end with their leases.
        for _ in 0..<5 { try await fleet.post(100, to: fleet.relays, &round) }
        for relay in fleet.relays { await relay.kill() }
        let second = try RelayUnderTest(
            port: simulator.port,
            certificateAuthority: simulator.certificateAuthorityPEM
        )
        let more = try await Self.move(fleet.url, second.file, killing: 5)
        print("the moves were killed \(kills) and \(more) times")
        await #expect(throws: RelayTestFailure.self) { try await fleet.relays[0].start() }
        try await second.start()
        try await fleet.check(unknownAtMost: 5 + 3 * FleetUnderTest.maxInFlight, of: [second])
        await second.kill()
        await fleet.end()
    }

    /// Moves a queue. The process is killed, each time a little later, and then runs to the end.
    ///
    /// - Returns: how often it was killed before it had ended.
    private static func move(_ source: String, _ target: String, killing: Int) async throws -> Int {
        var kills = 0
        for number in 0..<killing {
            let process = try self.process(source, target)
            try await Task.sleep(for: .milliseconds(40 * (number + 1)))
            if process.isRunning {
                kill(process.processIdentifier, SIGKILL)
                kills += 1
            }
            try await blocking { process.waitUntilExit() }
        }
        let last = try self.process(source, target)
        try await blocking { last.waitUntilExit() }
        #expect(last.terminationStatus == 0)
        return kills
    }

    private static func process(_ source: String, _ target: String) throws -> Process {
        let process = Process()
        process.executableURL = RelayUnderTest.products.appendingPathComponent("apns-relay")
        process.arguments = ["move", "--from", source, "--to", target]
        try process.run()
        return process
    }
}

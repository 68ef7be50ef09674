import APNSSimulator
import Foundation
import PostgresTestServer
import PushQueueConformance
import RelayTestSupport
import Testing

/// Relays under load whose database has no more room.
@Suite(.timeLimit(.minutes(10)), .enabled(if: SmallDisk.isPossible, "this process cannot mount a file system"))
struct FullDiskTests {
    @Test("While the disk is full, relays refuse pushes and are not ready; then they go on and have lost no push")
    func data() async throws {
        let disk = try SmallDisk(megabytes: 300)
        let server = try await blocking { try PostgresServer(on: disk) }
        try await self.fill(disk, of: server)
        server.end()
    }

    @Test("A full disk of the write-ahead log stops the database; once it is started again, no push is lost")
    func writeAheadLog() async throws {
        let disk = try SmallDisk(megabytes: 100)
        let server = try await blocking { try PostgresServer(logOn: disk) }
        try await self.fill(disk, of: server)
        #expect(server.log.contains("PANIC"))
        server.end()
    }

    @Test("A nearly full disk of the file stops only the intake: the queue becomes empty, and settings can be changed")
    func file() async throws {
        let disk = try SmallDisk(megabytes: 300)
        let simulator = try await FleetUnderTest.simulator()
        let relay = try RelayUnderTest(
            port: simulator.port,
            certificateAuthority: simulator.certificateAuthorityPEM,
            settings: ["STORAGE_FILE": disk.directory.appending(path: "queue.sqlite").path]
        )
        let load = PushLoad()
        // It stops itself before it sends anything.
        try await relay.start(stopPoint: "claim.before:1")
        let request = Task { try await load.post(0..<1_000, to: relay) }
        try await relay.waitForStop()
        // Another program leaves less than the reserve.
        try await blocking { try disk.fill(leaving: 40) }
        relay.resume()
        try #require(try await request.value == .acknowledged)
        let changed = try await relay.request(
            "PUT",
            "/v1/settings",
            body: #"{"maxInFlight":100}"#,
            type: "application/json",
            headers: [("if-match", "*")]
        )
        #expect(changed.status == 200, "\(changed.text)")
        #expect(try await load.post(5_000..<5_001, to: relay) == .refused(status: 503))
        #expect(try await relay.request("GET", "/ready").status == 503)
        try await relay.wait(for: "all pushes have an outcome") { $0.unsettled == 0 }
        #expect(try await relay.feed().map(\.outcome.outcome) == Array(repeating: "accepted", count: 1_000))
        try await blocking { try disk.empty() }
        try await Patience.wait(for: "the relay is ready") {
            try await relay.request("GET", "/ready").status == 200
        }
        #expect(try await load.post(5_000..<5_100, to: relay) == .acknowledged)
        await relay.kill()
        await simulator.stop()
    }

    /// Fills a disk of a server while relays use it, and makes room again.
    private func fill(_ disk: SmallDisk, of server: PostgresServer, _ test: String = #function) async throws {
        let simulator = try await FleetUnderTest.simulator()
        let fleet = try FleetUnderTest(simulator, server, settings: ["STORAGE_TIMEOUT": "2s"])
        try await fleet.start()
        for relay in fleet.relays { #expect(try await relay.request("GET", "/ready").status == 200) }
        try await fleet.underLoad {
            try await fleet.waitForAcknowledgements(200)
            try await blocking { try disk.fill() }
            try await fleet.waitForRefusals(5)
            for relay in fleet.relays {
                try await Patience.wait(for: "the relay is not ready") {
                    try await relay.request("GET", "/ready").status == 503
                }
            }
            try await blocking {
                try disk.empty()
                if !server.isUsable {
                    print("\(test): the database does not respond, and is started again")
                    server.kill()
                    try server.start()
                }
            }
            try await fleet.waitForAcknowledgements(300)
        }
        // A mark whose result no relay has learned leaves its push unknown.
        try await fleet.check(unknownAtMost: 3 * FleetUnderTest.maxInFlight, limit: Patience.limit * 2, test)
        await fleet.end()
    }
}

import PostgresPushQueue
import PushQueueConformance
import Testing

@Suite struct PostgresConformanceTests {
    @Test("The engine does what the protocol says", arguments: QueueConformance.cases)
    func conformance(_ conformance: ConformanceCase) async throws {
        let fixture = try PostgresFixture()
        try await conformance.run(fixture)
        // Sessions report when they have ended.
        try await Patience.wait(for: "the sessions have ended") {
            try fixture.run("SELECT count(*) FROM pg_stat_activity WHERE datname = '\(fixture.database)'") == "0"
        }
        #expect(try fixture.run("SELECT deadlocks FROM pg_stat_database WHERE datname = '\(fixture.database)'") == "0")
    }
}

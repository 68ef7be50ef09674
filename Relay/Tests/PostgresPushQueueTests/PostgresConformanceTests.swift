import Foundation
import PostgresPushQueue
import PushQueueConformance
import Testing

@Suite struct PostgresConformanceTests {
    @Test(
        "The engine does what the protocol says, and locks rows in the order that the schema states",
        arguments: QueueConformance.cases
    )
    func conformance(_ conformance: ConformanceCase) async throws {
        let fixture = try PostgresFixture()
        let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "record-locks.sql")
        try fixture.runInDatabase(try String(contentsOf: file, encoding: .utf8))
        try await conformance.run(fixture)
        let faults = try fixture.runInDatabase("SELECT fault FROM broken_lock_order LIMIT 5")
        #expect(faults == "", "they break the lock order")
        // Sessions report when they have ended.
        try await Patience.wait(for: "the sessions have ended") {
            try fixture.run("SELECT count(*) FROM pg_stat_activity WHERE datname = '\(fixture.database)'") == "0"
        }
        #expect(try fixture.run("SELECT deadlocks FROM pg_stat_database WHERE datname = '\(fixture.database)'") == "0")
    }
}

import PostgresPushQueue
import PostgresTestServer
import PushQueueConformance
import Testing

@Suite struct PostgresConformanceTests {
    @Test("The engine does what the protocol says", arguments: QueueConformance.cases)
    func conformance(_ conformance: ConformanceCase) async throws {
        try await conformance.run(try PostgresFixture())
    }

    /// The pooler uses any of two sessions for each transaction, so a call that needs a session of its own would fail.
    @Test(
        "The engine does so behind a pooler in transaction mode, too",
        .enabled(if: PgBouncer.isInstalled),
        arguments: QueueConformance.cases
    )
    func pooler(_ conformance: ConformanceCase) async throws {
        try await conformance.run(try PostgresFixture(usesPooler: true))
    }
}

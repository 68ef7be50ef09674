import PostgresPushQueue
import PushQueueConformance
import Testing

@Suite struct PostgresConformanceTests {
    @Test("The engine does what the protocol says", arguments: QueueConformance.cases)
    func conformance(_ conformance: ConformanceCase) async throws {
        try await conformance.run(try PostgresFixture())
    }
}

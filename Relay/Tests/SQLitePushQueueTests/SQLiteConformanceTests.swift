import PushQueueConformance
import Testing

@Suite struct SQLiteConformanceTests {
    @Test("The engine does what the protocol says", arguments: QueueConformance.cases)
    func conformance(_ conformance: ConformanceCase) async throws {
        try await conformance.run(try SQLiteFixture())
    }
}

import PushQueueConformance
import Testing

@Suite struct JournalConformanceTests {
    @Test("The engine does what the protocol says", arguments: QueueConformance.cases)
    func conformance(_ conformance: ConformanceCase) async throws {
        try await conformance.run(try JournalFixture())
    }

    @Test("The engine does so if each process begins with an empty file", arguments: QueueConformance.cases)
    func snapshots(_ conformance: ConformanceCase) async throws {
        try await conformance.run(try JournalFixture(keepsFiles: false))
    }
}

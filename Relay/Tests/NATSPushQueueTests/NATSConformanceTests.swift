#if NATS
    import PushQueueConformance
    import Testing

    @Suite(.serialized) struct NATSConformanceTests {
        @Test("The engine does what the protocol says", arguments: QueueConformance.cases)
        func conformance(_ conformance: ConformanceCase) async throws {
            try await conformance.run(try NATSFixture(try NATSFixture.server.get()))
        }
    }
#endif

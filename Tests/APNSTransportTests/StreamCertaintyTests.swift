import Testing

@testable import APNSTransport

/// One test for each row of the certainty table.
struct StreamCertaintyTests {
    static let causes: [StreamCause] = [
        .responded, .reset(.refusedStream), .reset(.noError), .reset(.cancel), .goAway, .connectionLost, .deadline,
        .cancelled, .noCapacity, .faulty,
    ]

    private func ending(
        headers: Bool = false,
        written: Bool,
        _ cause: StreamCause,
        id: Int32 = 5,
        goAway: Int32 = .max
    ) -> StreamEnding {
        StreamCertainty.ending(
            hasFinalHeaders: headers,
            isWritten: written,
            cause: cause,
            streamID: id,
            lowestGoAwayStreamID: goAway
        )
    }

    @Test(arguments: causes) func anUnwrittenRequestWasNotSent(_ cause: StreamCause) {
        #expect(self.ending(written: false, cause) == .notSent)
        #expect(self.ending(written: false, cause, goAway: 3) == .notSent)
        #expect(self.ending(written: false, cause, goAway: 7) == .notSent)
    }

    @Test func aRefusedStreamIsNotProcessed() {
        #expect(self.ending(written: true, .reset(.refusedStream)) == .notProcessed)
    }

    @Test(arguments: causes) func aStreamAboveAGoAwayIsNotProcessed(_ cause: StreamCause) {
        #expect(self.ending(written: true, cause, id: 5, goAway: 3) == .notProcessed)
        #expect(self.ending(written: true, cause, id: 1, goAway: 0) == .notProcessed)
    }

    @Test(arguments: causes.filter { $0 != .reset(.refusedStream) })
    func aWrittenRequestWithoutAResponseIsUnknown(_ cause: StreamCause) {
        #expect(self.ending(written: true, cause) == .unknown)
        #expect(self.ending(written: true, cause, id: 5, goAway: 5) == .unknown)
        #expect(self.ending(written: true, cause, id: 5, goAway: 7) == .unknown)
    }

    @Test(arguments: causes) func aCompleteFinalHeaderBlockIsAResponseWhateverFollows(_ cause: StreamCause) {
        #expect(self.ending(headers: true, written: true, cause) == .response)
        #expect(self.ending(headers: true, written: true, cause, goAway: 3) == .response)
    }
}

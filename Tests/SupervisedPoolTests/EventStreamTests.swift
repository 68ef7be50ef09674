import TestSupport
import Testing

@testable import SupervisedPool

struct EventStreamTests {
    private let hub = EventHub<Int>()

    private func all(_ stream: EventStream<Int>) async -> [Int] {
        var all: [Int] = []
        for await event in stream { all.append(event) }
        return all
    }

    @Test func eachReaderReceivesItsEventsInOrder() async {
        let first = hub.stream(bufferingNewest: 10)
        hub.post(1)
        let second = hub.stream(bufferingNewest: 10)
        hub.post(2)
        hub.post(3)
        hub.finish()
        #expect(await all(first) == [1, 2, 3])
        #expect(await all(second) == [2, 3])
    }

    @Test func aSlowReaderMissesTheOldestEvents() async {
        let stream = hub.stream(bufferingNewest: 3)
        for event in 1...10 { hub.post(event) }
        var iterator = stream.makeAsyncIterator()
        #expect(await iterator.next() == 8)
        #expect(stream.missedCount == 7)
        for event in 11...12 { hub.post(event) }
        hub.finish()
        #expect(await all(stream) == [10, 11, 12])
        #expect(stream.missedCount == 8)
    }

    @Test func aReaderKeepsAtLeastOneEvent() async {
        let stream = hub.stream(bufferingNewest: 0)
        hub.post(1)
        hub.post(2)
        hub.finish()
        #expect(await all(stream) == [2])
        #expect(stream.missedCount == 1)
    }

    @Test func aWaitingReaderReceivesTheNextEventAndEndsWithTheHub() async {
        let stream = hub.stream(bufferingNewest: 1)
        let journal = Journal<Int>()
        let reader = Task {
            for await event in stream { journal.write(event) }
        }
        hub.post(1)
        await journal.wait(count: 1)
        hub.post(2)
        await journal.wait(count: 2)
        hub.finish()
        await reader.value
        #expect(journal.entries == [1, 2])
        #expect(await all(hub.stream(bufferingNewest: 1)).isEmpty)
    }

    @Test func cancellationEndsOnlyTheCancelledReader() async {
        let stream = hub.stream(bufferingNewest: 10)
        for _ in 0..<200 {
            let other = hub.stream(bufferingNewest: 10)
            let reader = Task { await all(other) }
            reader.cancel()
            _ = await reader.value
        }
        hub.post(1)
        hub.finish()
        #expect(await all(stream) == [1])
    }

    @Test func aReleasedReaderIsForgotten() {
        for _ in 0..<100 { _ = hub.stream(bufferingNewest: 10) }
        let kept = hub.stream(bufferingNewest: 10)
        #expect(hub.readerCount == 1)
        hub.post(1)
        #expect(kept.missedCount == 0)
    }
}

import Dispatch
import JournalPushQueue
import PushQueue
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(1))) struct JournalEventsTests {
    @Test("A thread that adds more than there is room for waits until the events are taken")
    func room() async throws {
        let events = JournalEvents(maximumBytes: 1_000)
        let added = Atomic<Int>(0)
        let thread = DispatchQueue(label: "test")
        thread.async {
            for sequence in 1...20 {
                let record = [UInt8](repeating: 0, count: 300)
                let entry = JournalEntry(
                    sequence: UInt64(sequence),
                    time: QueueTime(secondsSince1970: 0),
                    record: record
                )
                events.add(.entry(entry))
                added.add(1, ordering: .relaxed)
            }
        }
        var taken = 0
        while taken < 20 {
            // At most two fit, and the thread waits after the third.
            let isFull = try await eventually { added.load(ordering: .relaxed) + 1 >= min(taken + 3, 20) }
            #expect(isFull)
            #expect(added.load(ordering: .relaxed) <= taken + 3)
            taken += await events.take()?.count ?? 20
        }
        #expect(taken == 20)
    }

    @Test("Closing ends what waits")
    func closing() async throws {
        let events = JournalEvents(maximumBytes: 0)
        let entry = JournalEntry(sequence: 1, time: QueueTime(secondsSince1970: 0), record: [1])
        let isDone = Atomic<Bool>(false)
        DispatchQueue(label: "test").async {
            events.add(.entry(entry))
            isDone.store(true, ordering: .releasing)
        }
        let other = JournalEvents()
        let taking = Task { await other.take() }
        events.close()
        other.close()
        let isEnded = try await eventually { isDone.load(ordering: .acquiring) }
        #expect(isEnded)
        let taken = await taking.value
        #expect(taken == nil)
    }
}

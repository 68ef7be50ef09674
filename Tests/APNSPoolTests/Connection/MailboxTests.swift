import SupervisedPool
import Synchronization
import TestSupport
import Testing

@testable import APNSPool
@testable import HTTP2Wire

@Suite(.timeLimit(.minutes(1)))
struct ConnectionMailboxTests {
    @Test func onlyTheFirstMessageWakesTheReader() {
        let mailbox = ConnectionMailbox()
        var messages: [ConnectionMailbox.Message] = []
        #expect(mailbox.put(.connect) == .wakeReader)
        #expect(mailbox.put(.stop) == .accepted)
        #expect(mailbox.put(.submitAll([])) == .accepted)
        mailbox.take(into: &messages)
        #expect(messages.count == 3)
        messages.removeAll()
        #expect(mailbox.put(.connect) == .wakeReader)
        mailbox.take(into: &messages)
        #expect(messages.count == 1)
    }

    @Test func aClosedMailboxRefuses() {
        let mailbox = ConnectionMailbox()
        _ = mailbox.put(.connect)
        #expect(mailbox.close().count == 1)
        #expect(mailbox.put(.connect) == .closed)
        #expect(mailbox.put(.submitAll([])) == .closed)
        #expect(mailbox.close().isEmpty)
    }

    /// Many writers, one reader that sleeps until it is told to wake: nothing is lost, nothing comes twice.
    @Test func noMessageIsLost() async {
        let mailbox = ConnectionMailbox()
        let (wakeUps, wakeUp) = AsyncStream<Void>.makeStream()
        await withTaskGroup(of: Void.self) { group in
            for writer in 0..<4 as Range<UInt64> {
                group.addTask { @concurrent in
                    for number in 1...500 as ClosedRange<UInt64> {
                        switch mailbox.put(.cancel(ticket: writer * 1000 + number)) {
                        case .wakeReader: wakeUp.yield()
                        case .accepted: break
                        case .closed: Issue.record("it was never closed")
                        }
                    }
                }
            }
            var seen: Set<UInt64> = []
            var messages: [ConnectionMailbox.Message] = []
            for await _ in wakeUps {
                mailbox.take(into: &messages)
                for case .cancel(let ticket) in messages { #expect(seen.insert(ticket).inserted) }
                messages.removeAll(keepingCapacity: true)
                if seen.count == 2000 { break }
            }
            #expect(seen.count == 2000)
        }
    }
}

@Suite(.timeLimit(.minutes(1)))
struct PendingPushesTests {
    private let collector = BulkCollector()
    private let grant = SlotGrant(worker: WorkerID(slot: 0, generation: 1), session: 1)

    private func index(_ receiver: PushReceiver?) -> Int? {
        if case .bulk(_, let index, _) = receiver { index } else { nil }
    }

    @Test func eachReceiverIsGivenOutOnce() {
        var pending = PendingPushes()
        let first = pending.insert(.bulk(collector, index: 10, grant), ticket: 0)
        let second = pending.insert(.bulk(collector, index: 11, grant), ticket: 5)
        #expect(pending.waiting() == [first, second])
        #expect(index(pending.remove(first)) == 10)
        #expect(pending.remove(first) == nil)
        #expect(pending.remove(-1) == nil && pending.remove(99) == nil && pending.remove(Int.max) == nil)
        // The place is used again.
        #expect(pending.insert(.bulk(collector, index: 12, grant), ticket: 6) == first)
        #expect(index(pending.remove(first)) == 12)
        #expect(pending.waiting() == [second])
    }

    @Test func ticketsAreFoundWhileTheyWait() {
        var pending = PendingPushes()
        let anonymous = pending.insert(.bulk(collector, index: 1, grant), ticket: 0)
        let named = pending.insert(.bulk(collector, index: 2, grant), ticket: 7)
        #expect(pending.index(ofTicket: 7) == named)
        #expect(pending.index(ofTicket: 0) == nil)
        #expect(pending.index(ofTicket: 8) == nil)
        _ = pending.remove(named)
        #expect(pending.index(ofTicket: 7) == nil)
        _ = pending.remove(anonymous)
        #expect(pending.waiting().isEmpty)
    }

    /// Tickets are given out over all connections, so those of one may share their last bits.
    @Test(arguments: [UInt64(1), 2, 4096, 8192, 1 << 40]) func ticketsThatShareTheirHintsAreFound(_ step: UInt64) {
        var pending = PendingPushes()
        let tickets = (1...300 as ClosedRange<UInt64>).map { $0 * step }
        let places = tickets.map { pending.insert(.bulk(collector, index: 0, grant), ticket: $0) }
        #expect(tickets.map { pending.index(ofTicket: $0) } == places)
        for (number, place) in places.enumerated() where number % 2 == 0 { _ = pending.remove(place) }
        for (number, ticket) in tickets.enumerated() {
            #expect(pending.index(ofTicket: ticket) == (number % 2 == 0 ? nil : places[number]))
        }
    }

    @Test(arguments: 0..<20)
    func itAgreesWithADictionary(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var pending = PendingPushes()
        var model: [Int: Int] = [:]
        for number in 0..<2000 {
            if Bool.random(using: &random) || model.isEmpty {
                let place = pending.insert(.bulk(collector, index: number, grant), ticket: UInt64(number))
                #expect(model.updateValue(number, forKey: place) == nil)
            } else if let place = model.keys.sorted().randomElement(using: &random) {
                #expect(index(pending.remove(place)) == model.removeValue(forKey: place))
            }
        }
        #expect(Set(pending.waiting()) == Set(model.keys))
    }
}

@Suite(.timeLimit(.minutes(1)))
struct BulkCollectorTests {
    private func items(_ range: Range<Int>) -> [BulkCollector.Item] {
        range.map { BulkCollector.Item(index: $0, result: .notSent(.noSlot)) }
    }

    private func take(_ collector: BulkCollector) -> [Int] {
        var items: [BulkCollector.Item] = []
        collector.take(into: &items)
        return items.map(\.index)
    }

    @Test func whatCameBeforeTheWaitEndsIt() async {
        let collector = BulkCollector()
        collector.deliver(items(0..<2))
        await collector.wait()
        #expect(take(collector) == [0, 1])
        collector.poke()
        await collector.wait()
        #expect(take(collector).isEmpty)
    }

    @Test func aWaitEndsWithAResultOrAPoke() async {
        let collector = BulkCollector()
        for round in 0..<2 {
            let waiter = Task { await collector.wait() }
            try? await ContinuousClock().sleep(for: .milliseconds(1))
            if round == 0 { collector.deliver(items(5..<6)) } else { collector.poke() }
            await waiter.value
            #expect(take(collector) == (round == 0 ? [5] : []))
        }
    }

    @Test func noResultIsLost() async {
        let collector = BulkCollector()
        await withTaskGroup(of: Void.self) { group in
            for writer in 0..<4 {
                group.addTask { @concurrent in
                    for number in 0..<500 {
                        collector.deliver(items(writer * 500 + number..<writer * 500 + number + 1))
                    }
                }
            }
            group.addTask { @concurrent in for _ in 0..<500 { collector.poke() } }
            var seen: Set<Int> = []
            while seen.count < 2000 {
                await collector.wait()
                for index in take(collector) { #expect(seen.insert(index).inserted) }
            }
        }
    }

    @Test func anAbandonedOneCountsToTheLast() {
        let collector = BulkCollector()
        let calls = Mutex(0)
        collector.deliver(items(0..<3))
        collector.abandon(expecting: 10) { calls.withLock { $0 += 1 } }
        collector.deliver(items(3..<9))
        #expect(calls.withLock { $0 } == 0)
        collector.deliver(items(9..<10))
        #expect(calls.withLock { $0 } == 1)
        #expect(take(collector).isEmpty)
    }

    @Test(arguments: [0, 3])
    func anAbandonedOneThatExpectsNothingIsDone(_ count: Int) {
        let collector = BulkCollector()
        collector.deliver(items(0..<count))
        let calls = Mutex(0)
        collector.abandon(expecting: count) { calls.withLock { $0 += 1 } }
        #expect(calls.withLock { $0 } == 1)
    }
}

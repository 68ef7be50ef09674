import SupervisedPool
import Synchronization
import TestSupport
import Testing

@testable import APNSPool
@testable import HTTP2Wire

struct ConnectionMailboxTests {
    @Test func onlyTheFirstMessageWakesTheReader() {
        let mailbox = ConnectionMailbox()
        var messages: [ConnectionMailbox.Message] = []
        #expect(mailbox.open())
        #expect(mailbox.put(.connect) == .wakeReader)
        #expect(mailbox.put(.stop) == .accepted)
        #expect(mailbox.put(.replace) == .accepted)
        mailbox.take(into: &messages)
        #expect(messages.count == 3)
        messages.removeAll()
        #expect(mailbox.put(.connect) == .wakeReader)
        mailbox.take(into: &messages)
        #expect(messages.count == 1)
    }

    @Test func aClosedMailboxRefusesMessages() {
        let mailbox = ConnectionMailbox()
        _ = mailbox.put(.connect)
        #expect(mailbox.close().count == 1)
        #expect(mailbox.put(.connect) == .closed)
        #expect(mailbox.put(.replace) == .closed)
        #expect(mailbox.close().isEmpty)
    }

    @Test("A reader that is stopped before its event loop has run it never begins")
    func stoppedBeforeItBegins() {
        let mailbox = ConnectionMailbox()
        #expect(mailbox.put(.connect) == .wakeReader)
        #expect(mailbox.put(.stop) == .orphaned)
        #expect(mailbox.orphan().count == 1)
        #expect(!mailbox.open())
        #expect(mailbox.put(.connect) == .orphaned)
        #expect(mailbox.orphan().isEmpty)
    }

    /// Many writers, and one reader that sleeps until it is woken: no message is lost or duplicated.
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
                        case .closed, .orphaned: Issue.record("the mailbox was closed")
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

/// Continuations that resume with the number of their push as tag.
struct PendingPushesTests {
    /// Collects continuations, and calls `body` once there are `count` of them.
    private final class Gathering: Sendable {
        private let count: Int
        private let body: @Sendable ([StreamContinuation]) -> Void
        private let gathered = Mutex<[StreamContinuation]>([])

        init(_ count: Int, _ body: @escaping @Sendable ([StreamContinuation]) -> Void) {
            self.count = count
            self.body = body
        }

        func add(_ continuation: StreamContinuation) {
            let all = self.gathered.withLock { gathered in
                gathered.append(continuation)
                return gathered.count == self.count ? gathered : nil
            }
            if let all { self.body(all) }
        }
    }

    /// Gives `body` this many continuations. It must resume all of them, in any order.
    private func withContinuations(
        _ count: Int,
        _ body: @escaping @Sendable ([StreamContinuation]) -> Void
    ) async -> [UInt64] {
        let gathering = Gathering(count, body)
        return await withTaskGroup(of: UInt64.self) { group in
            for _ in 0..<count {
                group.addTask {
                    #if DEBUG
                        await withCheckedContinuation { gathering.add($0) }.tag
                    #else
                        await withUnsafeContinuation { gathering.add($0) }.tag
                    #endif
                }
            }
            return await group.reduce(into: []) { $0.append($1) }.sorted()
        }
    }

    private static func end(_ continuation: StreamContinuation?, _ number: Int) {
        continuation?.resume(returning: .notSent(.noCapacity, tag: UInt64(number)))
    }

    @Test func eachContinuationIsRemovedOnce() async {
        let tags = await withContinuations(3) { all in
            var pending = PendingPushes()
            let first = pending.insert(all[0], ticket: 0)
            let second = pending.insert(all[1], ticket: 5)
            #expect(pending.waiting() == [first, second])
            Self.end(pending.remove(first), 10)
            #expect(pending.remove(first) == nil)
            #expect(pending.remove(-1) == nil && pending.remove(99) == nil && pending.remove(Int.max) == nil)
            // The index is reused.
            #expect(pending.insert(all[2], ticket: 6) == first)
            Self.end(pending.remove(first), 12)
            #expect(pending.waiting() == [second])
            Self.end(pending.remove(second), 11)
        }
        #expect(tags == [10, 11, 12])
    }

    @Test func ticketsAreFoundWhileTheyWait() async {
        let tags = await withContinuations(2) { all in
            var pending = PendingPushes()
            let anonymous = pending.insert(all[0], ticket: 0)
            let named = pending.insert(all[1], ticket: 7)
            #expect(pending.index(ofTicket: 7) == named)
            #expect(pending.index(ofTicket: 0) == nil)
            #expect(pending.index(ofTicket: 8) == nil)
            Self.end(pending.remove(named), 2)
            #expect(pending.index(ofTicket: 7) == nil)
            Self.end(pending.remove(anonymous), 1)
            #expect(pending.waiting().isEmpty)
        }
        #expect(tags == [1, 2])
    }

    /// Tickets are shared by all connections, so those of one connection may have equal last bits.
    @Test(arguments: [UInt64(1), 2, 4096, 8192, 1 << 40])
    func ticketsWithEqualHintsAreFound(_ step: UInt64) async {
        let tags = await withContinuations(300) { all in
            var pending = PendingPushes()
            let tickets = (1...300 as ClosedRange<UInt64>).map { $0 * step }
            let places = zip(tickets, all).map { pending.insert($1, ticket: $0) }
            #expect(tickets.map { pending.index(ofTicket: $0) } == places)
            for (number, place) in places.enumerated() where number % 2 == 0 { Self.end(pending.remove(place), number) }
            for (number, ticket) in tickets.enumerated() {
                #expect(pending.index(ofTicket: ticket) == (number % 2 == 0 ? nil : places[number]))
            }
            for (number, place) in places.enumerated() where number % 2 == 1 { Self.end(pending.remove(place), number) }
        }
        #expect(tags == (0..<300 as Range<UInt64>).map { $0 })
    }
}

struct PendingBatchesTests {
    private let origin = LeaseOrigin(worker: WorkerID(index: 0, generation: 1), session: 1)

    private func batch(_ indices: [Int], _ collector: BulkCollector) -> PushBatch {
        PushBatch(
            requests: RequestBatch(shared: HeaderBlock([]), credential: nil, body: [], isBulk: true),
            indices: indices.map { Int32($0) },
            collector: collector,
            origin: origin
        )
    }

    @Test func eachPushIsClosedOnce() {
        var batches = PendingBatches()
        let first = batches.insert(batch([7, 8, 9], BulkCollector()))
        let second = batches.insert(batch([1], BulkCollector()))
        #expect(PendingBatches.contains(first) && !PendingBatches.contains(12))
        #expect(batches.waiting() == [first, first | 1, first | 2, second])
        #expect(batches.close(first | 1) == 8)
        #expect(batches.close(first | 1) == nil)
        #expect(batches.close(first | 3) == nil, "a fourth push of a batch of three was closed")
        #expect(batches.close(second + 6400) == nil, "a push of a missing batch was closed")
        #expect(batches.waiting() == [first, first | 2, second])
        batches.releaseIfDone(PendingBatches.number(first))
        #expect(batches.close(first) == 7)
        #expect(batches.close(first | 2) == 9)
        batches.releaseIfDone(PendingBatches.number(first))
        #expect(batches.destination(PendingBatches.number(first)) == nil)
        // The index is reused.
        #expect(batches.insert(batch([3], BulkCollector())) == first)
    }

    @Test func aFullBatchUsesEveryBit() {
        var batches = PendingBatches()
        let tag = batches.insert(batch(Array(100..<164), BulkCollector()))
        #expect(batches.waiting().count == 64)
        #expect((0..<64 as Range<UInt64>).map { batches.close(tag | $0) } == (100..<164).map { $0 })
        #expect(batches.waiting().isEmpty)
    }

    @Test(arguments: 0..<20 as Range<UInt64>)
    func pendingBatchesAgreeWithADictionary(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var batches = PendingBatches()
        var model: [UInt64: Int] = [:]
        // The keys of the model, so that a random one is chosen without sorting.
        var tags: [UInt64] = []
        var next = 0
        for _ in 0..<500 {
            if Bool.random(using: &random) || model.isEmpty {
                let count = Int.random(in: 1...64, using: &random)
                let tag = batches.insert(batch(Array(next..<next + count), BulkCollector()))
                for position in 0..<count {
                    #expect(model.updateValue(next + position, forKey: tag | UInt64(position)) == nil)
                    tags.append(tag | UInt64(position))
                }
                next += count
            } else {
                for _ in 0..<40 {
                    guard let place = tags.indices.randomElement(using: &random) else { break }
                    tags.swapAt(place, tags.count - 1)
                    let tag = tags.removeLast()
                    #expect(batches.close(tag) == model.removeValue(forKey: tag))
                    batches.releaseIfDone(PendingBatches.number(tag))
                }
            }
        }
        #expect(Set(batches.waiting()) == Set(model.keys))
    }
}

struct BulkCollectorTests {
    private func items(_ range: Range<Int>) -> [BulkCollector.Item] {
        range.map { BulkCollector.Item(index: $0, result: .notSent(.noCapacity)) }
    }

    private func take(_ collector: BulkCollector) -> [Int] {
        collector.take().joined().map(\.index)
    }

    @Test func earlierResultsAndSignalsEndAWait() async {
        let collector = BulkCollector()
        collector.deliver(items(0..<2))
        await collector.wait()
        #expect(take(collector) == [0, 1])
        collector.signal()
        await collector.wait()
        #expect(take(collector).isEmpty)
    }

    @Test func aWaitEndsWithAResultOrASignal() async {
        let collector = BulkCollector()
        for round in 0..<2 {
            let waiter = Task { await collector.wait() }
            try? await ContinuousClock().sleep(for: .milliseconds(1))
            if round == 0 { collector.deliver(items(5..<6)) } else { collector.signal() }
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
            group.addTask { @concurrent in for _ in 0..<500 { collector.signal() } }
            var seen: Set<Int> = []
            while seen.count < 2000 {
                await collector.wait()
                for index in take(collector) { #expect(seen.insert(index).inserted) }
            }
        }
    }

    /// A portion takes whole arrays in order until it is full. The rest ends the next wait at once.
    @Test func aBurstIsTakenInPortions() async {
        let collector = BulkCollector()
        let size = 100
        for array in 0..<20 { collector.deliver(items(array * size..<(array + 1) * size)) }
        var seen: [Int] = []
        var portions: [Int] = []
        while seen.count < 20 * size {
            await collector.wait()
            let portion = take(collector)
            seen += portion
            portions.append(portion.count)
        }
        #expect(seen == Array(0..<20 * size))
        #expect(portions == [600, 600, 600, 200])
        #expect(take(collector).isEmpty)
    }

    @Test func aCollectorAbandonedDuringABurstCountsTheRest() {
        let collector = BulkCollector()
        let calls = Mutex(0)
        for array in 0..<20 { collector.deliver(items(array * 100..<(array + 1) * 100)) }
        #expect(take(collector).count == 600)
        collector.abandon(expecting: 1401) { calls.withLock { $0 += 1 } }
        #expect(calls.withLock { $0 } == 0)
        collector.deliver(items(2000..<2001))
        #expect(calls.withLock { $0 } == 1)
    }

    @Test func anAbandonedCollectorCountsToTheLastResult() {
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
    func anAbandonedCollectorThatExpectsNothingIsDone(_ count: Int) {
        let collector = BulkCollector()
        collector.deliver(items(0..<count))
        let calls = Mutex(0)
        collector.abandon(expecting: count) { calls.withLock { $0 += 1 } }
        #expect(calls.withLock { $0 } == 1)
    }
}

import SupervisedPool
import Synchronization
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport
@testable import APNSTransport

struct ConnectionMailboxTests {
    @Test func onlyTheFirstMessageWakesTheReader() {
        let mailbox = ConnectionMailbox()
        var messages: [ConnectionMailbox.Message] = []
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

    /// Many writers, and one reader that sleeps until it is woken: no message is lost or duplicated.
    @Test func noMessageIsLost() async {
        let mailbox = ConnectionMailbox()
        let (wakeUps, wakeUp) = AsyncStream<Void>.makeStream()
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask { @concurrent in
                    for _ in 0..<500 {
                        switch mailbox.put(.cancel(PushAttempt(.empty))) {
                        case .wakeReader: wakeUp.yield()
                        case .accepted: break
                        case .closed: Issue.record("the mailbox was closed")
                        }
                    }
                }
            }
            var attempts: [PushAttempt] = []
            var seen: Set<ObjectIdentifier> = []
            var messages: [ConnectionMailbox.Message] = []
            for await _ in wakeUps {
                mailbox.take(into: &messages)
                for case .cancel(let attempt) in messages {
                    #expect(seen.insert(ObjectIdentifier(attempt)).inserted)
                    attempts.append(attempt)
                }
                messages.removeAll(keepingCapacity: true)
                if seen.count == 2000 { break }
            }
            #expect(seen.count == 2000)
        }
    }
}

/// Attempts and batches are added, and their results arrive in any order: each push gets its first result, and each
/// lease gets its streams back, before the receivers learn their results.
struct PendingPushesTests {
    private func batch(_ indices: Range<Int>, _ collector: BulkCollector, _ origin: LeaseOrigin) -> PushBatch {
        PushBatch(
            requests: RequestBatch(shared: HeaderBlock([]), credential: nil, body: [], isBulk: true),
            indices: indices.map { Int32($0) },
            collector: collector,
            origin: origin
        )
    }

    private static let origins = (1...2).map {
        LeaseOrigin(worker: WorkerID(index: 0, generation: 1), connection: $0)
    }

    @Test("Random results of attempts and batches agree with a dictionary", arguments: 0..<20 as Range<UInt64>)
    func model(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var pending = PendingPushes()
        var results = TickResults(pool: Pool(configuration: PoolConfiguration()))
        let collectors = [BulkCollector(), BulkCollector()]
        // The pushes without a result: the collector and the index of a bulk call's push; nil for a single one.
        var model: [StreamTag: (collector: Int, index: Int)?] = [:]
        var attempts: [StreamTag: PushAttempt] = [:]
        var expected = [Set<Int>(), []]
        var next = 0
        for _ in 0..<500 {
            switch Int.random(in: 0..<3, using: &random) {
            case 0:
                let attempt = PushAttempt(.empty)
                let tag = pending.insert(attempt)
                #expect(model.updateValue(nil, forKey: tag) == nil)
                attempts[tag] = attempt
            case 1:
                let collector = Int.random(in: 0..<2, using: &random)
                let count = Int.random(in: 1...64, using: &random)
                let origin = Self.origins[Int.random(in: 0..<2, using: &random)]
                let tag = pending.insert(self.batch(next..<next + count, collectors[collector], origin))
                for position in 0..<count {
                    #expect(model.updateValue((collector, next + position), forKey: tag.advanced(by: position)) == nil)
                }
                next += count
            default:
                var tags = model.keys.sorted { $0.rawValue < $1.rawValue }
                tags.shuffle(using: &random)
                for tag in tags.prefix(Int.random(in: 0...60, using: &random)) {
                    results.add(.notSent(.noCapacity, tag: tag), of: &pending)
                    if let push = model.removeValue(forKey: tag) ?? nil { expected[push.collector].insert(push.index) }
                    attempts[tag] = nil
                }
                results.deliver(&pending)
            }
        }
        for (collector, expected) in zip(collectors, expected) {
            var seen: Set<Int> = []
            while case let items = collector.take().joined(), !items.isEmpty {
                for item in items { #expect(seen.insert(item.index).inserted) }
            }
            #expect(seen == expected)
        }
        #expect(Set(pending.waiting) == Set(model.keys))
        for (tag, attempt) in attempts { #expect(attempt.tag == tag) }
    }

    @Test("An attempt resumes its task once, after its stream was returned")
    func resumes() async throws {
        let clock = ManualClock()
        let pool = Pool<ConnectionActor>(configuration: PoolConfiguration(), clock: clock)
        let result = await PushAttempt.withResult { attempt in
            var pending = PendingPushes()
            var results = TickResults(pool: pool)
            let tag = pending.insert(attempt)
            results.add(.notSent(.noCapacity, tag: tag), of: &pending)
            results.deliver(&pending)
            attempt.end(.notSent(.goAway))
        }
        #expect(result.cause == .noCapacity)
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

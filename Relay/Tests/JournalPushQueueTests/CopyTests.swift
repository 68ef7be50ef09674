import APNSModel
import Foundation
import JournalPushQueue
import PushQueue
import PushQueueConformance
import Testing

/// The copies of a queue: equal, replaced by snapshots, and damaged.
@Suite(.timeLimit(.minutes(2))) struct CopyTests {
    @Test("Whatever three processes do, their copies are equal", arguments: [1, 2, UInt64.random(in: 3 ... .max)])
    func equal(seed: UInt64) async throws {
        let fixture = try JournalFixture(MemoryJournal(maximumRecord: 1_000, storesCopies: true))
        var queues: [JournalPushQueue] = []
        for number in 0..<3 { queues.append(try await fixture.openQueue(fixture.options(fixture.file("\(number)")))) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (number, queue) in queues.enumerated() {
                group.addTask {
                    var work = RandomWork(queue, fixture, SeededRandom(seed: seed &+ UInt64(number)))
                    try await work.run(150)
                }
            }
            try await group.waitForAll()
        }
        let last = fixture.journal.extent.last
        for queue in queues {
            let isRead = try await eventually { await queue.lastEntry == last }
            #expect(isRead)
            await queue.close()
        }
        let contents = try (0..<3).map { try CopyContent.rows(of: fixture.file("\($0)")) }
        for table in contents[2].keys {
            #expect(contents[0][table] == contents[2][table], "seed \(seed), \(table)")
            #expect(contents[1][table] == contents[2][table], "seed \(seed), \(table)")
        }
        #expect(contents[2]["outcome"]?.isEmpty == false)
    }

    @Test("A process whose entries were deleted meanwhile continues with a snapshot")
    func snapshot() async throws {
        let fixture = try JournalFixture(MemoryJournal())
        let behind = try await fixture.openQueue(fixture.options(fixture.file("behind")))
        await behind.close()
        let queue = try await fixture.openQueue(fixture.options(fixture.file("first")))
        var ids: [APNSID] = []
        while fixture.journal.snapshotCount < 3 {
            let push = try TestPush.make(fixture.now, bytes: 500)
            ids.append(push.id)
            _ = try await queue.enqueue([push], isPartial: false)
        }
        #expect(fixture.journal.extent.first > 10)
        for name in ["behind", "new"] {
            let other = try await fixture.openQueue(fixture.options(fixture.file(name)))
            let counts = try await other.counts()
            #expect(counts.queued == ids.count)
            let first = try await other.status(of: ids[0])
            #expect(first?.state == .queued)
            await other.close()
        }
        await queue.close()
    }

    @Test("A damaged copy is set aside and fetched again")
    func damaged() async throws {
        let fixture = try JournalFixture(MemoryJournal())
        let queue = try await fixture.openQueue(fixture.options(fixture.file))
        for _ in 0..<50 { _ = try await queue.enqueue([try TestPush.make(fixture.now)], isPartial: false) }
        await queue.close()
        let file = URL(fileURLWithPath: fixture.file)
        var bytes = try Data(contentsOf: file)
        bytes.replaceSubrange(4_096..<bytes.count, with: Data(repeating: 0xFF, count: bytes.count - 4_096))
        try bytes.write(to: file)
        let again = try await fixture.openQueue(fixture.options(fixture.file))
        let counts = try await again.counts()
        #expect(counts.queued == 50)
        await again.close()
        #expect(FileManager.default.fileExists(atPath: fixture.file + ".damaged"))
    }

    @Test("While a copy cannot be written, calls are undecided, nothing is lost, and the journal is not read again")
    func fullDisk() async throws {
        let fixture = try JournalFixture(MemoryJournal())
        var options = fixture.options(fixture.file)
        options.maxPageCount = 60
        // Longer than a call waits before its record is appended again.
        options.timeout = .seconds(3)
        options.snapshotBytes = .max
        let queue = try await fixture.openQueue(options)
        let readCount = fixture.journal.readCount
        var stored = 0
        var failure: QueueError?
        while failure == nil {
            let push = try TestPush.make(fixture.now, bytes: 3_000)
            do throws(QueueError) {
                _ = try await queue.enqueue([push], isPartial: false)
                stored += 1
            } catch {
                failure = error
            }
        }
        #expect(failure?.code == .undecided)
        #expect(failure?.message.contains("the disk is full") == true)
        #expect(fixture.journal.readCount == readCount)
        await queue.close()
        options.maxPageCount = nil
        let again = try await fixture.openQueue(options)
        let counts = try await again.counts()
        // The last call was stored in the journal.
        #expect(counts.queued == stored + 1 && stored > 5)
        await again.close()
    }

    @Test("A process that starts again ends the claims that the one before it has left")
    func restart() async throws {
        let fixture = try JournalFixture(MemoryJournal())
        let other = try await fixture.openQueue(fixture.options(fixture.file("other")))
        var queue = try await fixture.openQueue(fixture.options(fixture.file))
        let pushes = try (0..<4).map { _ in try TestPush.make(fixture.now) }
        _ = try await queue.enqueue(pushes, isPartial: false)
        let claimed = try await queue.claim(TestPush.route, limit: 2, lease: .seconds(60))
        let isRead = try await eventually { try await other.counts().routes.first?.claimed == 2 }
        #expect(isRead)
        let others = try await other.claim(TestPush.route, limit: 1, lease: .seconds(60))
        #expect(others.count == 1)
        let marks = try await queue.markWritten([claimed[0].claim], lease: .seconds(60))
        #expect(marks == [true])
        await queue.abandon()
        queue = try await fixture.openQueue(fixture.options(fixture.file))
        let expired = await queue.expiredAtOpen
        #expect(expired.queued == 1 && expired.unknown == 1)
        // The claim of the other process is not touched.
        let mark = try await other.markWritten(others.map(\.claim), lease: .seconds(60))
        #expect(mark == [true])
        await queue.close()
        await other.close()
    }
}

/// What applications and relays do with a queue, at random.
private struct RandomWork {
    private let queue: JournalPushQueue
    private let fixture: JournalFixture
    private var random: SeededRandom
    private var claims: [Claim] = []
    private var ids: [APNSID] = []

    init(_ queue: JournalPushQueue, _ fixture: JournalFixture, _ random: SeededRandom) {
        self.queue = queue
        self.fixture = fixture
        self.random = random
    }

    mutating func run(_ steps: Int) async throws {
        for _ in 0..<steps { try await self.step() }
    }

    private mutating func step() async throws {
        switch Int.random(in: 0..<12, using: &self.random) {
        case 0, 1, 2: try await self.store()
        case 3, 4:
            let claimed = try await self.queue.claim(
                TestPush.route,
                limit: .random(in: 1...6, using: &self.random),
                lease: .seconds(Int.random(in: 1...20, using: &self.random))
            )
            self.claims += claimed.map(\.claim)
        case 5: _ = try await self.queue.markWritten(self.someClaims(), lease: .seconds(30))
        case 6: _ = try await self.queue.settle(self.settlements())
        case 7:
            let now = self.fixture.now
            let releases = self.settlements().map { Release(claim: $0.claim, notBefore: now, outcome: $0.outcome) }
            try await self.queue.release(releases)
        case 8: try await self.queue.park(self.settlements())
        case 9:
            await self.fixture.advance(by: .seconds(1))
            _ = try await self.queue.expireLeases()
            _ = try await self.queue.settleOverdue(limit: 5)
        case 10:
            guard let id = self.ids.randomElement(using: &self.random) else { return }
            _ = try await self.queue.cancel(id)
            _ = try await self.queue.retryParked(id)
        default:
            let short = Retention(outcomes: .seconds(20), idempotencyKeys: .seconds(9), parked: .seconds(15))
            _ = try await self.queue.prune(short, limit: 7)
        }
    }

    private mutating func store() async throws {
        var pushes: [NewPush] = []
        for _ in 0..<Int.random(in: 1...5, using: &self.random) {
            var push = try TestPush.make(
                self.fixture.now,
                token: ["0123456789abcdef", "aa"].randomElement(using: &self.random) ?? "aa",
                supersedes: Bool.random(using: &self.random) ? "score" : nil,
                bytes: .random(in: 0...2_000, using: &self.random)
            )
            push.deadline = push.notBefore.advanced(by: .seconds(Int.random(in: 1...60, using: &self.random)))
            push.resendsUnknown = Bool.random(using: &self.random)
            if Bool.random(using: &self.random) {
                let key = "order-\(Int.random(in: 0..<20, using: &self.random))"
                push.idempotency = IdempotencyKey(key: key, digest: [UInt8.random(in: 0...1, using: &self.random)])
            }
            pushes.append(push)
        }
        self.ids += pushes.map(\.id)
        _ = try await self.queue.enqueue(pushes, isPartial: Bool.random(using: &self.random))
    }

    private mutating func someClaims() -> [Claim] {
        let count = min(self.claims.count, Int.random(in: 0...5, using: &self.random))
        return (0..<count).compactMap { _ in self.claims.randomElement(using: &self.random) }
    }

    private mutating func settlements() -> [Settlement] {
        self.someClaims().map { claim in
            let error = PushError(
                code: .connectionLost,
                certainty: Bool.random(using: &self.random) ? .unknown : .notSent,
                apnsID: claim.id,
                attempts: 1,
                message: "cut off"
            )
            let isAccepted = Bool.random(using: &self.random)
            return Settlement(claim: claim, outcome: isAccepted ? .accepted(Receipt(apnsID: claim.id)) : .failed(error))
        }
    }
}

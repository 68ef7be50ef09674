import APNSModel
import JournalPushQueue
import PushQueue
import Testing

/// Journals that refuse, lose or damage records, and machines with wrong clocks.
@Suite(.timeLimit(.minutes(1))) struct JournalFaultTests {
    private let fixture: JournalFixture

    init() throws { self.fixture = try JournalFixture(MemoryJournal()) }

    private func open(_ name: String = "first", timeout: Duration = .seconds(30)) async throws -> JournalPushQueue {
        var options = self.fixture.options(self.fixture.file(name))
        options.timeout = timeout
        options.snapshotBytes = .max
        return try await self.fixture.openQueue(options)
    }

    private func store(_ queue: JournalPushQueue) async throws {
        _ = try await queue.enqueue([try TestPush.make(self.fixture.now)], isPartial: false)
    }

    /// Lets the journal refuse records until a snapshot has made room.
    ///
    /// - Parameter body: what happens meanwhile.
    @discardableResult private func fillJournal<Value>(_ body: () async throws -> Value) async throws -> Value {
        self.fixture.journal.refuse("maximum bytes exceeded")
        let value = try await body()
        let hasRoom = try await eventually { self.fixture.journal.entryCount == 1 }
        #expect(hasRoom)
        self.fixture.journal.refuse(nil)
        return value
    }

    @Test("A record that the journal refuses fails the call at once, and says why")
    func refused() async throws {
        let queue = try await self.open()
        self.fixture.journal.refuse("maximum bytes exceeded")
        let error = await #expect(throws: QueueError.self) { try await self.store(queue) }
        #expect(error?.code == .undecided)
        #expect(error?.message.contains("maximum bytes exceeded") == true)
        self.fixture.journal.refuse(nil)
        try await self.store(queue)
        let counts = try await queue.counts()
        #expect(counts.queued == 1)
        await queue.close()
    }

    @Test("A journal that refuses records gets room by a snapshot, with which a process that was behind continues")
    func fullJournal() async throws {
        let queue = try await self.open()
        for _ in 0..<5 { try await self.store(queue) }
        try await self.fillJournal { await #expect(throws: QueueError.self) { try await self.store(queue) } }
        let other = try await self.open("other")
        let counts = try await other.counts()
        #expect(counts.queued == 5)
        await queue.close()
        await other.close()
    }

    @Test("A record that is lost is appended again, and a call that waits too long ends as undecided")
    func lost() async throws {
        let queue = try await self.open(timeout: .seconds(1))
        self.fixture.journal.lose(true)
        let error = await #expect(throws: QueueError.self) { try await self.store(queue) }
        #expect(error?.code == .undecided)
        #expect(error?.message.contains("not known") == true)
        self.fixture.journal.lose(false)
        await queue.close()
        let patient = try await self.open()
        self.fixture.journal.lose(true)
        let storing = Task { try await self.store(patient) }
        let isLost = try await eventually { self.fixture.journal.lostCount > 1 }
        #expect(isLost)
        self.fixture.journal.lose(false)
        try await storing.value
        let counts = try await patient.counts()
        #expect(counts.queued == 1)
        await patient.close()
    }

    @Test("A late copy of a call that was given up has no effect after the next call")
    func lateCopy() async throws {
        let queue = try await self.open(timeout: .seconds(1))
        self.fixture.journal.hold(true)
        await #expect(throws: QueueError.self) { try await self.store(queue) }
        self.fixture.journal.hold(false)
        try await queue.setValue([1], forKey: "a")
        self.fixture.journal.deliverHeld()
        try await queue.setValue([2], forKey: "a")
        let counts = try await queue.counts()
        #expect(counts.queued == 0)
        await queue.close()
    }

    @Test("A call whose record was stored long after it had failed has no effect")
    func tooLate() async throws {
        let brokers = ManualQueueClock(QueueTime(secondsSince1970: 1_800_000_000))
        self.fixture.journal.use(brokers)
        var options = JournalPushQueue.Options(file: self.fixture.file("first"), timeout: .seconds(1))
        options.systemClock = brokers
        let queue = try await self.fixture.openQueue(options)
        try await queue.setValue([1], forKey: "a")
        self.fixture.journal.hold(true)
        let error = await #expect(throws: QueueError.self) { try await queue.setValue([2], forKey: "a") }
        #expect(error?.code == .undecided)
        brokers.advance(by: .seconds(3))
        self.fixture.journal.hold(false)
        self.fixture.journal.deliverHeld()
        try await queue.setValue([], forKey: "b")
        let value = try await queue.value(forKey: "a")
        #expect(value == [1])
        await queue.close()
    }

    @Test("A call fails if the clock of the brokers has jumped, and the next one succeeds")
    func jumpingClock() async throws {
        let brokers = ManualQueueClock(QueueTime(secondsSince1970: 1_800_000_000))
        self.fixture.journal.use(brokers)
        let queue = try await self.fixture.openQueue(JournalPushQueue.Options(file: self.fixture.file("first")))
        try await queue.setValue([1], forKey: "a")
        brokers.advance(by: .seconds(3_600))
        let error = await #expect(throws: QueueError.self) { try await queue.setValue([2], forKey: "a") }
        #expect(error?.code == .unavailable)
        let before = try await queue.value(forKey: "a")
        #expect(before == [1])
        try await queue.setValue([3], forKey: "a")
        let after = try await queue.value(forKey: "a")
        #expect(after == [3])
        await queue.close()
    }

    @Test("A process notices that the brokers have lost the end of the journal and stored something else there")
    func lostEnd() async throws {
        let queue = try await self.open()
        for _ in 0..<5 { try await self.store(queue) }
        self.fixture.journal.dropLast(2)
        let running = await #expect(throws: QueueError.self) { for _ in 0..<3 { try await self.store(queue) } }
        #expect(running?.code == .unusable)
        #expect(running?.message.contains("lost") == true)
        let failure = await queue.waitForFailure()
        #expect(failure == running)
        await queue.close()
    }

    @Test("A process does not open a queue whose journal ends before its copy")
    func shortJournal() async throws {
        let queue = try await self.open()
        for _ in 0..<5 { try await self.store(queue) }
        await queue.close()
        self.fixture.journal.dropLast(2)
        let opening = await #expect(throws: QueueError.self) { _ = try await self.open(timeout: .seconds(1)) }
        #expect(opening?.code == .unusable)
        #expect(opening?.message.contains("lost") == true)
    }

    @Test("A running process notices a journal that ends too early without calls, once it reads it again")
    func shortWhileRunning() async throws {
        let queue = try await self.open(timeout: .seconds(1))
        for _ in 0..<5 { try await self.store(queue) }
        self.fixture.journal.dropLast(2)
        self.fixture.journal.send(.interrupted)
        let failure = await queue.waitForFailure()
        #expect(failure?.code == .unusable)
        await queue.close()
    }

    @Test("A journal whose end comes a little later, as from a new leader, does no harm")
    func lateEnd() async throws {
        let queue = try await self.open()
        for _ in 0..<5 { try await self.store(queue) }
        await queue.close()
        let entries = self.fixture.journal.dropLast(2)
        let opening = Task { try await self.open() }
        let isShort = try await eventually { self.fixture.journal.readCount > 2 }
        #expect(isShort)
        self.fixture.journal.restore(entries)
        let again = try await opening.value
        try await self.store(again)
        let counts = try await again.counts()
        #expect(counts.queued == 6)
        await again.close()
    }

    @Test("Entries that somebody has deleted stop a process that has not read them, unless a snapshot has them")
    func deletedEntries() async throws {
        let queue = try await self.open()
        for _ in 0..<5 { try await self.store(queue) }
        self.fixture.journal.dropFirst(2)
        let error = await #expect(throws: QueueError.self) {
            _ = try await self.open("other", timeout: .seconds(1))
        }
        #expect(error?.code == .unusable)
        #expect(error?.message.contains("missing") == true)
        await queue.close()
    }

    @Test("A process that was away continues with a snapshot if its entries were deleted in a journal that is in use")
    func awayWhileFull() async throws {
        let queue = try await self.open()
        let other = try await self.open("other")
        for _ in 0..<3 { try await self.store(queue) }
        await other.close()
        for _ in 0..<3 { try await self.store(queue) }
        try await self.fillJournal { await #expect(throws: QueueError.self) { try await self.store(queue) } }
        let again = try await self.open("other")
        let counts = try await again.counts()
        #expect(counts.queued == 6)
        await queue.close()
        await again.close()
    }

    @Test("A process that starts while the journal is full waits until a snapshot has made room")
    func openFull() async throws {
        let queue = try await self.open()
        for _ in 0..<5 { try await self.store(queue) }
        await queue.abandon()
        let opening = try await self.fillJournal { Task { try await self.open() } }
        let again = try await opening.value
        let counts = try await again.counts()
        #expect(counts.queued == 5)
        await again.close()
    }

    @Test("If all copies and the end of the journal are lost, the snapshot beyond it is what is left")
    func snapshotBeyondEnd() async throws {
        let queue = try await self.open()
        for _ in 0..<5 { try await self.store(queue) }
        try await self.fillJournal { await #expect(throws: QueueError.self) { try await self.store(queue) } }
        await queue.close()
        let last = self.fixture.journal.extent.last
        self.fixture.journal.empty()
        let left = try await self.open("other", timeout: .seconds(1))
        let counts = try await left.counts()
        #expect(counts.queued == 5)
        try await self.store(left)
        #expect(self.fixture.journal.extent.last > last)
        let third = try await self.open("third")
        let read = try await third.counts()
        #expect(read.queued == 6)
        await left.close()
        await third.close()
    }

    @Test("An end that came late is forgotten as soon as there are entries, however often it comes")
    func lateEndUnderLoad() async throws {
        let queue = try await self.open(timeout: .seconds(1))
        let start = ContinuousClock.now
        while start.duration(to: .now) < .seconds(3) {
            try await self.store(queue)
            self.fixture.journal.send(.extent(JournalExtent(first: 1, last: 0)))
        }
        try await self.store(queue)
        await queue.close()
    }

    @Test("A copy with entries that the journal has lost stores no snapshot")
    func noSnapshotOfLostEntries() async throws {
        let queue = try await self.open()
        for _ in 0..<5 { try await self.store(queue) }
        self.fixture.journal.dropLast(2)
        self.fixture.journal.refuse("maximum bytes exceeded")
        await #expect(throws: QueueError.self) { try await self.store(queue) }
        let isRefused = try await eventually { self.fixture.journal.refusedSnapshotCount > 0 }
        #expect(isRefused)
        await queue.close()
        #expect(self.fixture.journal.snapshotCount == 0)
        #expect(self.fixture.journal.entryCount == 3)
    }

    @Test("A journal that is closed for good ends the queue")
    func closed() async throws {
        let queue = try await self.open()
        let reason = QueueError(code: .unusable, message: "The brokers have refused the connection.")
        self.fixture.journal.send(.closed(reason))
        let failure = await queue.waitForFailure()
        #expect(failure == reason)
        let error = await #expect(throws: QueueError.self) { try await self.store(queue) }
        #expect(error == reason)
        await queue.close()
        let afterClosing = await queue.waitForFailure()
        #expect(afterClosing == nil)
    }

    @Test("An entry that cannot be read stops a process, and is named")
    func damaged() async throws {
        let queue = try await self.open()
        for _ in 0..<5 { try await self.store(queue) }
        await queue.close()
        self.fixture.journal.damage(3)
        let error = await #expect(throws: QueueError.self) { _ = try await self.open("other") }
        #expect(error?.code == .unusable)
        #expect(error?.message.contains("Entry 3 ") == true)
        // The first process has read it before.
        let again = try await self.open()
        let counts = try await again.counts()
        #expect(counts.queued == 5)
        await again.close()
    }

    @Test("A copy is used by one process, and is no queue of a single relay")
    func files() async throws {
        let queue = try await self.open()
        let inUse = await #expect(throws: QueueError.self) { _ = try await self.open() }
        #expect(inUse?.code == .inUse)
        await queue.close()
    }

    @Test("A process with a wrong clock neither sends early nor ends the claims of others", arguments: [3_600, -3_600])
    func wrongClock(seconds: Int) async throws {
        let journal = self.fixture.journal
        let start = QueueTime(secondsSince1970: 1_800_000_000)
        let brokers = ManualQueueClock(start)
        journal.use(brokers)
        let wrong = ManualQueueClock(start.advanced(by: .seconds(seconds)))
        let queues = try await [brokers, wrong].enumerated().asyncMap { number, clock in
            var options = JournalPushQueue.Options(file: self.fixture.file("\(number)"))
            options.systemClock = clock
            let queue = try await self.fixture.openQueue(options)
            try await queue.setValue([], forKey: "first")
            return queue
        }
        let (right, other) = (queues[0], queues[1])
        let offset = start.duration(to: other.clock.now)
        #expect(offset < .seconds(5) && offset > .seconds(-5))
        let (due, later) = (
            try TestPush.make(start), try TestPush.make(start, due: start.advanced(by: .seconds(600)))
        )
        _ = try await other.enqueue([due, later], isPartial: false)
        let isRead = try await eventually { try await right.counts().queued == 2 }
        #expect(isRead)
        let claimed = try await right.claim(TestPush.route, limit: 5, lease: .seconds(60))
        #expect(claimed.map(\.claim.id) == [due.id])
        let isClaimed = try await eventually { try await other.counts().routes.first?.claimed == 1 }
        #expect(isClaimed)
        let expired = try await other.expireLeases()
        #expect(expired == ExpiredLeases())
        let early = try await other.claim(TestPush.route, limit: 5, lease: .seconds(60))
        #expect(early.isEmpty)
        let marks = try await right.markWritten(claimed.map(\.claim), lease: .seconds(60))
        #expect(marks == [true])
        for _ in 0..<61 {
            for clock in [brokers, wrong] { clock.advance(by: .seconds(10)) }
            try await right.setValue([], forKey: "heartbeat")
        }
        let now = try await other.claim(TestPush.route, limit: 5, lease: .seconds(60))
        #expect(now.map(\.claim.id) == [later.id])
        let ended = try await other.expireLeases()
        #expect(ended.unknown == 1)
        await right.close()
        await other.close()
    }

    @Test("An outage of the brokers, however long, ends no lease")
    func outage() async throws {
        let brokers = ManualQueueClock(QueueTime(secondsSince1970: 1_800_000_000))
        self.fixture.journal.use(brokers)
        var options = JournalPushQueue.Options(file: self.fixture.file("first"))
        options.systemClock = brokers
        let queue = try await self.fixture.openQueue(options)
        options.file = self.fixture.file("other")
        let other = try await self.fixture.openQueue(options)
        _ = try await queue.enqueue([try TestPush.make(brokers.now)], isPartial: false)
        let claims = try await queue.claim(TestPush.route, limit: 1, lease: .seconds(60)).map(\.claim)
        let marks = try await queue.markWritten(claims, lease: .seconds(60))
        #expect(marks == [true])
        brokers.advance(by: .seconds(3_600))
        for _ in 0..<3 {
            try await other.setValue([], forKey: "heartbeat")
            let expired = try await other.expireLeases()
            #expect(expired == ExpiredLeases())
        }
        let outcome = PushOutcome.accepted(Receipt(apnsID: claims[0].id))
        let results = try await queue.settle([Settlement(claim: claims[0], outcome: outcome)])
        #expect(results == [.settled])
        await queue.close()
        await other.close()
    }
}

extension Sequence {
    fileprivate func asyncMap<Value>(_ transform: (Element) async throws -> Value) async rethrows -> [Value] {
        var values: [Value] = []
        for element in self { values.append(try await transform(element)) }
        return values
    }
}

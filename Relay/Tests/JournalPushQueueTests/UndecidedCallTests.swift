import APNSModel
import JournalPushQueue
import PushQueue
import Testing

/// Calls whose record is stored after they have failed.
@Suite(.timeLimit(.minutes(1))) struct UndecidedCallTests {
    private let journal = MemoryJournal()
    private let fixture: JournalFixture

    init() throws { self.fixture = try JournalFixture(self.journal) }

    private func open() async throws -> JournalPushQueue {
        var options = self.fixture.options(self.fixture.file)
        options.timeout = .seconds(1)
        let queue = try await self.fixture.openQueue(options)
        _ = try await queue.enqueue([try TestPush.make(self.fixture.now)], isPartial: false)
        return queue
    }

    /// Claims until there is something; no lease ends, because the clock stands still.
    private func claim(_ queue: JournalPushQueue) async throws -> [Claim] {
        for _ in 0..<1_000 {
            let claims = try await queue.claim(TestPush.route, limit: 1, lease: .seconds(60)).map(\.claim)
            if !claims.isEmpty { return claims }
            try await Task.sleep(for: .milliseconds(10))
        }
        return []
    }

    @Test("A mark that was stored after the call had failed counts when the call is repeated, once")
    func mark() async throws {
        let queue = try await self.open()
        let claims = try await self.claim(queue)
        self.journal.hold(true)
        let error = await #expect(throws: QueueError.self) {
            _ = try await queue.markWritten(claims, lease: .seconds(60))
        }
        #expect(error?.code == .undecided)
        self.journal.hold(false)
        self.journal.deliverHeld()
        let again = try await queue.markWritten(claims, lease: .seconds(60))
        #expect(again == [true])
        let third = try await queue.markWritten(claims, lease: .seconds(60))
        #expect(third == [false])
        await queue.close()
    }

    @Test("A mark that was lost is stored when the call is repeated, and a late copy has no effect")
    func lostMark() async throws {
        let queue = try await self.open()
        let claims = try await self.claim(queue)
        self.journal.hold(true)
        await #expect(throws: QueueError.self) { _ = try await queue.markWritten(claims, lease: .seconds(60)) }
        self.journal.hold(false)
        let again = try await queue.markWritten(claims, lease: .seconds(60))
        #expect(again == [true])
        try await queue.release([Release(claim: claims[0], notBefore: self.fixture.now)])
        self.journal.deliverHeld()
        try await queue.setValue([], forKey: "end")
        let status = try await queue.status(of: claims[0].id)
        #expect(status?.state == .queued)
        await queue.close()
    }

    @Test("A mark of an ended claim does not count when the call is repeated")
    func endedClaim() async throws {
        let queue = try await self.open()
        let claims = try await self.claim(queue)
        self.journal.hold(true)
        await #expect(throws: QueueError.self) { _ = try await queue.markWritten(claims, lease: .seconds(60)) }
        self.journal.hold(false)
        self.journal.deliverHeld()
        await self.fixture.advance(by: .seconds(61))
        let expired = try await queue.expireLeases()
        #expect(expired.unknown == 1)
        let again = try await queue.markWritten(claims, lease: .seconds(60))
        #expect(again == [false])
        await queue.close()
    }

    @Test("A push whose claim was stored after the call had failed is queued again")
    func claims() async throws {
        let queue = try await self.open()
        self.journal.hold(true)
        let error = await #expect(throws: QueueError.self) {
            _ = try await queue.claim(TestPush.route, limit: 1, lease: .seconds(60))
        }
        #expect(error?.code == .undecided)
        self.journal.hold(false)
        self.journal.deliverHeld()
        let claims = try await self.claim(queue)
        #expect(claims.count == 1)
        let counts = try await queue.counts()
        #expect(counts.claimed == 1 && counts.queued == 0)
        await queue.close()
    }
}

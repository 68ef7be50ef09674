import APNSModel
import PushQueue
import PushQueueConformance
import Testing

@testable import PostgresPushQueue

/// What a call does about the rows of other transactions.
@Suite("Transactions beside one another") struct TransactionsTests {
    private let fixture: PostgresFixture
    private let options: PostgresPushQueue.Options
    private let queue: PostgresPushQueue

    init() async throws {
        self.fixture = try PostgresFixture()
        self.options = try self.fixture.options("first")
        self.queue = try await PostgresPushQueue.open(self.options, logger: .quiet)
    }

    private func push(batch: APNSID? = nil, supersedes: String? = nil) throws -> NewPush {
        let now = self.fixture.now
        return NewPush(
            id: .random(),
            route: Route(app: "fern", environment: "production", lane: .bulk, caller: "shop", batch: batch),
            token: try DeviceToken("abcd"),
            push: try PreparedPush(topic: "com.example.fern", pushType: .alert, payload: Array("{}".utf8)),
            notBefore: now,
            deadline: now.advanced(by: .seconds(3_600)),
            supersedes: supersedes.map { SupersedeKey($0) }
        )
    }

    @Test("A claim waits for no transaction that has a competing push, and leaves its own push in the queue")
    func competingPush() async throws {
        let (older, newer) = (try self.push(supersedes: "score"), try self.push(supersedes: "score"))
        _ = try await self.queue.enqueue([older, newer], isPartial: false)
        let other = try self.options.connection.connect()
        try other.runScript("SET idle_in_transaction_session_timeout = 0; BEGIN")
        try other.runScript("SELECT FROM apns.queue ORDER BY position LIMIT 1 FOR UPDATE")
        #expect(try await self.queue.claim(newer.route, limit: 10, lease: .seconds(60)).isEmpty)
        #expect(try await self.queue.counts().queued == 2)
        try other.runScript("ROLLBACK")
        let claims = try await self.queue.claim(newer.route, limit: 10, lease: .seconds(60))
        #expect(claims.map(\.claim.id) == [newer.id])
        #expect(try await self.queue.status(of: older.id)?.outcome?.error?.code == .superseded)
        await self.queue.close()
    }

    @Test("A push of a batch that has ended and is not in the feed yet counts, once")
    func endedPush() async throws {
        let push = try self.push(batch: .random())
        _ = try await self.queue.enqueue([push], isPartial: false)
        // As a fault leaves it.
        try self.fixture.runInDatabase(
            """
            INSERT INTO apns.tally (route, queued) SELECT route, -1 FROM apns.queue;
            DELETE FROM apns.queue;
            INSERT INTO apns.ended (position, marks, certainty, sends, invalidates, result)
            SELECT position, 0, 0, 0, false, apns.cancelled(id, 0) FROM apns.push
            """
        )
        for isInFeed in [false, true] {
            if isInFeed { try self.fixture.runInDatabase("SELECT apns.finish_ended(0)") }
            let counts = try #require(try await self.queue.batchCounts(of: [push.route]).first)
            #expect(counts.total == 1 && counts.outcomes == [.notSent: 1], "\(counts)")
        }
        await self.queue.close()
    }
}

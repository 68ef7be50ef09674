import APNSModel
import PostgresTestServer
import PushQueue
import PushQueueConformance
import Testing

@testable import PostgresPushQueue

/// Whether a history begins while other calls go on, and what becomes of their pushes.
@Suite("Histories of a database") struct HistoriesTests {
    private static let route = Route(app: "fern", environment: "production", lane: .bulk, caller: "shop")
    private static let now = "1800000000000"

    private let fixture: PostgresFixture
    private let options: PostgresPushQueue.Options
    private let queue: PostgresPushQueue

    init() async throws {
        self.fixture = try PostgresFixture()
        self.options = try self.fixture.options("first")
        self.queue = try await PostgresPushQueue.open(self.options, logger: .quiet)
    }

    private func run(_ sql: String) async throws -> String {
        let (server, database) = (self.fixture.server, self.fixture.database)
        return try await blocking { try server.run(sql, in: database) }
    }

    private func enqueue(_ count: Int) async throws {
        let now = self.fixture.now
        let pushes = try (0..<count).map { _ in
            NewPush(
                id: .random(),
                route: Self.route,
                token: try DeviceToken("abcd"),
                push: try PreparedPush(topic: "com.example.fern", pushType: .alert, payload: Array("{}".utf8)),
                notBefore: now,
                deadline: now.advanced(by: .seconds(3_600))
            )
        }
        _ = try await self.queue.enqueue(pushes, isPartial: false)
    }

    /// Opens a connection that may wait as long as this test does.
    private func connect() throws -> Connection {
        let connection = try self.options.connection.connect()
        try connection.runScript("SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0")
        return connection
    }

    private func waitForLock() async throws {
        try await Patience.wait(for: "a call waits for a lock") {
            try await self.run(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            ) != "0"
        }
    }

    // MARK: The decision

    /// Claims a push, and lets the histories note it.
    private func claimOne(_ histories: Histories) async throws {
        let epoch = try await self.run(
            "SELECT epoch FROM apns.claim(1, 1, \(Self.now), \(Self.now), \(Self.now), 600000)"
        )
        let claim = Claim(id: .random(), epoch: try #require(Int64(epoch)), position: 1)
        #expect(!histories.isBehind(claims: [claim], seen: histories.seen))
    }

    @Test("Claims during the check of a new connection are no sign of a restore") func newConnection() async throws {
        try await self.enqueue(2)
        let histories = Histories(self.options, NameCache())
        try await blocking { try histories.check(try self.connect()) }
        try await self.claimOne(histories)
        // Each reading of the progress waits for a lock before it returns.
        _ = try await self.run(
            """
            ALTER FUNCTION apns.progress RENAME TO immediate_progress;
            CREATE FUNCTION apns.progress(
              OUT queue bigint, OUT history int, OUT epoch bigint, OUT feed bigint, OUT is_current boolean
            ) LANGUAGE plpgsql AS $$
            BEGIN
              SELECT p.* INTO queue, history, epoch, feed, is_current FROM apns.immediate_progress() p;
              PERFORM pg_advisory_xact_lock_shared(7);
            END $$
            """
        )
        let holder = try self.connect()
        try holder.runScript("SELECT pg_advisory_lock(7)")
        async let check: Void = blocking { try histories.check(try self.connect()) }
        try await self.waitForLock()
        try await self.claimOne(histories)
        try holder.runScript("SELECT pg_advisory_unlock(7)")
        try await check
        #expect(try await self.run("SELECT count(*) FROM apns.history") == "1")
        #expect(try await self.run("SELECT count(*) FROM apns.parked") == "0")
        await self.queue.close()
    }

    @Test("Claims while the progress is read again are no sign of a restore") func readAgain() async throws {
        try await self.enqueue(2)
        let histories = Histories(self.options, NameCache())
        let connection = try self.connect()
        try histories.check(connection)
        try await self.claimOne(histories)
        let seen = histories.seen
        let row = try connection.run(Histories.query)[0]
        try await self.claimOne(histories)
        #expect(!histories.isBehind(row, seen: seen))
        #expect(histories.isBehind(row, seen: histories.seen), "as after a restore")
        await self.queue.close()
    }

    @Test("A history has no time limit for the statements that begin it") func noTimeLimit() async throws {
        await self.queue.close()
        // Another server's history.
        _ = try await self.run(
            """
            UPDATE apns.history SET server = 'other';
            CREATE TABLE time_limit (value text);
            ALTER FUNCTION apns.begin_history RENAME TO begin_history_itself;
            CREATE FUNCTION apns.begin_history(p_now bigint, p_history int, p_parks boolean, p_epoch bigint, p_feed bigint)
            RETURNS TABLE (app text, environment text, lane smallint, parked bigint) LANGUAGE sql AS $$
              INSERT INTO time_limit SELECT current_setting('statement_timeout');
              SELECT * FROM apns.begin_history_itself(p_now, p_history, p_parks, p_epoch, p_feed)
            $$
            """
        )
        let queue = try await PostgresPushQueue.open(self.options, logger: .quiet)
        _ = try await queue.counts()
        #expect(try await self.run("SELECT DISTINCT value FROM time_limit") == "0")
        await queue.close()
    }

    // MARK: Parking

    private static let flight =
        "ARRAY(SELECT position FROM apns.flight ORDER BY position), ARRAY(SELECT epoch FROM apns.flight ORDER BY position)"

    /// Of four pushes, two are queued and two are claimed. A fifth one is stored while the history begins.
    @Test(
        "Pushes that change while a history begins are parked, and counted once; a new one is queued",
        arguments: [
            "apns.claim(1, 10, \(now), \(now), \(now), 600000)",
            "apns.mark(\(now), 600000, 1, \(flight))",
            """
            apns.release(ARRAY(SELECT ROW(position, epoch, NULL, \(now), true, NULL, NULL, NULL, NULL)::apns.attempt_end
            FROM apns.flight))
            """,
        ]
    )
    func parking(_ change: String) async throws {
        try await self.enqueue(4)
        #expect(try await self.queue.claim(Self.route, limit: 2, lease: .seconds(600)).count == 2)
        let other = try self.connect()
        try other.runScript("BEGIN; SELECT \(change)")
        async let parked = self.run("SELECT sum(parked) FROM apns.begin_history(\(Self.now), 1, true, 0, 0)")
        try await self.waitForLock()
        try await self.enqueue(1)
        try other.runScript("COMMIT")
        #expect(try await parked == "4")
        let places = """
            SELECT concat_ws(' ', (SELECT count(*) FROM apns.queue), (SELECT count(*) FROM apns.flight),
              (SELECT count(*) FROM apns.parked))
            """
        #expect(try await self.run(places) == "1 0 4")
        let tally = "SELECT concat_ws(' ', sum(queued), sum(claimed), sum(written), sum(parked)) FROM apns.tally"
        #expect(try await self.run(tally) == "1 0 0 4")
        await self.queue.close()
    }
}

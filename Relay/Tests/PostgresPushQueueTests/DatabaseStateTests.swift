import APNSModel
import Dispatch
import Logging
import PostgresPushQueue
import PostgresTestServer
import PushQueue
import PushQueueConformance
import Testing

/// On a server of its own, so that nobody else holds transactions or connections.
@Suite("The state of the database", .serialized, .timeLimit(.minutes(5))) struct DatabaseStateTests {
    private let server: PostgresServer
    private let database: String

    init() async throws {
        self.server = try await blocking {
            try PostgresServer(["autovacuum = off", "max_prepared_transactions = 5"])
        }
        // A relay's role has these rights and no others.
        try self.server.run("CREATE ROLE relay LOGIN")
        try self.server.run("CREATE ROLE monitor LOGIN IN ROLE pg_monitor, relay")
        self.database = try self.server.createDatabase()
        try self.server.run("ALTER DATABASE \(self.database) OWNER TO relay")
    }

    private func options(as user: String = "relay") throws -> PostgresPushQueue.Options {
        let connection = try ConnectionSettings(self.server.url(self.database, user: user))
        var options = PostgresPushQueue.Options(connection: connection)
        options.timeout = Patience.limit
        options.connections = 2
        return options
    }

    private func open(as user: String = "relay") async throws -> PostgresPushQueue {
        try await PostgresPushQueue.open(try self.options(as: user), logger: .quiet)
    }

    @discardableResult
    private func sql(_ sql: String) throws -> String { try self.server.run(sql, in: self.database) }

    /// Opens a transaction of the superuser that sees the present rows, in a session that ends with the server.
    private func holdTransaction() async throws {
        let (server, database) = (self.server, self.database)
        DispatchQueue.global().async {
            _ = try? server.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_sleep(3600)", in: database)
        }
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND backend_xmin IS NOT NULL"
        try await Patience.wait(for: "the transaction is open") { try self.sql(waiting) != "0" }
    }

    private func endTransactions() async throws {
        try self.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
        try await Patience.wait(for: "the transactions have ended") {
            try self.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "0"
        }
    }

    /// Uses up an id, as every change of the queue does.
    private func change() throws { try self.sql("SELECT pg_current_xact_id()") }

    @Test("The tables' sizes are those of the server, for a role without rights, too") func tables() async throws {
        let queue = try await self.open()
        let state = try await queue.databaseState()
        let sizes = try self.sql(
            "SELECT relname || ' ' || pg_total_relation_size(oid) FROM pg_class "
                + "WHERE relnamespace = 'apns'::regnamespace AND relkind = 'r'"
        )
        let tables = state.tables.map { "\($0.name) \($0.bytes)" }
        #expect(Set(tables) == Set(sizes.split(separator: "\n").map(String.init)))
        #expect(state.tables.count > 15)
        #expect(Set(state.oldest.keys) == Set(DatabaseState.Holder.allCases))
        await queue.close()
    }

    @Test("doctor counts the connections of the server, for a role without rights, too") func connections() async throws
    {
        let queue = try await self.open()
        _ = try await queue.counts()
        let settings = try ConnectionSettings(self.server.url(self.database, user: "relay"))
        // The queue opens its connections one after the other. One more is doctor's, or that of the session that counts.
        try await Patience.wait(for: "all connections are counted") {
            let count = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
            let used = try #require(Int(try self.sql(count)))
            let message = try await Self.inspect(settings).first { $0.subject == "connections" }?.message
            return used > 2 && message == "\(200 - used) of 200 are free"
        }
        await queue.close()
    }

    @Test("The metrics read no standbys, and doctor reads no sizes") func separateReadings() async throws {
        let queue = try await self.open()
        let settings = try ConnectionSettings(self.server.url(self.database, user: "relay"))
        try self.sql("GRANT pg_monitor TO relay")
        try self.sql("REVOKE ALL ON pg_stat_replication FROM PUBLIC")
        _ = try await queue.databaseState()
        await #expect(throws: QueueError.self) { try await Self.inspect(settings) }
        try self.sql("GRANT SELECT ON pg_stat_replication TO PUBLIC")
        try self.sql("REVOKE ALL ON FUNCTION pg_total_relation_size FROM PUBLIC")
        _ = try await Self.inspect(settings)
        await #expect(throws: QueueError.self) { try await queue.databaseState() }
        await queue.close()
    }

    @Test("Deleted rows stay while an old transaction of another role is open, and its age is known")
    func deadRows() async throws {
        let queue = try await self.open()
        let early = ContinuousClock.now
        _ = try await queue.databaseState()
        let before = ContinuousClock.now
        try await self.holdTransaction()
        let held = ContinuousClock.now
        try self.sql("INSERT INTO apns.value SELECT 'x' || n, '' FROM generate_series(1, 100) AS n")
        try self.sql("DELETE FROM apns.value WHERE key LIKE 'x%'")
        try self.sql("VACUUM apns.value")
        let asked = ContinuousClock.now
        var state = try await queue.databaseState()
        var age = try #require(state.oldest[.session])
        #expect(age >= held.duration(to: asked))
        #expect(age <= early.duration(to: .now))
        // A session reports its own deletions when it ends, which may be after the VACUUM has counted them.
        #expect(state.tables.first { $0.name == "value" }?.deadRows ?? 0 >= 100)

        // A role that sees the times needs no earlier reading.
        let monitor = try ConnectionSettings(self.server.url(self.database, user: "monitor"))
        let seen = try await Self.inspect(monitor)
        #expect(seen.contains { $0.subject == "oldest transaction" && !$0.message.contains("pg_monitor") })
        let superuser = try await self.open(as: "postgres")
        age = try #require(try await superuser.databaseState().oldest[.session])
        #expect(age >= held.duration(to: asked))
        #expect(age <= before.duration(to: .now))
        await superuser.close()

        try await self.endTransactions()
        try self.sql("VACUUM apns.value")
        state = try await queue.databaseState()
        #expect(state.oldest[.session] == .zero)
        #expect(state.tables.first { $0.name == "value" }?.deadRows == 0)
        await queue.close()
    }

    @Test("A transaction that is older than the relay counts from the relay's first reading on")
    func olderThanTheRelay() async throws {
        try await self.holdTransaction()
        let queue = try await self.open()
        _ = try await queue.databaseState()
        let first = ContinuousClock.now
        try self.change()
        let second = ContinuousClock.now
        let age = try #require(try await queue.databaseState().oldest[.session])
        #expect(age >= first.duration(to: second))
        await queue.close()
    }

    @Test("A prepared transaction and a replication slot are told apart from sessions") func otherHolders() async throws
    {
        let queue = try await self.open()
        _ = try await queue.databaseState()
        try self.sql("BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'forgotten'")
        let prepared = ContinuousClock.now
        try self.change()
        let asked = ContinuousClock.now
        let state = try await queue.databaseState()
        let age = try #require(state.oldest[.prepared])
        #expect(age >= prepared.duration(to: asked))
        #expect(state.oldest[.replicationSlot] == .zero)
        #expect(state.oldest[.standby] == .zero)
        // Another database's transactions keep no rows here.
        let other = try self.server.createDatabase()
        try self.server.run("BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'elsewhere'", in: other)
        try self.sql("ROLLBACK PREPARED 'forgotten'")
        #expect(try await queue.databaseState().oldest[.prepared] == .zero)
        await queue.close()
    }

    @Test("Standbys are seen with pg_monitor only; how many a commit waits for is always known")
    func standbys() async throws {
        let settings = try ConnectionSettings(self.server.url(self.database, user: "relay"))
        var finding = try await Self.inspect(settings).first { $0.subject == "standby" }
        #expect(finding?.message.hasPrefix("no commit waits for one") == true)
        try self.server.receiveLog(as: "a")
        try self.server.receiveLog(as: "c")
        try self.server.setSynchronousStandbys("ANY 2 (a, b)")
        let streaming = "SELECT count(*) FROM pg_stat_replication WHERE flush_lsn IS NOT NULL AND sync_state = 'quorum'"
        try await Patience.wait(for: "the log is received") { try self.server.run(streaming) == "1" }
        finding = try await Self.inspect(settings).first { $0.subject == "standby" }
        #expect(finding?.isOK == true)
        #expect(finding?.message.contains("GRANT pg_monitor") == true)

        try self.server.run("SET synchronous_commit = local; GRANT pg_monitor TO relay")
        finding = try await Self.inspect(settings).first { $0.subject == "standby" }
        #expect(finding?.isOK == false)
        #expect(finding?.message.contains("ANY 2 (a, b), and 1 are connected") == true)
    }

    @Test("A database that is away is an error, and the next reading works") func away() async throws {
        var options = try self.options()
        options.timeout = .seconds(1)
        let queue = try await PostgresPushQueue.openImpatient(options)
        self.server.kill()
        let error = await #expect(throws: QueueError.self) { try await queue.databaseState() }
        #expect(error?.code == .unavailable)
        try self.server.start()
        try await Patience.wait(for: "the database is back") { (try? await queue.databaseState()) != nil }
        await queue.close()
    }

    private static func inspect(_ settings: ConnectionSettings) async throws -> [ServerInspection.Finding] {
        try await DispatchQueue.global().perform { () throws(QueueError) in try ServerInspection(settings).findings }
    }
}

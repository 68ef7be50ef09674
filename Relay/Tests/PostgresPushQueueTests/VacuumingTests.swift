import PostgresPushQueue
import PostgresTestServer
import PushQueue
import PushQueueConformance
import Testing

/// On a server of its own, whose autovacuum is off.
@Suite("Vacuuming", .serialized, .timeLimit(.minutes(5))) struct VacuumingTests {
    private let server: PostgresServer
    private let database: String

    init() async throws {
        self.server = try await blocking { try PostgresServer(["autovacuum = off"]) }
        try self.server.run("CREATE ROLE relay LOGIN")
        self.database = try self.server.createDatabase()
        try self.server.run("ALTER DATABASE \(self.database) OWNER TO relay")
    }

    private func open() async throws -> PostgresPushQueue {
        let connection = try ConnectionSettings(self.server.url(self.database, user: "relay"))
        var options = PostgresPushQueue.Options(connection: connection)
        options.connections = 2
        options.timeout = Patience.limit
        options.vacuumThreshold = 400
        return try await PostgresPushQueue.open(options, logger: .quiet)
    }

    private func addDeletedRows(_ count: Int, to table: String) throws {
        try self.server.run(
            """
            INSERT INTO apns.\(table) SELECT gen_random_uuid(), g FROM generate_series(1, \(count)) g; \
            DELETE FROM apns.\(table)
            """,
            in: self.database
        )
    }

    /// How often a table was vacuumed, and its deleted rows.
    private func state(of table: String) throws -> String {
        try self.server.run(
            "SELECT vacuum_count, n_dead_tup FROM pg_stat_user_tables WHERE schemaname = 'apns' AND relname = '\(table)'",
            in: self.database
        )
    }

    /// Waits until a table was vacuumed, once or several times.
    private func waitForVacuum(of table: String, _ queue: PostgresPushQueue) async throws {
        try await Patience.wait(for: "\(table) is vacuumed") {
            _ = try await queue.settleOverdue(limit: 1)
            let state = try self.state(of: table)
            return !state.hasPrefix("0|") && state.hasSuffix("|0")
        }
    }

    @Test("A relay removes deleted rows from tables that its role owns, without autovacuum")
    func ownedTables() async throws {
        let queue = try await self.open()
        try self.addDeletedRows(500, to: "ident")
        try await self.waitForVacuum(of: "ident", queue)
        await queue.close()
    }

    @Test("A relay leaves tables with few deleted rows and tables of other roles to autovacuum")
    func otherTables() async throws {
        let queue = try await self.open()
        try self.server.run("ALTER TABLE apns.ident OWNER TO CURRENT_USER", in: self.database)
        try self.server.run("GRANT ALL ON apns.ident TO relay", in: self.database)
        try self.server.run(
            """
            CREATE TABLE apns.few (LIKE apns.ident); ALTER TABLE apns.few OWNER TO relay; \
            CREATE TABLE apns.owned (LIKE apns.ident); ALTER TABLE apns.owned OWNER TO relay
            """,
            in: self.database
        )
        try self.addDeletedRows(500, to: "ident")
        try self.addDeletedRows(300, to: "few")
        try self.addDeletedRows(500, to: "owned")
        // Once the third table was vacuumed, the others had their chance.
        try await self.waitForVacuum(of: "owned", queue)
        #expect(try self.state(of: "ident") == "0|500")
        #expect(try self.state(of: "few") == "0|300")
        await queue.close()
    }
}

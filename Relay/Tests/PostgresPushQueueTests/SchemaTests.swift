import APNSModel
import PostgresPushQueue
import PostgresTestServer
import PushQueue
import PushQueueConformance
import Testing

@Suite("The schema") struct SchemaTests {
    private let server: PostgresServer
    private let database: String

    init() throws {
        self.server = try PostgresFixture.server.get()
        self.database = try self.server.createDatabase()
    }

    private func options() throws -> PostgresPushQueue.Options {
        var options = PostgresPushQueue.Options(connection: try ConnectionSettings(self.server.url(self.database)))
        options.timeout = Patience.limit
        return options
    }

    private func sql(_ sql: String) throws -> String { try self.server.run(sql, in: self.database) }

    @Test("Processes that start at once on an empty database all work") func simultaneousStarts() async throws {
        let queues = try await withThrowingTaskGroup(of: PostgresPushQueue.self) { group in
            for _ in 0..<6 { group.addTask { try await PostgresPushQueue.open(try self.options(), logger: .quiet) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        for queue in queues {
            try await queue.checkStorage()
            await queue.close()
        }
        #expect(try self.sql("SELECT count(*) FROM apns.history") == "1")
    }

    @Test("A queue that is opened for its values alone begins no history") func valuesAlone() async throws {
        var options = try self.options()
        options.beginsHistory = false
        let queue = try await PostgresPushQueue.open(options, logger: .quiet)
        try await queue.setValue([1], forKey: "key")
        #expect(try await queue.value(forKey: "key") == [1])
        await queue.close()
        #expect(try self.sql("SELECT count(*) FROM apns.history") == "0")
    }

    @Test("Without the right to migrate, a missing schema is an error that says what to do") func missingSchema()
        async throws
    {
        var options = try self.options()
        options.migrates = false
        let error = try await #require(throws: QueueError.self) {
            try await PostgresPushQueue.open(options, logger: .quiet)
        }
        #expect(error.code == .unusable)
        #expect(error.message.contains("apns-relay migrate"))
    }

    @Test("A newer schema is refused, with its version") func newerSchema() async throws {
        let queue = try await PostgresPushQueue.open(try self.options(), logger: .quiet)
        await queue.close()
        _ = try self.sql("UPDATE apns.version SET version = 1000")
        let error = try await #require(throws: QueueError.self) {
            try await PostgresPushQueue.open(try self.options(), logger: .quiet)
        }
        #expect(error.code == .unusable)
        #expect(error.message.contains("1000") && error.message.contains("newer apns-relay"))
    }

    @Test("The script for a person gives the schema that a relay creates") func script() async throws {
        _ = try self.sql(PostgresSchema.script)
        var options = try self.options()
        options.migrates = false
        let queue = try await PostgresPushQueue.open(options, logger: .quiet)
        try await queue.checkStorage()
        await queue.close()
    }

    @Test("The doctor finds a missing schema, and nothing else on a good server") func inspection() async throws {
        let settings = try self.options().connection
        var findings = try ServerInspection(settings).findings
        #expect(findings.filter { !$0.isOK }.map(\.subject) == ["schema"])
        // A relay that migrates creates it.
        let before = try ServerInspection(settings, migrates: true)
        #expect(before.findings.filter { !$0.isOK } == [] && before.isBeforeFirstStart)
        #expect(before.findings.contains { $0.message.contains("creates the schema apns") })
        await (try await PostgresPushQueue.open(try self.options(), logger: .quiet)).close()
        findings = try ServerInspection(settings).findings
        #expect(findings.filter { !$0.isOK } == [])
        #expect(findings.count == 10)
        #expect(try !ServerInspection(settings, migrates: true).isBeforeFirstStart)
    }

    @Test("The doctor says before the first start if the role may not create the schema") func inspectionWithoutRights()
        throws
    {
        let role = "relay_\(self.database)"
        _ = try self.sql("CREATE ROLE \(role) LOGIN; REVOKE CREATE ON DATABASE \(self.database) FROM PUBLIC")
        defer { _ = try? self.sql("DROP ROLE \(role)") }
        let settings = try ConnectionSettings(self.server.url(self.database, user: role))
        let inspection = try ServerInspection(settings, migrates: true)
        let found = try #require(inspection.findings.first { $0.subject == "schema" })
        #expect(!found.isOK && found.message.contains("may not create it") && !inspection.isBeforeFirstStart)
    }

    @Test(
        "A pooler that uses another session for each transaction is refused and named, a pooler of sessions is used",
        .enabled(if: PgBouncer.isInstalled),
        arguments: ["transaction", "session"]
    )
    func pooler(_ mode: String) async throws {
        let pooler = try PgBouncer(self.server, mode: mode)
        let options = PostgresPushQueue.Options(connection: try ConnectionSettings(pooler.url(self.database)))
        let findings = try ServerInspection(options.connection).findings.filter { $0.subject == "sessions" }
        #expect(findings.map(\.isOK) == [mode == "session"])
        guard mode == "transaction" else {
            return await (try await PostgresPushQueue.open(options, logger: .quiet)).close()
        }
        let error = await #expect(throws: QueueError.self) {
            try await PostgresPushQueue.open(options, logger: .quiet)
        }
        #expect(error?.code == .unusable && error?.message.contains("pool_mode = session") == true, "\(error as Any)")
    }

    @Test("The doctor finds settings that lose pushes or stop commits") func badSettings() throws {
        let server = try PostgresServer(["fsync = off", "autovacuum = off", "max_connections = 8"])
        let settings = try ConnectionSettings(server.url("postgres"))
        #expect(
            try ServerInspection(settings).findings.filter { !$0.isOK }.map(\.subject)
                == ["autovacuum", "connections", "fsync", "schema"]
        )
    }

    @Test("Statistics of empty tables lead to no scan of full ones") func plans() async throws {
        let queue = try await PostgresPushQueue.open(try self.options(), logger: .quiet)
        // The plans of the functions are made with these statistics.
        _ = try self.sql("VACUUM ANALYZE")
        let route = Route(app: "fern", environment: "production", lane: .bulk, caller: "shop")
        let now = SystemQueueClock().now
        let payload = Array(#"{"aps":{"alert":"x"}}"#.utf8)
        let push = try PreparedPush(topic: "com.example.fern", pushType: .alert, payload: payload)
        for _ in 0..<10 {
            let pushes = try (0..<1_000).map { number in
                NewPush(
                    id: .random(),
                    route: route,
                    token: try DeviceToken("abcdef01"),
                    push: push,
                    notBefore: now,
                    deadline: now.advanced(by: .seconds(3_600)),
                    idempotency: IdempotencyKey(key: "\(APNSID.random())", digest: [UInt8(number & 0xFF)])
                )
            }
            _ = try await queue.enqueue(pushes, isPartial: false)
        }
        let before = try self.tuples()
        for _ in 0..<5 {
            let claims = try await queue.claim(route, limit: 100, lease: .seconds(60)).map(\.claim)
            _ = try await queue.markWritten(claims, lease: .seconds(60))
            _ = try await queue.settle(
                claims.map { Settlement(claim: $0, outcome: .accepted(Receipt(apnsID: $0.id))) }
            )
        }
        await queue.close()
        let read = try self.tuples() - before
        // 500 pushes, whose rows are read and deleted in a few tables. A scan of one table would read 10,000 rows a call.
        #expect(read < 500 * 30, "\(read) rows were read")
    }

    /// The rows that scans of tables and indexes have returned. Sessions report their numbers when they end.
    private func tuples() throws -> Int {
        let text = try self.sql(
            """
            SELECT pg_stat_force_next_flush(); SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) \
            FROM pg_stat_user_tables WHERE schemaname = 'apns'
            """
        )
        return Int(text.split(separator: "\n").last ?? "") ?? 0
    }
}

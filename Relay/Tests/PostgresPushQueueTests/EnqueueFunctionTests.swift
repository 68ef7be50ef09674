import APNSModel
import Foundation
import PostgresPushQueue
import PostgresTestServer
import PushQueue
import PushQueueConformance
import Synchronization
import Testing

@Suite("apns.enqueue") final class EnqueueFunctionTests {
    private let fixture: PostgresFixture
    private let queue: any PushQueue
    private var route: Route {
        Route(app: "fern", environment: "production", lane: .interactive, caller: "sql:\(self.role)")
    }

    init() async throws {
        self.fixture = try PostgresFixture()
        // SQL uses the database's clock.
        var options = PostgresPushQueue.Options(
            connection: try ConnectionSettings(self.fixture.server.url(self.fixture.database))
        )
        // Nobody closes the queue of a test, and a process has at most 255 threads for queues.
        options.connections = 2
        options.timeout = Patience.limit
        self.queue = try await PostgresPushQueue.open(options, logger: .quiet)
        let intake = SQLIntake(
            apps: [
                .init(
                    name: "fern",
                    topic: "com.example.fern",
                    environments: ["production", "development"],
                    defaultEnvironment: "production"
                )
            ],
            defaultDeadline: .seconds(86_400),
            maxDeadline: .seconds(30 * 86_400)
        )
        try await (self.queue as? PostgresPushQueue)?.publish(intake)
        let role = self.role
        try self.sql("DROP ROLE IF EXISTS \(role); CREATE ROLE \(role) LOGIN; GRANT USAGE ON SCHEMA apns TO \(role)")
        try self.sql("GRANT EXECUTE ON FUNCTION apns.enqueue, apns.enqueue_many TO \(role)")
    }

    /// A queue that stays open keeps its threads.
    deinit {
        let queue = self.queue
        Task { await queue.close() }
    }

    private var role: String { "shop_\(self.fixture.database)" }

    @discardableResult
    private func sql(_ sql: String, as user: String = "postgres") throws -> String {
        try self.fixture.server.run(sql, in: self.fixture.database, as: user)
    }

    private func refusal(_ arguments: String) -> String {
        do {
            return try self.sql("SELECT apns.enqueue(\(arguments))", as: self.role)
        } catch {
            return "\(error)"
        }
    }

    @Test("A push that another program has stored is claimed as it was passed") func aPushIsClaimed() async throws {
        let id = try self.sql(
            """
            SELECT apns.enqueue('fern', 'AB12', '{"aps": {"alert":"x"}}', push_type => 'voip', priority => 10, \
            expiration => 'epoch', collapse_id => 'c 1', resend_unknown => true)
            """,
            as: self.role
        )
        let claimed = try #require(try await self.queue.claim(self.route, limit: 10, lease: .seconds(60)).first)
        #expect(claimed.claim.id.description == id)
        #expect(claimed.token.hexadecimal == "ab12")
        #expect(claimed.resendsUnknown)
        let expected = try PreparedPush(
            topic: "com.example.fern.voip",
            pushType: .voip,
            payload: Array(#"{"aps": {"alert":"x"}}"#.utf8),
            priority: .immediate,
            expiration: .immediate,
            collapseID: CollapseID("c 1")
        )
        #expect(claimed.push == expected)
        #expect(try await self.queue.status(of: claimed.claim.id)?.route.caller == "sql:\(self.role)")
    }

    @Test("A rolled-back transaction leaves nothing") func rollback() async throws {
        try self.sql(
            "BEGIN; SELECT apns.enqueue('fern', 'ab', '{}') FROM generate_series(1, 3); ROLLBACK",
            as: self.role
        )
        #expect(try await self.queue.counts().unsettled == 0)
        #expect(try await self.queue.queuedRoutes().isEmpty)
    }

    @Test("A role that may enqueue sees and changes nothing else") func rights() throws {
        for statement in [
            "SELECT * FROM apns.push", "SELECT * FROM apns.outcomes", "DELETE FROM apns.queue",
            "SELECT apns.counts()", "SELECT apns.cancel(1, gen_random_uuid())",
            "SELECT apns.prune(1, 1, 1, 1, 1)",
        ] {
            let error = #expect(throws: PostgresServer.Failure.self) { try self.sql(statement, as: self.role) }
            #expect(error.map { "\($0)".contains("permission denied") } == true, "\(statement): \(error as Any)")
        }
    }

    // In one database: creating one takes longer than all calls.
    private static let wrongArguments = [
        ("'moss', 'ab', '{}'", "app"), ("'fern', 'ab1', '{}'", "token"), ("'fern', '', '{}'", "token"),
        ("'fern', 'ab', '[]'", "payload"), ("'fern', 'ab', NULL", "payload"),
        ("'fern', 'ab', json_build_object('a', repeat('x', 4090))", "payload"),
        ("'fern', 'ab', '{}', environment => 'test'", "environment"),
        ("'fern', 'ab', '{}', topic => 'com.example.fernando'", "topic"),
        ("'fern', 'ab', '{}', push_type => 'voip', topic => 'com.example.fern'", "topic"),
        ("'fern', 'ab', '{}', push_type => ''", "push_type"),
        ("'fern', 'ab', '{}', push_type => 'background', priority => 10", "priority"),
        ("'fern', 'ab', '{}', priority => 7", "priority"), ("'fern', 'ab', '{}', lane => 'fast'", "lane"),
        ("'fern', 'ab', '{}', collapse_id => ' a'", "collapse_id"),
        ("'fern', 'ab', '{}', collapse_id => repeat('a', 65)", "collapse_id"),
        ("'fern', 'ab', '{}', idempotency_key => ''", "idempotency_key"),
        ("'fern', 'ab', '{}', metadata => '[]'", "metadata"),
        ("'fern', 'ab', '{}', metadata => json_build_object('a', repeat('x', 505))", "metadata"),
        ("'fern', 'ab', '{}', supersedes => repeat('a', 129)", "supersedes"),
        ("'fern', 'ab', '{}', deadline => now() - interval '1 s'", "deadline"),
        ("'fern', 'ab', '{}', deadline => now() + interval '1 year'", "deadline"),
        ("'fern', 'ab', '{}', not_before => now() + interval '2 days'", "not_before"),
        ("'fern', 'ab', '{}', expiration => '1969-01-01'", "expiration"),
        ("'fern', 'ab', '{}', expiration => 'infinity'", "expiration"),
        ("'fern', 'ab', '{}', expiration => '5200-01-01'", "expiration"),
        ("'fern', 'ab', '{}', deadline => 'infinity'", "deadline"),
        ("'fern', 'ab', '{}', deadline => '1969-01-01', idempotency_key => 'k'", "deadline"),
        ("'fern', 'ab', '{}', not_before => '-infinity'", "not_before"),
        ("'fern', 'ab', '{}', not_before => '1969-01-01'", "not_before"),
        ("NULL, 'ab', '{}'", "app"), ("'fern', NULL, '{}'", "token"), ("'fern', 'ab', 'null'", "payload"),
    ]

    @Test("A wrong argument is refused with its name and a hint")
    func aWrongArgument() {
        for (arguments, name) in Self.wrongArguments {
            let text = self.refusal(arguments)
            #expect(text.contains("22023: \(name): "), "\(arguments): \(text)")
            #expect(text.contains("COLUMN NAME:  \(name)"), "\(arguments): \(text)")
            #expect(text.contains("HINT: "), "\(arguments): \(text)")
            let isMissing = arguments.contains("NULL") || arguments.contains("'null'")
            #expect(text.contains("\(name): it is missing") == isMissing, "\(arguments): \(text)")
        }
    }

    private static let wrongMembers = [
        (#""app": null"#, "app"), (#""app": 7"#, "app"), (#""token": "ab1""#, "token"),
        (#""token": ["ab"]"#, "token"),
        (#""token": "a\u0000b""#, "pushes"), (#""payload": {"a": "\ud800"}"#, "pushes"),
        (#""payload": null"#, "payload"),
        (#""payload": "{}""#, "payload"), (#""push_type": 1"#, "push_type"), (#""topic": {}"#, "topic"),
        (#""priority": "high""#, "priority"), (#""priority": 5.5"#, "priority"), (#""priority": 1e9"#, "priority"),
        (#""priority": 7"#, "priority"), (#""expiration": 1795443600"#, "expiration"),
        (#""expiration": "1795443600""#, "expiration"), (#""expiration": "soon""#, "expiration"),
        (#""expiration": "infinity""#, "expiration"), (#""deadline": 1795443600"#, "deadline"),
        (#""deadline": "2027-13-01""#, "deadline"), (#""deadline": "2027-01-01 00:00 Mars/Base""#, "deadline"),
        (#""not_before": true"#, "not_before"), (#""not_before": "-infinity""#, "not_before"),
        (#""apns_id": "7""#, "apns_id"), (#""apns_id": 7"#, "apns_id"),
        (#""idempotency_key": 7"#, "idempotency_key"),
        (#""lane": 1"#, "lane"), (#""supersedes": true"#, "supersedes"),
        (#""resend_unknown": "yes""#, "resend_unknown"),
        (#""resend_unknown": 1"#, "resend_unknown"), (#""metadata": []"#, "metadata"),
        (#""urgent": true"#, "pushes"),
        (#""topic": "com.example.fern", "topic": "com.example.fern""#, "topic"),
    ]

    @Test("A wrong member of many pushes is refused with its name, its element and a hint") func aWrongMember()
        async throws
    {
        let good = #"{"app": "fern", "token": "ab", "payload": {"n": 1}}"#
        for (member, name) in Self.wrongMembers {
            let key = String(member.split(separator: "\"")[0])
            let others = [("app", #""fern""#), ("token", #""ab""#), ("payload", "{}")].filter { $0.0 != key }
            let bad = "{" + (others.map { #""\#($0.0)": \#($0.1)"# } + [member]).joined(separator: ", ") + "}"
            let error = #expect(throws: PostgresServer.Failure.self) {
                try self.sql("SELECT apns.enqueue_many('[\(good), \(bad)]')", as: self.role)
            }
            let text = error.map { "\($0)" } ?? ""
            #expect(text.contains("22023: \(name): ") && text.contains("(element 2 of pushes)"), "\(text)")
            #expect(text.contains("COLUMN NAME:  \(name)") && text.contains("HINT: "), "\(text)")
            #expect(try await self.queue.counts().unsettled == 0)
        }
    }

    @Test("NULL means that an argument or a member is not given, also for a repetition") func null() async throws {
        let names = [
            "push_type", "environment", "topic", "priority", "expiration", "collapse_id", "apns_id", "not_before",
            "deadline", "lane", "supersedes", "resend_unknown", "metadata",
        ]
        let nulls = names.map { "\($0) => NULL" }.joined(separator: ", ")
        let first = try self.sql("SELECT apns.enqueue('fern', 'ab', '{}', idempotency_key => 'k')", as: self.role)
        for arguments in [nulls, "metadata => 'null'", "resend_unknown => false, push_type => 'alert'"] {
            let call = "SELECT apns.enqueue('fern', 'ab', '{}', idempotency_key => 'k', \(arguments))"
            #expect(try self.sql(call, as: self.role) == first, "\(arguments)")
        }
        let members = names.map { #""\#($0)": null"# }.joined(separator: ", ")
        func many(_ more: String) throws -> String {
            let push = #"{"app": "fern", "token": "ab", "payload": {}, "idempotency_key": "m"\#(more)}"#
            return try self.sql("SELECT apns.enqueue_many('[\(push)]')", as: self.role)
        }
        let id = try many("")
        #expect(try many(", " + members) == id)
        #expect(try await self.queue.counts().queued == 2)
        // json_agg makes NULL of no rows.
        for nothing in ["NULL", "'null'", "'[]'", "(SELECT json_agg(1) FROM generate_series(1, 0))"] {
            #expect(try self.sql("SELECT apns.enqueue_many(\(nothing))", as: self.role) == "{}", "\(nothing)")
        }
        #expect(throws: PostgresServer.Failure.self) { try self.sql("SELECT apns.enqueue_many('{}')", as: self.role) }
    }

    @Test("A repetition with the same key returns the first id, and another push with it is refused") func repetition()
        async throws
    {
        let call = "SELECT apns.enqueue('fern', 'ab', '{}', idempotency_key => 'order-1')"
        let first = try self.sql(call, as: self.role)
        #expect(try self.sql(call, as: self.role) == first)
        let conflict = self.refusal("'fern', 'ac', '{}', idempotency_key => 'order-1'")
        #expect(conflict.contains("23505") && conflict.contains("COLUMN NAME:  idempotency_key"), "\(conflict)")
        let other =
            #"{"app": "fern", "token": "ac", "payload": {}, "idempotency_key": "order-1", "lane": "interactive"}"#
        let good = #"{"app": "fern", "token": "ab", "payload": {}}"#
        let many = #expect(throws: PostgresServer.Failure.self) {
            try self.sql("SELECT apns.enqueue_many('[\(good), \(other)]')", as: self.role)
        }
        #expect(many.map { "\($0)".contains("(element 2 of pushes)") } == true, "\(String(describing: many))")
        // A past deadline and a past beginning do not matter for a repetition.
        let past = "deadline => now() - interval '1 s', not_before => now() - interval '1 h', idempotency_key => 'p'"
        try self.sql("SELECT apns.enqueue('fern', 'ab', '{}', \(past))", as: self.role)
        _ = try await self.queue.settleOverdue(limit: 10)
        #expect(try await self.queue.counts().queued == 1)
    }

    @Test("Many pushes are stored in one call, or none") func many() async throws {
        let good = #"{"app": "fern", "token": "ab", "payload": {"n": 1}}"#
        let bad = #"{"app": "fern", "token": "x", "payload": {}}"#
        let wrong = #"{"app": "fern", "token": "ab", "payload": {}, "urgent": true}"#
        for other in [bad, wrong, "1"] {
            #expect(throws: PostgresServer.Failure.self) {
                try self.sql("SELECT apns.enqueue_many('[\(good), \(other)]')", as: self.role)
            }
        }
        #expect(try await self.queue.counts().unsettled == 0)
        #expect(try self.sql("SELECT cardinality(apns.enqueue_many('[\(good), \(good)]'))", as: self.role) == "2")
        #expect(try self.sql("SELECT apns.enqueue_many('[]')", as: self.role) == "{}")
        let counts = try await self.queue.counts()
        #expect(counts.routes.map(\.route.lane) == [.bulk])
        #expect(counts.queued == 2)
    }

    @Test("A push of an app at its capacity is refused until others have their outcome") func capacity() async throws {
        let queue = try #require(self.queue as? PostgresPushQueue)
        var intake = SQLIntake(apps: [], defaultDeadline: .seconds(86_400), maxDeadline: .seconds(86_400))
        intake.apps = [
            .init(
                name: "fern",
                topic: "com.example.fern",
                environments: ["production"],
                defaultEnvironment: "production",
                capacity: 2
            )
        ]
        try await queue.publish(intake)
        for _ in 0..<2 { try self.sql("SELECT apns.enqueue('fern', 'ab', '{}')", as: self.role) }
        var refusal = ""
        // The relays count every second.
        try await Patience.wait(for: "the capacity is reached") {
            _ = try await queue.settleOverdue(limit: 1)
            refusal = self.refusal("'fern', 'ab', '{}'")
            return refusal.contains("53400")
        }
        #expect(refusal.contains("53400: the app fern has reached its capacity of 2 pushes"), "\(refusal)")
        #expect(refusal.contains("app.fern.capacity"))
        while try await queue.cancelAll(self.route, limit: 100) > 0 {}
        try await Patience.wait(for: "there is room again") {
            _ = try await queue.settleOverdue(limit: 1)
            refusal = self.refusal("'fern', 'ab', '{}'")
            return !refusal.contains("53400")
        }
    }

    @Test("Of two pushes with the same key, one is claimed, although the older one was committed last")
    func supersedes() async throws {
        let (server, database, role) = (self.fixture.server, self.fixture.database, self.role)
        // The first push of a role adds its route, and others wait until that is committed.
        let first = try self.sql("SELECT apns.enqueue('fern', 'cd', '{}')", as: role)
        try self.sql("CREATE TABLE public.gate (); GRANT SELECT ON public.gate TO \(role)")
        let older = Task {
            try await blocking {
                try server.run(
                    """
                    BEGIN; SELECT apns.enqueue('fern', 'ab', '{}', supersedes => 'match'); DO $$ BEGIN \
                    WHILE NOT EXISTS (SELECT FROM public.gate) LOOP PERFORM pg_sleep(0.05); END LOOP; END $$; COMMIT
                    """,
                    in: database,
                    as: role
                )
            }
        }
        try await Patience.wait(for: "the older one is stored") {
            let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND usename = '\(role)'"
            return try self.sql(waits) != "0"
        }
        let new = try self.sql("SELECT apns.enqueue('fern', 'ab', '{}', supersedes => 'match')", as: role)
        #expect(try await self.queue.queuedRoutes().count == 1)
        try self.sql("INSERT INTO public.gate DEFAULT VALUES")
        let old = try await older.value
        let claimed = try await self.queue.claim(self.route, limit: 10, lease: .seconds(60))
        #expect(claimed.map(\.claim.id.description) == [first, new])
        let id = try #require(APNSID(old))
        #expect(try await self.queue.status(of: id)?.outcome?.error?.code == .superseded)
    }

    @Test("A transaction that stays open delays no call of a relay") func openTransaction() async throws {
        let old = try self.sql("SELECT apns.enqueue('fern', 'ab', '{}', supersedes => 'match')", as: self.role)
        _ = try await self.queue.queuedRoutes()
        let claims = try await self.queue.claim(self.route, limit: 1, lease: .seconds(600)).map(\.claim)
        #expect(claims.map(\.id.description) == [old])
        let server = self.fixture.server
        let (database, role) = (self.fixture.database, self.role)
        let open = Task {
            try await blocking {
                try server.run(
                    """
                    BEGIN; SELECT apns.enqueue('fern', 'ab', '{}', supersedes => 'match', idempotency_key => 'k'); \
                    SELECT pg_sleep(600); COMMIT
                    """,
                    in: database,
                    as: role
                )
            }
        }
        let session = "FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND usename = '\(role)'"
        try await Patience.wait(for: "the transaction is open") {
            try self.sql("SELECT count(*) \(session)") != "0"
        }
        // A call that waited for the transaction would fail.
        #expect(try await self.queue.markWritten(claims, lease: .seconds(600)) == [true])
        let settlements = claims.map { Settlement(claim: $0, outcome: .accepted(Receipt(apnsID: $0.id))) }
        #expect(try await self.queue.settle(settlements) == [.settled])
        _ = try await self.queue.settleOverdue(limit: 10)
        #expect(try await self.queue.counts().unsettled == 0)
        try self.sql("SELECT pg_terminate_backend(pid) \(session)")
        await #expect(throws: PostgresServer.Failure.self) { try await open.value }
    }

    @Test("A push is due at once for a relay whose clock is far behind the database's") func clocks() async throws {
        let id = try self.sql("SELECT apns.enqueue('fern', 'ab', '{}')", as: self.role)
        var options = PostgresPushQueue.Options(
            connection: try ConnectionSettings(self.fixture.server.url(self.fixture.database))
        )
        options.connections = 2
        options.timeout = Patience.limit
        options.clock = ManualQueueClock(QueueTime(secondsSince1970: 1_000_000_000))
        let late = try await PostgresPushQueue.open(options, logger: .quiet)
        #expect(try await late.queuedRoutes().map(\.due) == [options.clock.now])
        let claimed = try await late.claim(self.route, limit: 1, lease: .seconds(60))
        #expect(claimed.map(\.claim.id.description) == [id])
        let status = try await late.status(of: try #require(APNSID(id)))
        #expect(status?.notBefore == status?.queuedAt)
        await late.close()
    }

    @Test("A relay notices each push of another program") func noticed() async throws {
        var options = PostgresPushQueue.Options(
            connection: try ConnectionSettings(self.fixture.server.url(self.fixture.database))
        )
        options.connections = 2
        options.timeout = Patience.limit
        let count = Atomic(0)
        let queue = try await PostgresPushQueue.open(options, logger: .quiet) {
            count.add(1, ordering: .relaxed)
        }
        for number in 1...3 {
            try self.sql("SELECT apns.enqueue('fern', 'ab', '{}')", as: self.role)
            try await Patience.wait(for: "push \(number) was noticed") { count.load(ordering: .relaxed) == number }
            #expect(try await queue.claim(self.route, limit: 2, lease: .seconds(600)).count == 1)
        }
        await queue.close()
    }

    @Test("A commit waits for no other transaction that notifies") func noNotification() async throws {
        let server = try PostgresServer()
        _ = try PostgresSchema.create(try ConnectionSettings(server.url("postgres")))
        let queue = try await PostgresPushQueue.open(
            PostgresPushQueue.Options(connection: try ConnectionSettings(server.url("postgres"))),
            logger: .quiet
        )
        let app = SQLIntake.App(
            name: "fern",
            topic: "com.example.fern",
            environments: ["production"],
            defaultEnvironment: "production"
        )
        try await queue.publish(SQLIntake(apps: [app], defaultDeadline: .seconds(60), maxDeadline: .seconds(60)))
        await queue.close()
        // A transaction that notifies has the lock of all notifications while its commit waits for a standby.
        try server.setSynchronousStandbys("nobody")
        let notifying = Task {
            try await blocking { try server.run("NOTIFY anything; SELECT pg_logical_emit_message(true, '', '')") }
        }
        try await Patience.wait(for: "the commit waits") {
            try server.run("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == "1"
        }
        try server.run(
            "SET synchronous_commit = local; SET lock_timeout = '5s'; SELECT apns.enqueue('fern', 'ab', '{}')"
        )
        try server.setSynchronousStandbys("")
        _ = try await notifying.value
        server.end()
    }

    @Test("The view of outcomes shows what became of a push") func outcomes() async throws {
        let id = try self.sql(
            "SELECT apns.enqueue('fern', 'ab', '{}', idempotency_key => 'k', metadata => '{\"order\": 4711}')",
            as: self.role
        )
        let claims = try await self.queue.claim(self.route, limit: 1, lease: .seconds(60)).map(\.claim)
        _ = try await self.queue.markWritten(claims, lease: .seconds(60))
        let gone = Rejection(status: 410, reason: .unregistered, timestamp: 1_700_000_000_000)
        let outcome = PushOutcome.failed(.rejected(gone, attempts: 1))
        _ = try await self.queue.settle(claims.map { Settlement(claim: $0, outcome: outcome) })
        let row = try self.sql(
            """
            SELECT id, app, environment, lane, token, outcome, status, reason, attempts, invalidates_token, idempotency_key, \
            metadata ->> 'order' FROM apns.outcomes
            """
        )
        #expect(row == "\(id)|fern|production|interactive|ab|rejected|410|Unregistered|1|t|k|4711")
        // The status is the one that the feed says.
        for outcome in [
            PushOutcome.accepted(Receipt(apnsID: .random())),
            .failed(.rejected(Rejection(status: 503, reason: nil), attempts: 1)),
            .cancelled(.random()),
        ] {
            try self.sql("SELECT apns.enqueue('fern', 'ab', '{}')", as: self.role)
            let claims = try await self.queue.claim(self.route, limit: 1, lease: .seconds(60)).map(\.claim)
            _ = try await self.queue.markWritten(claims, lease: .seconds(60))
            _ = try await self.queue.settle(claims.map { Settlement(claim: $0, outcome: outcome) })
            let status = try self.sql(
                "SELECT coalesce(status::text, '-') FROM apns.outcomes ORDER BY cursor DESC LIMIT 1"
            )
            #expect(status == (outcome.status.map { "\($0)" } ?? "-"), "\(outcome)")
        }
    }

    @Test("The statements of SQL.md work") func documentation() async throws {
        let page = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../../SQL.md")
        let text = try String(contentsOf: page.standardized, encoding: .utf8)
        let blocks = text.components(separatedBy: "```sql\n").dropFirst()
            .compactMap { $0.components(separatedBy: "```").first }
        #expect(blocks.count == 4)
        try self.sql(
            """
            CREATE TABLE orders (number int, state text); CREATE TABLE devices (token text, wants_news boolean);
            INSERT INTO orders VALUES (4711, 'new'); INSERT INTO devices VALUES ('ab', true), ('cd', true), ('ef', false)
            """
        )
        for block in blocks {
            try self.sql(block.replacingOccurrences(of: "TO shop", with: "TO \(self.role)"))
        }
        let counts = try await self.queue.counts()
        #expect(counts.routes.map(\.queued).reduce(0, +) == 3)
    }
}

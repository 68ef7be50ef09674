import APNSModel
import PostgresPushQueue
import PostgresTestServer
import PushQueue
import PushQueueConformance
import Synchronization
import Testing

/// The connection is lost after the server has committed a change and before it says so: each commit waits for a standby that
/// does not exist, and the sessions are ended while they wait.
@Suite("A lost connection", .serialized) final class LostConnectionTests: Sendable {
    private let server: PostgresServer
    private let queue: PostgresPushQueue
    private let options: PostgresPushQueue.Options
    private let database: String
    private static let route = Route(app: "fern", environment: "production", lane: .bulk, caller: "shop")

    init() async throws {
        self.server = try await blocking { try PostgresServer() }
        self.database = try self.server.createDatabase()
        var options = PostgresPushQueue.Options(connection: try ConnectionSettings(self.server.url(self.database)))
        options.timeout = Patience.limit
        options.connections = 2
        self.options = options
        self.queue = try await PostgresPushQueue.open(options, logger: .quiet)
    }

    /// A queue that stays open keeps its threads.
    deinit {
        let queue = self.queue
        Task { await queue.close() }
    }

    private func push(resendsUnknown: Bool = false) throws -> NewPush {
        let now = SystemQueueClock().now
        return NewPush(
            id: .random(),
            route: Self.route,
            token: try DeviceToken("abcd"),
            push: try PreparedPush(topic: "com.example.fern", pushType: .alert, payload: Array("{}".utf8)),
            notBefore: now,
            deadline: now.advanced(by: .seconds(3_600)),
            resendsUnknown: resendsUnknown
        )
    }

    /// Makes a call whose first commit is not acknowledged.
    private func losing<Value: Sendable>(
        _ call: @escaping @Sendable (PostgresPushQueue) async throws -> Value
    ) async throws -> Value {
        // The numbers of routes and callers are known by now, so the call has one statement.
        try self.server.setSynchronousStandbys("nobody")
        let queue = self.queue
        let task = Task { try await call(queue) }
        let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        try await Patience.wait(for: "the session ends") { try self.server.run(ended) != "0" }
        try self.server.setSynchronousStandbys("")
        return try await task.value
    }

    /// Makes a call, and expects that it waits for a standby.
    private func waiting<Value: Sendable>(
        for purpose: String,
        _ call: @escaping @Sendable (PostgresPushQueue) async throws -> Value
    ) async throws -> Value {
        try self.server.setSynchronousStandbys("nobody")
        let queue = self.queue
        let task = Task { try await call(queue) }
        try await Patience.wait(for: "\(purpose) waits for the standby") { try self.waits }
        try self.server.setSynchronousStandbys("")
        return try await task.value
    }

    /// Whether a commit waits for a standby.
    private var waits: Bool {
        get throws {
            try self.server.run("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") != "0"
        }
    }

    @Test("A call that finds its effect made waits for the standby before anybody is told") func recognised()
        async throws
    {
        var push = try self.push()
        push.idempotency = IdempotencyKey(key: "order-1", digest: [1])
        let stored = push
        _ = try await self.queue.enqueue([stored], isPartial: false)
        let results = try await self.waiting(for: "a duplicate") { try await $0.enqueue([stored], isPartial: false) }
        #expect(results == [.duplicate(of: stored.id)])
        let claims = try await self.queue.claim(Self.route, limit: 1, lease: .seconds(600)).map(\.claim)
        #expect(try await self.queue.markWritten(claims, lease: .seconds(600)) == [true])
        let marks = try await self.waiting(for: "a second mark") {
            try await $0.markWritten(claims, lease: .seconds(600))
        }
        #expect(marks == [false])
        let outcome = PushOutcome.accepted(Receipt(apnsID: stored.id))
        let settlements = claims.map { Settlement(claim: $0, outcome: outcome) }
        #expect(try await self.queue.settle(settlements) == [.settled])
        let again = try await self.waiting(for: "a second outcome") { try await $0.settle(settlements) }
        #expect(again == [.alreadySettled(outcome)])
        try await self.waiting(for: "a late release") {
            try await $0.release(claims.map { Release(claim: $0, notBefore: SystemQueueClock().now) })
        }
        try await self.waiting(for: "a late parking") { try await $0.park(settlements) }
        let cancelled = try await self.waiting(for: "a late cancellation") { try await $0.cancel(stored.id) }
        #expect(cancelled == .settled(outcome))
        try await self.queue.setValue([1], forKey: "subscription")
        let isExchanged = try await self.waiting(for: "a value that is there") {
            try await $0.exchangeValue([1], forKey: "subscription", expecting: nil)
        }
        #expect(!isExchanged)
        try await self.waiting(for: "a value that is gone") { try await $0.setValue(nil, forKey: "other") }
        let isGone = try await self.waiting(for: "a value that nobody has stored") {
            try await $0.exchangeValue(nil, forKey: "other", expecting: nil)
        }
        #expect(isGone)
    }

    @Test("Marks that were committed by a call that gave up are recognised when it is repeated") func repeatedMark()
        async throws
    {
        let claim = try await self.claim()
        var options = self.options
        options.timeout = .seconds(2)
        let queue = try await PostgresPushQueue.openImpatient(options)
        try self.server.setSynchronousStandbys("nobody")
        let error = await #expect(throws: QueueError.self) {
            try await queue.markWritten([claim], lease: .seconds(600))
        }
        #expect(error?.code == .undecided || error?.code == .unavailable)
        try self.server.setSynchronousStandbys("")
        // A repetition that does not reach the server decides nothing.
        self.server.kill()
        await #expect(throws: QueueError.self) { try await queue.markWritten([claim], lease: .seconds(600)) }
        try self.server.start()
        var marks: [Bool] = []
        try await Patience.wait(for: "the mark is repeated") {
            marks = (try? await queue.markWritten([claim], lease: .seconds(600))) ?? []
            return !marks.isEmpty
        }
        #expect(marks == [true])
        // Only the call that made them has them.
        #expect(try await self.queue.markWritten([claim], lease: .seconds(600)) == [false])
        await queue.close()
    }

    @Test("A refusal of a repeated call does not say that the first one had no effect") func refusedRepetition()
        async throws
    {
        let claim = try await self.claim()
        func rename(_ name: String, to other: String) throws {
            try self.server.run(
                "SET synchronous_commit = off; ALTER FUNCTION apns.\(name) RENAME TO \(other)",
                in: self.database
            )
        }
        try self.server.setSynchronousStandbys("nobody")
        let queue = self.queue
        let task = Task { try await queue.markWritten([claim], lease: .seconds(600)) }
        try await Patience.wait(for: "the mark waits for the standby") { try self.waits }
        try rename("mark", to: "other_mark")
        try self.server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
        let error = try await #require(throws: QueueError.self) { try await task.value }
        #expect(error.code == .undecided)
        try self.server.setSynchronousStandbys("")
        try rename("other_mark", to: "mark")
        #expect(try await queue.markWritten([claim], lease: .seconds(600)) == [true])
    }

    @Test("A call that is repeated and finds nothing left to change waits for the standby") func repeatedRelease()
        async throws
    {
        let claim = try await self.claim()
        let release = Release(claim: claim, notBefore: SystemQueueClock().now)
        try self.server.setSynchronousStandbys("nobody")
        let queue = self.queue
        let task = Task { try await queue.release([release]) }
        try await Patience.wait(for: "the release waits for the standby") { try self.waits }
        try await blocking {
            self.server.kill()
            try self.server.start()
        }
        try await Patience.wait(for: "its repetition waits for the standby") { try self.waits }
        try self.server.setSynchronousStandbys("")
        try await task.value
        #expect(try await self.queue.counts().queued == 1)
    }

    private func claim() async throws -> Claim {
        _ = try await self.queue.enqueue([try self.push()], isPartial: false)
        let claims = try await self.queue.claim(Self.route, limit: 1, lease: .seconds(600))
        return try #require(claims.first).claim
    }

    @Test("A stored push is stored once, and its result says so") func enqueue() async throws {
        _ = try await self.claim()
        let first = try self.push()
        let results = try await self.losing { try await $0.enqueue([first], isPartial: false) }
        #expect(results == [.queued])
        #expect(try await self.queue.counts().queued == 1)
    }

    @Test("A mark that was made counts, and no other claim can be marked") func mark() async throws {
        let claim = try await self.claim()
        #expect(try await self.losing { try await $0.markWritten([claim], lease: .seconds(600)) } == [true])
        #expect(try await self.queue.markWritten([claim], lease: .seconds(600)) == [false])
        #expect(try await self.queue.counts().written == 1)
    }

    @Test("An outcome is stored once, and its result says so") func settle() async throws {
        let claim = try await self.claim()
        _ = try await self.queue.markWritten([claim], lease: .seconds(600))
        let settlement = Settlement(claim: claim, outcome: .accepted(Receipt(apnsID: claim.id)))
        #expect(try await self.losing { try await $0.settle([settlement]) } == [.settled])
        #expect(try await self.queue.settle([settlement]) == [.alreadySettled(settlement.outcome)])
    }

    @Test("A push is cancelled once, and the result says so") func cancel() async throws {
        let claim = try await self.claim()
        #expect(try await self.losing { try await $0.cancel(claim.id) } == .cancelled)
    }

    @Test("A released push is queued once") func release() async throws {
        let claim = try await self.claim()
        let now = SystemQueueClock().now
        try await self.losing { try await $0.release([Release(claim: claim, notBefore: now)]) }
        #expect(try await self.queue.counts().queued == 1)
        #expect(try await self.queue.counts().unsettled == 1)
    }

    @Test("Whether a value was exchanged is not known") func exchangeValue() async throws {
        _ = try await self.claim()
        let error = try await #require(throws: QueueError.self) {
            try await self.losing { try await $0.exchangeValue([1], forKey: "a", expecting: nil) }
        }
        #expect(error.code == .undecided)
    }

    @Test("Calls wait for a server that is killed and started again") func killedServer() async throws {
        let pushes = try (0..<50).map { _ in try self.push() }
        let queue = self.queue
        _ = try await self.claim()
        let calls = pushes.map { push in Task { try await queue.enqueue([push], isPartial: false) } }
        self.server.kill()
        try self.server.start()
        for call in calls { #expect(try await call.value == [.queued]) }
        #expect(try await self.queue.counts().unsettled == 51)
    }

    @Test("A server that is away too long is an error, and nothing was stored") func awayServer() async throws {
        var options = PostgresPushQueue.Options(connection: try ConnectionSettings(self.server.url(self.database)))
        options.timeout = .milliseconds(300)
        let queue = try await PostgresPushQueue.openImpatient(options)
        self.server.kill()
        let push = try self.push()
        let error = try await #require(throws: QueueError.self) { try await queue.enqueue([push], isPartial: false) }
        #expect(error.code == .unavailable || error.code == .undecided)
        try self.server.start()
        #expect(try await self.queue.status(of: push.id) == nil)
        await queue.close()
    }

    @Test("A server that hangs is an error after the time limit") func hangingServer() async throws {
        var options = PostgresPushQueue.Options(connection: try ConnectionSettings(self.server.url(self.database)))
        options.timeout = .milliseconds(500)
        options.connections = 2
        let queue = try await PostgresPushQueue.openImpatient(options)
        // The statement waits for a lock that nobody releases.
        let server = self.server
        let database = self.database
        let lock = Task {
            try await blocking {
                try server.run("BEGIN; LOCK TABLE apns.tally; SELECT pg_sleep(600)", in: database)
            }
        }
        let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        try await Patience.wait(for: "the table is locked") { try self.server.run(sleeping) != "0" }
        let error = try await #require(throws: QueueError.self) { try await queue.counts() }
        #expect(error.code == .unavailable)
        var count = 0
        try await Patience.wait(for: "the result of a change is not known") {
            count += 1
            let push = try self.push()
            let error = try await #require(throws: QueueError.self) {
                try await queue.enqueue([push], isPartial: false)
            }
            // If the machine stalls, the limit may pass before the statement is sent.
            return error.code == .undecided
        }
        try self.server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
        _ = await lock.result
        #expect(try await self.queue.counts().unsettled <= count)
        await queue.close()
    }

    @Test("While the server's disk has no room for pushes, the storage cannot be used") func fullDisk() async throws {
        _ = try await self.claim()
        try self.server.run(
            """
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
              $$ BEGIN RAISE 'no room' USING ERRCODE = 'disk_full'; END $$;
            CREATE TRIGGER refuse BEFORE INSERT ON apns.ident EXECUTE FUNCTION refuse();
            """,
            in: self.database
        )
        try await self.queue.checkStorage()
        let push = try self.push()
        let refusal = try await #require(throws: QueueError.self) {
            try await self.queue.enqueue([push], isPartial: false)
        }
        #expect(refusal.code == .unavailable && refusal.message.contains("disk is full"))
        await #expect(throws: refusal) { try await self.queue.checkStorage() }
        try self.server.run("DROP TRIGGER refuse ON apns.ident", in: self.database)
        // For ten seconds, no new push competes with outcomes for the room.
        await #expect(throws: refusal) { try await self.queue.enqueue([push], isPartial: false) }
        try await Patience.wait(for: "pushes are stored again") {
            (try? await self.queue.enqueue([push], isPartial: false)) == [.queued]
        }
        try await self.queue.checkStorage()
        // A call that stores no push finds it, too.
        try self.server.run(
            "CREATE TRIGGER refuse BEFORE INSERT ON apns.flight EXECUTE FUNCTION refuse()",
            in: self.database
        )
        let refusedClaim = try await #require(throws: QueueError.self) {
            try await self.queue.claim(Self.route, limit: 1, lease: .seconds(600))
        }
        await #expect(throws: refusedClaim) { try await self.queue.requireRoom() }
    }

    @Test("A server without fsync is refused") func fsync() async throws {
        let server = try await blocking { try PostgresServer(["fsync = off"]) }
        let database = try server.createDatabase()
        let options = PostgresPushQueue.Options(connection: try ConnectionSettings(server.url(database)))
        let error = try await #require(throws: QueueError.self) {
            try await PostgresPushQueue.open(options, logger: .quiet)
        }
        #expect(error.code == .unusable)
        #expect(error.message.contains("fsync"))
    }

    @Test("A promoted standby begins a history, and its readers continue") func promotion() async throws {
        let claim = try await self.claim()
        let outcome = PushOutcome.accepted(Receipt(apnsID: claim.id))
        _ = try await self.queue.settle([Settlement(claim: claim, outcome: outcome)])
        let page = try await self.queue.outcomes(after: nil, apps: nil, kind: .outcomes, limit: 10)
        try self.server.promote()
        let rest = try await self.queue.outcomes(after: page.cursor, apps: nil, kind: .outcomes, limit: 10)
        #expect(rest.gap == nil && rest.entries.isEmpty)
        let next = try await self.claim()
        #expect(next.position > claim.position + 1_000_000 && next.epoch > claim.epoch + 1_000_000)
        _ = try await self.queue.settle([Settlement(claim: next, outcome: .accepted(Receipt(apnsID: next.id)))])
        let new = try await self.queue.outcomes(after: page.cursor, apps: nil, kind: .outcomes, limit: 10)
        #expect(new.gap == nil && new.entries.map(\.push.id) == [next.id])
        #expect(new.cursor?.generation != page.cursor?.generation)
        // A reader that has read outcomes which the standby did not have.
        let lost = FeedCursor(position: (page.cursor?.position ?? 0) + 5, generation: page.cursor?.generation ?? 0)
        let gap = try await self.queue.outcomes(after: lost, apps: nil, kind: .outcomes, limit: 10).gap
        #expect(gap?.reason == .restored)
    }

    /// How a backup is made and restored.
    enum Backup: CaseIterable {
        case dataOnNewTimeline, data, dump
    }

    /// Whether the relay stops before the restore.
    static let lives = [true, false]

    @Test(
        "A push that was sent after a backup is not sent again when the backup is restored",
        arguments: Backup.allCases,
        lives
    )
    func restore(_ backup: Backup, keepsRunning: Bool) async throws {
        let (sent, resent) = (try self.push(), try self.push(resendsUnknown: true))
        var later = try self.push()
        later.notBefore = later.notBefore.advanced(by: .seconds(600))
        _ = try await self.queue.enqueue([sent, resent, later], isPartial: false)
        let restore =
            switch backup {
            case .dataOnNewTimeline: try self.server.backUp(promotes: true)
            case .data: try self.server.backUp(promotes: false)
            case .dump: try self.server.dump(self.database)
            }
        let claims = try await self.queue.claim(Self.route, limit: 10, lease: .seconds(600)).map(\.claim)
        #expect(claims.count == 2)
        _ = try await self.queue.markWritten(claims, lease: .seconds(600))
        let settlements = claims.map { Settlement(claim: $0, outcome: .accepted(Receipt(apnsID: $0.id))) }
        #expect(try await self.queue.settle(settlements) == [.settled, .settled])
        let read = try await self.queue.outcomes(after: nil, apps: nil, kind: .outcomes, limit: 10)
        _ = try await self.queue.queuedRoutes()
        if !keepsRunning { await self.queue.close() }
        try restore()
        let restores = Mutex<[QueueRestore]>([])
        var queue = self.queue
        if !keepsRunning {
            var options = self.options
            options.seen = self.queue.progress
            options.whenRestored = { restore in restores.withLock { $0.append(restore) } }
            queue = try await PostgresPushQueue.open(options, logger: .quiet)
        }
        let again = try await queue.claim(Self.route, limit: 10, lease: .seconds(600))
        #expect(again.map(\.claim.id) == [resent.id])
        #expect(again.first?.mayBeProcessed == true)
        let parked = try await queue.parked(after: nil, limit: 10)
        #expect(parked.map(\.id) == [sent.id])
        #expect(parked.first?.outcome?.certainty == .unknown)
        #expect(try await queue.status(of: later.id)?.state == .queued)
        let counts = try await queue.counts()
        #expect([counts.queued, counts.claimed, counts.written, counts.parked] == [1, 1, 0, 1])
        // An outcome of the lost time still counts.
        let old = try #require(settlements.first { $0.claim.id == sent.id })
        #expect(try await queue.settle([old]) == [.settled])
        if !keepsRunning { #expect(restores.withLock { $0 } == [QueueRestore(parked: [Self.route.destination: 1])]) }
        // Positions of the lost time belong to the lost time.
        let next = try await queue.outcomes(after: read.cursor, apps: nil, kind: .outcomes, limit: 10)
        #expect(next.gap?.reason == .restored)
        #expect(next.entries.map(\.push.id) == [sent.id])
        #expect(try #require(next.entries.first).cursor.position > 1_000_000)
        await queue.close()
    }

    @Test("When the same backup is restored a second time, no position of the feed and no epoch comes back")
    func restoredTwice() async throws {
        let push = try self.push()
        _ = try await self.queue.enqueue([push], isPartial: false)
        let restore = try self.server.dump(self.database)
        var queue = self.queue
        var (cursors, epochs): ([Int64], [Int64]) = ([], [])
        for round in 0...2 {
            if round > 0 { #expect(try await queue.retryParked([push.id]) == [true]) }
            let claim = try #require(try await queue.claim(Self.route, limit: 1, lease: .seconds(600)).first).claim
            _ = try await queue.markWritten([claim], lease: .seconds(600))
            _ = try await queue.settle([Settlement(claim: claim, outcome: .accepted(Receipt(apnsID: claim.id)))])
            let page = try await queue.outcomes(after: nil, apps: nil, kind: .outcomes, limit: 10)
            cursors.append(try #require(page.entries.last).cursor.position)
            epochs.append(claim.epoch)
            // It sees the end of the feed.
            try await Patience.wait(for: "the relay has seen the outcome") {
                _ = try await queue.queuedRoutes()
                return queue.progress?.position == cursors.last
            }
            await queue.close()
            // One restore begins one history.
            let histories = try self.server.run("SELECT count(*) FROM apns.history", in: self.database)
            #expect(histories == (round == 0 ? "1" : "2"))
            try restore()
            var options = self.options
            options.seen = queue.progress
            queue = try await PostgresPushQueue.open(options, logger: .quiet)
            _ = try await queue.counts()
        }
        for numbers in [cursors, epochs] {
            #expect(numbers[0] + 1_000_000 < numbers[1])
            #expect(numbers[1] + 1_000_000 < numbers[2])
        }
        await queue.close()
    }

    @Test("After a restore, a relay that keeps running does not use the numbers of routes from before")
    func routeNumbers() async throws {
        _ = try await self.queue.counts()
        let restore = try self.server.dump(self.database)
        let claim = try await self.claim()
        _ = try await self.queue.settle([Settlement(claim: claim, outcome: .accepted(Receipt(apnsID: claim.id)))])
        _ = try await self.queue.queuedRoutes()
        let history = try #require(self.queue.progress).history
        try restore()
        // Another relay has a push of another route first.
        let other = "SELECT apns.route_id('moss', 'production', 1::smallint, 'shop')"
        #expect(try self.server.run(other, in: self.database) == "1")
        try await Patience.wait(for: "the relay notices the restore") {
            _ = try await self.queue.queuedRoutes()
            return self.queue.progress?.history != history
        }
        let push = try self.push()
        #expect(try await self.queue.enqueue([push], isPartial: false) == [.queued])
        #expect(try await self.queue.status(of: push.id)?.route == Self.route)
    }

    @Test("doctor says whether a restore was noticed, and when an operator must say it") func doctor() async throws {
        func finding(_ seen: QueueProgress?) async throws -> String? {
            let settings = self.options.connection
            return try await blocking {
                try ServerInspection(settings, seen: seen).findings.first { $0.subject == "restore" }?.message
            }
        }
        _ = try await self.claim()
        let seen = try #require(self.queue.progress)
        #expect(try await finding(nil)?.contains("run apns-relay restored") == true)
        #expect(try await finding(seen) == "the queue has come as far as this relay has seen it")
        var later = seen
        later.position += 1
        let noticed =
            "a backup was restored. A relay that runs acts on it within seconds; otherwise the next one that starts does"
        #expect(try await finding(later) == noticed)
        await self.queue.close()
        try self.server.promote()
        #expect(try await finding(seen) == "a standby was promoted or \(noticed)")
    }

    @Test("A relay that sent nothing itself notices a restore by the position of the feed") func idleRelay()
        async throws
    {
        let idle = try await PostgresPushQueue.open(self.options, logger: .quiet)
        _ = try await self.queue.enqueue([try self.push(), try self.push()], isPartial: false)
        let restore = try self.server.dump(self.database)
        let claims = try await self.queue.claim(Self.route, limit: 10, lease: .seconds(600)).map(\.claim)
        _ = try await self.queue.markWritten(claims, lease: .seconds(600))
        _ = try await self.queue.settle(
            claims.map { Settlement(claim: $0, outcome: .accepted(Receipt(apnsID: $0.id))) }
        )
        try await Patience.wait(for: "the idle relay sees the outcomes") {
            _ = try await idle.queuedRoutes()
            return idle.progress?.position == 2
        }
        await self.queue.close()
        try restore()
        try await Patience.wait(for: "the pushes are parked") {
            _ = try await idle.queuedRoutes()
            return try await idle.counts().parked == 2
        }
        #expect(try await idle.claim(Self.route, limit: 10, lease: .seconds(600)).isEmpty)
        await idle.close()
    }

    @Test("An operator can say that a backup was restored, while relays run") func declared() async throws {
        _ = try await self.queue.enqueue([try self.push()], isPartial: false)
        #expect(try await PostgresPushQueue.restored(self.options) == QueueRestore(parked: [Self.route.destination: 1]))
        #expect(try await self.queue.counts().parked == 1)
        // A second time, nothing is due.
        #expect(try await PostgresPushQueue.restored(self.options) == QueueRestore())
        let claim = try await self.claim()
        #expect(claim.epoch > 2_000_000_000)
    }
}

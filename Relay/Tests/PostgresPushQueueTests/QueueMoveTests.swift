import APNSModel
import Foundation
import PostgresPushQueue
import PostgresTestServer
import PushQueue
import PushQueueConformance
import SQLitePushQueue
import Synchronization
import Testing

/// Moves between files and databases.
@Suite("Moving a queue") struct QueueMoveTests {
    /// The places of one test, which are removed after it.
    private final class Places: Sendable {
        let clock = ManualQueueClock(QueueTime(secondsSince1970: 1_800_000_000))
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("move-\(UUID())").path
        let server: PostgresServer
        private let databases = Mutex<[String]>([])

        init() throws {
            self.server = try PostgresFixture.server.get()
            try FileManager.default.createDirectory(atPath: self.folder, withIntermediateDirectories: true)
        }

        deinit {
            try? FileManager.default.removeItem(atPath: self.folder)
            for database in self.databases.withLock({ $0 }) {
                _ = try? self.server.run("DROP DATABASE \(database) WITH (FORCE)")
            }
        }

        func file(_ name: String) async throws -> SQLitePushQueue {
            try await .open(file: "\(self.folder)/\(name).sqlite", clock: self.clock, logger: .quiet)
        }

        func newDatabase() throws -> String {
            let database = try self.server.createDatabase()
            self.databases.withLock { $0.append(database) }
            return database
        }

        func database(_ name: String) async throws -> PostgresPushQueue {
            var options = PostgresPushQueue.Options(connection: try ConnectionSettings(self.server.url(name)))
            options.clock = self.clock
            options.usesOwnLeaseClock = true
            options.connections = 2
            options.timeout = Patience.limit
            return try await .open(options, logger: .quiet)
        }
    }

    private func push(
        _ number: Int,
        _ clock: ManualQueueClock,
        due: QueueTime? = nil,
        supersedes: SupersedeKey? = nil
    ) throws -> NewPush {
        NewPush(
            id: .random(),
            route: Route(
                app: number.isMultiple(of: 5) ? "moss" : "fern",
                environment: "production",
                lane: number.isMultiple(of: 7) ? .interactive : .bulk,
                caller: number.isMultiple(of: 2) ? "shop" : "bank",
                // Not in the first round, whose outcomes are deleted.
                batch: number >= 100 && number.isMultiple(of: 9) ? Self.batch : nil
            ),
            token: try DeviceToken("abcdef0\(number % 10)"),
            push: try PreparedPush(
                topic: "com.example.fern",
                pushType: number.isMultiple(of: 3) ? .background : .alert,
                payload: Array("{\"number\":\(number)}".utf8),
                priority: number.isMultiple(of: 3) ? .conserve : nil,
                expiration: number.isMultiple(of: 4) ? .at(secondsSince1970: 1_900_000_000) : .systemDefault,
                collapseID: number.isMultiple(of: 6) ? CollapseID("c\(number)") : nil
            ),
            notBefore: due ?? clock.now,
            deadline: clock.now.advanced(by: .seconds(86_400)),
            resendsUnknown: number.isMultiple(of: 8),
            supersedes: supersedes,
            idempotency: number.isMultiple(of: 3)
                ? IdempotencyKey(key: "key\(number)", digest: [UInt8(number % 256)]) : nil,
            metadata: number.isMultiple(of: 4) ? "{\"number\": \(number)}" : nil
        )
    }

    private static let batch = APNSID.random()

    private func outcome(_ number: Int, _ id: APNSID) -> PushOutcome {
        switch number % 4 {
        case 0: return .accepted(Receipt(apnsID: id, apnsUniqueID: nil, attempts: 1))
        case 1:
            var rejection = Rejection(status: 410, reason: .unregistered, timestamp: 1_700_000_000_000, apnsID: id)
            rejection.rawBody = Array("{\"reason\":\"Unregistered\"}".utf8)
            let code = PushError.Code.rejected
            return .failed(
                PushError(
                    code: code,
                    certainty: .rejected,
                    apnsID: id,
                    attempts: 2,
                    message: "no",
                    rejection: rejection
                )
            )
        case 2: return .accepted(Receipt(apnsID: id, apnsUniqueID: "unique", attempts: 3))
        default:
            return .failed(
                PushError(code: .connectionLost, certainty: .unknown, apnsID: id, attempts: 1, message: "lost \u{e9}")
            )
        }
    }

    /// Fills a queue with pushes in all states that a queue can have when nothing is in flight.
    private func fill(_ queue: any PushQueue, _ clock: ManualQueueClock) async throws {
        // Outcomes, of which the oldest are deleted.
        for round in 0..<2 {
            let pushes = try (0..<30).map { try self.push(round * 100 + $0, clock) }
            #expect(try await queue.enqueue(pushes, isPartial: false).allSatisfy { $0 == .queued })
            for route in Set(pushes.map(\.route)) {
                let claims = try await queue.claim(route, limit: 100, lease: .seconds(60)).map(\.claim)
                #expect(try await queue.markWritten(claims, lease: .seconds(60)).allSatisfy { $0 })
                let settlements = claims.enumerated().map { Settlement(claim: $1, outcome: self.outcome($0, $1.id)) }
                _ = try await queue.settle(settlements)
            }
            clock.advance(by: .seconds(3_600))
            if round == 0 {
                _ = try await queue.prune(
                    Retention(outcomes: .seconds(1_800), idempotencyKeys: .seconds(86_400)),
                    limit: 20
                )
            }
        }
        // Parked pushes, and queued ones with an earlier attempt.
        let tried = try (200..<220).map { try self.push($0, clock) }
        _ = try await queue.enqueue(tried, isPartial: false)
        for route in Set(tried.map(\.route)) {
            let claims = try await queue.claim(route, limit: 100, lease: .seconds(60)).map(\.claim)
            _ = try await queue.markWritten(claims, lease: .seconds(60))
            for (index, claim) in claims.enumerated() {
                if index.isMultiple(of: 2) {
                    try await queue.park([Settlement(claim: claim, outcome: self.outcome(index + 1, claim.id))])
                } else {
                    let notBefore = clock.now.advanced(by: .seconds(30))
                    try await queue.release([
                        Release(
                            claim: claim,
                            notBefore: notBefore,
                            outcome: .failed(
                                PushError(code: .rejected, certainty: .notProcessed, apnsID: claim.id, message: "busy")
                            )
                        )
                    ])
                }
            }
        }
        // New pushes, some of them for later, one cancelled, and one that another one has replaced.
        let new = try (300..<340).map { number in
            try self.push(
                number,
                clock,
                due: number.isMultiple(of: 9) ? clock.now.advanced(by: .seconds(600)) : nil,
                supersedes: number >= 330 ? SupersedeKey("score\(number % 3)") : nil
            )
        }
        _ = try await queue.enqueue(new, isPartial: false)
        _ = try await queue.cancel(new[0].id)
        try await queue.setValue([1, 2, 3], forKey: "webhook/crm")
        try await queue.setValue([4], forKey: "fleet/member/one")
    }

    /// Everything that a move keeps. Positions in the order of storing may differ.
    private func snapshot(_ queue: any MovablePushQueue) async throws -> [String] {
        var lines: [String] = []
        var cursor: FeedCursor?
        while true {
            let page = try await queue.outcomes(after: cursor, apps: nil, kind: .outcomes, limit: 7)
            lines += page.entries.map { "\($0)" }
            if page.cursor == cursor { break }
            cursor = page.cursor
        }
        lines.append("end \(cursor?.position ?? 0)")
        let invalid = try await queue.outcomes(after: nil, apps: nil, kind: .invalidTokens, limit: 1_000)
        lines += invalid.entries.map { "invalid \($0.cursor)" }
        for var push in try await queue.unsettledPushes(after: 0, limit: 1_000) {
            push.position = 0
            lines.append("\(push)")
        }
        let keys = try await queue.settledKeys(after: 0, limit: 1_000)
        lines += keys.map { "\($0.caller) \($0.key) \($0.id) \($0.settledAt)" }.sorted()
        lines += try await queue.counts().routes.filter { $0 != QueueCounts.OfRoute(route: $0.route) }.map { "\($0)" }
        lines += try await queue.values(withPrefix: "webhook").map { "\($0)" }
        for (app, caller) in [("fern", "shop"), ("fern", "bank"), ("moss", "shop"), ("moss", "bank")] {
            let route = Route(app: app, environment: "production", lane: .bulk, caller: caller, batch: Self.batch)
            let counts = try await queue.outcomeCounts(of: route)
            lines.append("batch \(counts.sorted { $0.key < $1.key }.map { "\($0)" })")
        }
        return lines
    }

    private func move(
        _ source: any MovablePushQueue,
        _ target: any MovablePushQueue,
        report: @escaping @Sendable (QueueMove.Progress) async throws -> Void = { _ in }
    ) async throws -> QueueMove.Progress {
        try await QueueMove(
            from: source,
            to: target,
            places: ("one", "two"),
            valuesWithPrefixes: ["webhook"],
            batch: 7,
            report: report
        ).run()
    }

    @Test("From a file to a database and back, everything is kept, cursors too") func thereAndBack() async throws {
        let places = try Places()
        let file = try await places.file("first")
        try await self.fill(file, places.clock)
        let before = try await self.snapshot(file)
        #expect(before.count > 100)
        let end = try await file.outcomes(after: nil, apps: nil, kind: .outcomes, limit: 1_000).cursor

        let name = try places.newDatabase()
        let database = try await places.database(name)
        let moved = try await self.move(file, database)
        #expect(moved.outcomes == before.count { $0.hasPrefix("FeedEntry") })
        #expect(moved.pushes == before.count { $0.hasPrefix("UnsettledPush") })
        #expect(moved.outcomes > 20 && moved.pushes > 50 && moved.keys > 10)
        #expect(try await self.snapshot(database).difference(from: before).isEmpty)
        #expect(try await database.value(forKey: "fleet/member/one") == nil)
        #expect(try await database.outcomes(after: end, apps: nil, kind: .outcomes, limit: 10).gap == nil)
        await #expect(throws: QueueError.self) { try await QueueMove.requireNone(of: file) }
        try await QueueMove.requireNone(of: database)
        // Once more is harmless.
        #expect(try await self.move(file, database) == QueueMove.Progress())
        await file.close()

        let second = try await places.file("second")
        _ = try await self.move(database, second)
        await second.close()
        let reopened = try await places.file("second")
        #expect(try await self.snapshot(reopened).difference(from: before).isEmpty)
        #expect(try await reopened.outcomes(after: end, apps: nil, kind: .outcomes, limit: 10).gap == nil)
        await #expect(throws: QueueError.self) { try await QueueMove.requireNone(of: database) }

        // The queue goes on: known pushes are duplicates, and each queued push is sent once.
        let known = try await reopened.unsettledPushes(after: 0, limit: 1_000).map(\.push)
        for push in known where push.idempotency != nil {
            #expect(try await reopened.enqueue([push], isPartial: true) == [.duplicate(of: push.id)])
        }
        places.clock.advance(by: .seconds(700))
        var claims: [Claim] = []
        for route in Set(known.map(\.route)) {
            claims += try await reopened.claim(route, limit: 1_000, lease: .seconds(60)).map(\.claim)
        }
        let counts = try await reopened.counts()
        #expect(counts.queued == 0 && counts.claimed == claims.count && claims.count + counts.parked == known.count)
        #expect(try await reopened.markWritten(claims, lease: .seconds(60)).allSatisfy { $0 })
        let results = try await reopened.settle(
            claims.map { Settlement(claim: $0, outcome: .accepted(Receipt(apnsID: $0.id, attempts: 1))) }
        )
        #expect(results.allSatisfy { $0 == .settled })
        let page = try await reopened.outcomes(after: end, apps: nil, kind: .outcomes, limit: 1_000)
        #expect(page.gap == nil && page.entries.count == claims.count)
        await reopened.close()
        await database.close()
    }

    private struct Interruption: Error {}

    @Test("An interrupted move continues, and meanwhile neither queue can be used", arguments: [true, false])
    func interruptions(startsWithFile: Bool) async throws {
        let places = try Places()
        let name = try places.newDatabase()
        var source: any MovablePushQueue = startsWithFile ? try await places.file("f") : try await places.database(name)
        var target: any MovablePushQueue = startsWithFile ? try await places.database(name) : try await places.file("f")
        try await self.fill(source, places.clock)
        let before = try await self.snapshot(source)
        var steps = 0
        while true {
            let calls = Atomic(0)
            do {
                _ = try await self.move(source, target) { _ in
                    if calls.add(1, ordering: .relaxed).newValue == 2 { throw Interruption() }
                }
                break
            } catch is Interruption {
                steps += 1
            }
            let (one, two) = (source, target)
            await #expect(throws: QueueError.self) { try await QueueMove.requireNone(of: one) }
            await #expect(throws: QueueError.self) { try await QueueMove.requireNone(of: two) }
            // The next process.
            await source.close()
            await target.close()
            source = startsWithFile ? try await places.file("f") : try await places.database(name)
            target = startsWithFile ? try await places.database(name) : try await places.file("f")
        }
        #expect(steps > 10)
        await target.close()
        target = startsWithFile ? try await places.database(name) : try await places.file("f")
        let after = try await self.snapshot(target)
        let differences = after.map(Self.withoutGeneration).difference(from: before.map(Self.withoutGeneration))
        #expect(differences.isEmpty, "\(differences)")
        await source.close()
        await target.close()
    }

    /// The openings of the file between the two snapshots have begun generations.
    private static func withoutGeneration(_ line: String) -> String {
        line.replacing(/generation: \d+/, with: "")
    }

    @Test("A database that is being moved refuses new work of all processes, and pushes in flight end first")
    func sealed() async throws {
        let places = try Places()
        let name = try places.newDatabase()
        let source = try await places.database(name)
        let relay = try await places.database(name)
        let pushes = try (0..<4).map { _ in try self.push(1, places.clock) }
        _ = try await relay.enqueue(pushes, isPartial: false)
        let claims = try await relay.claim(pushes[0].route, limit: 2, lease: .seconds(60)).map(\.claim)
        #expect(try await relay.markWritten([claims[0]], lease: .seconds(60)) == [true])
        let target = try await places.file("target")
        let clock = places.clock
        let news = try self.push(2, clock)
        let progress = Mutex<[Int]>([])
        _ = try await self.move(source, target) { now in
            let isFirst = progress.withLock { progress in
                progress.append(now.inFlight)
                return progress.count == 1
            }
            guard isFirst else { return }
            // The relay that was not stopped.
            await #expect(throws: QueueError.self) { try await relay.enqueue([news], isPartial: false) }
            await #expect(throws: QueueError.self) {
                try await relay.claim(pushes[0].route, limit: 2, lease: .seconds(60))
            }
            let settlement = Settlement(
                claim: claims[0],
                outcome: .accepted(Receipt(apnsID: claims[0].id, attempts: 1))
            )
            let results = try await relay.settle([settlement])
            #expect(results == [.settled])
            // The other claim ends with its lease.
            clock.advance(by: .seconds(61))
        }
        #expect(progress.withLock { $0 }.first == 2)
        #expect(try await target.counts().queued == 3)
        #expect(try await target.status(of: claims[0].id)?.outcome?.certainty == .accepted)
        await #expect(throws: QueueError.self) { try await relay.cancel(pushes[3].id) }
        for queue in [source, relay] { await queue.close() }
        await target.close()
    }

    @Test("A move that is given up leaves the source as it was") func cancelled() async throws {
        let places = try Places()
        let name = try places.newDatabase()
        let source = try await places.database(name)
        try await self.fill(source, places.clock)
        let before = try await self.snapshot(source)
        let target = try await places.file("target")
        await #expect(throws: Interruption.self) {
            try await self.move(source, target) { if $0.pushes > 10 { throw Interruption() } }
        }
        try await QueueMove.cancel(source)
        try await QueueMove.requireNone(of: source)
        #expect(try await self.snapshot(source) == before)
        #expect(try await source.enqueue([try self.push(1_001, places.clock)], isPartial: false) == [.queued])
        await #expect(throws: QueueError.self) { try await QueueMove.requireNone(of: target) }
        // Another target works; the old one does not.
        await #expect(throws: QueueError.self) { try await self.move(source, target) }
        let other = try await places.file("other")
        _ = try await self.move(source, other)
        await #expect(throws: QueueError.self) { try await QueueMove.cancel(source) }
        await source.close()
        await target.close()
        await other.close()
    }

    @Test("Of two moves from one database at the same time, one ends") func twice() async throws {
        let places = try Places()
        let source = try await places.database(try places.newDatabase())
        try await self.fill(source, places.clock)
        let before = try await self.snapshot(source)
        let (first, second) = (try await places.file("first"), try await places.file("second"))
        let isFirst = Atomic(true)
        await #expect(throws: QueueError.self) {
            try await self.move(source, first) { progress in
                guard progress.pushes > 10, isFirst.exchange(false, ordering: .relaxed) else { return }
                _ = try await self.move(source, second)
            }
        }
        try await QueueMove.requireNone(of: second)
        #expect(try await self.snapshot(second).map(Self.withoutGeneration) == before.map(Self.withoutGeneration))
        for queue in [source as any PushQueue, first] {
            await #expect(throws: QueueError.self) { try await QueueMove.requireNone(of: queue) }
        }
        await source.close()
        await first.close()
        await second.close()
    }

    @Test("A move that is cancelled while it runs ends without having moved anything") func cancelledWhileItRuns()
        async throws
    {
        let places = try Places()
        let source = try await places.database(try places.newDatabase())
        try await self.fill(source, places.clock)
        let target = try await places.file("target")
        let isFirst = Atomic(true)
        await #expect(throws: QueueError.self) {
            try await self.move(source, target) { progress in
                guard progress.pushes > 10, isFirst.exchange(false, ordering: .relaxed) else { return }
                try await QueueMove.cancel(source)
            }
        }
        try await QueueMove.requireNone(of: source)
        #expect(try await source.enqueue([try self.push(1_001, places.clock)], isPartial: false) == [.queued])
        await #expect(throws: QueueError.self) { try await QueueMove.requireNone(of: target) }
        await source.close()
        await target.close()
    }

    @Test("A role that does not own the schema is refused before anything has changed") func notOwner() async throws {
        let places = try Places()
        let name = try places.newDatabase()
        let owner = try await places.database(name)
        let role = "mover_\(UUID().uuidString.prefix(8).lowercased())"
        for sql in [
            "CREATE ROLE \(role) LOGIN", "GRANT USAGE ON SCHEMA apns TO \(role)",
            "GRANT ALL ON ALL TABLES IN SCHEMA apns TO \(role)", "GRANT ALL ON ALL SEQUENCES IN SCHEMA apns TO \(role)",
            "GRANT ALL ON ALL FUNCTIONS IN SCHEMA apns TO \(role)",
        ] {
            try places.server.run(sql, in: name)
        }
        let url = places.server.url(name, user: role)
        var options = PostgresPushQueue.Options(connection: try ConnectionSettings(url))
        options.migrates = false
        options.connections = 2
        options.timeout = Patience.limit
        let source = try await PostgresPushQueue.open(options, logger: .quiet)
        let target = try await places.file("target")
        let error = await #expect(throws: QueueError.self) { try await self.move(source, target) }
        #expect(error?.message.contains("own the schema") == true)
        try await QueueMove.requireNone(of: owner)
        try await QueueMove.requireNone(of: target)
        #expect(try await owner.enqueue([try self.push(1, places.clock)], isPartial: false) == [.queued])
        for queue in [owner, source] { await queue.close() }
        await target.close()
        try places.server.run("DROP OWNED BY \(role)", in: name)
        try places.server.run("DROP ROLE \(role)")
    }

    @Test("A key that outlives its outcome stays apart from a newer push with the same id", arguments: [true, false])
    func reusedID(startsWithFile: Bool) async throws {
        let places = try Places()
        let name = try places.newDatabase()
        let source: any MovablePushQueue = startsWithFile ? try await places.file("f") : try await places.database(name)
        let target: any MovablePushQueue = startsWithFile ? try await places.database(name) : try await places.file("f")
        var push = try self.push(1, places.clock)
        for key in ["first", "second", "third"] {
            push.idempotency = IdempotencyKey(key: key, digest: [1])
            #expect(try await source.enqueue([push], isPartial: false) == [.queued])
            guard key != "third" else { break }
            #expect(try await source.cancel(push.id) == .cancelled)
            places.clock.advance(by: .seconds(10))
            _ = try await source.prune(Retention(outcomes: .seconds(1), idempotencyKeys: .seconds(3_600)), limit: 100)
        }
        _ = try await self.move(source, target)
        for key in ["first", "second", "third"] {
            push.idempotency = IdempotencyKey(key: key, digest: [1])
            #expect(try await target.enqueue([push], isPartial: true) == [.duplicate(of: push.id)])
        }
        #expect(try await target.settledKeys(after: 0, limit: 10).map(\.key.key) == ["first", "second"])
        #expect(try await target.unsettledPushes(after: 0, limit: 10).first?.push.idempotency?.key == "third")
        await source.close()
        await target.close()
    }

    @Test("After the promotion of a standby during a move, the move can be cancelled, and nothing is sent in silence")
    func promoted() async throws {
        let places = try Places()
        let server = try PostgresServer()
        let name = try server.createDatabase()
        let clock = places.clock
        let open = { @Sendable () async throws -> PostgresPushQueue in
            var options = PostgresPushQueue.Options(connection: try ConnectionSettings(server.url(name)))
            options.clock = clock
            options.usesOwnLeaseClock = true
            options.connections = 2
            options.timeout = Patience.limit
            return try await .open(options, logger: .quiet)
        }
        let source = try await open()
        try await self.fill(source, clock)
        let target = try await places.file("target")
        await #expect(throws: Interruption.self) {
            try await self.move(source, target) { if $0.pushes > 40 { throw Interruption() } }
        }
        await source.close()
        try server.promote()
        let promoted = try await open()
        await #expect(throws: QueueError.self) { try await self.move(promoted, target) }
        try await QueueMove.cancel(promoted)
        try await QueueMove.requireNone(of: promoted)
        // What may have been sent waits for an operator.
        #expect(try await promoted.counts().parked > 20)
        #expect(try await promoted.enqueue([try self.push(1_001, clock)], isPartial: false) == [.queued])
        await promoted.close()
        await target.close()
        server.end()
    }

    @Test("A part whose answer was lost is stored once; a used target is refused") func refused() async throws {
        let places = try Places()
        let file = try await places.file("file")
        try await self.fill(file, places.clock)
        let database = try await places.database(try places.newDatabase())
        let pushes = try await file.unsettledPushes(after: 0, limit: 10)
        for _ in 0..<2 { try await database.store(QueuePart(pushes: pushes), value: [1], forKey: "part") }
        #expect(try await database.counts().unsettled == 10)
        await #expect(throws: QueueError.self) { try await self.move(file, database) }
        try await QueueMove.requireNone(of: file)
        await file.close()
        await database.close()
    }
}

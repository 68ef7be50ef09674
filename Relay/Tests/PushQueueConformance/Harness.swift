import APNSModel
import PushQueue
import Synchronization

/// A queue, and helpers that cases need to use it. Each case has its own harness, which its tasks may share.
final class Harness: Sendable {
    let fixture: any QueueFixture
    private let current: Mutex<any PushQueue>
    private let numbers = Atomic<Int>(0)

    init(_ fixture: any QueueFixture, capacity: Int? = nil) async throws {
        self.fixture = fixture
        self.current = Mutex(try await fixture.open(capacity: capacity))
    }

    var queue: any PushQueue { self.current.withLock { $0 } }
    var now: QueueTime { self.fixture.now }

    /// The lease in cases that do not let it expire, in ticks.
    static let longLease = 60
    var lease: Duration { self.fixture.tick * Self.longLease }

    static let route = Route(app: "fern", environment: "production", lane: .interactive, caller: "shop")

    // MARK: Surroundings

    func crash() async throws {
        let queue = try await self.fixture.crash(self.queue)
        self.current.withLock { $0 = queue }
    }

    /// Opens the queue as after a restore from a backup of this moment.
    func restore(_ afterFailover: AfterFailover) async throws -> QueueRestore? {
        let (queue, restore) = try await self.fixture.restore(self.queue, afterFailover)
        self.current.withLock { $0 = queue }
        return restore
    }

    /// Crashes the process, and lets its claims end.
    func crashAndExpire() async throws {
        try await self.crash()
        await self.advance(Self.longLease + 1)
        _ = try await self.queue.expireLeases()
    }

    func reopen(capacity: Int? = nil) async throws {
        await self.queue.close()
        let queue = try await self.fixture.open(capacity: capacity)
        self.current.withLock { $0 = queue }
    }

    func advance(_ ticks: Int) async { await self.fixture.advance(by: self.fixture.tick * ticks) }

    func inTicks(_ ticks: Int) -> QueueTime { self.now.advanced(by: self.fixture.tick * ticks) }

    // MARK: Pushes

    /// A push that is due and has a distant deadline.
    func push(
        _ route: Route = Harness.route,
        token: String = "0123456789abcdef",
        due: QueueTime? = nil,
        deadline: QueueTime? = nil,
        expiration: Expiration = .systemDefault,
        resendsUnknown: Bool = false,
        supersedes: SupersedeKey? = nil,
        key: String? = nil,
        digest: [UInt8] = [1],
        metadata: String? = nil,
        caller: String? = nil
    ) throws -> NewPush {
        let number = self.numbers.add(1, ordering: .relaxed).newValue
        var route = route
        if let caller { route.caller = caller }
        return NewPush(
            id: .random(),
            route: route,
            token: try DeviceToken(token),
            push: try PreparedPush(
                topic: "com.example.\(route.app)",
                pushType: .alert,
                payload: Array("{\"aps\":{\"alert\":\"\(number)\"}}".utf8),
                priority: number.isMultiple(of: 2) ? .immediate : nil,
                expiration: expiration,
                collapseID: number.isMultiple(of: 3) ? CollapseID("c\(number)") : nil
            ),
            notBefore: due ?? self.now,
            deadline: deadline ?? self.now.advanced(by: .seconds(30 * 86_400)),
            resendsUnknown: resendsUnknown,
            supersedes: supersedes,
            idempotency: key.map { IdempotencyKey(key: $0, digest: digest) },
            metadata: metadata
        )
    }

    // MARK: Calls with an expected result

    /// Stores pushes and expects that they are stored.
    func store(_ pushes: NewPush..., file: String = #fileID, line: Int = #line) async throws {
        try await self.store(pushes, file: file, line: line)
    }

    func store(_ pushes: [NewPush], file: String = #fileID, line: Int = #line) async throws {
        let results = try await self.queue.enqueue(pushes, isPartial: false)
        try expectEqual(results, pushes.map { _ in .queued }, "results of enqueue", file: file, line: line)
    }

    /// Stores each push with a call of its own, all at the same time.
    ///
    /// - Returns: the result of each call; nil if the queue was full.
    func storeAtOnce(_ pushes: [NewPush]) async throws -> [EnqueueResult?] {
        let queue = self.queue
        let calls = pushes.map { push in
            Task { () throws(QueueError) -> EnqueueResult? in
                do throws(QueueError) {
                    return try await queue.enqueue([push], isPartial: false).first
                } catch {
                    guard error.code == .full else { throw error }
                    return nil
                }
            }
        }
        var results: [EnqueueResult?] = []
        for call in calls { results.append(try await call.value) }
        return results
    }

    /// Claims until the limit is reached or no more pushes are due. One call may return fewer pushes.
    func claim(
        _ limit: Int = 100,
        route: Route = Harness.route,
        ticks: Int = Harness.longLease
    ) async throws -> [ClaimedPush] {
        var claimed: [ClaimedPush] = []
        repeat {
            let more = try await self.queue.claim(
                route,
                limit: limit - claimed.count,
                lease: self.fixture.tick * ticks
            )
            guard !more.isEmpty else { break }
            claimed += more
        } while claimed.count < limit
        return claimed
    }

    /// Claims one push and expects that it is this one.
    func claim(_ push: NewPush, ticks: Int = Harness.longLease, file: String = #fileID, line: Int = #line) async throws
        -> Claim
    {
        let claimed = try await self.claim(1, route: push.route, ticks: ticks)
        try expectEqual(claimed.map(\.claim.id), [push.id], "claimed pushes", file: file, line: line)
        return try unwrap(claimed.first, "claim", file: file, line: line).claim
    }

    func mark(_ claim: Claim, ticks: Int = Harness.longLease, file: String = #fileID, line: Int = #line) async throws {
        let marks = try await self.queue.markWritten([claim], lease: self.fixture.tick * ticks)
        try expectEqual(marks, [true], "marks", file: file, line: line)
    }

    /// Whether the claim could be marked.
    func canMark(_ claim: Claim) async throws -> Bool {
        try await self.queue.markWritten([claim], lease: self.lease) == [true]
    }

    /// Claims and marks one push.
    func write(_ push: NewPush, ticks: Int = Harness.longLease, file: String = #fileID, line: Int = #line) async throws
        -> Claim
    {
        let claim = try await self.claim(push, file: file, line: line)
        try await self.mark(claim, ticks: ticks, file: file, line: line)
        return claim
    }

    /// Stores an outcome and returns whether it was stored.
    func settle(_ claim: Claim, _ outcome: PushOutcome) async throws -> SettleResult {
        try unwrap(
            try await self.queue.settle([Settlement(claim: claim, outcome: outcome)]).first,
            "result of settle"
        )
    }

    /// Stores a push, claims, marks and settles it.
    @discardableResult
    func complete(_ push: NewPush, _ outcome: PushOutcome? = nil) async throws -> Claim {
        try await self.store(push)
        let claim = try await self.write(push)
        let result = try await self.settle(claim, outcome ?? .ok(push.id))
        try expectEqual(result, .settled, "result of settle")
        return claim
    }

    func status(_ push: NewPush, file: String = #fileID, line: Int = #line) async throws -> PushStatus {
        try unwrap(try await self.queue.status(of: push.id), "status of a known push", file: file, line: line)
    }

    func expectState(
        _ push: NewPush,
        _ state: PushStatus.State,
        _ outcome: PushOutcome? = nil,
        file: String = #fileID,
        line: Int = #line
    ) async throws {
        let status = try await self.status(push, file: file, line: line)
        try expectEqual(status.state, state, "state", file: file, line: line)
        if let outcome { try expectEqual(status.outcome, outcome, "outcome", file: file, line: line) }
    }

    /// Reads a feed to its end, in pages.
    func feed(
        _ kind: FeedKind = .outcomes,
        apps: Set<String>? = nil,
        after: FeedCursor? = nil,
        limit: Int = 3
    ) async throws -> [FeedEntry] {
        var entries: [FeedEntry] = []
        var cursor = after
        while true {
            let page = try await self.queue.outcomes(after: cursor, apps: apps, kind: kind, limit: limit)
            try expect(page.entries.count <= limit, "a page has \(page.entries.count) entries, more than \(limit)")
            entries += page.entries
            if page.cursor == cursor {
                try expect(page.isEnd, "the feed has no next page, but does not end")
                return entries
            }
            try expect(page.isEnd || !page.entries.isEmpty, "an empty page of a short feed is not its end")
            if let last = page.entries.last?.cursor, let end = page.cursor {
                try expect(last <= end, "the cursor of a page lies before its last entry")
            }
            cursor = page.cursor
        }
    }
}

// MARK: Outcomes

extension PushOutcome {
    static func ok(_ id: APNSID) -> PushOutcome { .accepted(Receipt(apnsID: id)) }

    static func rejected(_ id: APNSID, status: Int = 400, reason: RejectionReason? = .badTopic) -> PushOutcome {
        .failed(.rejected(Rejection(status: status, reason: reason, apnsID: id), attempts: 1))
    }

    static func notProcessed(_ id: APNSID) -> PushOutcome {
        .failed(PushError(code: .goAway, certainty: .notProcessed, apnsID: id, attempts: 1, message: "went away"))
    }

    static func lostConnection(_ id: APNSID) -> PushOutcome {
        .failed(PushError(code: .connectionLost, certainty: .unknown, apnsID: id, attempts: 1, message: "cut off"))
    }
}

// MARK: Expectations

func expect(_ condition: Bool, _ text: @autoclosure () -> String, file: String = #fileID, line: Int = #line) throws {
    guard condition else { throw ConformanceFailure(text: text(), file: file, line: line) }
}

func expectEqual<Value: Equatable>(
    _ value: Value,
    _ expected: Value,
    _ what: @autoclosure () -> String,
    file: String = #fileID,
    line: Int = #line
) throws {
    guard value != expected else { return }
    let text = "\(what()): \(String(describing: value)), expected \(String(describing: expected))"
    throw ConformanceFailure(text: text, file: file, line: line)
}

func unwrap<Value>(_ value: Value?, _ what: String, file: String = #fileID, line: Int = #line) throws -> Value {
    guard let value else { throw ConformanceFailure(text: "\(what) is missing", file: file, line: line) }
    return value
}

/// Expects the call to throw an error with the code.
func expectError<Value>(
    _ code: QueueError.Code,
    file: String = #fileID,
    line: Int = #line,
    _ body: () async throws -> Value
) async throws {
    do {
        _ = try await body()
    } catch let error as QueueError {
        try expectEqual(error.code, code, "error", file: file, line: line)
        try expect(!error.message.isEmpty, "the error has no message", file: file, line: line)
        return
    }
    throw ConformanceFailure(text: "the call did not throw \(code.rawValue)", file: file, line: line)
}

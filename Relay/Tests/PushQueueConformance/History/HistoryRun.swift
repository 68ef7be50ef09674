import APNSModel
import PushQueue

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// One random history on the queue and on the model.
///
/// `TEST_SCALE=n` makes the histories of a case n times as long. `SEED=n` repeats one history.
struct HistoryRun {
    private static let commands = 600
    private static let longestLease = 15

    let test: Harness
    var model: QueueModel
    var random: SeededRandom
    let seed: UInt64
    let withTime: Bool
    /// The time for leases. It does not jump.
    var leaseNow = QueueTime(millisecondsSince1970: 0)
    /// All claims that the queue has returned, including those that have ended.
    var claims: [Claim] = []
    /// All pushes that were passed to `enqueue`, including duplicates.
    var handedIn: [NewPush] = []
    private var log: [String] = []

    static func runAll(_ test: Harness, withTime: Bool) async throws {
        let scale = max(1, Self.environment("TEST_SCALE").map { Int(clamping: $0) } ?? 1)
        var seeds: [UInt64] = [1]
        for _ in 0..<scale { seeds.append(UInt64.random(in: .min ... .max)) }
        if let seed = Self.environment("SEED") { seeds = [seed] }
        for seed in seeds {
            var run = HistoryRun(test, seed: seed, withTime: withTime)
            do {
                try await run.run()
            } catch {
                let log = run.log.suffix(20).joined(separator: "\n")
                let text = "SEED=\(seed) replays this: \(error)\nThe last commands were:\n\(log)"
                let failure = error as? ConformanceFailure
                throw ConformanceFailure(text: text, file: failure?.file ?? #fileID, line: failure?.line ?? #line)
            }
        }
    }

    private static func environment(_ name: String) -> UInt64? {
        getenv(name).flatMap { UInt64(String(cString: $0)) }
    }

    private init(_ test: Harness, seed: UInt64, withTime: Bool) {
        self.test = test
        self.model = QueueModel(capacity: 40)
        self.seed = seed
        self.random = SeededRandom(seed: seed)
        self.withTime = withTime
    }

    private mutating func run() async throws {
        try await self.test.reopen(capacity: self.model.capacity)
        let first = try await self.test.feed(limit: 100).last?.cursor
        for number in 0..<Self.commands {
            self.model.beginStep()
            try await self.command()
            if number.isMultiple(of: 20) { try await self.checkAll(after: first) }
        }
        try await self.checkAll(after: first)
        // The next history begins with an empty queue.
        for id in self.model.pushes.keys { _ = try await self.test.queue.cancel(id) }
        for claim in self.claims { _ = try await self.test.settle(claim, .ok(claim.id)) }
    }

    mutating func record(_ text: String) { self.log.append(text) }

    // MARK: Commands

    private mutating func command() async throws {
        switch Int.random(in: 0..<100, using: &self.random) {
        case 0..<25: try await self.enqueue()
        case 25..<42: try await self.claim()
        case 42..<57: try await self.mark()
        case 57..<70: try await self.settle()
        case 70..<76: try await self.release()
        case 76..<80: try await self.park()
        case 80..<84: try await self.cancel()
        case 84..<88: try await self.decideParked()
        case 88..<98: if self.withTime { try await self.passTime() }
        default: if self.withTime { try await self.crash() }
        }
    }

    private mutating func enqueue() async throws {
        let (pushes, isPartial) = try self.newPushes()
        self.record("enqueue \(pushes.map(\.id)) partial: \(isPartial)")
        let expected = self.model.enqueue(pushes, isPartial: isPartial)
        let found: QueueModel.EnqueueOutcome
        do {
            found = .results(try await self.test.queue.enqueue(pushes, isPartial: isPartial))
        } catch {
            guard error.code == .full else { throw error }
            found = .full
        }
        // A call that is refused anyway may be refused for a conflict, too.
        if expected == .full, !isPartial, found.hasConflict { return }
        try expectEqual(found, expected, "results of enqueue")
        try await self.check(pushes.map(\.id))
    }

    private mutating func claim() async throws {
        let route = try unwrap(Self.routes.randomElement(using: &self.random), "route")
        let limit = Int.random(in: 1...6, using: &self.random)
        let ticks = self.withTime ? Int.random(in: 3...Self.longestLease, using: &self.random) : Harness.longLease
        self.record("claim \(route) limit \(limit) for \(ticks) ticks")
        if self.model.hasOverdueRival(now: self.test.now) { try await self.settleOverdue() }
        let claimable = self.model.claimable(route, now: self.test.now)
        let claimed = try await self.test.claim(limit, route: route, ticks: ticks)
        try expect(claimed.count <= limit, "more claims than the limit")
        try expect(claimable.isEmpty || !claimed.isEmpty, "nothing was claimed, expected \(claimable)")
        try expect(Set(claimed.map(\.claim.id)).isSubset(of: claimable), "\(claimed.map(\.claim)) of \(claimable)")
        // Pushes that are due at the same time may come in any order.
        try expectEqual(
            claimed.map { self.model.pushes[$0.claim.id]?.due },
            claimable.prefix(claimed.count).map { self.model.pushes[$0]?.due },
            "due times of claimed pushes"
        )
        for push in claimed { try self.check(push) }
        let claims = claimed.map(\.claim)
        // How many of them the queue has looked at is its choice.
        let superseded = self.model.superseded
        for id in superseded where try await self.test.queue.status(of: id)?.state == .settled {
            self.model.supersede(id)
        }
        self.model.claim(claims, until: self.leaseNow.advanced(by: self.test.fixture.tick * ticks))
        self.claims += claims
        // The queue may have settled overdue pushes.
        try await self.settleOverdue()
        try await self.check(claims.map(\.id) + superseded)
    }

    private func check(_ claimed: ClaimedPush) throws {
        let push = try unwrap(self.model.pushes[claimed.claim.id], "push of a claim")
        try expectEqual(claimed.push, push.new.push, "headers and payload")
        try expectEqual(claimed.token, push.new.token, "token")
        try expectEqual(claimed.deadline, push.new.deadline, "deadline")
        try expectEqual(claimed.attempts, push.attempts, "attempts")
        try expectEqual(claimed.resendsUnknown, push.new.resendsUnknown, "resendsUnknown")
        try expectEqual(claimed.mayBeProcessed, push.outcome?.certainty == .unknown, "mayBeProcessed")
        try expect(claimed.claim.epoch > push.lastEpoch, "the epoch did not increase")
    }

    private mutating func mark() async throws {
        let claims = self.someClaims()
        let ticks = self.withTime ? Int.random(in: 3...Self.longestLease, using: &self.random) : Harness.longLease
        let lease = self.test.fixture.tick * ticks
        self.record("mark \(claims.map(\.id)) for \(ticks) ticks")
        let expected = self.model.markWritten(claims, now: self.leaseNow, until: self.leaseNow.advanced(by: lease))
        try expectEqual(try await self.test.queue.markWritten(claims, lease: lease), expected, "marks")
        try await self.check(claims.map(\.id))
    }

    private mutating func settle() async throws {
        let settlements = self.settlements()
        self.record("settle \(settlements.map { ($0.claim.id, $0.outcome.certainty) })")
        let expected = self.model.settle(settlements)
        try expectEqual(try await self.test.queue.settle(settlements), expected, "results of settle")
        try await self.check(settlements.map(\.claim.id))
    }

    private mutating func release() async throws {
        let releases = self.releases()
        self.record("release \(releases.map { ($0.claim.id, $0.outcome?.certainty) })")
        self.model.release(releases)
        try await self.test.queue.release(releases)
        try await self.check(releases.map(\.claim.id))
    }

    private mutating func park() async throws {
        let settlements = self.settlements(canBeAccepted: false)
        self.record("park \(settlements.map(\.claim.id))")
        self.model.park(settlements)
        try await self.test.queue.park(settlements)
        try await self.check(settlements.map(\.claim.id))
    }

    private mutating func cancel() async throws {
        let id = self.someID()
        self.record("cancel \(id)")
        let expected = self.model.cancel(id)
        try expectEqual(try await self.test.queue.cancel(id), expected, "result of cancel")
        try await self.check([id])
    }

    private mutating func decideParked() async throws {
        let parked = self.model.pushes.values.filter { $0.state == .parked }.sorted { $0.order < $1.order }
        let listed = try await self.test.queue.parked(after: nil, limit: 1_000)
        try expectEqual(listed.map(\.id), parked.map(\.new.id), "parked pushes")
        let id = self.random.oneIn(5) ? self.someID() : parked.randomElement(using: &self.random)?.new.id ?? .random()
        if self.random.oneIn(2) {
            self.record("retry \(id)")
            let expected = self.model.retryParked(id, now: self.test.now)
            try expectEqual(try await self.test.queue.retryParked(id), expected, "result of retryParked")
        } else {
            self.record("drop \(id)")
            let expected = self.model.dropParked(id)
            try expectEqual(try await self.test.queue.dropParked(id), expected, "result of dropParked")
        }
        try await self.check([id])
    }

    // MARK: Time

    private mutating func passTime() async throws {
        switch Int.random(in: 0..<4, using: &self.random) {
        case 0:
            self.record("expire leases")
            let expected = self.model.expireLeases(now: self.leaseNow)
            try expectEqual(try await self.test.queue.expireLeases(), expected, "expired leases")
        case 1:
            let ticks = Int.random(in: -3...3, using: &self.random)
            self.record("jump \(ticks)")
            await self.test.fixture.jump(by: self.test.fixture.tick * ticks)
        default:
            await self.advance(Int.random(in: 1...6, using: &self.random))
        }
        try await self.settleOverdue()
    }

    private mutating func advance(_ ticks: Int) async {
        self.record("advance \(ticks)")
        await self.test.advance(ticks)
        self.leaseNow = self.leaseNow.advanced(by: self.test.fixture.tick * ticks)
    }

    private mutating func settleOverdue() async throws {
        _ = try await self.test.queue.settleOverdue(limit: 1_000)
        self.model.settleOverdue(now: self.test.now)
    }

    // MARK: Crashes

    /// Kills the process. In half of the crashes, a call is running.
    private mutating func crash() async throws {
        let before = self.model
        let queue = self.test.queue
        var call: Task<Void, any Error>?
        switch Int.random(in: 0..<10, using: &self.random) {
        case 0:
            let (pushes, isPartial) = try self.newPushes()
            self.record("crash during enqueue \(pushes.map(\.id))")
            _ = self.model.enqueue(pushes, isPartial: isPartial)
            call = Task { _ = try await queue.enqueue(pushes, isPartial: isPartial) }
        case 1:
            let claims = self.someClaims()
            let lease = self.test.fixture.tick
            self.record("crash during mark \(claims.map(\.id))")
            _ = self.model.markWritten(claims, now: self.leaseNow, until: self.leaseNow.advanced(by: lease))
            call = Task { _ = try await queue.markWritten(claims, lease: lease) }
        case 2:
            let settlements = self.settlements()
            self.record("crash during settle \(settlements.map(\.claim.id))")
            _ = self.model.settle(settlements)
            call = Task { _ = try await queue.settle(settlements) }
        case 3:
            let releases = self.releases()
            self.record("crash during release \(releases.map(\.claim.id))")
            self.model.release(releases)
            call = Task { try await queue.release(releases) }
        case 4:
            let settlements = self.settlements(canBeAccepted: false)
            self.record("crash during park \(settlements.map(\.claim.id))")
            self.model.park(settlements)
            call = Task { try await queue.park(settlements) }
        default:
            self.record("crash")
        }
        for _ in 0..<Int.random(in: 0...20, using: &self.random) { await Task.yield() }
        try await self.test.crash()
        _ = await call?.result
        await self.advance(Self.longestLease + 1)
        _ = try await self.test.queue.expireLeases()
        _ = try await self.test.queue.settleOverdue(limit: 1_000)
        try await self.adopt(before)
    }

    /// Checks that each push of the interrupted call is in its old or its new state, and updates the model.
    private mutating func adopt(_ before: QueueModel) async throws {
        var old = before
        _ = old.expireLeases(now: nil)
        _ = self.model.expireLeases(now: nil)
        old.settleOverdue(now: self.test.now)
        self.model.settleOverdue(now: self.test.now)
        for id in Set(old.pushes.keys).union(self.model.pushes.keys) {
            let status = try await self.test.queue.status(of: id)
            guard self.mismatch(status, self.model.pushes[id]) != nil else { continue }
            let text = self.mismatch(status, old.pushes[id]) ?? ""
            try expect(text.isEmpty, "after the crash: \(text)")
            self.model.replace(id, from: old)
        }
    }

    // MARK: Checks

    private func mismatch(_ status: PushStatus?, _ push: QueueModel.Push?) -> String? {
        guard let status, let push else {
            return (status == nil) == (push == nil) ? nil : "a push is \(status == nil ? "unknown" : "known")"
        }
        guard status.state == push.state else {
            return "\(push.new.id) is \(status.state), expected \(push.state)"
        }
        guard status.attempts == push.attempts else {
            return "\(push.new.id) has \(status.attempts) attempts, expected \(push.attempts)"
        }
        guard status.outcome == push.outcome else {
            return "\(push.new.id) has the outcome \(String(describing: status.outcome)), expected "
                + String(describing: push.outcome)
        }
        guard status.notBefore == push.due else { return "\(push.new.id) is due at another time" }
        return nil
    }

    private func check(_ ids: [APNSID]) async throws {
        for id in Set(ids) {
            let text = self.mismatch(try await self.test.queue.status(of: id), self.model.pushes[id]) ?? ""
            try expect(text.isEmpty, text)
        }
        try expectEqual(try await self.test.queue.counts().routes, self.model.counts(), "counts")
    }

    private func checkAll(after first: FeedCursor?) async throws {
        // The feed shows the settled ones.
        try await self.check(self.model.pushes.values.filter { $0.state != .settled }.map(\.new.id))
        let routes = try await self.test.queue.queuedRoutes()
        try expectEqual(
            Dictionary(routes.map { ($0.route, $0.due) }) { first, _ in first },
            self.model.queuedRoutes(),
            "routes with queued pushes"
        )
        let entries = try await self.test.feed(after: first, limit: 100)
        let settled = self.model.pushes.values.filter { $0.state == .settled }
        try expectEqual(Set(entries.map(\.push.id)), Set(settled.map(\.new.id)), "pushes in the feed")
        try expectEqual(entries.count, settled.count, "number of outcomes in the feed")
        let steps = entries.map { self.model.pushes[$0.push.id]?.settledStep ?? 0 }
        try expectEqual(steps, steps.sorted(), "order of the feed")
        for entry in entries {
            try expectEqual(entry.push.outcome, self.model.pushes[entry.push.id]?.outcome, "outcome in the feed")
        }
    }
}

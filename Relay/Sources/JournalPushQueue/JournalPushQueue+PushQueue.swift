package import APNSModel
package import PushQueue
import SQLitePushQueue

extension JournalPushQueue: PushQueue {
    package nonisolated var isShared: Bool { true }

    package func enqueue(_ pushes: [NewPush], isPartial: Bool) async throws(QueueError) -> [EnqueueResult] {
        try self.checkOpen()
        guard !pushes.isEmpty else { return [] }
        switch try await self.call(.enqueue(pushes, isPartial: isPartial, capacity: self.options.capacity)) {
        case .enqueued(let results): return results
        case .full(let error): throw error
        default: return []
        }
    }

    package func claim(_ route: Route, limit: Int, lease: Duration) async throws(QueueError) -> [ClaimedPush] {
        try self.checkOpen()
        let now = self.clock.now
        guard limit > 0, try await self.copy.read({ try $0.hasDue(route, at: now) }) else { return [] }
        while true {
            guard
                case .claimed(let pushes, let isBlocked) = try await self.call(
                    .claim(route, limit: limit, lease: lease)
                )
            else { return [] }
            if !isBlocked { return pushes }
        }
    }

    package func markWritten(_ claims: [Claim], lease: Duration) async throws(QueueError) -> [Bool] {
        try self.checkOpen()
        guard !claims.isEmpty else { return [] }
        let undecided = self.undecidedMarks.intersection(claims)
        let result: CommandResult
        do throws(QueueError) {
            result = try await self.call(.markWritten(claims, lease: lease))
        } catch {
            self.undecidedMarks.formUnion(claims)
            throw error
        }
        guard case .marks(let marks) = result else { return [] }
        guard !undecided.isEmpty else { return marks }
        do throws(QueueError) {
            let decided = try await self.decide(claims, marks, undecided)
            self.undecidedMarks.subtract(claims)
            return decided
        } catch {
            self.undecidedMarks.formUnion(claims)
            throw error
        }
    }

    /// Counts marks that a call of this process had stored although it failed: its caller was told of an error, so nobody
    /// has sent the pushes. Each claim belongs to one worker, which does not mark it by two calls at the same time.
    private func decide(
        _ claims: [Claim],
        _ marks: [Bool],
        _ undecided: Set<Claim>
    ) async throws(QueueError) -> [Bool] {
        let written = try await self.copy.read { transaction in
            try claims.map { claim in try undecided.contains(claim) && transaction.isWritten(claim) }
        }
        return zip(marks, written).map { $0 || $1 }
    }

    package func settle(_ settlements: [Settlement]) async throws(QueueError) -> [SettleResult] {
        try self.checkOpen()
        guard !settlements.isEmpty, case .settled(let results) = try await self.call(.settle(settlements)) else {
            return []
        }
        return results
    }

    package func release(_ releases: [Release]) async throws(QueueError) {
        try self.checkOpen()
        if !releases.isEmpty { _ = try await self.call(.release(releases)) }
    }

    package func park(_ settlements: [Settlement]) async throws(QueueError) {
        try self.checkOpen()
        if !settlements.isEmpty { _ = try await self.call(.park(settlements)) }
    }

    package func expireLeases() async throws(QueueError) -> ExpiredLeases {
        try self.checkOpen()
        let now = self.leaseTime
        guard try await self.copy.read({ try $0.hasExpiredLease(at: now) }),
            case .expired(let expired) = try await self.call(.expireLeases)
        else { return ExpiredLeases() }
        return expired
    }

    package func settleOverdue(limit: Int) async throws(QueueError) -> Int {
        try self.checkOpen()
        let now = self.clock.now
        guard limit > 0, try await self.copy.read({ try $0.hasOverdue(at: now) }) else { return 0 }
        return try await self.count(.settleOverdue(limit: limit))
    }

    package func status(of id: APNSID) async throws(QueueError) -> PushStatus? {
        try self.checkOpen()
        return try await self.copy.read { try $0.status(of: id) }
    }

    package func cancel(_ id: APNSID) async throws(QueueError) -> CancelResult {
        guard case .cancelled(let result) = try await self.call(.cancel(id)) else { return .notFound }
        return result
    }

    package func outcomes(
        after cursor: FeedCursor?,
        apps: Set<String>?,
        kind: FeedKind,
        limit: Int
    ) async throws(QueueError) -> FeedPage {
        try self.checkOpen()
        return try await self.copy.read { try $0.outcomes(after: cursor, apps: apps, kind: kind, limit: limit) }
    }

    package func parked(after id: APNSID?, limit: Int) async throws(QueueError) -> [PushStatus] {
        try self.checkOpen()
        return try await self.copy.read { try $0.parked(after: id, limit: limit) }
    }

    package func retryParked(_ ids: [APNSID]) async throws(QueueError) -> [Bool] {
        try self.checkOpen()
        var results: [Bool] = []
        for id in ids { results.append(try await self.flag(.retryParked(id))) }
        return results
    }

    package func dropParked(_ ids: [APNSID]) async throws(QueueError) -> [Bool] {
        try self.checkOpen()
        var results: [Bool] = []
        for id in ids { results.append(try await self.flag(.dropParked(id))) }
        return results
    }

    package func counts() async throws(QueueError) -> QueueCounts {
        try self.checkOpen()
        let totals = self.copy.totals
        let routes = try await self.copy.read { try $0.counts(totals) }
        return QueueCounts(routes: routes, capacity: self.options.capacity)
    }

    package func queuedRoutes() async throws(QueueError) -> [QueuedRoute] {
        try self.checkOpen()
        let totals = self.copy.totals
        return try await self.copy.read { try $0.queuedRoutes(totals) }
    }

    package func checkStorage() async throws(QueueError) { try await self.setValue([], forKey: "ready") }

    package func value(forKey key: String) async throws(QueueError) -> [UInt8]? {
        try self.checkOpen()
        return try await self.copy.read { try $0.value(forKey: key) }
    }

    package func values(withPrefix prefix: String) async throws(QueueError) -> [String: [UInt8]] {
        try self.checkOpen()
        return try await self.copy.read { try $0.values(withPrefix: prefix) }
    }

    package func setValue(_ value: [UInt8]?, forKey key: String) async throws(QueueError) {
        _ = try await self.call(.setValue(value, key: key))
    }

    package func exchangeValue(
        _ value: [UInt8]?,
        forKey key: String,
        expecting expected: [UInt8]?
    ) async throws(QueueError) -> Bool {
        try await self.flag(.exchangeValue(value, key: key, expected: expected))
    }

    package func prune(_ retention: Retention, limit: Int) async throws(QueueError) -> Int {
        try self.checkOpen()
        guard limit > 0 else { return 0 }
        return try await self.count(.prune(retention, limit: limit))
    }

    private func count(_ command: QueueCommand) async throws(QueueError) -> Int {
        guard case .count(let count) = try await self.call(command) else { return 0 }
        return count
    }

    private func flag(_ command: QueueCommand) async throws(QueueError) -> Bool {
        guard case .flag(let flag) = try await self.call(command) else { return false }
        return flag
    }
}

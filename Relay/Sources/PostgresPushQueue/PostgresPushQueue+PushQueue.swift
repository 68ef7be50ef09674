public import APNSModel
public import PushQueue
import Synchronization

extension PostgresPushQueue: PushQueue {
    /// True: any number of processes.
    public var isShared: Bool { true }

    // MARK: Sending

    /// The most overdue pushes that `claim` settles at a time.
    private static let overdueLimit = 1_000

    public func claim(_ route: Route, limit: Int, lease: Duration) async throws(QueueError) -> [ClaimedPush] {
        guard limit > 0 else { return [] }
        let number = try await self.number(of: route)
        while true {
            var parameters = Parameters()
            parameters.add(number)
            parameters.add(Int32(clamping: limit))
            parameters.add(self.now)
            parameters.add(self.expiry)
            parameters.add(self.leaseNow)
            parameters.add(lease.milliseconds)
            let seen = self.histories.seen
            let batch = try await self.call("SELECT * FROM apns.claim($1, $2, $3, $4, $5, $6)", .harmless, parameters) {
                rows,
                _ in
                ClaimBatch(rows)
            }
            if self.histories.isBehind(claims: batch.pushes.map(\.claim) + batch.unreadable, seen: seen) {
                self.checkHistory()
                // The history parks them. Nobody has sent them since the restore.
                if self.options.afterFailover == .park { continue }
            }
            if !batch.unreadable.isEmpty {
                _ = try await self.settle(
                    batch.unreadable.map { Settlement(claim: $0, outcome: .unreadable($0.id)) }
                )
            }
            guard batch.pushes.isEmpty, batch.isBlocked || !batch.unreadable.isEmpty else { return batch.pushes }
            if batch.isBlocked { _ = try await self.settleOverdue(limit: Self.overdueLimit) }
        }
    }

    public func markWritten(_ claims: [Claim], lease: Duration) async throws(QueueError) -> [Bool] {
        guard !claims.isEmpty else { return [] }
        let epochs = claims.map(\.epoch)
        let number = self.undecidedMarks.withLock { $0[epochs] } ?? .random(in: .min ... .max)
        var parameters = Parameters()
        parameters.add(self.leaseNow)
        parameters.add(lease.milliseconds)
        parameters.add(number)
        parameters.add(claims.lazy.map(\.position))
        parameters.add(epochs)
        let marked: Set<Int64>
        do {
            marked = try await self.call(
                "SELECT apns.mark($1, $2, $3, $4, $5)",
                .harmless,
                parameters,
                isMeasured: true
            ) { rows, _ in
                Set(rows[0].int64s())
            }
        } catch {
            // Another error does not undo a mark that an earlier call may have made.
            if error.code == .undecided { self.undecidedMarks.withLock { $0[epochs] = number } }
            throw error
        }
        self.undecidedMarks.withLock { $0[epochs] = nil }
        // Of two equal claims in a call, one is marked.
        var left = marked
        return claims.map { left.remove($0.epoch) != nil }
    }

    public func settle(_ settlements: [Settlement]) async throws(QueueError) -> [SettleResult] {
        guard !settlements.isEmpty else { return [] }
        var parameters = self.settling()
        parameters.add(settlements, of: try await self.type("apns.attempt_end")) { $0.add($1.claim, $1.outcome) }
        return try await self.call(
            "SELECT * FROM apns.settle($1, $2)",
            on: .outcomes,
            .harmless,
            parameters,
            isMeasured: true
        ) { rows, isRepeated in
            var results = settlements.map { _ in SettleResult.settled }
            for row in 0..<rows.count {
                let index = rows[row].int("n") - 1
                guard settlements.indices.contains(index) else { continue }
                let settlement = settlements[index]
                let outcome = PushOutcome(rows[row], of: settlement.claim.id)
                // The first call has stored it.
                if isRepeated, outcome == settlement.outcome { continue }
                results[index] = outcome.map { .alreadySettled($0) } ?? .stale
            }
            return results
        }
    }

    public func release(_ releases: [Release]) async throws(QueueError) {
        guard !releases.isEmpty else { return }
        var parameters = Parameters()
        parameters.add(releases, of: try await self.type("apns.attempt_end")) { parameters, release in
            let due = release.notBefore.millisecondsSince1970
            parameters.add(release.claim, due: due, counts: release.countsAttempt, release.outcome)
        }
        try await self.call("SELECT apns.release($1)", on: .outcomes, .harmless, parameters) { _, _ in }
    }

    public func park(_ settlements: [Settlement]) async throws(QueueError) {
        guard !settlements.isEmpty else { return }
        var parameters = self.settling()
        parameters.add(settlements, of: try await self.type("apns.attempt_end")) { $0.add($1.claim, $1.outcome) }
        try await self.call("SELECT apns.park($1, $2)", on: .outcomes, .harmless, parameters) { _, _ in }
    }

    public func expireLeases() async throws(QueueError) -> ExpiredLeases {
        var parameters = self.settling()
        parameters.add(self.leaseNow)
        return try await self.call("SELECT * FROM apns.expire_leases($1, $2)", .harmless, parameters) { rows, _ in
            var expired = ExpiredLeases()
            expired.queued = rows[0].int("queued")
            expired.unknown = rows[0].int("unknown")
            expired.resent = rows[0].int("resent")
            return expired
        }
    }

    public func settleOverdue(limit: Int) async throws(QueueError) -> Int {
        try await self.tend()
        guard limit > 0 else { return 0 }
        var parameters = self.settling()
        parameters.add(self.expiry)
        parameters.add(Int32(clamping: limit))
        return try await self.call("SELECT apns.settle_overdue($1, $2, $3)", .harmless, parameters) { rows, _ in
            rows[0].int()
        }
    }

    /// Does what other transactions have left to do, and counts the pushes. At most once a second.
    private func tend() async throws(QueueError) {
        guard self.tending.isDue else { return }
        try await self.vacuum()
        try await self.call("SELECT apns.tend($1)", .harmless, self.settling()) { _, _ in }
        let counts = try await self.counts()
        self.room.set(unsettled: counts.unsettled)
        try await self.publish(isFull: self.room.isFull, counts.sums(\.app).mapValues(\.unsettled))
    }

    private func vacuum() async throws(QueueError) {
        guard self.vacuuming.isDue else { return }
        let deletedRows = try await self.call(Vacuuming.tables, .reading, self.vacuuming.parameters) { rows, _ in
            Vacuuming.deletedRows(rows)
        }
        if !deletedRows.isEmpty { self.vacuuming.begin(deletedRows) }
    }

    // MARK: Batches

    public func cancelAll(_ route: Route, limit: Int) async throws(QueueError) -> Int {
        guard limit > 0 else { return 0 }
        var parameters = self.settling()
        parameters.add(try await self.number(of: route))
        parameters.add(Int32(clamping: limit))
        return try await self.call("SELECT apns.cancel_all($1, $2, $3)", .harmless, parameters) {
            rows,
            isRepeated in
            // The first call may have cancelled some, so there may be more.
            isRepeated ? limit : rows[0].int()
        }
    }

    public func batchCounts(of routes: [Route]) async throws(QueueError) -> [BatchCounts] {
        guard !routes.isEmpty else { return [] }
        var parameters = Parameters()
        parameters.add(routes.compactMap(\.batch))
        return try await self.call("SELECT * FROM apns.batch_counts($1)", .reading, parameters) { rows, _ in
            var found: [APNSID: BatchCounts] = [:]
            for index in 0..<rows.count {
                let row = rows[index]
                guard let batch = row.id("batch") else { continue }
                var counts = BatchCounts()
                counts.pushes.queued = row.int("queued")
                counts.pushes.claimed = row.int("claimed")
                counts.pushes.written = row.int("written")
                counts.pushes.parked = row.int("parked")
                let outcomes = row.int64s("outcomes")
                for certainty in Certainty.allCases {
                    let number = certainty.storedNumber
                    guard number < outcomes.count, outcomes[number] > 0 else { continue }
                    counts.outcomes[certainty] = Int(clamping: outcomes[number])
                }
                counts.deadTokens = row.int("dead")
                found[batch] = counts
            }
            return routes.map { route in route.batch.flatMap { found[$0] } ?? BatchCounts() }
        }
    }

    public func forget(_ route: Route) async throws(QueueError) {
        var parameters = Parameters()
        parameters.add(try await self.number(of: route))
        try await self.call("SELECT apns.forget_route($1)", .harmless, parameters) { _, _ in }
        self.names[route] = nil
    }

    // MARK: One push

    public func status(of id: APNSID) async throws(QueueError) -> PushStatus? {
        var parameters = Parameters()
        parameters.add(id)
        return try await self.call("SELECT * FROM apns.status($1)", .reading, parameters) { rows, _ in
            rows.count == 0 ? nil : PushStatus(rows[0])
        }
    }

    public func id(ofKey key: String, caller: String) async throws(QueueError) -> APNSID? {
        var parameters = Parameters()
        parameters.add(caller)
        parameters.add(key)
        return try await self.call("SELECT apns.id_of_key($1, $2)", .reading, parameters) { rows, _ in rows[0].id() }
    }

    public func cancel(_ id: APNSID) async throws(QueueError) -> CancelResult {
        var parameters = self.settling()
        parameters.add(id)
        return try await self.call("SELECT * FROM apns.cancel($1, $2)", .harmless, parameters) { rows, isRepeated in
            switch rows[0].int("kind") {
            case 0: return .cancelled
            case 1: return .written
            case 2:
                guard let outcome = PushOutcome(rows[0], of: id) else { return .notFound }
                // The first call has cancelled it.
                return isRepeated && outcome.error?.code == .cancelled ? .cancelled : .settled(outcome)
            default: return .notFound
            }
        }
    }

    // MARK: Feeds

    /// The most outcomes that are looked at for one page.
    private static let longestScan = 10_000

    public func outcomes(
        after cursor: FeedCursor?,
        apps: Set<String>?,
        kind: FeedKind,
        limit: Int
    ) async throws(QueueError) -> FeedPage {
        guard limit > 0 else { return FeedPage(entries: [], cursor: cursor, isEnd: false) }
        let part = try await self.outcomes(after: cursor?.position, apps, kind, limit)
        guard let cursor, let gap = part.generations.gap(after: cursor, deleted: part.pruned, next: part.last &+ 1)
        else { return part.page(after: cursor) }
        var page = try await self.outcomes(after: gap.resume.position, apps, kind, limit).page(after: gap.resume)
        page.gap = gap
        return page
    }

    private func outcomes(
        after position: Int64?,
        _ apps: Set<String>?,
        _ kind: FeedKind,
        _ limit: Int
    ) async throws(QueueError) -> FeedPart {
        var parameters = Parameters()
        parameters.add(position ?? .min)
        parameters.add(apps.map { Array($0) })
        parameters.add(kind == .invalidTokens)
        parameters.add(Int32(clamping: limit))
        parameters.add(Int32(clamping: max(limit, Self.longestScan)))
        return try await self.call("SELECT * FROM apns.outcomes_after($1, $2, $3, $4, $5)", .reading, parameters) {
            rows,
            _ in
            FeedPart(rows)
        }
    }

    // MARK: Parked pushes

    public func parked(after id: APNSID?, limit: Int) async throws(QueueError) -> [PushStatus] {
        var parameters = Parameters()
        parameters.add(id)
        parameters.add(Int32(clamping: max(limit, 0)))
        return try await self.call("SELECT * FROM apns.parked_after($1, $2)", .reading, parameters) { rows, _ in
            (0..<rows.count).compactMap { PushStatus(rows[$0]) }
        }
    }

    public func retryParked(_ ids: [APNSID]) async throws(QueueError) -> [Bool] {
        try await self.decideParked(ids, retries: true)
    }

    public func dropParked(_ ids: [APNSID]) async throws(QueueError) -> [Bool] {
        try await self.decideParked(ids, retries: false)
    }

    private func decideParked(_ ids: [APNSID], retries: Bool) async throws(QueueError) -> [Bool] {
        guard !ids.isEmpty else { return [] }
        var parameters = self.settling()
        // An implausible time would still lie ahead once the clock is corrected.
        parameters.add(self.expiry)
        parameters.add(retries)
        parameters.add(ids)
        return try await self.call("SELECT apns.decide_parked($1, $2, $3, $4)", .never, parameters) { rows, _ in
            rows[0].int64s().map { $0 != 0 }
        }
    }

    // MARK: State

    public func counts() async throws(QueueError) -> QueueCounts {
        let routes = try await self.call("SELECT * FROM apns.counts()", .reading) { rows, _ in
            (0..<rows.count).map { index in
                let row = rows[index]
                return QueueCounts.OfRoute(
                    route: Route(row),
                    queued: row.int("queued"),
                    claimed: row.int("claimed"),
                    written: row.int("written"),
                    parked: row.int("parked")
                )
            }
        }
        return QueueCounts(
            routes: routes,
            capacity: self.options.capacity
        )
    }

    public var progress: QueueProgress? { self.histories.seen }

    public func queuedRoutes() async throws(QueueError) -> [QueuedRoute] {
        if self.histories.isDue {
            let (histories, seen) = (self.histories, self.histories.seen)
            let isBehind = try await self.call(Histories.query, .reading) { rows, _ in
                histories.isBehind(rows[0], seen: seen)
            }
            if isBehind { self.checkHistory() }
        }
        return try await self.call("SELECT * FROM apns.queued_routes($1)", .reading, self.settling()) { rows, _ in
            (0..<rows.count).map { index in
                QueuedRoute(
                    route: Route(rows[index]),
                    due: QueueTime(millisecondsSince1970: rows[index].int64("due"))
                )
            }
        }
    }

    public func requireRoom() async throws(QueueError) {
        if let error = self.room.diskFull { throw error }
    }

    public func checkStorage() async throws(QueueError) {
        var parameters = Parameters()
        parameters.add(self.now)
        try await self.call(
            """
            INSERT INTO apns.probe (written_at) VALUES ($1) \
            ON CONFLICT (one) DO UPDATE SET written_at = excluded.written_at
            """,
            .harmless,
            parameters
        ) { _, _ in }
        // The row above needs no more room on the disk, and pushes do.
        try await self.requireRoom()
        if let capacity = self.options.capacity, self.room.isFull {
            throw QueueError.full(capacity)
        }
    }

    // MARK: Values

    public func value(forKey key: String) async throws(QueueError) -> [UInt8]? {
        var parameters = Parameters()
        parameters.add(key)
        return try await self.call("SELECT value FROM apns.value WHERE key = $1", .reading, parameters) { rows, _ in
            rows.count == 0 ? nil : rows[0].bytes()
        }
    }

    public func values(
        withPrefix prefix: String,
        after key: String?,
        limit: Int
    ) async throws(QueueError) -> [(key: String, value: [UInt8])] {
        var parameters = Parameters()
        parameters.add(prefix)
        // Keys are compared byte by byte, so each key with the prefix is before the prefix with the last character.
        parameters.add("\(prefix)\u{10FFFF}")
        // No key is empty.
        parameters.add(key ?? "")
        parameters.add(Int64(limit))
        return try await self.call(
            "SELECT key, value FROM apns.value WHERE key >= $1 AND key <= $2 AND key > $3 ORDER BY key LIMIT $4",
            .reading,
            parameters
        ) { rows, _ in
            (0..<rows.count).map { (rows[$0].text("key"), rows[$0].bytes("value")) }
        }
    }

    public func setValue(_ value: [UInt8]?, forKey key: String) async throws(QueueError) {
        var parameters = Parameters()
        parameters.add(key)
        if value != nil { parameters.add(value) }
        let sql =
            value == nil
            ? "WITH d AS (DELETE FROM apns.value WHERE key = $1 RETURNING 1) SELECT apns.confirm() FROM (SELECT 1) one WHERE NOT EXISTS (SELECT FROM d)"
            : "INSERT INTO apns.value VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        try await self.call(sql, .harmless, parameters) { _, _ in }
    }

    public func exchangeValue(
        _ value: [UInt8]?,
        forKey key: String,
        expecting expected: [UInt8]?
    ) async throws(QueueError) -> Bool {
        var parameters = Parameters()
        parameters.add(key)
        parameters.add(value)
        parameters.add(expected)
        return try await self.call("SELECT apns.exchange_value($1, $2, $3)", .never, parameters) { rows, _ in
            rows[0].bool()
        }
    }

    public func prune(_ retention: Retention, limit: Int) async throws(QueueError) -> Int {
        guard limit > 0 else { return 0 }
        let expiry = QueueTime(millisecondsSince1970: self.expiry)
        var parameters = self.settling()
        for kept in [retention.idempotencyKeys, retention.parked, retention.outcomes] {
            parameters.add(expiry.advanced(by: .zero - kept).millisecondsSince1970)
        }
        parameters.add(Int32(clamping: limit))
        return try await self.call("SELECT apns.prune($1, $2, $3, $4, $5)", .harmless, parameters) { rows, _ in
            rows[0].int()
        }
    }
}

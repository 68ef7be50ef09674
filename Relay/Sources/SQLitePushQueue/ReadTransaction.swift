import APNSModel
import GRDB
import PushQueue

/// The reading operations, on a snapshot of the database.
struct ReadTransaction {
    let db: Database
    var names: NameTable

    /// - Parameter names: names that are known to be in the database.
    init(_ db: Database, names: NameTable = NameTable()) {
        self.db = db
        self.names = names
    }

    // MARK: One push

    mutating func status(of id: APNSID) throws -> PushStatus? {
        let select = try self.db.prepared("SELECT position FROM ident WHERE id = ?")
        select.bind(1, id)
        guard let position = try select.first({ $0.int64(0) }) else { return nil }
        if let status = try self.unsettled(at: position) { return status }
        let outcome = try self.db.prepared("SELECT \(Self.outcomeColumns) FROM outcome WHERE position = ?")
        outcome.bind(1, position)
        return try outcome.first { try self.settled($0)?.push } ?? nil
    }

    func id(ofKey key: String, caller: String) throws -> APNSID? {
        let sql = try self.db.prepared(
            "SELECT idempotency.id FROM caller JOIN idempotency ON caller = caller.id WHERE name = ? AND key = ?"
        )
        sql.bind(1, caller)
        sql.bind(2, key)
        return try sql.first { $0.id(0) } ?? nil
    }

    private mutating func unsettled(at position: Int64) throws -> PushStatus? {
        let sql = try self.db.prepared(
            """
            SELECT push.id, push.route, token, queued_at, due, deadline, attempts, expires IS NULL,
            flight.state, tried, (SELECT key FROM idempotency WHERE idempotency.position = push.position), metadata,
            attempt.*
            FROM push LEFT JOIN flight USING (position) LEFT JOIN attempt USING (position) WHERE position = ?
            """
        )
        sql.bind(1, position)
        return try sql.first { row -> PushStatus? in
            guard let id = row.id(0), let token = row.withBytes(2, TokenBytes.token) else { return nil }
            let isWritten = row.int64(8) == WriteTransaction.writtenState
            let state: PushStatus.State =
                row.int64(7) != 0 ? .parked : row.isNull(8) ? .queued : isWritten ? .written : .claimed
            return PushStatus(
                id: id,
                state: state,
                route: try self.names.route(row.int64(1), in: self.db),
                token: token,
                queuedAt: QueueTime(millisecondsSince1970: row.int64(3)),
                notBefore: QueueTime(millisecondsSince1970: row.int64(4)),
                deadline: QueueTime(millisecondsSince1970: row.int64(5)),
                attempts: row.count(6) + (isWritten ? 1 : 0),
                // The first column of `attempt` is its position.
                outcome: row.int64(9) == 0 ? nil : OutcomeColumns.read(row, at: 13, of: id),
                settledAt: nil,
                idempotencyKey: row.optionalText(10),
                metadata: row.optionalText(11)
            )
        } ?? nil
    }

    private static let outcomeColumns = """
        cursor, id, route, token, queued_at, due, deadline, attempts, settled_at,
        (SELECT key FROM idempotency WHERE idempotency.position = outcome.position), metadata, \(OutcomeColumns.names)
        """

    /// Nil if the row is damaged.
    private mutating func settled(_ row: PreparedSQL) throws -> FeedEntry? {
        guard let id = row.id(1), let token = row.withBytes(3, TokenBytes.token) else { return nil }
        return FeedEntry(
            cursor: FeedCursor(position: row.int64(0)),
            push: PushStatus(
                id: id,
                state: .settled,
                route: try self.names.route(row.int64(2), in: self.db),
                token: token,
                queuedAt: QueueTime(millisecondsSince1970: row.int64(4)),
                notBefore: QueueTime(millisecondsSince1970: row.int64(5)),
                deadline: QueueTime(millisecondsSince1970: row.int64(6)),
                attempts: row.count(7),
                outcome: OutcomeColumns.read(row, at: 11, of: id),
                settledAt: QueueTime(millisecondsSince1970: row.int64(8)),
                idempotencyKey: row.optionalText(9),
                metadata: row.optionalText(10)
            )
        )
    }

    // MARK: Feeds

    /// The maximum number of outcomes that are read for one page, unless the page's limit is larger.
    private static let longestScan = 10_000

    mutating func outcomes(
        after cursor: FeedCursor?,
        apps: Set<String>?,
        kind: FeedKind,
        limit: Int,
        generations: FeedGenerations = FeedGenerations([])
    ) throws -> FeedPage {
        var page = FeedPage(entries: [], cursor: cursor, isEnd: false, generation: generations.present)
        guard limit > 0 else { return page }
        if let cursor {
            page.gap = generations.gap(
                after: cursor,
                deleted: try self.counter("pruned") ?? 0,
                next: try self.nextCursor()
            )
            if let gap = page.gap { page.cursor = gap.resume }
        }
        let sql = try self.db.prepared(
            """
            SELECT \(Self.outcomeColumns) FROM outcome
            WHERE cursor > ? \(kind == .invalidTokens ? "AND invalidates = 1" : "") ORDER BY cursor LIMIT ?
            """
        )
        sql.bind(1, page.cursor?.position ?? Int64.min)
        let scan = max(limit, Self.longestScan)
        sql.bind(2, scan)
        var scanned = 0
        try sql.forEach { row in
            scanned += 1
            page.cursor = generations.cursor(at: row.int64(0))
            if let apps, !apps.contains(try self.names.route(row.int64(2), in: self.db).app) { return true }
            if var entry = try self.settled(row) {
                entry.cursor = generations.cursor(at: entry.cursor.position)
                page.entries.append(entry)
            }
            return page.entries.count < limit
        }
        guard page.entries.count < limit, scanned < scan else { return page }
        page.isEnd = true
        // The last outcomes may be of another kind, or deleted, so the cursor is moved on.
        let end = try self.nextCursor() &- 1
        if end > max(page.cursor?.position ?? 0, 0) { page.cursor = generations.cursor(at: end) }
        return page
    }

    func counter(_ name: String) throws -> Int64? {
        let sql = try self.db.prepared("SELECT value FROM counter WHERE name = ?")
        sql.bind(1, name)
        return try sql.first { $0.int64(0) }
    }

    func nextCursor() throws -> Int64 {
        let last = try self.db.prepared("SELECT max(cursor) FROM outcome").first { $0.optionalInt64(0) } ?? nil
        return max((last ?? 0) &+ 1, try self.counter("cursor") ?? 1)
    }

    // MARK: Parked pushes and routes

    mutating func parked(after id: APNSID?, limit: Int) throws -> [PushStatus] {
        var position = Int64.min
        if let id {
            let select = try self.db.prepared("SELECT position FROM ident WHERE id = ?")
            select.bind(1, id)
            position = try select.first { $0.int64(0) } ?? .min
        }
        let select = try self.db.prepared("SELECT position FROM parked WHERE position > ? ORDER BY position LIMIT ?")
        select.bind(1, position)
        select.bind(2, max(limit, 0))
        var positions: [Int64] = []
        try select.forEach { row in
            positions.append(row.int64(0))
            return true
        }
        return try positions.compactMap { try self.unsettled(at: $0) }
    }

    /// The routes with queued pushes, and when the first push of each is due.
    mutating func queuedRoutes(_ totals: QueueTotals) throws -> [QueuedRoute] {
        let ids = totals.routes.filter { $0.value.queued > 0 }.map(\.key)
        let select = try self.db.prepared("SELECT due FROM queue WHERE route = ? ORDER BY due LIMIT 1")
        return try ids.compactMap { id in
            select.bind(1, id)
            guard let due = try select.first({ $0.int64(0) }) else { return nil }
            return QueuedRoute(
                route: try self.names.route(id, in: self.db),
                due: QueueTime(millisecondsSince1970: due)
            )
        }
    }

    /// The number of pushes in each state. Routes without pushes are left out.
    mutating func counts(_ totals: QueueTotals) throws -> [QueueCounts.OfRoute] {
        try totals.routes.filter { $0.value != QueueTotals.OfRoute() }
            .map { id, totals in
                QueueCounts.OfRoute(
                    route: try self.names.route(id, in: self.db),
                    queued: totals.queued,
                    claimed: totals.claimed,
                    written: totals.written,
                    parked: totals.parked
                )
            }
    }

    func value(forKey key: String) throws -> [UInt8]? {
        let select = try self.db.prepared("SELECT value FROM value WHERE key = ?")
        select.bind(1, key)
        return try select.first { $0.bytes(0) }
    }

    func values(withPrefix prefix: String, after key: String?, limit: Int) throws -> [(key: String, value: [UInt8])] {
        // SQLite compares text byte by byte, so the keys with the prefix are next to each other.
        let select = try self.db.prepared(
            "SELECT key, value FROM value WHERE key >= ? AND key > ? ORDER BY key LIMIT ?"
        )
        select.bind(1, prefix)
        // No key is empty.
        select.bind(2, key ?? "")
        select.bind(3, limit)
        var values: [(key: String, value: [UInt8])] = []
        try select.forEach { row in
            let key = row.text(0)
            guard key.utf8.starts(with: prefix.utf8) else { return false }
            values.append((key, row.bytes(1)))
            return true
        }
        return values
    }
}

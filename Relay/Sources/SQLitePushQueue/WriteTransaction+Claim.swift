import APNSModel
import GRDB
import PushQueue

/// The result of an attempt to claim pushes.
struct ClaimBatch: Sendable {
    var pushes: [ClaimedPush] = []
    /// Whether some pushes must be settled first: the next due push is overdue, cannot be read, or competes with others.
    var isBlocked = false
}

extension WriteTransaction {
    /// Claims the first due pushes of a route. Stops before a push that is overdue, cannot be read, or competes with others.
    func claim(_ route: Route, limit: Int, lease: Duration) throws -> ClaimBatch {
        var batch = ClaimBatch()
        guard limit > 0, let routeID = try self.state.names.id(of: route, in: self.db) else { return batch }
        let epoch = self.state.nextEpoch
        self.state.nextEpoch &+= 1
        var last: (due: Int64, position: Int64)?
        let select = try self.selectDue(routeID, limit: limit)
        try select.forEach { row in
            guard row.int64(3) > self.now.millisecondsSince1970, let push = Self.claimedPush(row, epoch: epoch) else {
                batch.isBlocked = true
                return false
            }
            if row.int64(16) != 0, try self.mustSupersede(row.int64(1)) {
                batch.isBlocked = true
                return false
            }
            batch.pushes.append(push)
            last = (row.int64(0), row.int64(1))
            return true
        }
        guard let last else { return batch }
        let positions = batch.pushes.map(\.claim.position)
        try self.move(positions, through: last, of: routeID, epoch: epoch, lease: lease)
        return batch
    }

    /// Selects the first due pushes of a route. Skips pushes that are overdue by `now` but not by `expiryNow`, and those that
    /// wait for an older one in flight.
    private func selectDue(_ route: Int64, limit: Int) throws -> PreparedSQL {
        let select = try self.prepared(Self.dueText)
        select.bind(1, route)
        select.bind(2, self.now.millisecondsSince1970)
        select.bind(3, self.now.millisecondsSince1970)
        select.bind(4, self.expiryNow.millisecondsSince1970)
        select.bind(5, limit)
        return select
    }

    /// Moves the first queued pushes of a route to `flight`.
    private func move(
        _ positions: [Int64],
        through last: (due: Int64, position: Int64),
        of route: Int64,
        epoch: Int64,
        lease: Duration
    ) throws {
        let end = self.leaseNow.advanced(by: lease).millisecondsSince1970
        if try self.countQueued(through: last, of: route) == positions.count {
            // These are exactly the claimed pushes.
            let first = "FROM queue WHERE route = ?1 AND (due, position) <= (?2, ?3)"
            let insert = try self.db.prepared(
                "INSERT INTO flight (position, route, state, epoch, lease) SELECT position, route, ?4, ?5, ?6 \(first)"
            )
            insert.bind(4, Self.claimedState)
            insert.bind(5, epoch)
            insert.bind(6, end)
            for sql in [insert, try self.db.prepared("DELETE \(first)")] {
                sql.bind(1, route)
                sql.bind(2, last.due)
                sql.bind(3, last.position)
                try sql.run()
            }
        } else {
            let delete = try self.db.prepared(
                "DELETE FROM queue WHERE route = ?2 AND due = (SELECT due FROM push WHERE position = ?1) AND position = ?1"
            )
            let insert = try self.db.prepared(
                "INSERT INTO flight (position, route, state, epoch, lease) VALUES (?, ?, ?, ?, ?)"
            )
            for position in positions {
                delete.bind(1, position)
                delete.bind(2, route)
                try delete.run()
                insert.bind(1, position)
                insert.bind(2, route)
                insert.bind(3, Self.claimedState)
                insert.bind(4, epoch)
                insert.bind(5, end)
                try insert.run()
            }
        }
        self.state.totals.add(-positions.count, to: .queued, of: route)
        self.state.totals.add(positions.count, to: .claimed, of: route)
    }

    private func countQueued(through last: (due: Int64, position: Int64), of route: Int64) throws -> Int {
        let count = try self.db.prepared("SELECT count(*) FROM queue WHERE route = ? AND (due, position) <= (?, ?)")
        count.bind(1, route)
        count.bind(2, last.due)
        count.bind(3, last.position)
        return try count.first { $0.count(0) } ?? 0
    }

    private enum Obstacle { case overdue, unreadable, rivals }

    /// Reads the first due pushes of a route, settles those that are overdue or cannot be read, and those that newer ones
    /// replace.
    func settleUnclaimable(of route: Route, limit: Int) throws {
        guard let routeID = try self.state.names.id(of: route, in: self.db) else { return }
        var found: [(position: Int64, obstacle: Obstacle)] = []
        let select = try self.selectDue(routeID, limit: limit)
        try select.forEach { row in
            if row.int64(3) <= self.now.millisecondsSince1970 {
                found.append((row.int64(1), .overdue))
            } else if Self.claimedPush(row, epoch: 0) == nil {
                found.append((row.int64(1), .unreadable))
            } else if row.int64(16) != 0 {
                found.append((row.int64(1), .rivals))
            }
            return true
        }
        // The newest first, because it ends the others.
        for (position, obstacle) in found.sorted(by: { $0.position > $1.position }) {
            guard let push = try self.push(at: position) else { continue }
            switch obstacle {
            case .overdue: try self.settleOverdue(push)
            case .unreadable: try self.settle(push, with: .unreadable(push.id, attempts: push.attempts))
            case .rivals: try self.supersede(push)
            }
        }
    }

    /// Settles pushes that are overdue and queued.
    func settleOverdue(limit: Int) throws -> Int {
        let select = try self.db.prepared(
            """
            SELECT position FROM push WHERE expires <= ?
            AND NOT EXISTS (SELECT 1 FROM flight WHERE flight.position = push.position)
            ORDER BY expires, position LIMIT ?
            """
        )
        select.bind(1, self.expiryNow.millisecondsSince1970)
        select.bind(2, max(limit, 0))
        var positions: [Int64] = []
        try select.forEach { row in
            positions.append(row.int64(0))
            return true
        }
        for position in positions {
            if let push = try self.push(at: position) { try self.settleOverdue(push) }
        }
        return positions.count
    }

    private func settleOverdue(_ push: Push) throws {
        let select = try self.db.prepared("SELECT deadline, expiration FROM push WHERE position = ?")
        select.bind(1, push.position)
        let outcome = try select.first { row in
            PushOutcome.overdue(
                push.id,
                deadline: QueueTime(millisecondsSince1970: row.int64(0)),
                expiration: Expiration(stored: row.optionalInt64(1)),
                attempts: push.attempts
            )
        }
        if let outcome { try self.settle(push, with: outcome) }
    }

    // CROSS JOIN fixes the order of the tables: SQLite must scan `queue` first.
    private static let dueText = SQLText(
        """
        SELECT queue.due, queue.position, \(claimColumns)
        FROM queue CROSS JOIN push ON push.position = queue.position
        WHERE queue.route = ? AND queue.due <= ? AND (push.expires > ? OR push.expires <= ?) AND NOT (\(waits))
        ORDER BY queue.due, queue.position LIMIT ?
        """
    )

    private static let claimColumns = """
        id, expires, token, topic, type, priority, expiration, collapse, payload, queued_at, deadline, attempts, \
        resends, tried, supersedes IS NOT NULL
        """

    /// Nil if the row is damaged.
    private static func claimedPush(_ row: PreparedSQL, epoch: Int64) -> ClaimedPush? {
        guard let id = row.id(2), let token = row.withBytes(4, TokenBytes.token) else { return nil }
        guard let push = Self.preparedPush(row, at: 5) else { return nil }
        return ClaimedPush(
            claim: Claim(id: id, epoch: epoch, position: row.int64(1)),
            token: token,
            push: push,
            deadline: QueueTime(millisecondsSince1970: row.int64(12)),
            queuedAt: QueueTime(millisecondsSince1970: row.int64(11)),
            attempts: row.count(13),
            resendsUnknown: row.int64(14) != 0,
            mayBeProcessed: row.int64(15) == 2
        )
    }

    /// Reads the columns topic, type, priority, expiration, collapse and payload; nil if the row is damaged.
    static func preparedPush(_ row: PreparedSQL, at first: Int32) -> PreparedPush? {
        PreparedPush(
            storedTopic: row.text(first),
            type: row.text(first + 1),
            priority: row.optionalInt64(first + 2),
            expiration: row.optionalInt64(first + 3),
            collapse: row.optionalText(first + 4),
            payload: row.bytes(first + 5)
        )
    }
}

import APNSModel
import PushQueue

extension WriteTransaction {
    func cancelAll(_ route: Route, limit: Int) throws -> Int {
        guard limit > 0, let id = try self.state.names.id(of: route, in: self.db) else { return 0 }
        let select = try self.db.prepared(
            """
            SELECT position FROM (SELECT position FROM queue WHERE route = ?1 LIMIT ?2)
            UNION ALL SELECT position FROM parked WHERE route = ?1 LIMIT ?2
            """
        )
        select.bind(1, id)
        select.bind(2, limit)
        var positions: [Int64] = []
        try select.forEach { row in
            positions.append(row.int64(0))
            return true
        }
        var cancelled = 0
        for position in positions {
            guard let push = try self.push(at: position) else { continue }
            cancelled += 1
            try self.settle(push, with: .cancelled(push.id, attempts: push.attempts))
        }
        return cancelled
    }

    /// What is counted of an outcome.
    struct OutcomeKind: Hashable {
        var certainty: Certainty
        /// Whether the outcome invalidates the device token.
        var invalidates: Bool
    }

    /// Counts outcomes of a kind if the route is the one of a batch.
    func count(_ kind: OutcomeKind, of route: Int64, pushes: Int = 1) throws {
        guard try self.state.names.route(route, in: self.db).batch != nil else { return }
        let sql = try self.db.prepared(
            """
            INSERT INTO batch_outcome (route, certainty, invalidates, pushes) VALUES (?, ?, ?, ?)
            ON CONFLICT (route, certainty, invalidates) DO UPDATE SET pushes = pushes + excluded.pushes
            """
        )
        sql.bind(1, route)
        sql.bind(2, kind.certainty.storedNumber)
        sql.bind(3, kind.invalidates ? 1 : 0)
        sql.bind(4, pushes)
        try sql.run()
    }

    func batchCounts(of route: Route) throws -> BatchCounts {
        var counts = BatchCounts()
        guard route.batch != nil, let id = try self.state.names.id(of: route, in: self.db) else { return counts }
        if let totals = self.state.totals.routes[id] {
            counts.pushes.queued = totals.queued
            counts.pushes.claimed = totals.claimed
            counts.pushes.written = totals.written
            counts.pushes.parked = totals.parked
        }
        let sql = try self.db.prepared("SELECT certainty, invalidates, pushes FROM batch_outcome WHERE route = ?")
        sql.bind(1, id)
        try sql.forEach { row in
            let certainty = Certainty.allCases.first { $0.storedNumber == row.int(0) } ?? .unknown
            counts.outcomes[certainty, default: 0] += row.count(2)
            if row.int64(1) != 0 { counts.deadTokens += row.count(2) }
            return true
        }
        return counts
    }

    func forget(_ route: Route) throws {
        // A request may have added pushes a moment ago.
        guard let id = try self.state.names.id(of: route, in: self.db), self.state.totals.routes[id] == nil else {
            return
        }
        for delete in ["DELETE FROM batch_outcome WHERE route = ?", "DELETE FROM route WHERE id = ?"] {
            let sql = try self.db.prepared(delete)
            sql.bind(1, id)
            try sql.run()
        }
        self.state.names.forget(route)
    }
}

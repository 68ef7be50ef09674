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

    /// Counts an outcome if the route is the one of a batch.
    func count(_ certainty: Certainty, of route: Int64, pushes: Int = 1) throws {
        guard try self.state.names.route(route, in: self.db).batch != nil else { return }
        let sql = try self.db.prepared(
            """
            INSERT INTO batch_outcome (route, certainty, pushes) VALUES (?, ?, ?)
            ON CONFLICT (route, certainty) DO UPDATE SET pushes = pushes + excluded.pushes
            """
        )
        sql.bind(1, route)
        sql.bind(2, OutcomeColumns.code(of: certainty))
        sql.bind(3, pushes)
        try sql.run()
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

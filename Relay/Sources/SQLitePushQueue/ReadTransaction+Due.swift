package import PushQueue

/// Whether a writing call would have something to do.
extension ReadTransaction {
    /// Whether a push of the route is due, possibly one that must be settled.
    package mutating func hasDue(_ route: Route, at now: QueueTime) throws -> Bool {
        guard let id = try self.names.id(of: route, in: self.db) else { return false }
        let select = try self.db.prepared("SELECT 1 FROM queue WHERE route = ? AND due <= ? LIMIT 1")
        select.bind(1, id)
        select.bind(2, now.millisecondsSince1970)
        return try select.first { _ in true } ?? false
    }

    package func hasOverdue(at now: QueueTime) throws -> Bool {
        let select = try self.db.prepared(
            """
            SELECT 1 FROM push WHERE expires <= ?
            AND NOT EXISTS (SELECT 1 FROM flight WHERE flight.position = push.position) LIMIT 1
            """
        )
        select.bind(1, now.millisecondsSince1970)
        return try select.first { _ in true } ?? false
    }

    package func hasExpiredLease(at now: QueueTime) throws -> Bool {
        let select = try self.db.prepared("SELECT 1 FROM flight WHERE lease <= ? LIMIT 1")
        select.bind(1, now.millisecondsSince1970)
        return try select.first { _ in true } ?? false
    }
}

package import PushQueue

/// What a shared queue reads before or after a writing call.
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

    /// Whether the claim is the push's present one and is marked as written.
    package func isWritten(_ claim: Claim) throws -> Bool {
        let select = try self.db.prepared("SELECT 1 FROM flight WHERE position = ? AND epoch = ? AND state = ?")
        select.bind(1, claim.position)
        select.bind(2, claim.epoch)
        select.bind(3, WriteTransaction.writtenState)
        return try select.first { _ in true } ?? false
    }
}

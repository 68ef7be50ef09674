import APNSModel
import PushQueue

/// Storing what another queue had.
extension WriteTransaction {
    func adopt(_ bounds: FeedBounds) throws {
        var ordinal: Int64 = 0
        let delete = try self.db.prepared("DELETE FROM counter WHERE name >= 'feed/' AND name < 'feed0'")
        try delete.run()
        let own = FeedGenerations.Generation(id: .random(in: 1...UInt32.max), start: bounds.next)
        for generation in bounds.generations + [own] {
            ordinal += 1
            try self.setCounter(Self.generationName(ordinal, generation.id), generation.start)
        }
        // Each opening has a larger number than those before it; the epochs of claims begin with it, too.
        try self.setCounter("generation", max(ordinal, try self.counter("generation") ?? 0))
        try self.setCounter("cursor", bounds.next)
        if bounds.deleted > 0 { try self.setCounter("pruned", bounds.deleted) }
        self.state.nextCursor = bounds.next
    }

    func store(_ entry: FeedEntry) throws {
        guard let outcome = entry.push.outcome, let settledAt = entry.push.settledAt else { return }
        let push = entry.push
        let route = try self.state.names.idAddingIfNeeded(of: push.route, in: self.db)
        let position = try self.newPosition(push.id)
        let insert = try self.db.prepared(
            """
            INSERT INTO outcome (cursor, position, id, route, queued_at, due, deadline, token, attempts, settled_at,
            invalidates, metadata, \(OutcomeColumns.names))
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, \(OutcomeColumns.placeholders))
            """
        )
        insert.bind(1, entry.cursor.position)
        insert.bind(2, position)
        insert.bind(3, push.id)
        insert.bind(4, route)
        insert.bind(5, push.queuedAt.millisecondsSince1970)
        insert.bind(6, push.notBefore.millisecondsSince1970)
        insert.bind(7, push.deadline.millisecondsSince1970)
        insert.bind(8, TokenBytes.bytes(of: push.token))
        insert.bind(9, push.attempts)
        insert.bind(10, settledAt.millisecondsSince1970)
        insert.bind(11, outcome.invalidation == nil ? 0 : 1)
        insert.bind(12, push.metadata)
        OutcomeColumns.bind(outcome, of: push.id, to: insert, at: 13)
        try insert.run()
        try self.count(outcome.certainty, of: route)
    }

    func store(_ unsettled: UnsettledPush) throws {
        let push = unsettled.push
        let position = try self.newPosition(push.id)
        let route = try self.state.names.idAddingIfNeeded(of: push.route, in: self.db)
        let caller = try self.state.names.idAddingIfNeeded(ofCaller: push.route.caller, in: self.db)
        try self.addPush(push, position, route, caller)
        if let outcome = unsettled.outcome { try self.setAttempt(outcome, of: push.id, at: position) }
        let update = try self.db.prepared("UPDATE push SET queued_at = ?, attempts = ?, tried = ? WHERE position = ?")
        update.bind(1, unsettled.queuedAt.millisecondsSince1970)
        update.bind(2, unsettled.attempts)
        update.bind(3, Self.tried(unsettled.outcome))
        update.bind(4, position)
        try update.run()
        if let parkedAt = unsettled.parkedAt {
            try self.addParked(position: position, route: route, since: parkedAt)
            self.state.totals.add(1, to: .parked, of: route)
        } else {
            let due = min(push.notBefore.millisecondsSince1970, Schema.held - 1)
            try self.addQueued(position: position, route: route, due: due)
            self.state.totals.add(1, to: .queued, of: route)
        }
    }

    func store(_ key: SettledKey) throws {
        var position: Int64?
        if key.hasOutcome {
            let select = try self.db.prepared("SELECT position FROM ident WHERE id = ?")
            select.bind(1, key.id)
            position = try select.first { $0.int64(0) }
        }
        if position == nil {
            position = self.state.nextPosition
            self.state.nextPosition &+= 1
        }
        let insert = try self.db.prepared(
            """
            INSERT INTO idempotency (position, caller, key, digest, id, stored_at, settled_at) VALUES (?, ?, ?, ?, ?, ?, ?)
            """
        )
        insert.bind(1, position)
        insert.bind(2, try self.state.names.idAddingIfNeeded(ofCaller: key.caller, in: self.db))
        insert.bind(3, key.key.key)
        insert.bind(4, key.key.digest)
        insert.bind(5, key.id)
        insert.bind(6, key.settledAt.millisecondsSince1970)
        insert.bind(7, key.settledAt.millisecondsSince1970)
        try insert.run()
    }

    /// The position of a push that the queue does not have.
    private func newPosition(_ id: APNSID) throws -> Int64 {
        let position = self.state.nextPosition
        self.state.nextPosition &+= 1
        let insert = try self.db.prepared("INSERT INTO ident (id, position) VALUES (?, ?)")
        insert.bind(1, id)
        insert.bind(2, position)
        try insert.run()
        return position
    }
}

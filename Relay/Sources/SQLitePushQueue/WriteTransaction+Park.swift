import APNSModel
import PushQueue

extension WriteTransaction {
    func park(_ settlements: [Settlement]) throws {
        for settlement in settlements {
            guard let push = try self.claimed(settlement.claim) else { continue }
            try self.park(push, with: settlement.outcome)
        }
    }

    /// Parks a push with the outcome of its last attempt.
    func park(_ push: Push, with outcome: PushOutcome) throws {
        let tried = try self.addAttempt(outcome, of: push)
        try self.remove(push)
        let update = try self.db.prepared(
            "UPDATE push SET attempts = ?, tried = ?, expires = NULL WHERE position = ?"
        )
        update.bind(1, push.marks)
        update.bind(2, tried)
        update.bind(3, push.position)
        try update.run()
        let insert = try self.db.prepared("INSERT INTO parked (position, route, since) VALUES (?, ?, ?)")
        insert.bind(1, push.position)
        insert.bind(2, push.route)
        insert.bind(3, self.now.millisecondsSince1970)
        try insert.run()
        self.state.totals.add(1, to: .parked, of: push.route)
    }

    func retryParked(_ id: APNSID) throws -> Bool {
        guard let push = try self.push(of: id), push.isParked else { return false }
        let select = try self.db.prepared("SELECT deadline, expiration FROM push WHERE position = ?")
        select.bind(1, push.position)
        let expires = try select.first { row in
            Self.expires(
                deadline: QueueTime(millisecondsSince1970: row.int64(0)),
                Expiration(stored: row.optionalInt64(1))
            )
        }
        try self.remove(push)
        let update = try self.db.prepared("UPDATE push SET expires = ?, due = ?, attempts = 0 WHERE position = ?")
        update.bind(1, expires ?? .max)
        // A due time from an implausible clock would still lie in the future after the clock is corrected.
        let due = self.expiryNow.millisecondsSince1970
        update.bind(2, due)
        update.bind(3, push.position)
        try update.run()
        try self.addQueued(position: push.position, route: push.route, due: due)
        self.state.totals.add(1, to: .queued, of: push.route)
        return true
    }

    func dropParked(_ id: APNSID) throws -> Bool {
        guard let push = try self.push(of: id), push.isParked else { return false }
        try self.drop(push)
        return true
    }

    /// Settles a parked push with the outcome of its attempts.
    func drop(_ push: Push) throws {
        let outcome = try self.attempt(of: push) ?? .cancelled(push.id, attempts: push.attempts)
        try self.settle(push, with: outcome)
    }
}

import APNSModel
import PushQueue

extension WriteTransaction {
    func markWritten(_ claims: [Claim], lease: Duration) throws -> [Bool] {
        let end = self.leaseNow.advanced(by: lease).millisecondsSince1970
        if try self.markAll(claims, end) { return claims.map { _ in true } }
        let update = try self.db.prepared(
            "UPDATE flight SET state = ?, lease = ? WHERE position = ? AND epoch = ? AND state = ? AND lease > ?"
        )
        let route = try self.db.prepared("SELECT route FROM flight WHERE position = ?")
        return try claims.map { claim in
            update.bind(1, Self.writtenState)
            update.bind(2, end)
            update.bind(3, claim.position)
            update.bind(4, claim.epoch)
            update.bind(5, Self.claimedState)
            update.bind(6, self.leaseNow.millisecondsSince1970)
            guard try update.runAndCheckChange() else { return false }
            route.bind(1, claim.position)
            if let route = try route.first({ $0.int64(0) }) { self.didMark(1, of: route) }
            return true
        }
    }

    /// Marks all claims of one call of `claim` with one statement, which costs much less than one for each.
    ///
    /// - Returns: false if one of these claims has ended, or if the call of `claim` has others between them. Then nothing has
    ///   changed.
    private func markAll(_ claims: [Claim], _ end: Int64) throws -> Bool {
        guard let epoch = claims.first?.epoch, claims.allSatisfy({ $0.epoch == epoch }) else { return false }
        let positions = claims.map(\.position).sorted()
        let range = "WHERE position BETWEEN ?1 AND ?2 AND epoch = ?3 AND state = ?4 AND lease > ?5"
        let select = try self.db.prepared("SELECT position, route FROM flight \(range) ORDER BY position")
        let update = try self.db.prepared("UPDATE flight SET state = ?6, lease = ?7 \(range)")
        for sql in [select, update] {
            sql.bind(1, positions[0])
            sql.bind(2, positions[positions.count - 1])
            sql.bind(3, epoch)
            sql.bind(4, Self.claimedState)
            sql.bind(5, self.leaseNow.millisecondsSince1970)
        }
        var (found, route): ([Int64], Int64) = ([], 0)
        try select.forEach { row in
            found.append(row.int64(0))
            // All claims of an epoch are of one route.
            route = row.int64(1)
            return true
        }
        guard found == positions else { return false }
        update.bind(6, Self.writtenState)
        update.bind(7, end)
        try update.run()
        self.didMark(positions.count, of: route)
        return true
    }

    private func didMark(_ count: Int, of route: Int64) {
        self.state.totals.add(-count, to: .claimed, of: route)
        self.state.totals.add(count, to: .written, of: route)
    }

    func settle(_ settlements: [Settlement]) throws -> [SettleResult] {
        // A batch has one row for all outcomes of a kind.
        var counts: [Int64: [OutcomeKind: Int]] = [:]
        let results: [SettleResult] = try settlements.map { settlement in
            let claim = settlement.claim
            guard let push = try self.push(at: claim.position), push.id == claim.id else {
                return try self.outcome(of: claim).map { .alreadySettled($0) } ?? .stale
            }
            let outcome = settlement.outcome
            guard push.place.epoch == claim.epoch || outcome.certainty == .accepted else { return .stale }
            let kind = try self.store(outcome, of: push)
            counts[push.route, default: [:]][kind, default: 0] += 1
            return .settled
        }
        for (route, outcomes) in counts {
            for (kind, pushes) in outcomes { try self.count(kind, of: route, pushes: pushes) }
        }
        return results
    }

    private func outcome(of claim: Claim) throws -> PushOutcome? {
        guard let (id, outcome) = try self.outcome(at: claim.position) else { return nil }
        return id == claim.id ? outcome : nil
    }

    private func outcome(at position: Int64) throws -> (APNSID, PushOutcome)? {
        let sql = try self.db.prepared("SELECT id, \(OutcomeColumns.names) FROM outcome WHERE position = ?")
        sql.bind(1, position)
        return try sql.first { row in row.id(0).map { ($0, OutcomeColumns.read(row, at: 1, of: $0)) } } ?? nil
    }

    func cancel(_ id: APNSID) throws -> CancelResult {
        if let push = try self.push(of: id) {
            guard !push.place.isWritten else { return .written }
            try self.settle(push, with: .cancelled(id, attempts: push.attempts))
            return .cancelled
        }
        let sql = try self.db.prepared("SELECT position FROM ident WHERE id = ?")
        sql.bind(1, id)
        let position = try sql.first { $0.int64(0) }
        return try position.flatMap { try self.outcome(at: $0) }.map { .settled($0.1) } ?? .notFound
    }

    // MARK: Back to the queue

    func release(_ releases: [Release]) throws {
        for release in releases {
            guard let push = try self.claimed(release.claim) else { continue }
            try self.requeue(
                push,
                due: release.notBefore,
                outcome: release.outcome,
                countsAttempt: release.countsAttempt
            )
        }
    }

    /// Ends the claims whose lease has expired.
    ///
    /// A push without a mark is queued again. A push with a mark may have been sent. It ends as `unknown`, or is queued
    /// again if its owner asked for that (`NewPush.resendsUnknown`).
    ///
    /// - Parameter all: whether to end all other claims, too, because the process that made them has ended.
    func expireLeases(all: Bool = false) throws -> ExpiredLeases {
        let select = try self.db.prepared("SELECT position FROM flight WHERE lease <= ? ORDER BY position")
        select.bind(1, all ? .max : self.leaseNow.millisecondsSince1970)
        var positions: [Int64] = []
        try select.forEach { row in
            positions.append(row.int64(0))
            return true
        }
        var expired = ExpiredLeases()
        for position in positions {
            guard let push = try self.push(at: position) else { continue }
            let due = QueueTime(millisecondsSince1970: push.due)
            if !push.place.isWritten {
                try self.requeue(push, due: due, outcome: nil)
                expired.queued += 1
                continue
            }
            let outcome = PushOutcome.lost(push.id, attempts: push.marks)
            if push.resends {
                try self.requeue(push, due: due, outcome: outcome)
                expired.resent += 1
            } else {
                try self.settle(push, with: outcome)
                expired.unknown += 1
            }
        }
        return expired
    }

    /// Queues a claimed or written push again, or changes a queued one.
    func requeue(
        _ push: Push,
        due: QueueTime,
        outcome: PushOutcome?,
        countsAttempt: Bool = true
    ) throws {
        let tried = try self.addAttempt(outcome, of: push)
        try self.remove(push)
        let due = due.millisecondsSince1970
        let update = try self.db.prepared("UPDATE push SET due = ?, attempts = ?, tried = ? WHERE position = ?")
        update.bind(1, due)
        update.bind(2, countsAttempt ? push.marks : push.attempts)
        update.bind(3, tried)
        update.bind(4, push.position)
        try update.run()
        try self.addQueued(position: push.position, route: push.route, due: due)
        self.state.totals.add(1, to: .queued, of: push.route)
    }

    /// The push of a claim; nil if the claim has ended.
    func claimed(_ claim: Claim) throws -> Push? {
        guard let push = try self.push(at: claim.position), push.id == claim.id, push.place.epoch == claim.epoch else {
            return nil
        }
        return push
    }
}

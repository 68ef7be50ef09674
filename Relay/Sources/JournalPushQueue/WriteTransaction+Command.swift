import APNSModel
import GRDB
import PushQueue
import SQLitePushQueue

extension WriteTransaction {
    /// Does what a command says. What it does must not depend on `isOwn`.
    ///
    /// - Parameters:
    ///   - command: the command.
    ///   - session: the process that made it.
    ///   - isOwn: whether the result is wanted.
    /// - Throws: `DatabaseError`. Everything that a command can meet otherwise is a result.
    func run(_ command: QueueCommand, of session: APNSID, isOwn: Bool) throws -> CommandResult {
        switch command {
        case .enqueue(let pushes, let isPartial, let capacity):
            return try self.enqueueOrUndo(pushes, isPartial: isPartial, capacity: capacity)
        case .claim(let route, let limit, let lease):
            let epoch = self.state.nextEpoch
            let (positions, isBlocked) = try self.claimUnread(route, limit: limit, lease: lease)
            guard positions.isEmpty else {
                try self.addClaimant(session, epoch)
                return .claimed(
                    isOwn ? try self.claimedPushes(at: positions, epoch: epoch) : [],
                    isBlocked: false
                )
            }
            if isBlocked { try self.settleOverdue(of: route, limit: SQLitePushQueue.claimScan) }
            return .claimed([], isBlocked: isBlocked)
        case .markWritten(let claims, let lease): return .marks(try self.markWritten(claims, lease: lease))
        case .settle(let settlements): return .settled(try self.settle(settlements))
        case .release(let releases):
            try self.release(releases)
            return .nothing
        case .park(let settlements):
            try self.park(settlements)
            return .nothing
        case .expireLeases: return .expired(try self.expireLeases())
        case .settleOverdue(let limit): return .count(try self.settleOverdue(limit: limit))
        case .cancel(let id): return .cancelled(try self.cancel(id))
        case .retryParked(let id): return .flag(try self.retryParked(id))
        case .dropParked(let id): return .flag(try self.dropParked(id))
        case .setValue(let value, let key):
            try self.setValue(value, forKey: key)
            return .nothing
        case .exchangeValue(let value, let key, let expected):
            return .flag(try self.exchangeValue(value, forKey: key, expecting: expected))
        case .endClaims(let sessions): return .expired(try self.endClaims(of: sessions))
        case .prune(let retention, let limit):
            try self.pruneClaimants()
            return .count(try self.prune(retention, limit: limit))
        }
    }

    // MARK: Claimants

    private func addClaimant(_ session: APNSID, _ epoch: Int64) throws {
        let insert = try self.db.prepared("INSERT INTO claimant (epoch, session) VALUES (?, ?)")
        insert.bind(1, epoch)
        insert.bind(2, session)
        try insert.run()
    }

    private func endClaims(of sessions: [APNSID]) throws -> ExpiredLeases {
        let select = try self.db.prepared(
            """
            SELECT position FROM flight JOIN claimant USING (epoch) WHERE claimant.session = ? ORDER BY position
            """
        )
        var positions: [Int64] = []
        for session in sessions {
            select.bind(1, session)
            try select.forEach { row in
                positions.append(row.int64(0))
                return true
            }
        }
        return try self.expireLeases(of: positions)
    }

    private func pruneClaimants() throws {
        try self.db.prepared("DELETE FROM claimant WHERE epoch NOT IN (SELECT epoch FROM flight)").run()
    }

    private func enqueueOrUndo(_ pushes: [NewPush], isPartial: Bool, capacity: Int?) throws -> CommandResult {
        let before = self.state
        try self.db.execute(sql: "SAVEPOINT enqueue")
        let result: CommandResult
        do {
            result = .enqueued(try self.enqueue(pushes, isPartial: isPartial, capacity: capacity))
        } catch let conflict as EnqueueConflict {
            result = .enqueued(conflict.results)
            try self.undo(before)
        } catch let error as QueueError where error.code == .full {
            result = .full(error)
            try self.undo(before)
        }
        try self.db.execute(sql: "RELEASE enqueue")
        return result
    }

    private func undo(_ before: WriterState) throws {
        self.state = before
        try self.db.execute(sql: "ROLLBACK TO enqueue")
    }
}

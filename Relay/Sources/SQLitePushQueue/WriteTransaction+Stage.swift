import APNSModel
import PushQueue

/// Calls of `enqueue` that are stored in parts, so that other calls run between two parts.
///
/// The rows are stored first. They are hidden, because all rows from the position `staged.first` on are hidden. Then
/// one small transaction completes the call. From then on its pushes are stored, even if the process dies. Finally they
/// are queued, and replace older pushes.
extension WriteTransaction {
    /// Stores a push of a large call without queueing it.
    func stage(_ push: NewPush, capacity: Int?) throws -> EnqueueResult {
        let caller = try self.state.names.idAddingIfNeeded(ofCaller: push.route.caller, in: self.db)
        if let known = try self.knownResult(of: push, caller) { return known }
        let position = self.state.nextPosition
        let route = try self.state.names.idAddingIfNeeded(of: push.route, in: self.db)
        let staged = position &- (self.state.staged?.first ?? position)
        if let capacity, Int64(clamping: self.state.totals.unsettled) &+ staged >= Int64(clamping: capacity),
            try !self.replacesAnother(push)
        {
            let delete = try self.db.prepared("DELETE FROM ident WHERE id = ?")
            delete.bind(1, push.id)
            try delete.run()
            throw self.full(capacity)
        }
        if self.state.staged == nil {
            self.state.staged = StagedPushes(first: position)
            try self.setCounter(StagedPushes.incomplete, position)
        }
        self.state.nextPosition &+= 1
        try self.addPush(push, position, route, caller)
        return .queued
    }

    private func replacesAnother(_ push: NewPush) throws -> Bool {
        guard let key = push.supersedes else { return false }
        let subject = Subject(key: key.rawValue, token: TokenBytes.bytes(of: push.token))
        return try self.pushes(with: subject, of: push.route).contains { !$0.place.isWritten }
    }

    /// Completes the call whose pushes are staged.
    func completeStaged() throws {
        guard var staged = self.state.staged, !staged.isComplete else { return }
        try self.removeCounter(staged.counter)
        staged.isComplete = true
        self.state.staged = staged
        try self.setCounter(staged.counter, staged.first)
    }

    /// Queues the next pushes of a complete call, or deletes those of an incomplete one.
    ///
    /// - Parameter limit: the maximum number of pushes to queue or delete.
    /// - Returns: whether no staged push remains.
    func finishStaged(limit: Int64) throws -> Bool {
        guard let staged = self.state.staged else { return true }
        let end = min(staged.first &+ limit, self.state.nextPosition)
        if staged.isComplete {
            for position in staged.first..<max(end, staged.first) { try self.publish(position) }
        } else {
            try self.deleteStaged(staged.first, end)
        }
        if end < self.state.nextPosition {
            self.state.staged?.first = end
            try self.setCounter(staged.counter, end)
            return false
        }
        self.state.staged = nil
        try self.removeCounter(staged.counter)
        return true
    }

    private func publish(_ position: Int64) throws {
        guard let push = try self.hiddenPush(at: position) else { return }
        var isHeld = false
        if let subject = push.supersedes {
            let route = try self.state.names.route(push.route, in: self.db)
            isHeld = try self.supersede(subject.key, subject.token, route)
        }
        // From here on, this push is visible to later pushes of the call.
        self.state.staged?.first = position &+ 1
        try self.addQueued(position: position, route: push.route, due: isHeld ? Schema.held : push.due)
        self.state.totals.add(1, to: .queued, of: push.route)
    }

    private func deleteStaged(_ first: Int64, _ end: Int64) throws {
        let range = "position >= ? AND position < ?"
        for sql in [
            "DELETE FROM ident WHERE id IN (SELECT id FROM push WHERE \(range))",
            "DELETE FROM idempotency WHERE \(range)", "DELETE FROM push WHERE \(range)",
        ] {
            let delete = try self.db.prepared(sql)
            delete.bind(1, first)
            delete.bind(2, end)
            try delete.run()
        }
    }

    /// Undoes the large call that a dead process was storing, or queues its pushes if all of them are stored.
    func recoverStaged() throws {
        for isComplete in [false, true] {
            var staged = StagedPushes(first: 0, isComplete: isComplete)
            guard let first = try self.counter(staged.counter) else { continue }
            staged.first = max(first, 1)
            self.state.staged = staged
            while try !self.finishStaged(limit: 10_000) {}
        }
    }

    private func removeCounter(_ name: String) throws {
        let sql = try self.db.prepared("DELETE FROM counter WHERE name = ?")
        sql.bind(1, name)
        try sql.run()
    }
}

import APNSModel
import PushQueue

/// Pushes that replace each other (`NewPush.supersedes`).
///
/// Among the unsettled pushes with the same supersede key, device token, app and environment, there is at most one
/// written push and at most one push that is not written. The latter is the newest. It is held while the other is
/// written.
extension WriteTransaction {
    /// Settles the pushes that a new one replaces.
    ///
    /// - Returns: whether the new push is held, because another one is written.
    func supersede(_ key: String, _ token: [UInt8], _ route: Route) throws -> Bool {
        var isHeld = false
        for push in try self.pushes(with: Subject(key: key, token: token), of: route) {
            if push.place.isWritten {
                isHeld = true
            } else {
                try self.settle(push, with: .superseded(push.id, attempts: push.attempts))
            }
        }
        return isHeld
    }

    /// Whether a newer push replaces this one.
    func isSuperseded(_ push: Push) throws -> Bool {
        try self.rivals(of: push).contains { $0.position > push.position }
    }

    /// Queues the push that was held because of this one, unless another push with the same key is claimed or written.
    func queueHeld(after push: Push) throws {
        let rivals = try self.rivals(of: push)
        if rivals.contains(where: { $0.place.epoch != nil }) { return }
        for rival in rivals where try self.removeQueued(rival, due: Schema.held) {
            try self.addQueued(position: rival.position, route: rival.route, due: rival.due)
        }
    }

    private func rivals(of push: Push) throws -> [Push] {
        guard let subject = push.supersedes else { return [] }
        let route = try self.state.names.route(push.route, in: self.db)
        return try self.pushes(with: subject, of: route).filter { $0.position != push.position }
    }

    func pushes(with subject: Subject, of route: Route) throws -> [Push] {
        let sql = try self.db.prepared("SELECT position FROM push WHERE supersedes = ? AND token = ? ORDER BY position")
        sql.bind(1, subject.key)
        sql.bind(2, subject.token)
        var positions: [Int64] = []
        try sql.forEach { row in
            positions.append(row.int64(0))
            return true
        }
        return try positions.compactMap { position in
            guard let push = try self.push(at: position) else { return nil }
            let other = try self.state.names.route(push.route, in: self.db)
            return other.app == route.app && other.environment == route.environment ? push : nil
        }
    }
}

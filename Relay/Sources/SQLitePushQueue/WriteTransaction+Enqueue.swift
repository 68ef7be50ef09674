import APNSModel
import GRDB
import PushQueue

/// The error that rolls back a call of `enqueue` with conflicts.
struct EnqueueConflict: Error {
    var results: [EnqueueResult]
}

/// What new pushes must not exceed.
struct IntakeLimits {
    /// The maximum number of pushes without an outcome; nil for no limit.
    var capacity: Int?
    var disk: QueueDisk
}

extension WriteTransaction {
    /// Stores pushes. If it throws, the caller must roll back.
    ///
    /// - Parameters:
    ///   - pushes: any number.
    ///   - isPartial: whether to store the other pushes if some are in conflict.
    ///   - limits: the capacity and the room on the disk.
    /// - Throws: `EnqueueConflict` if there is a conflict and the call is not partial; `QueueError`: `full`, or
    ///   `unavailable` if the disk has no room.
    func enqueue(_ pushes: [NewPush], isPartial: Bool, _ limits: IntakeLimits) throws -> [EnqueueResult] {
        var results: [EnqueueResult] = []
        results.reserveCapacity(pushes.count)
        var hasConflict = false
        var isStored = false
        for push in pushes {
            let result = try self.enqueue(push, limits.capacity)
            if result == .queued { isStored = true }
            if case .conflict = result { hasConflict = true }
            results.append(result)
        }
        if hasConflict, !isPartial { throw EnqueueConflict(results: results) }
        // Known pushes need no room.
        if isStored { try limits.disk.require(self.db) }
        return results
    }

    private func enqueue(_ push: NewPush, _ capacity: Int?) throws -> EnqueueResult {
        let caller = try self.state.names.idAddingIfNeeded(ofCaller: push.route.caller, in: self.db)
        if let known = try self.knownResult(of: push, caller) { return known }
        let position = self.state.nextPosition
        let route = try self.state.names.idAddingIfNeeded(of: push.route, in: self.db)
        if let capacity, self.state.totals.unsettled >= capacity {
            throw QueueError.full(capacity)
        }
        self.state.nextPosition &+= 1
        try self.addPush(push, position, route, caller)
        try self.addQueued(position: position, route: route, due: push.notBefore.millisecondsSince1970)
        self.state.totals.add(1, to: .queued, of: route)
        return .queued
    }

    /// The result for a known push. If the push is new, registers its id for the next position and returns nil.
    func knownResult(of push: NewPush, _ caller: Int64) throws -> EnqueueResult? {
        if let key = push.idempotency, let known = try self.known(key, of: caller) { return known }
        if try self.addIdent(push.id, self.state.nextPosition) { return nil }
        return try self.isStored(push) ? .duplicate(of: push.id) : .conflict(with: push.id)
    }

    private func known(_ key: IdempotencyKey, of caller: Int64) throws -> EnqueueResult? {
        let sql = try self.db.prepared("SELECT id, digest FROM idempotency WHERE caller = ? AND key = ?")
        sql.bind(1, caller)
        sql.bind(2, key.key)
        return try sql.first { row -> EnqueueResult in
            guard let id = row.id(0) else {
                throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: "an idempotency key has no push")
            }
            return row.bytes(1) == key.digest ? .duplicate(of: id) : .conflict(with: id)
        }
    }

    /// Registers an id. Returns false if the id is already known.
    private func addIdent(_ id: APNSID, _ position: Int64) throws -> Bool {
        let sql = try self.db.prepared("INSERT OR IGNORE INTO ident (id, position) VALUES (?, ?)")
        sql.bind(1, id)
        sql.bind(2, position)
        return try sql.runAndCheckChange()
    }

    /// Whether the known push with this id was submitted with the same digest.
    private func isStored(_ push: NewPush) throws -> Bool {
        guard let digest = push.idempotency?.digest else { return false }
        let sql = try self.db.prepared(
            "SELECT digest FROM ident JOIN idempotency USING (position) WHERE ident.id = ?"
        )
        sql.bind(1, push.id)
        return try sql.first { $0.bytes(0) == digest } ?? false
    }

    /// Adds the row of a push, and its idempotency key.
    func addPush(_ push: NewPush, _ position: Int64, _ route: Int64, _ caller: Int64) throws {
        let sql = try self.db.prepared(
            """
            INSERT INTO push (position, id, route, queued_at, due, deadline, expires, attempts, tried, resends,
            supersedes, token, topic, type, priority, expiration, collapse, payload, metadata)
            VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """
        )
        sql.bind(1, position)
        sql.bind(2, push.id)
        sql.bind(3, route)
        sql.bind(4, self.now.millisecondsSince1970)
        sql.bind(5, push.notBefore.millisecondsSince1970)
        sql.bind(6, push.deadline.millisecondsSince1970)
        sql.bind(7, Self.expires(deadline: push.deadline, push.push.expiration))
        sql.bind(8, push.resendsUnknown ? 1 : 0)
        sql.bind(9, push.supersedes?.rawValue)
        sql.bind(10, TokenBytes.bytes(of: push.token))
        sql.bind(11, push.push.topic)
        sql.bind(12, push.push.pushType.rawValue)
        sql.bind(13, push.push.priority.map { Int64($0.rawValue) })
        sql.bind(14, push.push.expiration.headerValue)
        sql.bind(15, push.push.collapseID?.rawValue)
        sql.bind(16, push.push.payload)
        sql.bind(17, push.metadata)
        try sql.run()
        if let key = push.idempotency { try self.addIdempotency(key, push.id, position, caller) }
    }

    /// When a push becomes overdue: its deadline or its expiration, whichever is earlier.
    static func expires(deadline: QueueTime, _ expiration: Expiration) -> Int64 {
        let expires = QueueTime(expirationOf: expiration).map { min($0, deadline) } ?? deadline
        return expires.millisecondsSince1970
    }

    private func addIdempotency(
        _ key: IdempotencyKey,
        _ id: APNSID,
        _ position: Int64,
        _ caller: Int64
    ) throws {
        let sql = try self.db.prepared(
            "INSERT INTO idempotency (position, caller, key, digest, id) VALUES (?, ?, ?, ?, ?)"
        )
        sql.bind(1, position)
        sql.bind(2, caller)
        sql.bind(3, key.key)
        sql.bind(4, key.digest)
        sql.bind(5, id)
        try sql.run()
    }
}

import APNSModel
import PushQueue

extension ReadTransaction {
    /// The generations of the feed with the names of their counters, the oldest first.
    func generations() throws -> [(name: String, value: FeedGenerations.Generation)] {
        var generations: [(name: String, value: FeedGenerations.Generation)] = []
        let select = "SELECT name, value FROM counter WHERE name >= 'feed/' AND name < 'feed0' ORDER BY name"
        try self.db.prepared(select).forEach { row in
            let name = row.text(0)
            let id = name.split(separator: "/").last.flatMap { UInt32($0, radix: 16) }
            generations.append((name, .init(id: id ?? 0, start: row.int64(1))))
            return true
        }
        return generations
    }

    func feedBounds() throws -> FeedBounds {
        FeedBounds(
            next: try self.nextCursor(),
            deleted: try self.counter("pruned") ?? 0,
            generations: try self.generations().map(\.value)
        )
    }

    mutating func unsettledPushes(after position: Int64, limit: Int) throws -> [UnsettledPush] {
        let sql = try self.db.prepared(
            """
            SELECT push.position, push.id, push.route, queued_at, due, deadline, attempts, resends, supersedes, token,
            topic, type, priority, expiration, collapse, payload, metadata, parked.since, key, digest, tried, attempt.*
            FROM push LEFT JOIN parked USING (position) LEFT JOIN idempotency USING (position)
            LEFT JOIN attempt USING (position) WHERE push.position > ? ORDER BY push.position LIMIT ?
            """
        )
        sql.bind(1, position)
        sql.bind(2, limit)
        var pushes: [UnsettledPush] = []
        try sql.forEach { row in
            guard let id = row.id(1), let token = row.withBytes(9, TokenBytes.token),
                let push = WriteTransaction.preparedPush(row, at: 10)
            else {
                throw QueueError.unreadable(row.id(1), at: row.int64(0))
            }
            pushes.append(
                UnsettledPush(
                    position: row.int64(0),
                    push: NewPush(
                        id: id,
                        route: try self.names.route(row.int64(2), in: self.db),
                        token: token,
                        push: push,
                        notBefore: QueueTime(millisecondsSince1970: row.int64(4)),
                        deadline: QueueTime(millisecondsSince1970: row.int64(5)),
                        resendsUnknown: row.int64(7) != 0,
                        supersedes: row.optionalText(8).map { SupersedeKey($0) },
                        idempotency: row.optionalText(18).map { IdempotencyKey(key: $0, digest: row.bytes(19)) },
                        metadata: row.optionalText(16)
                    ),
                    queuedAt: QueueTime(millisecondsSince1970: row.int64(3)),
                    attempts: row.count(6),
                    // The first column of `attempt` is its position.
                    outcome: row.int64(20) == 0 ? nil : OutcomeColumns.read(row, at: 22, of: id),
                    parkedAt: row.optionalInt64(17).map { QueueTime(millisecondsSince1970: $0) }
                )
            )
            return true
        }
        return pushes
    }

    mutating func settledKeys(after position: Int64, limit: Int) throws -> [SettledKey] {
        let sql = try self.db.prepared(
            """
            SELECT position, caller, key, digest, id, settled_at,
            EXISTS (SELECT 1 FROM ident WHERE ident.id = idempotency.id AND ident.position = idempotency.position)
            FROM idempotency WHERE position > ? AND settled_at IS NOT NULL ORDER BY position LIMIT ?
            """
        )
        sql.bind(1, position)
        sql.bind(2, limit)
        var keys: [SettledKey] = []
        try sql.forEach { row in
            guard let id = row.id(4) else { return true }
            keys.append(
                SettledKey(
                    position: row.int64(0),
                    caller: try self.names.caller(row.int64(1), in: self.db),
                    key: IdempotencyKey(key: row.text(2), digest: row.bytes(3)),
                    id: id,
                    settledAt: QueueTime(millisecondsSince1970: row.int64(5)),
                    hasOutcome: row.int64(6) != 0
                )
            )
            return true
        }
        return keys
    }
}

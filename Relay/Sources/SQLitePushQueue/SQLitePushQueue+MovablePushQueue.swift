public import PushQueue

extension SQLitePushQueue: MovablePushQueue {
    public func checkMovable() async throws(QueueError) {}

    public func isUnused() async throws(QueueError) -> Bool {
        try await self.read { db in
            let sql = try db.prepared(
                """
                SELECT (SELECT count(*) FROM counter WHERE name = 'cursor') + (SELECT count(*) FROM push) +
                (SELECT count(*) FROM outcome) + (SELECT count(*) FROM idempotency)
                """
            )
            return try sql.first { $0.int64(0) == 0 } ?? false
        }
    }

    /// Without effect: no other process can use the file.
    public func seal(_ extent: SealExtent) async throws(QueueError) {}

    public func unseal() async throws(QueueError) {}

    public func feedBounds() async throws(QueueError) -> FeedBounds {
        try await self.read { try ReadTransaction($0).feedBounds() }
    }

    /// This open queue still gives out cursors of its old histories. Open it again before you read its feed.
    public func adopt(_ bounds: FeedBounds) async throws(QueueError) {
        try await self.write { try $0.adopt(bounds) }
    }

    public func unsettledPushes(after position: Int64, limit: Int) async throws(QueueError) -> [UnsettledPush] {
        try await self.read { db in
            var transaction = ReadTransaction(db)
            return try transaction.unsettledPushes(after: position, limit: limit)
        }
    }

    public func settledKeys(after position: Int64, limit: Int) async throws(QueueError) -> [SettledKey] {
        try await self.read { db in
            var transaction = ReadTransaction(db)
            return try transaction.settledKeys(after: position, limit: limit)
        }
    }

    public func store(_ part: QueuePart, value: [UInt8], forKey key: String) async throws(QueueError) {
        try await self.write { transaction in
            guard try ReadTransaction(transaction.db).value(forKey: key) != value else { return }
            for entry in part.outcomes { try transaction.store(entry) }
            for push in part.pushes { try transaction.store(push) }
            for key in part.keys { try transaction.store(key) }
            try transaction.setValue(value, forKey: key)
        }
    }
}

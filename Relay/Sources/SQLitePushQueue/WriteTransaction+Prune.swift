import APNSModel
import PushQueue

extension WriteTransaction {
    /// Deletes rows whose retention is over, and drops parked pushes that are too old.
    ///
    /// - Returns: the number of deleted rows and dropped pushes, at most `limit`.
    func prune(_ retention: Retention, limit: Int) throws -> Int {
        let limit = max(limit, 0)
        let keys = self.cutoff(retention.idempotencyKeys)
        var deleted = try self.pruneKeys(keys, limit: limit)
        deleted += try self.dropParked(since: self.cutoff(retention.parked), limit: limit - deleted)
        deleted += try self.pruneOutcomes(self.cutoff(retention.outcomes), limit: limit - deleted)
        if deleted < limit { try self.shrink() }
        return deleted
    }

    private func cutoff(_ retention: Duration) -> Int64 {
        self.expiryNow.advanced(by: .zero - retention).millisecondsSince1970
    }

    /// Deletes the idempotency keys of pushes that were settled long enough ago.
    private func pruneKeys(_ cutoff: Int64, limit: Int) throws -> Int {
        let old = try self.oldest(
            "SELECT position, settled_at FROM idempotency WHERE settled_at IS NOT NULL ORDER BY settled_at LIMIT ?",
            cutoff,
            limit: limit
        )
        let delete = try self.db.prepared("DELETE FROM idempotency WHERE position = ?")
        for position in old {
            delete.bind(1, position)
            try delete.run()
        }
        return old.count
    }

    private func dropParked(since cutoff: Int64, limit: Int) throws -> Int {
        let old = try self.oldest(
            "SELECT position, since FROM parked ORDER BY since, position LIMIT ?",
            cutoff,
            limit: limit
        )
        for position in old {
            if let push = try self.push(at: position) { try self.drop(push) }
        }
        return old.count
    }

    private func pruneOutcomes(_ cutoff: Int64, limit: Int) throws -> Int {
        let old = try self.oldest(
            "SELECT cursor, settled_at FROM outcome ORDER BY cursor LIMIT ?",
            cutoff,
            limit: limit
        )
        guard let last = old.last else { return 0 }
        let idents = try self.db.prepared("DELETE FROM ident WHERE id IN (SELECT id FROM outcome WHERE cursor <= ?)")
        let outcomes = try self.db.prepared("DELETE FROM outcome WHERE cursor <= ?")
        for delete in [idents, outcomes] {
            delete.bind(1, last)
            try delete.run()
        }
        // Once the last row is deleted, the next cursor cannot be computed from the rows.
        try self.setCounter("cursor", self.state.nextCursor)
        try self.setCounter("pruned", last)
        return old.count
    }

    /// The keys of the first rows that are older than the cutoff. Stops at the first row that is not.
    private func oldest(_ sql: String, _ cutoff: Int64, limit: Int) throws -> [Int64] {
        guard limit > 0 else { return [] }
        let select = try self.db.prepared(sql)
        select.bind(1, limit)
        var keys: [Int64] = []
        try select.forEach { row in
            guard row.int64(1) <= cutoff else { return false }
            keys.append(row.int64(0))
            return true
        }
        return keys
    }

    func setCounter(_ name: String, _ value: Int64) throws {
        let sql = try self.db.prepared("INSERT OR REPLACE INTO counter (name, value) VALUES (?, ?)")
        sql.bind(1, name)
        sql.bind(2, value)
        try sql.run()
    }

    func counter(_ name: String) throws -> Int64? { try ReadTransaction(self.db).counter(name) }

    /// Returns up to 1,024 free pages to the file system if more than a quarter of the file, and more than 4,096 pages,
    /// are free.
    private func shrink() throws {
        let free = try self.db.prepared("PRAGMA freelist_count").first { $0.int64(0) } ?? 0
        let pages = try self.db.prepared("PRAGMA page_count").first { $0.int64(0) } ?? 0
        guard free > 4_096, free > pages / 4 else { return }
        try self.db.prepared("PRAGMA incremental_vacuum(1024)").run()
    }
}

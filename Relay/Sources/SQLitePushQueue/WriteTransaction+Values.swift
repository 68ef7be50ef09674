extension WriteTransaction {
    /// Stores a small durable value if the present value is the expected one.
    func exchangeValue(_ value: [UInt8]?, forKey key: String, expecting expected: [UInt8]?) throws -> Bool {
        guard try ReadTransaction(self.db).value(forKey: key) == expected else { return false }
        try self.setValue(value, forKey: key)
        return true
    }

    /// Stores a small durable value; nil removes it.
    func setValue(_ value: [UInt8]?, forKey key: String) throws {
        guard let value else {
            let delete = try self.db.prepared("DELETE FROM value WHERE key = ?")
            delete.bind(1, key)
            return try delete.run()
        }
        let insert = try self.db.prepared("INSERT OR REPLACE INTO value (key, value) VALUES (?, ?)")
        insert.bind(1, key)
        insert.bind(2, value)
        try insert.run()
    }
}

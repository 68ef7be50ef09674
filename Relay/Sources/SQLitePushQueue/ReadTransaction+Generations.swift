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
}

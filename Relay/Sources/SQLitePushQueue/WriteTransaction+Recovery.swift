import PushQueue

extension WriteTransaction {
    /// Reads the writer's state, and ends the claims of the process that used the file before.
    func recover() throws -> ExpiredLeases {
        try self.loadState()
        // Each opening uses its own range of epochs: the last epoch is not stored, and a power failure may undo a
        // claim.
        let generation = (try self.counter("generation") ?? 0) &+ 1
        try self.setCounter("generation", generation)
        self.state.nextEpoch = generation << 32
        return try self.expireLeases(all: true)
    }

    /// The maximum number of generations that the file remembers. A cursor of a forgotten generation is refused.
    private static let maxGenerations = 1_000

    /// Begins a generation of the feed. Call it after ``recover()``. Generations are stored as counters with the name
    /// `feed/ORDINAL/ID` and the generation's first position as the value.
    ///
    /// - Parameter id: a random number other than 0.
    func beginGeneration(_ id: UInt32) throws -> FeedGenerations {
        let ordinal = try self.counter("generation") ?? 0
        try self.setCounter(Self.generationName(ordinal, id), self.state.nextCursor)
        let generations = try ReadTransaction(self.db).generations()
        let kept = FeedGenerations.kept(generations.map(\.value), limit: Self.maxGenerations)
        let delete = try self.db.prepared("DELETE FROM counter WHERE name = ?")
        for generation in generations where !kept.contains(generation.value) {
            delete.bind(1, generation.name)
            try delete.run()
        }
        return FeedGenerations(kept)
    }

    static func generationName(_ ordinal: Int64, _ id: UInt32) -> String {
        "feed/\(Self.hex(UInt64(bitPattern: ordinal), 16))/\(Self.hex(UInt64(id), 8))"
    }

    private static func hex(_ number: UInt64, _ digits: Int) -> String {
        let text = String(number, radix: 16)
        return String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
    }

    /// Reads the writer's state, except for the next epoch.
    private func loadState() throws {
        try self.db.prepared("SELECT route, count(*) FROM queue GROUP BY route").forEach { row in
            self.state.totals.add(row.int(1), to: .queued, of: row.int64(0))
            return true
        }
        try self.db.prepared("SELECT route, count(*) FROM parked GROUP BY route").forEach { row in
            self.state.totals.add(row.int(1), to: .parked, of: row.int64(0))
            return true
        }
        try self.db.prepared("SELECT route, state, count(*) FROM flight GROUP BY route, state").forEach { row in
            let isWritten = row.int64(1) == Self.writtenState
            self.state.totals.add(row.int(2), to: isWritten ? .written : .claimed, of: row.int64(0))
            return true
        }
        self.state.nextPosition = try self.next("position", ["push", "outcome", "idempotency"])
        self.state.nextCursor = try self.next("cursor", ["outcome"])
    }

    /// The first number that is larger than all numbers in a column, and at least the stored counter.
    private func next(_ column: String, _ tables: [String]) throws -> Int64 {
        var next = try self.counter(column) ?? 1
        for table in tables {
            let last = try self.db.prepared("SELECT max(\(column)) FROM \(table)").first { $0.optionalInt64(0) } ?? nil
            if let last { next = max(next, last &+ 1) }
        }
        return next
    }
}

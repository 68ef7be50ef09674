import APNSModel
import PushQueue

extension WriteTransaction {
    /// What the opening of a file has found and done.
    struct Recovery {
        /// The claims of the process that used the file before.
        var expired: ExpiredLeases
        var generations: FeedGenerations
        /// The restore, if a backup was restored.
        var restore: QueueRestore?
    }

    /// Reads the writer's state, ends the claims of the process that used the file before, and begins a generation of the
    /// feed.
    func recover(_ options: SQLitePushQueue.Options) throws -> Recovery {
        try self.loadState()
        let known = self.state.progress
        let isRestored = options.isRestored || options.seen.map { known.isBehind($0) } ?? false
        let start = self.state.nextCursor
        if isRestored { try self.skipNumbers(after: options.seen.map { known.merged(with: $0) } ?? known) }
        // Each opening uses its own range of epochs: the last epoch is not stored, and a power failure may undo a
        // claim.
        self.state.opening &+= 1
        try self.setCounter("generation", self.state.opening)
        self.state.nextEpoch = self.state.opening << 32
        // Before the claims end: in the lost time, their pushes may have got other outcomes.
        let parked = isRestored && options.afterFailover == .park ? try self.parkDoubtful() : [:]
        return Recovery(
            expired: try self.expireLeases(all: true),
            generations: try self.beginGeneration(.random(in: 1...UInt32.max), start: start),
            restore: isRestored ? QueueRestore(parked: parked) : nil
        )
    }

    /// Skips the numbers that the file has given since it was copied.
    private func skipNumbers(after seen: QueueProgress) throws {
        let skipped: Int64 = 1_000_000_000
        self.state.nextCursor = max(self.state.nextCursor, seen.position &+ 1) &+ skipped
        self.state.nextPosition &+= skipped
        self.state.opening = max(self.state.opening, seen.history)
        try self.setCounter("cursor", self.state.nextCursor)
        try self.setCounter("position", self.state.nextPosition)
    }

    /// Parks the pushes that may have been sent in a time which this file has lost: those that are due, and those in flight.
    /// A push whose owner wants it sent again anyway is queued.
    private func parkDoubtful() throws -> [Route.Destination: Int] {
        let doubtful = try self.db.prepared(
            """
            SELECT position FROM push WHERE due <= ? AND expires IS NOT NULL
            UNION SELECT position FROM flight ORDER BY position
            """
        )
        doubtful.bind(1, self.now.millisecondsSince1970)
        var positions: [Int64] = []
        try doubtful.forEach { row in
            positions.append(row.int64(0))
            return true
        }
        var parked: [Route.Destination: Int] = [:]
        for position in positions {
            guard let push = try self.push(at: position) else { continue }
            let outcome = PushOutcome.restored(push.id, attempts: push.marks)
            if push.resends {
                try self.requeue(push, due: QueueTime(millisecondsSince1970: push.due), outcome: outcome)
            } else {
                try self.park(push, with: outcome)
                let route = try self.state.names.route(push.route, in: self.db)
                parked[route.destination, default: 0] += 1
            }
        }
        return parked
    }

    /// The maximum number of generations that the file remembers. A cursor of a forgotten generation is refused.
    private static let maxGenerations = 1_000

    /// Begins a generation of the feed. Generations are stored as counters with the name `feed/ORDINAL/ID` and the
    /// generation's first position as the value.
    ///
    /// - Parameters:
    ///   - id: a random number other than 0.
    ///   - start: the first position that it may assign.
    private func beginGeneration(_ id: UInt32, start: Int64) throws -> FeedGenerations {
        try self.setCounter(Self.generationName(self.state.opening, id), start)
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
        self.state.opening = try self.counter("generation") ?? 0
        if let queue = try self.counter("queue") {
            self.state.queue = queue
        } else {
            self.state.queue = .random(in: 1 ... .max)
            try self.setCounter("queue", self.state.queue)
        }
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

import APNSModel
import GRDB
import PushQueue
import SQLitePushQueue

/// An entry of the journal is not what this version writes.
struct UnreadableEntry: Error {
    var sequence: UInt64
}

/// Applies entries of the journal in a transaction that the caller begins and ends.
struct ApplyTransaction {
    /// A transaction takes no more entries after this time, so that results do not wait too long.
    private static let longestTransaction = Duration.milliseconds(50)

    private let db: Database
    /// The process whose results are wanted.
    private let session: APNSID
    private(set) var state: QueueCopy.State
    private(set) var applied: [QueueCopy.Applied] = []

    init(_ db: Database, _ state: QueueCopy.State, _ session: APNSID) {
        self.db = db
        self.state = state
        self.session = session
    }

    /// - Returns: how many of the entries were applied; at least one, if there is one.
    mutating func apply(_ entries: ArraySlice<JournalEntry>) throws -> Int {
        let start = ContinuousClock.now
        var count = 0
        for entry in entries {
            do {
                try self.apply(entry)
            } catch is MalformedBytes {
                throw UnreadableEntry(sequence: entry.sequence)
            }
            count += 1
            if start.duration(to: .now) > Self.longestTransaction { break }
        }
        return count
    }

    private mutating func apply(_ entry: JournalEntry) throws {
        let record = try JournalRecord(entry.record)
        self.state.progress.sequence = entry.sequence
        self.state.progress.bytes &+= UInt64(entry.record.count)
        self.state.progress.record = QueueCopy.RecordName(
            session: record.session,
            number: record.number,
            part: record.part
        )
        let isNew = self.state.sessions.begin(record, at: self.state.progress.leaseNow)
        if self.state.sessions[record.session]?.hasParts == true { try self.deleteParts(before: record) }
        guard isNew, let body = try self.body(of: record) else { return }
        self.state.sessions.end(record)
        let command = try TimedCommand(body)
        let now = command.times?.now ?? entry.time
        self.advanceLeaseTime(command.times?.lease, entry.time)
        let isTooLate = record.validUntil.map { entry.time > $0 } ?? false
        let result =
            isTooLate ? .tooLate : try self.run(command.command, of: record.session, at: now, entry.sequence)
        if record.session == self.session {
            self.applied.append(
                QueueCopy.Applied(number: record.number, result: result, sequence: entry.sequence)
            )
        }
        if case .prune = command.command { self.state.sessions.prune(at: self.state.progress.leaseNow) }
    }

    /// Lets the time for leases pass as it has passed since the entry before, but at most ``longestGap``: nobody could mark
    /// or settle pushes while there were no entries, so leases do not end in an outage of the brokers. A clock of a broker
    /// that jumps has no other effect.
    private mutating func advanceLeaseTime(_ given: QueueTime?, _ stored: QueueTime) {
        if let given {
            self.state.progress.leaseNow = max(self.state.progress.leaseNow, given)
        } else if let last = self.state.progress.time {
            let gap = min(max(last.duration(to: stored), .zero), QueueCopy.longestGap)
            self.state.progress.leaseNow = self.state.progress.leaseNow.advanced(by: gap)
        } else {
            self.state.progress.leaseNow = stored
        }
        self.state.progress.time = stored
    }

    // MARK: Parts

    /// The body of a command, once all parts are there.
    private func body(of record: JournalRecord) throws -> [UInt8]? {
        guard record.parts > 1 else { return record.body }
        let insert = try self.db.prepared(
            "INSERT OR REPLACE INTO part (session, number, part, body) VALUES (?, ?, ?, ?)"
        )
        insert.bind(1, record.session)
        insert.bind(2, Int64(bitPattern: record.number))
        insert.bind(3, Int64(record.part))
        insert.bind(4, record.body)
        try insert.run()
        let count = try self.db.prepared("SELECT count(*) FROM part WHERE session = ? AND number = ?")
        count.bind(1, record.session)
        count.bind(2, Int64(bitPattern: record.number))
        guard try count.first({ $0.int64(0) }) == Int64(record.parts) else { return nil }
        let select = try self.db.prepared("SELECT body FROM part WHERE session = ? AND number = ? ORDER BY part")
        select.bind(1, record.session)
        select.bind(2, Int64(bitPattern: record.number))
        var body: [UInt8] = []
        try select.forEach { row in
            row.withBytes(0) { body.append(contentsOf: $0) }
            return true
        }
        try self.deleteParts(of: record.number, record.session)
        return body
    }

    private func deleteParts(of number: UInt64, _ session: APNSID) throws {
        let delete = try self.db.prepared("DELETE FROM part WHERE session = ? AND number = ?")
        delete.bind(1, session)
        delete.bind(2, Int64(bitPattern: number))
        try delete.run()
    }

    /// Deletes the parts of commands that their process has given up.
    private func deleteParts(before record: JournalRecord) throws {
        let delete = try self.db.prepared("DELETE FROM part WHERE session = ? AND number < ?")
        delete.bind(1, record.session)
        delete.bind(2, Int64(bitPattern: record.floor))
        try delete.run()
    }

    // MARK: Commands

    private mutating func run(
        _ command: QueueCommand,
        of session: APNSID,
        at now: QueueTime,
        _ sequence: UInt64
    ) throws -> CommandResult {
        // The position in the journal is the epoch of claims: it increases always, and never repeats.
        self.state.writer.nextEpoch = Int64(clamping: sequence)
        let transaction = WriteTransaction(
            self.db,
            now: now,
            leaseNow: self.state.progress.leaseNow,
            state: self.state.writer
        )
        let result = try transaction.run(command, of: session, isOwn: session == self.session)
        self.state.writer = transaction.state
        return result
    }

    // MARK: Storing

    /// Writes the state to the file.
    mutating func store() throws {
        let now = QueueTime(millisecondsSince1970: 0)
        try WriteTransaction(self.db, now: now, leaseNow: now, state: self.state.writer).storeCounters()
        let progress = self.state.progress
        if let record = progress.record {
            let insert = try self.db.prepared(
                """
                INSERT OR REPLACE INTO journal (id, sequence, session, number, part, lease_now, bytes, time)
                VALUES (1, ?, ?, ?, ?, ?, ?, ?)
                """
            )
            insert.bind(1, Int64(bitPattern: progress.sequence))
            insert.bind(2, record.session)
            insert.bind(3, Int64(bitPattern: record.number))
            insert.bind(4, Int64(record.part))
            insert.bind(5, progress.leaseNow.millisecondsSince1970)
            insert.bind(6, Int64(bitPattern: progress.bytes))
            insert.bind(7, progress.time?.millisecondsSince1970)
            try insert.run()
        }
        for (id, session) in self.state.sessions.changes { try self.store(session, id) }
        self.state.sessions.forgetChanges()
    }

    private func store(_ session: CommandSessions.Session?, _ id: APNSID) throws {
        guard let session else {
            for table in ["session WHERE id", "part WHERE session"] {
                let delete = try self.db.prepared("DELETE FROM \(table) = ?")
                delete.bind(1, id)
                try delete.run()
            }
            return
        }
        var applied = ByteWriter()
        for number in session.applied.sorted() { applied.write(number) }
        let insert = try self.db.prepared(
            "INSERT OR REPLACE INTO session (id, floor, applied, used_at) VALUES (?, ?, ?, ?)"
        )
        insert.bind(1, id)
        insert.bind(2, Int64(bitPattern: session.floor))
        insert.bind(3, applied.bytes)
        insert.bind(4, session.usedAt.millisecondsSince1970)
        try insert.run()
    }
}

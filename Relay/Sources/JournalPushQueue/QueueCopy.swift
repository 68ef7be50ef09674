import APNSModel
import Dispatch
import Foundation
import GRDB
import Logging
import PushQueue
import SQLitePushQueue
import Synchronization

/// A process's copy of the queue, in a SQLite file. Applies the entries of the journal and answers reading calls.
///
/// The journal and its snapshot contain the whole queue, so the file is not synced for each commit. After a power
/// failure, the file may contain an older copy, and the entries since then are read again. Only the list of processes
/// that have used the file is not in the journal.
final class QueueCopy: Sendable {
    /// How far the copy has followed the journal.
    struct Progress: Sendable, Equatable {
        /// The last applied entry; 0 if there was none.
        var sequence: UInt64 = 0
        /// The record of that entry.
        var record: RecordName?
        /// The time for leases. It never goes back, and stands still while the journal has no entries.
        var leaseNow = QueueTime(millisecondsSince1970: .min)
        /// When the last command was stored.
        var time: QueueTime?
        /// The bytes of all entries so far.
        var bytes: UInt64 = 0
    }

    /// Which record an entry holds.
    struct RecordName: Sendable, Hashable {
        var session: APNSID
        var number: UInt64
        var part: UInt32
    }

    /// What the last commit has left.
    struct State: Sendable {
        var writer = WriterState()
        var sessions = CommandSessions()
        var progress = Progress()
    }

    /// A command of this process that was applied.
    struct Applied: Sendable {
        var number: UInt64
        var result: CommandResult
        var sequence: UInt64
    }

    /// The most that the time for leases advances from one command to the next. Relays append a heartbeat every 5 s.
    static let longestGap = Duration.seconds(30)

    let file: String
    private let pool: DatabasePool
    private let lock: Mutex<FileLock?>
    /// Only the writer changes it.
    private let state: Mutex<State>

    /// Opens the file, or creates an empty copy. A damaged file is replaced; it is kept as `FILE.damaged`.
    static func open(file: String, maxPageCount: Int?, logger: Logger) async throws(QueueError) -> QueueCopy {
        try await Self.perform(file) {
            let path = URL(fileURLWithPath: file).resolvingSymlinksInPath().path
            let lock = try FileLock(for: path)
            do {
                if FileManager.default.fileExists(atPath: Self.mark(path)) {
                    throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: "Damage was found before.")
                }
                return try QueueCopy(path, lock, maxPageCount)
            } catch let error as DatabaseError where Self.isDamage(error) {
                logger.error(
                    "The copy of the queue is damaged and will be fetched again",
                    metadata: ["file": "\(path)", "error": "\(error)"]
                )
                try Self.setAside(path)
                try? FileManager.default.removeItem(atPath: Self.mark(path))
                return try QueueCopy(path, lock, maxPageCount)
            }
        }
    }

    private static func isDamage(_ error: DatabaseError) -> Bool {
        error.resultCode == .SQLITE_CORRUPT || error.resultCode == .SQLITE_NOTADB
    }

    /// The mark of a file in which damage was found later. It is set aside when it is opened the next time.
    private static func mark(_ path: String) -> String { path + ".is-damaged" }

    private static func setAside(_ path: String) throws {
        for suffix in ["", "-wal", "-shm"] where FileManager.default.fileExists(atPath: path + suffix) {
            let aside = path + ".damaged" + suffix
            if FileManager.default.fileExists(atPath: aside) { try FileManager.default.removeItem(atPath: aside) }
            try FileManager.default.moveItem(atPath: path + suffix, toPath: aside)
        }
    }

    private init(_ path: String, _ lock: FileLock, _ maxPageCount: Int?) throws {
        let pool = try QueueFile(path: path, format: .copy, maxPageCount: maxPageCount).open()
        self.file = path
        self.pool = pool
        self.lock = Mutex(lock)
        self.state = Mutex(
            try pool.writeWithoutTransaction { db in
                try db.execute(sql: "PRAGMA synchronous = NORMAL")
                return try State(from: db)
            }
        )
    }

    var progress: Progress { self.state.withLock { $0.progress } }

    /// Whether a command of a process was applied.
    func hasApplied(_ number: UInt64, of session: APNSID) -> Bool {
        self.state.withLock { $0.sessions[session]?.hasApplied(number) ?? false }
    }

    var totals: QueueTotals { self.state.withLock { $0.writer.totals } }

    // MARK: Applying

    /// Applies the first of the entries, as many as fit in one transaction, and at least one.
    ///
    /// - Parameters:
    ///   - entries: the entries that follow the last applied one.
    ///   - session: this process. Only the results of its commands are returned.
    /// - Returns: how many entries were applied, and the results.
    /// - Throws: `QueueError`: `unusable` if an entry or the file cannot be read; `unavailable` if the file cannot be
    ///   written now. Nothing was applied then.
    func apply(_ entries: ArraySlice<JournalEntry>, for session: APNSID) async throws(QueueError) -> (Int, [Applied]) {
        let result: Result<(Int, [Applied]), any Error> = await withCheckedContinuation { continuation in
            self.pool.asyncWriteWithoutTransaction { db in
                continuation.resume(returning: Result { try self.apply(entries, for: session, db) })
            }
        }
        do {
            return try result.get()
        } catch let error as UnreadableEntry {
            throw QueueError(
                code: .unusable,
                message: "Entry \(error.sequence) of the journal cannot be read. A newer version wrote it, or the "
                    + "journal is damaged. Nothing was overwritten."
            )
        } catch let error as DatabaseError where Self.isDamage(error) || error.resultCode == .SQLITE_CONSTRAINT {
            _ = FileManager.default.createFile(atPath: Self.mark(self.file), contents: nil)
            throw QueueError(
                code: .unusable,
                message: "\(self.file) is damaged: \(error). Start the relay again; it sets the file aside and fetches "
                    + "the queue from the brokers."
            )
        } catch {
            throw QueueError(error, file: self.file)
        }
    }

    private func apply(
        _ entries: ArraySlice<JournalEntry>,
        for session: APNSID,
        _ db: Database
    ) throws -> (Int, [Applied]) {
        var transaction = ApplyTransaction(db, self.state.withLock { $0 }, session)
        try db.execute(sql: "BEGIN IMMEDIATE")
        do {
            let count = try transaction.apply(entries)
            try transaction.store()
            try db.execute(sql: "COMMIT")
            self.state.withLock { [state = transaction.state] in $0 = state }
            return (count, transaction.applied)
        } catch {
            if db.isInsideTransaction { try? db.execute(sql: "ROLLBACK") }
            throw error
        }
    }

    // MARK: Processes

    /// Adds a process that uses this file.
    ///
    /// - Returns: the processes that used the file before.
    func addProcess(_ session: APNSID) async throws(QueueError) -> [APNSID] {
        try await self.write { db in
            let earlier = try Self.processes(db)
            try Self.insert([session], db)
            return earlier
        }
    }

    /// Forgets processes that have left no claims.
    func removeProcesses(_ sessions: [APNSID]) async throws(QueueError) {
        try await self.write { db in
            let delete = try db.prepared("DELETE FROM process WHERE session = ?")
            for session in sessions {
                delete.bind(1, session)
                try delete.run()
            }
        }
    }

    private static func processes(_ db: Database) throws -> [APNSID] {
        var sessions: [APNSID] = []
        try db.prepared("SELECT session FROM process").forEach { row in
            if let id = row.id(0) { sessions.append(id) }
            return true
        }
        return sessions
    }

    private static func insert(_ sessions: [APNSID], _ db: Database) throws {
        let insert = try db.prepared("INSERT OR REPLACE INTO process (session) VALUES (?)")
        for session in sessions {
            insert.bind(1, session)
            try insert.run()
        }
    }

    private func write<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(QueueError) -> Value {
        try await Self.perform(self.file) { try self.pool.write(body) }
    }

    // MARK: Reading

    /// Reads from a snapshot of the file.
    func read<Value: Sendable>(
        _ body: @escaping @Sendable (inout ReadTransaction) throws -> Value
    ) async throws(QueueError) -> Value {
        let result: Result<Value, any Error> = await withCheckedContinuation { continuation in
            self.pool.asyncRead { db in
                continuation.resume(
                    returning: Result {
                        var transaction = ReadTransaction(try db.get())
                        return try body(&transaction)
                    }
                )
            }
        }
        do {
            return try result.get()
        } catch {
            throw QueueError(error, file: self.file)
        }
    }

    // MARK: Snapshots

    /// Writes a copy of the file.
    ///
    /// - Returns: what the copy contains.
    func writeSnapshot(to file: String) async throws(QueueError) -> JournalSnapshot {
        try await Self.perform(self.file) {
            try? FileManager.default.removeItem(atPath: file)
            try self.pool.unsafeRead { try $0.execute(sql: "VACUUM INTO ?", arguments: [file]) }
            let reader = try Self.reader(of: file)
            let progress = try reader.read { try Progress(from: $0) }
            try reader.close()
            let size = try FileManager.default.attributesOfItem(atPath: file)[.size] as? NSNumber
            return JournalSnapshot(
                sequence: progress.sequence,
                journalBytes: progress.bytes,
                size: size?.uint64Value ?? 0
            )
        }
    }

    /// Replaces the content with that of a snapshot.
    func restore(from file: String) async throws(QueueError) {
        try await Self.perform(self.file) {
            let processes = try self.pool.read { try Self.processes($0) }
            let state: State
            do {
                try Self.reader(of: file).close()
                // In the file of the snapshot, so that the copy never contains the processes of another one, whenever this
                // process is killed.
                let snapshot = try DatabaseQueue(path: file)
                state = try snapshot.write { db in
                    try db.execute(sql: "DELETE FROM process")
                    try Self.insert(processes, db)
                    return try State(from: db)
                }
                try snapshot.backup(to: self.pool)
                try snapshot.close()
            } catch let error as DatabaseError where Self.isDamage(error) {
                throw QueueError(code: .unusable, message: "The snapshot of the queue is damaged: \(error)")
            }
            self.state.withLock { $0 = state }
        }
    }

    private static func reader(of file: String) throws -> DatabaseQueue {
        try QueueFile(path: file, format: .copy).reader()
    }

    // MARK: Closing

    func close() async {
        await DispatchQueue.global().perform {
            self.lock.withLock { lock in
                guard lock != nil else { return }
                try? self.pool.close()
                lock = nil
            }
        }
    }

    /// Runs code that blocks, and says which file an error is about.
    private static func perform<Value: Sendable>(
        _ file: String,
        _ body: @escaping @Sendable () throws -> Value
    ) async throws(QueueError) -> Value {
        do {
            return try await DispatchQueue.global().perform(body)
        } catch {
            throw QueueError(error, file: file)
        }
    }
}

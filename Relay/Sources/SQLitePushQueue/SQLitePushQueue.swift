import Dispatch
import GRDB
public import Logging
public import PushQueue
import Synchronization

import Foundation

/// A queue in one SQLite file.
///
/// Only one process at a time can use a file. The queue holds exclusive locks on the file and on `FILE.lock` until it
/// is closed. So the claims that `open` finds belong to a process that has ended, and `open` ends them.
///
/// Writing calls of all tasks are committed in groups. A commit is synchronised with the disk, so the effect of a call
/// survives a power failure, too, except for that of `claim`. Reading calls never wait for writing calls.
public final class SQLitePushQueue: Sendable {
    public struct Options: Sendable, Hashable {
        /// The maximum number of pushes without an outcome; nil for no limit.
        public var capacity: Int?
        /// How long a call waits while another process has locked the database. Default 5 s.
        public var busyTimeout: Duration
        /// What happens to pushes that may have been sent since, when the file is an older copy of itself, restored from a
        /// backup. Default `park`.
        public var afterFailover = AfterFailover.park
        /// How far the queue had come when it was used last; nil if that is not known. If the file has come less far, a backup
        /// was restored.
        public var seen: QueueProgress?
        /// Whether an operator says that a backup was restored. Default false.
        public var isRestored = false
        /// The maximum number of pages of the file. Tests use it to simulate a full disk.
        package var maxPageCount: Int?

        public init(capacity: Int? = nil, busyTimeout: Duration = .seconds(5)) {
            self.capacity = capacity
            self.busyTimeout = busyTimeout
        }
    }

    /// Receives the number of calls in a transaction, and the duration of the transaction including its commit.
    public typealias WhenCommitted = @Sendable (_ calls: Int, _ duration: Duration) -> Void

    /// The number of claims that the previous process left in the file, by what happened to their pushes.
    public let expiredAtOpen: ExpiredLeases
    /// What was done because the file is an older copy of itself; nil if it is not.
    public let restore: QueueRestore?
    /// The database file, without symbolic links.
    public let file: String

    let options: Options
    let group: GroupCommit
    let generations: FeedGenerations
    let disk: QueueDisk
    private let pool: DatabasePool
    private let lock: Mutex<FileLock?>
    let failure = QueueFailure()
    let calls = CallGate()
    private let logger: Logger

    /// Opens a file, or creates it if it does not exist.
    ///
    /// - Parameters:
    ///   - file: the path of the database. Its directory must exist.
    ///   - options: the capacity and other limits.
    ///   - clock: the time of day and the time for leases.
    ///   - logger: logs the state of the file.
    ///   - whenCommitted: called after each commit, on the writer's thread.
    /// - Throws: `QueueError`: `inUse` if another process uses the file; `unusable` if it is damaged, or if another
    ///   program or a newer version wrote it; `unavailable` if it cannot be opened now.
    public static func open(
        file: String,
        options: Options = Options(),
        clock: any QueueClock = SystemQueueClock(),
        logger: Logger,
        whenCommitted: @escaping WhenCommitted = { _, _ in }
    ) async throws(QueueError) -> SQLitePushQueue {
        do {
            return try await DispatchQueue.global().perform {
                try SQLitePushQueue(file, options, clock, logger, whenCommitted)
            }
        } catch {
            throw QueueError(error, file: file)
        }
    }

    private init(
        _ file: String,
        _ options: Options,
        _ clock: any QueueClock,
        _ logger: Logger,
        _ whenCommitted: @escaping WhenCommitted
    ) throws {
        let path = URL(fileURLWithPath: file).resolvingSymlinksInPath().path
        try QueueFile.checkKind(of: path)
        let lock = try FileLock(for: path)
        let queueFile = QueueFile(
            path: path,
            busyTimeout: options.busyTimeout,
            maxPageCount: options.maxPageCount,
            failure: self.failure
        )
        try queueFile.createIfMissing()
        try lock.lockDatabase()
        let pool = try queueFile.open()
        let (state, recovery) = try pool.write { db in
            let transaction = WriteTransaction(db, now: clock.now, leaseNow: clock.lease, state: WriterState())
            let recovery = try transaction.recover(options)
            return (transaction.state, recovery)
        }
        let expired = recovery.expired
        self.file = path
        self.disk = QueueDisk(file: path, maxPageCount: options.maxPageCount)
        self.options = options
        self.pool = pool
        self.generations = recovery.generations
        self.lock = Mutex(lock)
        self.group = GroupCommit(pool, options, clock, state, self.failure, whenCommitted: whenCommitted)
        self.expiredAtOpen = expired
        self.restore = recovery.restore
        self.logger = logger
        logger.info(
            "Queue opened",
            metadata: [
                "file": "\(path)", "unsettled": "\(state.totals.unsettled)", "requeued": "\(expired.queued)",
                "resent": "\(expired.resent)", "unknown": "\(expired.unknown)",
            ]
        )
    }

    /// Reads the whole file and looks for damage. This takes minutes if the file is large.
    ///
    /// - Returns: a description of each damage; empty if the file is intact.
    public func checkIntegrity() async throws(QueueError) -> [String] {
        let lines = try await self.read { db in
            let check = try db.prepared("PRAGMA quick_check(100)")
            var lines: [String] = []
            try check.forEach { row in
                lines.append(row.text(0))
                return true
            }
            return lines
        }
        return lines == ["ok"] ? [] : lines
    }

    public func close() async {
        await self.calls.close()
        await DispatchQueue.global().perform {
            // If two tasks call `close` at the same time, the second one waits here.
            self.lock.withLock { lock in
                guard lock != nil else { return }
                if self.failure.syncError == nil {
                    do {
                        try self.pool.close()
                    } catch {
                        self.logger.error("The database was not closed properly: \(error)")
                    }
                } else {
                    // Closing would copy the log into the database, but after a failed fsync the log may be wrong. The
                    // next start reads the log again and checks it. So the connections are not closed.
                    _ = Unmanaged.passRetained(self.pool)
                }
                self.failure.finish()
                lock = nil
            }
        }
    }

    /// Waits until the queue can no longer be used, because the disk did not confirm a write or the file is damaged.
    /// The process must then end. Only one task may wait.
    ///
    /// - Returns: the cause and the remedy; nil if the queue was closed or the task was cancelled.
    package func waitForFailure() async -> QueueError? { await self.failure.wait() }

    /// The number of calls that have begun and not returned, for tests.
    package var runningCalls: Int { self.calls.running }

    /// The number of transactions since the file was opened, for tests.
    package var commitCount: Int { self.group.commitCount }

    // MARK: Calls

    /// Runs a job in a transaction and waits until it is committed.
    func write<Value: Sendable>(
        isDurable: Bool = true,
        _ body: @escaping @Sendable (WriteTransaction) throws -> Value
    ) async throws(QueueError) -> Value {
        do {
            return try await self.run(isDurable: isDurable, body)
        } catch {
            throw self.queueError(error)
        }
    }

    /// Runs a job in a transaction and waits until it is committed. Throws the job's own error.
    func run<Value: Sendable>(
        isDurable: Bool = true,
        isIntake: Bool = false,
        _ body: @escaping @Sendable (WriteTransaction) throws -> Value
    ) async throws -> Value {
        try self.calls.begin()
        defer { self.calls.end() }
        return try await withCheckedThrowingContinuation { continuation in
            self.group.add(
                GroupCommit.Job(
                    isDurable: isDurable,
                    isIntake: isIntake,
                    run: { transaction in
                        let value = try body(transaction)
                        return { continuation.resume(returning: value) }
                    },
                    fail: { continuation.resume(throwing: $0) }
                )
            )
        }
    }

    /// Converts an error. If the file is damaged, this also records that the queue has failed.
    func queueError(_ error: any Error) -> QueueError {
        let error = QueueError(error, file: self.file)
        if error.code == .unusable { self.failure.damaged(error) }
        return error
    }

    /// Reads from a snapshot.
    func read<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(QueueError) -> Value {
        try self.calls.begin()
        defer { self.calls.end() }
        let result: Result<Value, any Error> = await withCheckedContinuation { continuation in
            self.pool.asyncRead { db in
                continuation.resume(returning: Result { try body(try db.get()) })
            }
        }
        do {
            return try result.get()
        } catch {
            throw self.queueError(error)
        }
    }
}

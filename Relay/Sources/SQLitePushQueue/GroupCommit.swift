import Dispatch
import GRDB
import PushQueue
import Synchronization

/// Runs writing jobs of any number of tasks, many in one transaction: while one transaction commits, the next jobs
/// gather. No job is finished before its transaction is committed.
///
/// A job that fails is rolled back alone. If the whole transaction fails, each of its jobs runs again in a separate
/// transaction, so that only the jobs that cannot be stored fail. After a failed `fsync`, nothing runs again: a later one
/// may succeed without the data.
final class GroupCommit: Sendable {
    struct Job: Sendable {
        /// Whether the effect must survive a power failure.
        var isDurable: Bool
        /// Runs the job and returns a function that finishes it successfully.
        var run: @Sendable (WriteTransaction) throws -> @Sendable () -> Void
        var fail: @Sendable (any Error) -> Void
    }

    private struct Waiting {
        var jobs: [Job] = []
        var isRunning = false
    }

    /// A transaction takes no more jobs after this time, so that the first ones do not wait too long.
    private static let longestTransaction = Duration.milliseconds(50)

    private let pool: DatabasePool
    private let options: SQLitePushQueue.Options
    private let clock: any QueueClock
    private let waiting = Mutex(Waiting())
    /// Only the writer uses it, and its runs do not overlap.
    private let state: Mutex<WriterState>
    private let published: Mutex<WriterState>
    private let commits = Atomic<Int>(0)

    private let failure: QueueFailure
    private let whenCommitted: SQLitePushQueue.WhenCommitted

    init(
        _ pool: DatabasePool,
        _ options: SQLitePushQueue.Options,
        _ clock: any QueueClock,
        _ state: WriterState,
        _ failure: QueueFailure,
        whenCommitted: @escaping SQLitePushQueue.WhenCommitted
    ) {
        self.whenCommitted = whenCommitted
        self.failure = failure
        self.pool = pool
        self.options = options
        self.clock = clock
        self.state = Mutex(state)
        self.published = Mutex(state)
    }

    /// The state after the last commit. Never waits for the writer.
    var committed: WriterState { self.published.withLock { $0 } }

    /// The number of transactions so far.
    var commitCount: Int { self.commits.load(ordering: .relaxed) }

    func add(_ job: Job) {
        let mustStart = self.waiting.withLock { waiting in
            waiting.jobs.append(job)
            defer { waiting.isRunning = true }
            return !waiting.isRunning
        }
        guard mustStart else { return }
        self.pool.asyncWriteWithoutTransaction { db in
            self.state.withLock { state in self.runAll(db, &state) }
        }
    }

    private func runAll(_ db: Database, _ state: inout WriterState) {
        var isSynchronous: Bool?
        while let jobs = self.next() {
            var rest = jobs[...]
            while !rest.isEmpty {
                if let error = self.failure.syncError {
                    for job in rest { job.fail(error) }
                    break
                }
                // Synchronising is the slowest part of a commit. Without it, only a power failure can undo a commit.
                let isDurable = rest.contains(where: \.isDurable)
                if isDurable != isSynchronous {
                    do {
                        try db.execute(sql: "PRAGMA synchronous = \(isDurable ? "FULL" : "NORMAL")")
                        isSynchronous = isDurable
                    } catch {
                        for job in rest { job.fail(error) }
                        break
                    }
                }
                self.run(&rest, db, &state)
            }
        }
    }

    private func next() -> [Job]? {
        self.waiting.withLock { waiting in
            guard !waiting.jobs.isEmpty else {
                waiting.isRunning = false
                return nil
            }
            defer { waiting.jobs = [] }
            return waiting.jobs
        }
    }

    /// Runs some of the jobs in one transaction and removes them from `rest`.
    private func run(_ rest: inout ArraySlice<Job>, _ db: Database, _ state: inout WriterState) {
        do {
            try db.execute(sql: "BEGIN IMMEDIATE")
        } catch {
            // Each job would wait for the lock as long as this one has.
            for job in rest { job.fail(error) }
            rest = []
            return
        }
        var group: [Job] = []
        var ends: [@Sendable () -> Void] = []
        let transaction = WriteTransaction(
            db,
            now: self.clock.now,
            leaseNow: self.clock.lease,
            keepsPayloads: self.options.keepsPayloads,
            state: state
        )
        do {
            let begin = ContinuousClock.now
            let isAlone = rest.count == 1
            repeat {
                guard let job = rest.popFirst() else { break }
                group.append(job)
                ends.append(try self.run(job, isAlone: isAlone, transaction))
            } while begin.duration(to: .now) < Self.longestTransaction
            try db.execute(sql: "COMMIT")
            self.whenCommitted(group.count, begin.duration(to: .now))
        } catch {
            if db.isInsideTransaction { try? db.execute(sql: "ROLLBACK") }
            let isSyncFailure = self.failIfNotSynchronised(error)
            guard group.count > 1, !isSyncFailure else {
                for job in group { job.fail(error) }
                return
            }
            for job in group {
                var alone = [job][...]
                self.run(&alone, db, &state)
            }
            return
        }
        state = transaction.state
        self.published.withLock { [state] in $0 = state }
        self.commits.add(1, ordering: .relaxed)
        for end in ends { end() }
    }

    private func failIfNotSynchronised(_ error: any Error) -> Bool {
        guard let error = error as? DatabaseError, error.isSyncFailure else { return false }
        self.failure.syncFailed(.syncFailed(self.pool.path, "\(error)", code: .unusable))
        return true
    }

    /// Returns the function that ends the job. Throws if the whole transaction has failed.
    private func run(
        _ job: Job,
        isAlone: Bool,
        _ transaction: WriteTransaction
    ) throws -> @Sendable () -> Void {
        if isAlone { return try job.run(transaction) }
        let before = transaction.state
        try transaction.db.execute(sql: "SAVEPOINT job")
        let result: Result<@Sendable () -> Void, any Error>
        do {
            result = .success(try job.run(transaction))
        } catch {
            // Some failures, such as a full disk, end the transaction.
            guard transaction.db.isInsideTransaction else { throw error }
            transaction.state = before
            try transaction.db.execute(sql: "ROLLBACK TO job")
            result = .failure(error)
        }
        try transaction.db.execute(sql: "RELEASE job")
        switch result {
        case .success(let end): return end
        case .failure(let error): return { job.fail(error) }
        }
    }
}

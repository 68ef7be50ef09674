import Dispatch
import GRDB
import PushQueue
import Synchronization

/// Runs the writing jobs of many tasks, several in one transaction. While one transaction commits, the next jobs
/// gather. A job does not finish before its transaction is committed.
///
/// Jobs that store new pushes (the intake) wait in their own list and run after the others, so that marks and outcomes
/// do not wait for them.
///
/// If a job fails, only this job is rolled back. If the whole transaction fails, each of its jobs runs again in its own
/// transaction, so that only the jobs that cannot be stored fail. After a failed `fsync`, nothing runs again, because a
/// second `fsync` may succeed although the data is lost.
final class GroupCommit: Sendable {
    struct Job: Sendable {
        /// Whether the effect must survive a power failure.
        var isDurable: Bool
        /// Whether the job stores new pushes.
        var isIntake = false
        /// Runs the job.
        ///
        /// - Returns: a function that reports the success. It is called after the commit.
        var run: @Sendable (WriteTransaction) throws -> @Sendable () -> Void
        var fail: @Sendable (any Error) -> Void
    }

    private struct Waiting {
        var jobs: ArraySlice<Job> = []
        var intake: ArraySlice<Job> = []
        var isRunning = false

        /// Takes the first job of a list; nil if the job must survive a power failure and the transaction does not.
        mutating func take(_ lane: WritableKeyPath<Waiting, ArraySlice<Job>>, isDurable: Bool) -> Job? {
            guard let first = self[keyPath: lane].first, isDurable || !first.isDurable else { return nil }
            return self[keyPath: lane].popFirst()
        }
    }

    /// After this time, a transaction takes no more jobs, so that its first jobs do not wait too long.
    private static let longestTransaction = Duration.milliseconds(50)
    /// The intake's share of a transaction while other jobs are in it or wait for the next one.
    private static let shareOfIntake = Duration.milliseconds(10)

    private let pool: DatabasePool
    private let options: SQLitePushQueue.Options
    private let clock: any QueueClock
    private let waiting = Mutex(Waiting())
    /// Only the writer's thread uses it, and its runs do not overlap.
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
            if job.isIntake { waiting.intake.append(job) } else { waiting.jobs.append(job) }
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
        // Synchronising with the disk is the slowest part of a commit. Without it, a power failure can undo the commit.
        while let isDurable = self.nextIsDurable() {
            if let error = self.failure.syncError {
                self.failAll(error)
                continue
            }
            if isDurable != isSynchronous {
                do {
                    try db.execute(sql: "PRAGMA synchronous = \(isDurable ? "FULL" : "NORMAL")")
                    isSynchronous = isDurable
                } catch {
                    self.failAll(error)
                    continue
                }
            }
            self.runWaiting(db, &state, isDurable: isDurable)
        }
    }

    /// Whether the next transaction must survive a power failure; nil if no job waits.
    private func nextIsDurable() -> Bool? {
        self.waiting.withLock { waiting in
            guard !waiting.jobs.isEmpty || !waiting.intake.isEmpty else {
                waiting.isRunning = false
                return nil
            }
            return waiting.jobs.contains(where: \.isDurable) || waiting.intake.first?.isDurable ?? false
        }
    }

    private func failAll(_ error: any Error) {
        let jobs = self.waiting.withLock { waiting in
            defer {
                waiting.jobs = []
                waiting.intake = []
            }
            return waiting.jobs + waiting.intake
        }
        for job in jobs { job.fail(error) }
    }

    /// Runs waiting jobs in one transaction: at least one of each list, and more until ``longestTransaction`` is over.
    private func runWaiting(_ db: Database, _ state: inout WriterState, isDurable: Bool) {
        do {
            try db.execute(sql: "BEGIN IMMEDIATE")
        } catch {
            // Every further job would wait as long for the lock as this one did.
            return self.failAll(error)
        }
        let counts = self.waiting.withLock { (jobs: $0.jobs.count, intake: $0.intake.count) }
        let begin = ContinuousClock.now
        var running = Running(self.transaction(db, state), isAlone: counts.jobs + counts.intake == 1)
        do {
            try self.run(\.jobs, counts.jobs, isDurable: isDurable, in: &running) {
                begin.duration(to: .now) < Self.longestTransaction
            }
            let hasJobs = !running.jobs.isEmpty
            let beginOfIntake = ContinuousClock.now
            try self.run(\.intake, counts.intake, isDurable: isDurable, in: &running) {
                self.mayTakeMore(hasJobs, begin, beginOfIntake)
            }
            try db.execute(sql: "COMMIT")
            self.whenCommitted(running.jobs.count, begin.duration(to: .now))
        } catch {
            if db.isInsideTransaction { try? db.execute(sql: "ROLLBACK") }
            // A single job would only fail again.
            let mayRunAgain = !self.isSyncFailure(error) && running.jobs.count > 1
            for job in running.jobs {
                if mayRunAgain { self.runAlone(job, db, &state) } else { job.fail(error) }
            }
            return
        }
        self.committed(running, &state)
    }

    /// Runs jobs of a list in a transaction: the first one, and more while there is time.
    ///
    /// - Parameters:
    ///   - lane: the list.
    ///   - count: the number of jobs that waited when the transaction began. Later ones wait for the next transaction.
    ///   - isDurable: whether the transaction survives a power failure.
    ///   - running: the transaction.
    ///   - hasTime: whether there is time for one more job.
    private func run(
        _ lane: WritableKeyPath<Waiting, ArraySlice<Job>>,
        _ count: Int,
        isDurable: Bool,
        in running: inout Running,
        while hasTime: () -> Bool
    ) throws {
        for number in 0..<count {
            guard number == 0 || hasTime(),
                let job = self.waiting.withLock({ $0.take(lane, isDurable: isDurable) })
            else { return }
            try self.run(job, &running)
        }
    }

    /// Whether there is time for one more intake job.
    private func mayTakeMore(
        _ hasJobs: Bool,
        _ begin: ContinuousClock.Instant,
        _ beginOfIntake: ContinuousClock.Instant
    ) -> Bool {
        let now = ContinuousClock.now
        guard begin.duration(to: now) < Self.longestTransaction else { return false }
        guard hasJobs || self.waiting.withLock({ !$0.jobs.isEmpty }) else { return true }
        return beginOfIntake.duration(to: now) < Self.shareOfIntake
    }

    /// Runs a job in its own transaction.
    private func runAlone(_ job: Job, _ db: Database, _ state: inout WriterState) {
        if let error = self.failure.syncError { return job.fail(error) }
        let begin = ContinuousClock.now
        var running = Running(self.transaction(db, state), isAlone: true)
        do {
            try db.execute(sql: "BEGIN IMMEDIATE")
            try self.run(job, &running)
            try db.execute(sql: "COMMIT")
            self.whenCommitted(1, begin.duration(to: .now))
        } catch {
            if db.isInsideTransaction { try? db.execute(sql: "ROLLBACK") }
            _ = self.isSyncFailure(error)
            return job.fail(error)
        }
        self.committed(running, &state)
    }

    /// Whether the disk did not confirm a write. If so, this records that the queue has failed.
    private func isSyncFailure(_ error: any Error) -> Bool {
        guard let error = error as? DatabaseError, error.isSyncFailure else { return false }
        self.failure.syncFailed(.syncFailed(self.pool.path, "\(error)", code: .unusable))
        return true
    }

    private func transaction(_ db: Database, _ state: WriterState) -> WriteTransaction {
        WriteTransaction(
            db,
            now: self.clock.now,
            leaseNow: self.clock.lease,
            expiryNow: self.clock.expiry,
            state: state
        )
    }

    /// A transaction in which jobs run.
    private struct Running {
        let transaction: WriteTransaction
        /// Whether it has only one job, which needs no savepoint: if the job fails, the transaction does.
        let isAlone: Bool
        /// The jobs that have begun.
        var jobs: [Job] = []
        /// The functions that end the jobs. They are called after the commit.
        var ends: [@Sendable () -> Void] = []

        init(_ transaction: WriteTransaction, isAlone: Bool) {
            self.transaction = transaction
            self.isAlone = isAlone
        }
    }

    private func committed(_ running: Running, _ state: inout WriterState) {
        state = running.transaction.state
        self.published.withLock { [state] in $0 = state }
        self.commits.add(1, ordering: .relaxed)
        for end in running.ends { end() }
    }

    /// Runs a job in the transaction. Throws only if the whole transaction has failed.
    private func run(_ job: Job, _ running: inout Running) throws {
        running.jobs.append(job)
        running.ends.append(
            running.isAlone ? try job.run(running.transaction) : try self.runInSavepoint(job, running.transaction)
        )
    }

    private func runInSavepoint(_ job: Job, _ transaction: WriteTransaction) throws -> @Sendable () -> Void {
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

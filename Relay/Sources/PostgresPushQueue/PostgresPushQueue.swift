import APNSModel
import Dispatch
public import Logging
public import PushQueue
import Synchronization

/// A queue in a PostgreSQL database, which any number of processes share.
///
/// All changes are functions of the schema `apns`, each in a transaction of its own. A mark and an outcome are committed
/// before their calls return, with the durability of the server: if it waits for a synchronous standby, so does the call.
///
/// Each process has a few connections, each on a thread of its own. A call whose connection is lost waits for the database
/// to come back, up to ``Options/timeout``, and is repeated if that is harmless. Otherwise it throws `undecided`.
public final class PostgresPushQueue: Sendable {
    public struct Options: Sendable {
        /// How to connect.
        public var connection: ConnectionSettings
        /// The most pushes without an outcome; nil for no limit. Several processes may together exceed it by what they store
        /// in a second.
        public var capacity: Int?
        /// The longest wait of a call for a database that is away. Default 10 s.
        public var timeout = Duration.seconds(10)
        /// The connections that this process opens for calls, at least 2. Default 6. One more looks for pushes of other programs.
        public var connections = 6
        /// Whether to create the schema, in a database that has none, when the queue is opened. Default true.
        public var migrates = true
        /// What happens to pushes that may have been sent in the time that the database has lost, when it was restored from a
        /// backup or a standby was promoted. Default `park`.
        public var afterFailover = AfterFailover.park
        /// Whether the queue notices a restore or a failover. Without that, only its small values may be used. Default true.
        public var beginsHistory = true
        /// How far the queue had come when this relay used it last; nil if that is not known. If the database has come less
        /// far, a backup was restored.
        public var seen: QueueProgress?
        /// Called on another thread when this process has begun a history, after a restore or the promotion of a standby.
        public var whenRestored: @Sendable (QueueRestore) -> Void = { _ in }
        /// The number of deleted rows from which a table is vacuumed, if the role owns it. Smaller in tests.
        package var vacuumThreshold = 50_000
        /// Receives the duration of each call that stores pushes, marks or outcomes, with its commit. Called on another
        /// thread.
        public var whenCommitted: @Sendable (Duration) -> Void = { _ in }
        /// The time of day.
        public var clock: any QueueClock = SystemQueueClock()
        /// Whether leases follow the clock above instead of the database's clock. For tests.
        package var usesOwnLeaseClock = false

        public init(connection: ConnectionSettings) {
            self.connection = connection
        }
    }

    let options: Options
    let names = NameCache()
    let room: Room
    let singlePushes = SinglePushes()
    /// The numbers of the calls of `markWritten` whose effect is not known, by the epochs of their claims. The caller repeats
    /// them, and then the marks that did commit are recognised.
    let undecidedMarks = Mutex<[[Int64]: Int64]>([:])
    let tending = EverySecond()
    let vacuuming: Vacuuming
    let transactionTimes = Mutex(TransactionTimes())
    let histories: Histories
    private let calls = CallGate()
    private let workers: Workers
    /// For calls that must not wait for others.
    private let outcomeWorkers: Workers
    private let intakeWatch: IntakeWatch
    private let isClosed = Mutex(false)

    /// Opens the queue, and creates its schema in a database that has none if the options say so.
    ///
    /// - Parameters:
    ///   - options: how to connect, and limits.
    ///   - logger: receives whether the schema was created.
    ///   - whenStored: called on another thread when another program has stored pushes.
    /// - Throws: `QueueError`: `unavailable` if the database cannot be reached; `unusable` if the server, its settings or
    ///   the schema cannot be used.
    public static func open(
        _ options: Options,
        logger: Logger,
        whenStored: @escaping @Sendable () -> Void = {}
    ) async throws(QueueError) -> PostgresPushQueue {
        let isCreated = try await DispatchQueue.global().perform { () throws(QueueError) in
            try Self.prepare(options)
        }
        if isCreated { logger.notice("The schema of the queue was created") }
        logger.info("Queue opened", metadata: ["database": "\(options.connection.description)"])
        return PostgresPushQueue(options, whenStored)
    }

    /// Begins a history in a database because an operator says that a backup was restored, as a queue does that notices it.
    ///
    /// - Throws: `QueueError`: `unavailable` if the database cannot be reached; `unusable` if it has no queue.
    public static func restored(_ options: Options) async throws(QueueError) -> QueueRestore {
        try await DispatchQueue.global().perform { () throws(QueueError) in
            try QueueError.converting {
                let connection = try options.connection.connect()
                try ServerCheck.check(connection, options.connection)
                try PostgresSchema.require(connection)
                return try Histories(options, NameCache()).restored(connection)
            }
        }
    }

    /// Checks the server and the schema. Waits for a database that is away.
    ///
    /// - Returns: whether the schema was created.
    private static func prepare(_ options: Options) throws(QueueError) -> Bool {
        let deadline = ContinuousClock.now.advanced(by: options.timeout)
        var pause = Pause()
        while true {
            do throws(QueueError) {
                return try QueueError.converting {
                    let connection = try options.connection.connect()
                    try ServerCheck.check(connection, options.connection)
                    if options.migrates { return try PostgresSchema.create(connection) }
                    try PostgresSchema.require(connection)
                    return false
                }
            } catch {
                guard error.code == .unavailable, ContinuousClock.now < deadline else { throw error }
            }
            pause.wait()
        }
    }

    private init(_ options: Options, _ whenStored: @escaping @Sendable () -> Void) {
        self.options = options
        self.room = Room(capacity: options.capacity)
        self.vacuuming = Vacuuming(options.connection, threshold: options.vacuumThreshold)
        let histories = Histories(options, self.names)
        self.histories = histories
        let prepare: Workers.Preparation = { connection throws(PostgresFailure) in
            if options.beginsHistory { try histories.check(connection) }
            // Not earlier: after a restore, the check takes as long as there are pushes.
            try connection.limitStatements()
        }
        let count = max(options.connections - 1, 1)
        self.workers = Workers(options.connection, count: count, label: "calls", prepare: prepare)
        self.outcomeWorkers = Workers(options.connection, count: 1, label: "outcomes", prepare: prepare)
        self.intakeWatch = IntakeWatch(
            options.connection,
            now: { options.clock.now.millisecondsSince1970 },
            whenFound: whenStored
        )
        self.intakeWatch.start()
    }

    public func close() async {
        self.vacuuming.stop()
        await self.calls.close()
        let isFirst = self.isClosed.withLock { isClosed in
            defer { isClosed = true }
            return !isClosed
        }
        guard isFirst else { return }
        self.intakeWatch.stop()
        await self.workers.close()
        await self.outcomeWorkers.close()
    }

    /// Closes the queue as the death of the process does: no call is repeated.
    package func abandon() async {
        self.workers.abandon()
        self.outcomeWorkers.abandon()
        await self.close()
    }

    /// Lets each thread open a new connection, which checks whether a backup was restored, and begins a history.
    func checkHistory() {
        self.workers.reconnect()
        self.outcomeWorkers.reconnect()
    }

    // MARK: Calls

    /// The threads of a call.
    enum Line {
        case calls
        /// One thread of its own, so that outcomes wait for no other call, and only one call of a process at a time waits
        /// for the end of the feed.
        case outcomes
    }

    /// Runs a statement in a transaction of its own.
    ///
    /// - Parameters:
    ///   - sql: the statement.
    ///   - line: the threads that may run it.
    ///   - repetition: whether it may be repeated when its effect is unknown.
    ///   - parameters: the values of `$1` and so on.
    ///   - isMeasured: whether `whenCommitted` receives the duration.
    ///   - read: reads the result. It also gets whether the statement was repeated.
    func call<Value: Sendable>(
        _ sql: String,
        on line: Line = .calls,
        _ repetition: Repetition = .harmless,
        _ parameters: Parameters = Parameters(),
        isMeasured: Bool = false,
        _ read: @escaping @Sendable (Rows, Bool) throws(QueueError) -> Value
    ) async throws(QueueError) -> Value {
        try self.calls.begin()
        defer { self.calls.end() }
        let deadline = ContinuousClock.now.advanced(by: self.options.timeout)
        let workers = line == .calls ? self.workers : self.outcomeWorkers
        let result: Result<Value, QueueError> = await withCheckedContinuation { continuation in
            workers.add { worker in
                let result = Result { () throws(QueueError) in
                    let start = ContinuousClock.now
                    let (rows, isRepeated) = try worker.run(sql, parameters, repetition, until: deadline)
                    if isMeasured { self.options.whenCommitted(start.duration(to: .now)) }
                    return try read(rows, isRepeated)
                }
                continuation.resume(returning: result)
            }
        }
        do {
            return try result.get()
        } catch {
            if error.isDiskFull { self.room.setDiskFull(QueueError(code: .unavailable, message: error.message)) }
            throw error
        }
    }

    /// The time of day, in milliseconds.
    var now: Int64 { self.options.clock.now.millisecondsSince1970 }

    /// The time by which pushes expire.
    var expiry: Int64 { min(self.options.clock.expiry, self.options.clock.now).millisecondsSince1970 }

    /// The time for leases; nil for the database's clock.
    var leaseNow: Int64? { self.options.usesOwnLeaseClock ? self.options.clock.lease.millisecondsSince1970 : nil }

    /// Begins the parameters of a call that may settle pushes.
    func settling() -> Parameters {
        var parameters = Parameters()
        parameters.add(self.now)
        return parameters
    }
}

extension Duration {
    /// Whole milliseconds, clamped to `Int64`.
    var milliseconds: Int64 {
        QueueTime(millisecondsSince1970: 0).advanced(by: self).millisecondsSince1970
    }
}

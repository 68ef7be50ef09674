import CLibpq
import DequeModule
import Dispatch
import PushQueue
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// How a statement is repeated when the connection is lost and nobody knows whether it has had an effect.
enum Repetition {
    /// It only reads.
    case reading
    /// It has the same effect again, or none.
    case harmless
    /// Never: only the caller can find out whether it had an effect.
    case never
}

/// A thread's connection, which is opened when it is needed.
final class Worker {
    private let settings: ConnectionSettings
    /// Makes a new connection ready, in its own session.
    private let prepare: Workers.Preparation
    /// Whether no statement is repeated any more.
    private let isAbandoned: @Sendable () -> Bool
    /// A number that changes when the open connection must be replaced.
    private let generation: @Sendable () -> Int
    private var connection: Connection?
    /// The generation of the connection.
    private var connected = 0

    init(
        _ settings: ConnectionSettings,
        prepare: @escaping Workers.Preparation,
        isAbandoned: @escaping @Sendable () -> Bool,
        generation: @escaping @Sendable () -> Int = { 0 }
    ) {
        self.settings = settings
        self.prepare = prepare
        self.isAbandoned = isAbandoned
        self.generation = generation
    }

    /// Runs a statement in a transaction of its own. Blocks.
    ///
    /// A statement that the server has rolled back because of another transaction is repeated. So is one that was not sent
    /// because there was no connection.
    ///
    /// - Parameters:
    ///   - repetition: whether a statement may be repeated when its effect is unknown.
    ///   - deadline: when to give up.
    /// - Returns: the result, and whether the statement was repeated after its effect was unknown.
    func run(
        _ sql: String,
        _ parameters: Parameters,
        _ repetition: Repetition,
        until deadline: ContinuousClock.Instant
    ) throws(QueueError) -> (rows: Rows, isRepeated: Bool) {
        var isRepeated = false
        var pause = Pause()
        while true {
            var isSent = false
            // A call whose time is over is not begun: its caller would not get to know the effect, and the calls behind it
            // would wait for its connection.
            guard ContinuousClock.now < deadline else {
                throw .away("no connection was free in time", isUndecided: isRepeated && repetition != .reading)
            }
            do throws(PostgresFailure) {
                let connection = try self.open()
                let name = try connection.prepare(sql, parameters.types, until: deadline)
                try connection.send(name, parameters)
                isSent = true
                let rows = try connection.result(until: deadline)
                // The statement may have found its effect made.
                if isRepeated, repetition != .reading {
                    _ = try connection.run("SELECT apns.confirm()", until: deadline)
                }
                return (rows, isRepeated)
            } catch {
                switch error {
                case .refused(let state, _, _) where SQLState.isTransient(state): break
                case .refused(let state, _, _) where SQLState.isReadOnly(state): self.connection = nil
                case .refused(let state, let message, let detail):
                    let refusal = QueueError(state: state, message: message, detail: detail)
                    // What was sent before may have been committed.
                    if isRepeated, repetition != .reading { throw .away(refusal.message, isUndecided: true) }
                    throw refusal
                case .away:
                    self.connection = nil
                    isRepeated = isRepeated || isSent
                }
                let mayRepeat = !isRepeated || repetition != .never
                guard mayRepeat, ContinuousClock.now < deadline, !self.isAbandoned() else {
                    if !isRepeated, case .refused(let state, let message, let detail) = error {
                        throw QueueError(state: state, message: message, detail: detail)
                    }
                    throw .away(error.message, isUndecided: isRepeated && repetition != .reading)
                }
            }
            pause.wait()
        }
    }

    /// The open connection; opens one if there is none.
    private func open() throws(PostgresFailure) -> Connection {
        let generation = self.generation()
        if let connection, connection.isOpen, self.connected == generation { return connection }
        self.connection = nil
        let new = try self.settings.connect()
        try self.prepare(new)
        self.connection = new
        self.connected = generation
        return new
    }

    func close() { self.connection = nil }
}

/// A doubling pause with jitter, of 1 ms to 200 ms.
struct Pause {
    private var milliseconds = 1.0

    mutating func wait() {
        usleep(UInt32(self.milliseconds * Double.random(in: 500...1_000)))
        self.milliseconds = min(self.milliseconds * 2, 200)
    }
}

/// Threads that run jobs, each with a connection of its own. libpq's calls block, so they cannot run in tasks.
final class Workers: Sendable {
    typealias Job = @Sendable (Worker) -> Void
    typealias Preparation = @Sendable (Connection) throws(PostgresFailure) -> Void

    private let jobs = Mutex(Deque<Job>())
    private let isAbandoned = Atomic(false)
    private let generation = Atomic(0)
    private let signal = DispatchSemaphore(value: 0)
    private let threads = DispatchGroup()
    private let count: Int

    init(_ settings: ConnectionSettings, count: Int, label: String, prepare: @escaping Preparation) {
        self.count = count
        for number in 0..<count {
            DispatchQueue(label: "apns-relay.postgres.\(label).\(number)").async(group: self.threads) {
                let worker = Worker(
                    settings,
                    prepare: prepare,
                    isAbandoned: { self.isAbandoned.load(ordering: .relaxed) },
                    generation: { self.generation.load(ordering: .relaxed) }
                )
                while let job = self.nextJob() { job(worker) }
                worker.close()
            }
        }
    }

    /// Runs a job after those that were added before.
    func add(_ job: @escaping Job) {
        self.jobs.withLock { $0.append(job) }
        self.signal.signal()
    }

    private func nextJob() -> Job? {
        self.signal.wait()
        return self.jobs.withLock { $0.popFirst() }
    }

    /// Lets each thread open a new connection before its next statement.
    func reconnect() { self.generation.wrappingAdd(1, ordering: .relaxed) }

    /// Lets no statement be repeated any more.
    func abandon() { self.isAbandoned.store(true, ordering: .relaxed) }

    /// Ends the threads. There must be no more jobs.
    func close() async {
        for _ in 0..<self.count { self.signal.signal() }
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            self.threads.notify(queue: .global()) { continuation.resume() }
        }
    }
}

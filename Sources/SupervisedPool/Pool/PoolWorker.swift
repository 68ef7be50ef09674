/// Why the pool asks a worker to connect. Later versions may add reasons.
public enum PoolWorkerConnectReason: Sendable, Hashable {
    /// One of the workers that the pool keeps connected, at its registration.
    case keep
    /// ``Pool/prewarm(_:deadline:)`` wants more workers connected than the pool keeps.
    case prewarm
    /// More checkouts wait than the connected workers will be able to serve.
    case demand
    /// A checkout waits and no worker is connected or connecting.
    case use
    /// The same, and all are backing off: try now instead of at the end of this backoff. Asked for once when demand arises;
    /// while it lasts and attempts go on failing, the backoffs run to their end.
    case shortenBackoff
}

/// Why the pool asks a worker to disconnect. Later versions may add reasons.
public enum PoolWorkerDisconnectReason: Sendable, Hashable {
    /// Nobody needs this overflow worker: it should close, report ``WorkerReport/idle`` and wait to be asked again. The
    /// pool gives it no work from now until its next ``WorkerReport/ready(capacity:)``.
    case idle
    /// The session has lived long enough: the worker should open another one, then let this one drain. The pool goes
    /// on giving it work until it reports something else.
    case lifetime
    /// The same, because ``Pool/replaceAll()`` was called.
    case replacement
    /// The pool has become smaller (``Pool/reconfigure(_:)``). As with ``idle``, but its work may not be done: what is
    /// leased of it goes on.
    case surplus
}

/// Something with streams that connects and reconnects by itself: an actor with one HTTP/2 connection, for
/// example. It tells the pool how it is with ``Pool/report(_:from:)``.
///
/// Both methods must return at once: they are called on the pool's thread. Those who call them expect no answer but the
/// next report.
public protocol PoolWorker: AnyObject, Sendable {
    /// Asks the worker to open a connection, or to end its present back-off.
    nonisolated func connect(_ reason: PoolWorkerConnectReason)
    /// Asks the worker to close its connection gracefully.
    nonisolated func disconnect(_ reason: PoolWorkerDisconnectReason)
}

/// A worker in one of its lives.
public struct WorkerID: Hashable, Sendable, CustomStringConvertible {
    /// The worker's place in the pool, from 0. Those below ``PoolConfiguration/size`` are kept, the others overflow.
    public let index: Int
    /// Which life: its supervisor's generation. A later generation takes the place of an earlier one.
    public let generation: Int

    /// - Parameters:
    ///   - index: the worker's place in the pool, from 0.
    ///   - generation: which life it is.
    public init(index: Int, generation: Int) {
        self.index = index
        self.generation = generation
    }

    public var description: String { "\(self.index).\(self.generation)" }
}

/// Where leased slots come from: a worker and one of its sessions. Slots of a session that has ended are returned like
/// others, and are not counted against the session that took its place.
public struct LeaseOrigin: Hashable, Sendable {
    /// The worker that has the slot.
    public let worker: WorkerID
    /// Numbers the sessions of a worker, from 1.
    public let session: Int

    /// - Parameters:
    ///   - worker: the worker that has the slot.
    ///   - session: which of its sessions, from 1.
    public init(worker: WorkerID, session: Int) {
        self.worker = worker
        self.session = session
    }
}

/// Why a worker has no connection.
public struct PoolFault: Error, Sendable, CustomStringConvertible {
    /// For people.
    public let description: String
    /// Whether somebody must change something before a connection can succeed: an untrusted certificate, a host that
    /// does not exist. Checkouts then fail at once until the worker's back-off ends.
    public let isConfiguration: Bool
    /// What was thrown.
    public let underlying: (any Error)?

    /// - Parameters:
    ///   - description: for people; it is printed and logged.
    ///   - isConfiguration: whether somebody must change something before a connection can succeed.
    ///   - underlying: what was thrown, if anything was.
    public init(description: String, isConfiguration: Bool = false, underlying: (any Error)? = nil) {
        self.description = description
        self.isConfiguration = isConfiguration
        self.underlying = underlying
    }
}

/// What a worker tells its pool about itself.
public enum WorkerReport: Sendable {
    /// It is opening a connection, and has none that takes work.
    case connecting
    /// A new session takes this many slots. What was leased of an earlier session no longer counts.
    case ready(capacity: Int)
    /// The session's number of slots has changed. It may be 0, and less than what is leased.
    case capacity(Int)
    /// How long its peer takes for an answer, smoothed. For the status, and to choose between workers that are equally
    /// loaded; once a second is often enough.
    case latency(Duration)
    /// The session takes no more work; what is leased may go on.
    case draining
    /// The attempt has failed, or the session was lost; it tries again by itself at that time.
    case backingOff(until: MonotonicInstant, fault: PoolFault? = nil)
    /// It has no connection and waits to be asked.
    case idle
    /// It has ended. The pool learns it from the child's context too; see ``Pool/register(_:id:for:)``.
    case gone
}

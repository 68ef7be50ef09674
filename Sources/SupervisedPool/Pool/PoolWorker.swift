/// Why the pool asks a worker to connect. Later versions may add reasons.
public enum PoolWorkerConnectReason: Sendable, Hashable {
    /// The worker is a base worker: one of those that the pool keeps connected.
    case keep
    /// ``Pool/prewarm(_:deadline:)`` requested more connected workers than the pool keeps.
    case prewarm
    /// More checkouts are waiting than the connected workers can serve.
    case demand
    /// A checkout is waiting or has just failed, and no worker is connected or connecting.
    case use
    /// A checkout is waiting, and all workers are backing off: connect now instead of at the end of the backoff.
    /// The pool asks for this once, when the demand arises. While the demand lasts and workers keep failing to connect,
    /// the backoffs run to their end.
    case shortenBackoff
}

/// Why the pool asks a worker to disconnect. Later versions may add reasons.
public enum PoolWorkerDisconnectReason: Sendable, Hashable {
    /// This overflow worker is not needed: it should close its connection, report ``WorkerReport/idle``, and wait until
    /// it is asked to connect again. The pool gives it no work until its next ``WorkerReport/ready(capacity:)``.
    case idle
    /// The connection has reached its maximum lifetime: the worker should open another one, then let this one drain. The
    /// pool keeps giving it work until it reports another state.
    case lifetime
    /// The pool has become smaller (``Pool/reconfigure(_:)``). Like ``idle``, but the worker may still have work: its
    /// leases stay valid. A worker without a connection is asked, too: it is not asked to connect again, unless the pool
    /// grows.
    case surplus
}

/// An object with streams that connects and reconnects by itself, for example an actor with one HTTP/2 connection. It
/// reports its state to the pool with ``Pool/report(_:from:)``.
///
/// Both methods are called inside the pool's actor, so they must return immediately. The worker reacts with its next
/// report.
public protocol PoolWorker: AnyObject, Sendable {
    /// Asks the worker to open a connection, or to end its current backoff.
    nonisolated func connect(_ reason: PoolWorkerConnectReason)
    /// Asks the worker to close its connection gracefully.
    nonisolated func disconnect(_ reason: PoolWorkerDisconnectReason)
}

/// Identifies a worker and one of its generations.
public struct WorkerID: Hashable, Sendable, CustomStringConvertible {
    /// The worker's index in the pool, from 0. Workers below ``PoolConfiguration/size`` are base workers, which are
    /// kept connected; the others are overflow workers.
    public let index: Int
    /// The generation that its supervisor assigned at this start. A later generation replaces an earlier one.
    public let generation: Int

    /// Creates an identifier.
    ///
    /// - Parameters:
    ///   - index: The worker's index in the pool, from 0.
    ///   - generation: The generation of this start.
    public init(index: Int, generation: Int) {
        self.index = index
        self.generation = generation
    }

    public var description: String { "\(self.index).\(self.generation)" }
}

/// The source of leased streams: a worker and one of its connections. Streams of an ended connection are returned like any
/// others, and do not count against the connection that replaced it.
public struct LeaseOrigin: Hashable, Sendable {
    /// The worker that owns the stream.
    public let worker: WorkerID
    /// The number of the connection, from 1: the pool counts the worker's ``WorkerReport/ready(capacity:)`` reports. If the
    /// worker numbers its connections itself, its numbers may be higher, because it also counts failed connects.
    public let connection: Int

    /// Creates an origin.
    ///
    /// - Parameters:
    ///   - worker: The worker that owns the stream.
    ///   - connection: The number of the connection, from 1.
    public init(worker: WorkerID, connection: Int) {
        self.worker = worker
        self.connection = connection
    }
}

/// Why a worker has no connection.
public struct PoolFault: Error, Sendable, Equatable, CustomStringConvertible {
    /// A description for humans. It is printed and logged.
    public let description: String
    /// Whether a connection cannot succeed until the configuration or the environment changes, for example because a
    /// certificate is untrusted or a host does not exist. If no worker is ready, checkouts fail immediately until the
    /// worker's backoff ends.
    public let isConfiguration: Bool
    /// The error that caused the fault, if any.
    public let underlying: (any Error)?

    /// Creates a fault.
    ///
    /// - Parameters:
    ///   - description: A description for humans. It is printed and logged.
    ///   - isConfiguration: Whether a connection cannot succeed until the configuration or the environment changes.
    ///   - underlying: The error that caused the fault, if any.
    public init(description: String, isConfiguration: Bool = false, underlying: (any Error)? = nil) {
        self.description = description
        self.isConfiguration = isConfiguration
        self.underlying = underlying
    }

    /// Compares the descriptions and ``isConfiguration``, because errors in general cannot be compared.
    public static func == (lhs: PoolFault, rhs: PoolFault) -> Bool {
        lhs.description == rhs.description && lhs.isConfiguration == rhs.isConfiguration
    }
}

/// A worker's report of its own state.
public enum WorkerReport: Sendable, Equatable {
    /// It is opening a connection, and has none that accepts work.
    case connecting
    /// A new connection with this many streams is ready. Streams leased from earlier connections no longer count against it.
    case ready(capacity: Int)
    /// The connection's number of streams has changed. It may be 0, and less than the number of leased streams.
    case capacity(Int)
    /// The smoothed response time of its peer. It is shown in the status and used to choose between equally loaded
    /// workers. Reporting once a second is enough.
    case latency(Duration)
    /// The connection accepts no more work. Leased streams may finish.
    case draining
    /// Its connection was lost, and it is opening another one at once.
    case lost(fault: PoolFault? = nil)
    /// The worker failed to connect, or its connection was lost. It connects again by itself at that time.
    case backingOff(until: MonotonicInstant, fault: PoolFault? = nil)
    /// It has no connection and waits until it is asked to connect.
    case idle
    /// It has ended. The pool also detects this through the child's context; see ``Pool/register(_:id:for:)``.
    case gone
}

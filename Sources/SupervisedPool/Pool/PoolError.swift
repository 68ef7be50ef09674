/// Why a checkout, a wait or the pool's `run` failed. A failed checkout has leased nothing.
public struct PoolError: Error, Sendable, CustomStringConvertible {
    /// The kind of error. Later versions may add kinds.
    public struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        public var description: String { self.rawValue }

        /// Too many checkouts are waiting, or their total size in bytes is too large.
        public static let queueFull = Code(rawValue: "queueFull")
        /// No stream is free, and the caller asked not to wait.
        public static let full = Code(rawValue: "full")
        /// The deadline passed before a stream became free.
        public static let timedOut = Code(rawValue: "timedOut")
        /// By the deadline, fewer workers were ready than the caller was waiting for.
        public static let notReady = Code(rawValue: "notReady")
        /// The caller's task was cancelled.
        public static let cancelled = Code(rawValue: "cancelled")
        /// No worker has been ready for too long; see ``PoolConfiguration/unavailableAfter``.
        public static let unavailable = Code(rawValue: "unavailable")
        /// No worker can become ready until you change the configuration or the environment; see ``PoolError/fault``.
        public static let configurationFault = Code(rawValue: "configurationFault")
        /// The pool is draining and accepts no more checkouts, or ``Pool/failWaiters()`` was called.
        public static let shuttingDown = Code(rawValue: "shuttingDown")
        /// The pool has ended.
        public static let poolStopped = Code(rawValue: "poolStopped")
        /// The deadline passed, and the pool's `run` has not been called.
        public static let notRunning = Code(rawValue: "notRunning")
        /// `run` was called twice. A pool runs only once; create a new one.
        public static let alreadyRunning = Code(rawValue: "alreadyRunning")
        /// More streams were returned than were leased. Thrown only by `run`.
        public static let invariantBroken = Code(rawValue: "invariantBroken")
    }

    /// A single reference keeps the results that carry an error small.
    private final class Storage: Sendable {
        let code: Code
        let waited: Duration
        let retryAfter: Duration?
        let status: PoolStatus
        let fault: PoolFault?

        init(code: Code, waited: Duration, retryAfter: Duration?, status: PoolStatus, fault: PoolFault?) {
            self.code = code
            self.waited = waited
            self.retryAfter = retryAfter
            self.status = status
            self.fault = fault
        }
    }

    private let storage: Storage

    /// Creates an error, for example in the tests of your own code.
    public init(
        code: Code,
        waited: Duration = .zero,
        retryAfter: Duration? = nil,
        status: PoolStatus,
        fault: PoolFault? = nil
    ) {
        self.storage = Storage(code: code, waited: waited, retryAfter: retryAfter, status: status, fault: fault)
    }

    /// The kind of error.
    public var code: Code { self.storage.code }
    /// How long the checkout waited.
    public var waited: Duration { self.storage.waited }
    /// When a new checkout may succeed, if the pool knows.
    public var retryAfter: Duration? { self.storage.retryAfter }
    /// The pool's status at the moment of the failure.
    public var status: PoolStatus { self.storage.status }
    /// Why no worker is ready, as a worker last reported it.
    public var fault: PoolFault? { self.storage.fault }

    public var description: String {
        var text = "pool error (\(self.code)) after \(self.waited): \(self.advice) Pool: \(self.status)."
        if let retryAfter { text += " Retry after \(retryAfter)." }
        if let fault { text += " Last fault: \(fault)." }
        return text
    }

    private var advice: String {
        switch self.code {
        case .queueFull:
            "too many checkouts wait. Send less at once, raise maxOverflow so that there are more streams, or raise "
                + "maxWaiters and maxQueuedBytes if a longer wait is acceptable."
        case .full:
            "no stream is free. Let the checkout wait, or raise size or maxOverflow."
        case .timedOut where self.status.capacity == 0:
            "no worker was ready in time. Check the workers' states and the network; allow a longer deadline."
        case .timedOut:
            "no stream became free in time. Send less at once, raise size or maxOverflow, allow a longer deadline, or "
                + "check for leases that are held too long."
        case .notReady:
            "fewer workers than wanted were ready in time. Check the workers' states and the network; allow a longer "
                + "deadline."
        case .cancelled:
            "the caller was cancelled."
        case .unavailable:
            "no worker can connect. Check the network and the peer's status; set whenUnavailable to wait if checkouts "
                + "should wait for the end of the outage."
        case .configurationFault:
            "no worker can connect until the configuration or the environment changes."
        case .shuttingDown:
            "the pool is draining."
        case .poolStopped:
            "the pool has ended."
        case .notRunning:
            "the pool is not running. Call run() and keep it running while the pool is used."
        case .alreadyRunning:
            "run() was called twice. Create a new pool for each run."
        case .invariantBroken:
            "more streams were returned than were leased. This is a defect in the code that returns them."
        default:
            "the error's code gives the reason."
        }
    }
}

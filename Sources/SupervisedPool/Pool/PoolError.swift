/// Why a checkout failed. Nothing was leased.
public struct PoolError: Error, Sendable, CustomStringConvertible {
    /// The kind of error. Later versions may add kinds.
    public struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        public var description: String { self.rawValue }

        /// Too many checkouts wait, or they stand for too many bytes.
        public static let queueFull = Code(rawValue: "queueFull")
        /// No slot is free, and the caller did not want to wait.
        public static let full = Code(rawValue: "full")
        /// The deadline passed before a slot was free.
        public static let timedOut = Code(rawValue: "timedOut")
        /// Fewer workers than were waited for were ready by the deadline.
        public static let notReady = Code(rawValue: "notReady")
        /// The checkout waited for ``PoolConfiguration/maxQueueAge``.
        public static let waitedTooLong = Code(rawValue: "waitedTooLong")
        /// The caller's task was cancelled.
        public static let cancelled = Code(rawValue: "cancelled")
        /// No worker has been ready for too long.
        public static let unavailable = Code(rawValue: "unavailable")
        /// No worker can be ready before somebody changes something; see ``PoolError/fault``.
        public static let configurationFault = Code(rawValue: "configurationFault")
        /// The pool takes no more checkouts.
        public static let shuttingDown = Code(rawValue: "shuttingDown")
        /// The pool has ended.
        public static let poolStopped = Code(rawValue: "poolStopped")
        /// The deadline passed and nobody has run the pool.
        public static let notRunning = Code(rawValue: "notRunning")
        /// `run` was called twice. A pool runs once; make a new one.
        public static let alreadyRunning = Code(rawValue: "alreadyRunning")
        /// Slots were returned that nobody had. Thrown by `run` only.
        public static let invariantBroken = Code(rawValue: "invariantBroken")
    }

    /// One reference, so that the results which carry an error stay small.
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

    /// Makes an error; callers of a pool need it for their own tests.
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
    /// When another checkout may succeed, if the pool knows.
    public var retryAfter: Duration? { self.storage.retryAfter }
    /// The pool at the moment of the failure.
    public var status: PoolStatus { self.storage.status }
    /// Why workers are not ready, as they reported it last.
    public var fault: PoolFault? { self.storage.fault }

    public var description: String {
        var text = "checkout failed (\(self.code)) after \(self.waited): \(self.advice) Pool: \(self.status)."
        if let retryAfter { text += " Retry after \(retryAfter)." }
        if let fault { text += " Last fault: \(fault)." }
        return text
    }

    private var advice: String {
        switch self.code {
        case .queueFull:
            "too many checkouts wait. Send less at once, raise maxOverflow so that more slots exist, or raise maxWaiters "
                + "and maxQueuedBytes if a longer wait is acceptable."
        case .full:
            "no slot is free. Let the checkout wait, or raise size or maxOverflow."
        case .timedOut where self.status.capacity == 0:
            "no worker was ready in time. Look at the workers' states and at the network; allow a longer deadline."
        case .timedOut:
            "no slot became free in time. Send less at once, raise size or maxOverflow, allow a longer deadline, or look "
                + "for slots that are held too long."
        case .notReady:
            "fewer workers than wanted were ready in time. Look at the workers' states and at the network; allow a longer "
                + "deadline."
        case .waitedTooLong:
            "the queue moves too slowly. Send less at once, raise size or maxOverflow, or raise maxQueueAge if a longer "
                + "wait is acceptable."
        case .cancelled:
            "the caller was cancelled."
        case .unavailable:
            "no worker can connect. Look at the network and at the peer's status; set whenUnavailable to wait if checkouts "
                + "should outlast it."
        case .configurationFault:
            "no worker can connect until the configuration is changed."
        case .shuttingDown:
            "the pool is draining."
        case .poolStopped:
            "the pool has ended."
        case .notRunning:
            "nobody runs the pool. Call run() and keep it running while the pool is used."
        case .alreadyRunning:
            "run() was called twice. Make a new pool for each run."
        case .invariantBroken:
            "slots were returned that nobody had. This is a defect in the code that returns them."
        default:
            "see the code."
        }
    }
}

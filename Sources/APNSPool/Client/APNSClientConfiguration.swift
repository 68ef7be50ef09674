import HTTP2Wire
public import Logging
public import NIOCore
package import SupervisedPool
public import Tracing

/// All settings of a client. Each has a default that needs no thought except the authentication.
public struct APNSClientConfiguration: Sendable {
    /// How many connections the client keeps, opens on demand, and how pushes wait for them.
    public struct Pool: Sendable {
        /// Which connection gets the next push.
        public struct Strategy: Sendable, Hashable {
            let kind: PoolConfiguration.Strategy
            /// The one with the smallest share of its streams in use.
            public static let leastLoaded = Strategy(kind: .leastLoaded)
            /// The one used last: at low rates the others idle and overflow connections close.
            public static let lifo = Strategy(kind: .lifo)
            /// The one used longest ago: all in turn.
            public static let fifo = Strategy(kind: .fifo)
        }

        /// Connections that are kept open. 0: none before the first push. Default 1; with `maxOverflow` 1 to 1,000.
        public var size: Int
        /// Connections that are opened above `size` when pushes wait, and closed after `idleTimeout`. Default 3; 0 to 1,000.
        public var maxOverflow: Int
        /// Which connection gets the next push. Default `leastLoaded`.
        public var strategy: Strategy
        /// Pushes that may wait for a free stream; more fail at once with `queueFull`. Default 10,000; 1 to 1,000,000.
        public var maxQueued: Int
        /// Bytes of payload that may wait; more fail at once with `queueFull`. Default 16 MiB; 8 KiB to 1 TiB.
        public var maxQueuedBytes: Int
        /// How long a push may wait for a stream, whatever its deadline: 1 ms to a day. Default nil: only its deadline
        /// counts.
        public var maxQueueAge: Duration?
        /// Streams on one connection, if APNs allows as many: 1 to 1,000, which is the default.
        public var maxConcurrentStreams: Int
        /// How long an overflow connection may idle: 1 s to a day. Default 5 minutes.
        public var idleTimeout: Duration
        /// How long a connection is kept before another one, perhaps to another of APNs' addresses, takes its place without a
        /// gap; 10 % more or less at random. 1 s to a year; default 24 h; nil: for ever.
        public var maximumLifetime: Duration?
        /// The pause between two connects of the pool, since APNs takes many at once for an attack. Default 1 s; zero to
        /// an hour.
        public var connectSpacing: Duration
        /// Without any connection for this long, pushes fail at once instead of waiting. Default 10 s; 100 ms to an hour.
        public var unavailableAfter: Duration
        /// What pushes do while there has been no connection for `unavailableAfter`. Default: they fail at once.
        public var whenUnavailable: WhenUnavailable

        /// All parameters have the defaults that their properties name. Limits are checked when a client is made.
        public init(
            size: Int = 1,
            maxOverflow: Int = 3,
            strategy: Strategy = .leastLoaded,
            maxQueued: Int = 10_000,
            maxQueuedBytes: Int = 16 * 1024 * 1024,
            maxQueueAge: Duration? = nil,
            maxConcurrentStreams: Int = 1000,
            idleTimeout: Duration = .seconds(300),
            maximumLifetime: Duration? = .seconds(86_400),
            connectSpacing: Duration = .seconds(1),
            unavailableAfter: Duration = .seconds(10),
            whenUnavailable: WhenUnavailable = .fail
        ) {
            self.size = size
            self.maxOverflow = maxOverflow
            self.strategy = strategy
            self.maxQueued = maxQueued
            self.maxQueuedBytes = maxQueuedBytes
            self.maxQueueAge = maxQueueAge
            self.maxConcurrentStreams = maxConcurrentStreams
            self.idleTimeout = idleTimeout
            self.maximumLifetime = maximumLifetime
            self.connectSpacing = connectSpacing
            self.unavailableAfter = unavailableAfter
            self.whenUnavailable = whenUnavailable
        }
    }

    /// What pushes do while there is no connection to be had.
    public struct WhenUnavailable: Sendable, Hashable {
        private let waits: Bool
        /// Pushes fail at once; the error says when to come again.
        public static let fail = WhenUnavailable(waits: false)
        /// Pushes wait until their deadlines.
        public static let wait = WhenUnavailable(waits: true)
    }

    /// How long things may take.
    public struct Timeouts: Sendable {
        /// The deadline of a push that names none: queue, connect, every try and answer together. Default 30 s; 1 ms to a
        /// day.
        public var deadline: Duration
        /// For the response to one try. Default 10 s; 1 ms to a day.
        public var response: Duration
        /// For look-up, TCP, TLS and APNs' first SETTINGS together. Default 10 s; 1 ms to an hour.
        public var connect: Duration
        /// For a graceful shutdown. Default 20 s, below the 30 s that a pod usually has; zero to a day.
        public var drain: Duration

        /// All parameters have the defaults that their properties name. Limits are checked when a client is made.
        public init(
            deadline: Duration = .seconds(30),
            response: Duration = .seconds(10),
            connect: Duration = .seconds(10),
            drain: Duration = .seconds(20)
        ) {
            self.deadline = deadline
            self.response = response
            self.connect = connect
            self.drain = drain
        }
    }

    /// What the client trusts, beside the system's roots.
    public struct Trust: Sendable {
        /// A file with further trust roots (PEM).
        public var caFile: String?
        /// Further trust roots as PEM text.
        public var caPEM: String?

        /// - Parameters:
        ///   - caFile: the path of a PEM file; it is read when a client is made.
        ///   - caPEM: PEM text.
        public init(caFile: String? = nil, caPEM: String? = nil) {
            self.caFile = caFile
            self.caPEM = caPEM
        }
    }

    /// What is sent again, and how often. What may have been processed is never sent again, unless that is asked for.
    public struct Retry: Sendable {
        /// Tries of one push, the first included: 1 to 5. Default 5; 1 turns retries off.
        public var maxAttempts: Int
        /// Whether a response 500 is tried again. Default true.
        public var retriesInternalServerError: Bool
        /// Retries of 503 and 500 as a share of the last ten seconds' responses, in per cent (never fewer than 100
        /// retries). Default 20; 0 to 100.
        public var budgetPercent: Int
        /// Whether a push that was written and got no response is sent again, with the same `apns-id`. It may then arrive
        /// twice, for APNs does not promise to recognise the id; and unless a later try is accepted its outcome stays
        /// `unknown`. A push whose time is over, or whose task was cancelled, is not sent again. Default false.
        public var resendsUnknown: Bool

        /// All parameters have the defaults that their properties name. Limits are checked when a client is made.
        public init(
            maxAttempts: Int = 5,
            retriesInternalServerError: Bool = true,
            budgetPercent: Int = 20,
            resendsUnknown: Bool = false
        ) {
            self.maxAttempts = maxAttempts
            self.retriesInternalServerError = retriesInternalServerError
            self.budgetPercent = budgetPercent
            self.resendsUnknown = resendsUnknown
        }
    }

    /// What `run()` does when the supervision tree gives up, which takes a bug in the library.
    public struct OnEscalation: Sendable, Hashable {
        private enum Kind { case restart, fail }
        private let kind: Kind
        /// Queued pushes fail with one error, the fault is logged at `critical`, and the tree is started anew after
        /// 30 s, doubling to 5 min. The server lives.
        public static let restart = OnEscalation(kind: .restart)
        /// `run()` throws.
        public static let `throw` = OnEscalation(kind: .fail)
    }

    /// How the client proves to APNs who it is. The one setting without a default.
    public var authentication: APNSAuthentication
    /// Where pushes go. Default `production`.
    public var environment: APNSEnvironment
    /// Connections and the queue in front of them.
    public var pool: Pool
    /// How long a push, a response, a connect and a shutdown may take.
    public var timeouts: Timeouts
    /// Which servers the client believes. Default: the system's roots.
    public var trust: Trust
    /// The HTTP proxy that connections go through. Default nil: none.
    public var proxy: Proxy?
    /// What is sent again, and how often.
    public var retry: Retry
    /// When so many device tokens are refused that the environment or topic must be wrong. A bulk call then stops; for
    /// single pushes it is one critical line in the log and a flag in the status.
    public var massRejection: MassRejectionLimits
    /// The least time between two broadcasts to one channel. Default 1 s, the advice of Apple's engineers; more are
    /// answered 429 `TooManyRequests`. Zero: they are not held back. At most an hour.
    public var broadcastSpacing = Duration.seconds(1)
    /// What `run()` does when the supervision tree gives up. Default `restart`.
    public var onEscalation: OnEscalation
    /// Where the client logs. Default: a logger with the label `apns-pool`.
    public var logger: Logger
    /// What log lines and spans say beyond what they always do.
    public var logging = Logging()
    /// Who gets the spans of pushes and calls (`Docs/Operations.md`, "Traces"). Default nil: the tracer of
    /// `InstrumentationSystem.bootstrap`, or the one that `withTracer` sets around the client's making or its run; without
    /// one there are no spans.
    public var tracer: (any Tracer)?
    /// Where connections live. Default: NIO's own group, as many loops as the machine has cores.
    public var eventLoopGroup: (any EventLoopGroup)?
    /// Time, for tests. The deadlines and timers of the connections follow it, too.
    package var clock: any MonotonicClock = SystemMonotonicClock()
    /// Labels of all metrics beside those that every client has.
    var metricLabels: [MetricSample.Label] = []
    /// Where the client's group hears of invalid device tokens.
    var groupInvalidTokens: EventHub<InvalidToken>?
    /// Seconds since 1970, for tests.
    package var wallClock: @Sendable () -> Int64 = { WallClock.secondsSince1970() }
    /// Shared with other clients of the same trust; nil: the client's own.
    var tlsContexts: TLSContexts?
    /// What the random parts of the waits between connects follow from; for tests that need the same in each run.
    var connectionSeed: UInt64?
    /// What a connection's own settings are, for tests; those to the management host's, too.
    var adjustConnection: (@Sendable (inout Connection.Configuration) -> Void)?

    /// Only `authentication` must be given. Nothing is read or checked here: that is done when a client is made, which
    /// throws ``APNSConfigurationError`` with the setting's name.
    public init(
        authentication: APNSAuthentication,
        environment: APNSEnvironment = .production,
        pool: Pool = Pool(),
        timeouts: Timeouts = Timeouts(),
        trust: Trust = Trust(),
        proxy: Proxy? = nil,
        retry: Retry = Retry(),
        massRejection: MassRejectionLimits = MassRejectionLimits(),
        onEscalation: OnEscalation = .restart,
        logger: Logger = Logger(label: "apns-pool"),
        eventLoopGroup: (any EventLoopGroup)? = nil
    ) {
        self.authentication = authentication
        self.environment = environment
        self.pool = pool
        self.timeouts = timeouts
        self.trust = trust
        self.proxy = proxy
        self.retry = retry
        self.massRejection = massRejection
        self.onEscalation = onEscalation
        self.logger = logger
        self.eventLoopGroup = eventLoopGroup
    }

    /// The pool's part of it.
    var poolConfiguration: PoolConfiguration {
        var configuration = PoolConfiguration()
        configuration.size = self.pool.size
        configuration.maxOverflow = self.pool.maxOverflow
        configuration.strategy = self.pool.strategy.kind
        configuration.maxWaiters = self.pool.maxQueued
        configuration.maxQueuedBytes = self.pool.maxQueuedBytes
        configuration.idleTimeout = self.pool.idleTimeout
        configuration.connectSpacing = self.pool.connectSpacing
        configuration.unavailableAfter = self.pool.unavailableAfter
        configuration.maxQueueAge = self.pool.maxQueueAge
        configuration.maximumLifetime = self.pool.maximumLifetime
        configuration.whenUnavailable = self.pool.whenUnavailable == .wait ? .wait : .fail
        return configuration
    }

    /// Throws for the first setting that is out of its limits, by name.
    func validate() throws(APNSConfigurationError) {
        func check(_ setting: String, _ value: Int, _ range: ClosedRange<Int>) throws(APNSConfigurationError) {
            guard range.contains(value) else {
                throw .outOfRange(setting, "\(value)", "\(range.lowerBound) to \(range.upperBound)")
            }
        }
        func check(
            _ setting: String,
            _ value: Duration,
            _ low: Duration,
            _ high: Duration
        ) throws(APNSConfigurationError) {
            guard value >= low, value <= high else { throw .outOfRange(setting, "\(value)", "\(low) to \(high)") }
        }
        let environment = self.environment
        for (setting, host) in [("host", environment.host), ("managementHost", environment.managementHost)] {
            guard APNSEnvironment.isHost(host) else {
                throw .outOfRange("environment.\(setting)", "'\(host)'", "a host name or address")
            }
        }
        try check("environment.port", environment.port, 1...65535)
        try check("environment.managementPort", environment.managementPort, 1...65535)
        try self.proxy?.validate()
        try check("pool.size", self.pool.size, 0...1000)
        try check("pool.maxOverflow", self.pool.maxOverflow, 0...1000)
        guard self.pool.size + self.pool.maxOverflow > 0 else {
            throw .outOfRange("pool.size", "0 with pool.maxOverflow 0", "at least one connection in all")
        }
        try check("pool.size + pool.maxOverflow", self.pool.size + self.pool.maxOverflow, 1...1000)
        try check("pool.maxQueued", self.pool.maxQueued, 1...1_000_000)
        try check("pool.maxQueuedBytes", self.pool.maxQueuedBytes, 8192...(1 << 40))
        try check("pool.maxConcurrentStreams", self.pool.maxConcurrentStreams, 1...1000)
        try check("pool.idleTimeout", self.pool.idleTimeout, .seconds(1), .seconds(86_400))
        if let age = self.pool.maxQueueAge {
            try check("pool.maxQueueAge", age, .milliseconds(1), .seconds(86_400))
        }
        if let lifetime = self.pool.maximumLifetime {
            try check("pool.maximumLifetime", lifetime, .seconds(1), .seconds(86_400 * 365))
        }
        try check("pool.connectSpacing", self.pool.connectSpacing, .zero, .seconds(3600))
        try check("pool.unavailableAfter", self.pool.unavailableAfter, .milliseconds(100), .seconds(3600))
        try check("timeouts.deadline", self.timeouts.deadline, .milliseconds(1), .seconds(86_400))
        try check("timeouts.response", self.timeouts.response, .milliseconds(1), .seconds(86_400))
        try check("timeouts.connect", self.timeouts.connect, .milliseconds(1), .seconds(3600))
        try check("timeouts.drain", self.timeouts.drain, .zero, .seconds(86_400))
        try check("broadcastSpacing", self.broadcastSpacing, .zero, .seconds(3600))
        try check("retry.maxAttempts", self.retry.maxAttempts, 1...5)
        try check("retry.budgetPercent", self.retry.budgetPercent, 0...100)
    }
}

extension APNSConfigurationError {
    fileprivate static func outOfRange(
        _ setting: String,
        _ value: String,
        _ allowed: String
    ) -> APNSConfigurationError {
        APNSConfigurationError(
            .outOfRange,
            setting: setting,
            message: "'\(setting)' is \(value); allowed is \(allowed)"
        )
    }
}

extension APNSConfigurationError.Code {
    /// The trust roots cannot be read, or the machine has none.
    public static let trustRootsUnusable = APNSConfigurationError.Code(rawValue: "trust-roots-unusable")
    /// The client was run twice.
    public static let alreadyRunning = APNSConfigurationError.Code(rawValue: "already-running")
}

import APNSModel
import APNSTransport
public import Logging
public import NIOCore
public import SupervisedPool
public import Tracing

/// All settings of a client. Every setting except the authentication has a sensible default.
///
/// ```swift
/// var configuration = APNSClientConfiguration(
///     authentication: .token(keyFile: "AuthKey_9UC9ZLQ8YW.p8", teamID: "ABBM6U9RM5"),
///     environment: .development
/// )
/// configuration.timeouts.deadline = .seconds(10)
/// configuration.pool.maxOverflow = 1
/// let client = try APNSClient(configuration: configuration)
/// ```
public struct APNSClientConfiguration: Sendable {
    /// The number of connections, when they open and close, and how pushes queue for them.
    public struct Pool: Sendable {
        /// Which connection gets the next push: the one with the smallest share of its streams in use (`leastLoaded`), the
        /// one that was used most recently (`lifo`: at low rates the others become idle, and overflow connections close),
        /// or the one that was used least recently (`fifo`).
        public typealias Strategy = PoolConfiguration.Strategy
        /// Whether pushes wait or fail while no connection is available: they fail at once, and the error's `retryAfter`
        /// says when to retry (`fail`), or they wait until their deadlines (`wait`).
        public typealias WhenUnavailable = PoolConfiguration.WhenUnavailable

        /// The number of connections to keep open. 0: none before the first push. Default 1; 0 to 1,000, and `size`
        /// plus `maxOverflow` must be 1 to 1,000.
        public var size: Int
        /// The number of extra connections above `size`. They open when pushes wait and close after `idleTimeout`.
        /// Default 3; 0 to 1,000.
        public var maxOverflow: Int
        /// Which connection gets the next push. Default `leastLoaded`.
        public var strategy: Strategy
        /// How many pushes may wait for a free stream. Further pushes fail at once with `queueFull`. Default 10,000; 1
        /// to 1,000,000.
        public var maxQueued: Int
        /// How many bytes of payload may wait. Further pushes fail at once with `queueFull`. Default 16 MiB; 8 KiB to 1
        /// TiB.
        public var maxQueuedBytes: Int
        /// The maximum number of streams on one connection, if APNs allows that many. Default 1,000; 1 to 1,000.
        public var maxConcurrentStreams: Int
        /// How long an overflow connection may be idle before it closes. Default 5 minutes; 1 s to a day.
        public var idleTimeout: Duration
        /// How long a connection is used before a new one replaces it, varied at random by up to 10 % either way. The
        /// replacement leaves no gap, and the new connection may use another of APNs' addresses. Default 24 h; 1 s to a
        /// year; nil: never replaced because of its age.
        public var maximumLifetime: Duration?
        /// The pause between two connects of the pool. APNs treats many connects at once as an attack. Default 1 s;
        /// zero to an hour.
        public var connectSpacing: Duration
        /// After this long without any connection, pushes fail at once instead of waiting, unless `whenUnavailable` is
        /// `wait`. Default 10 s; 100 ms to an hour.
        public var unavailableAfter: Duration
        /// Whether pushes wait or fail after `unavailableAfter` without a connection. Default `fail`.
        public var whenUnavailable: WhenUnavailable

        /// The number of workers that these settings require.
        var workerCount: Int { self.size + self.maxOverflow }

        /// Every parameter has the default of its property. Limits are checked when a client is created.
        public init(
            size: Int = 1,
            maxOverflow: Int = 3,
            strategy: Strategy = .leastLoaded,
            maxQueued: Int = 10_000,
            maxQueuedBytes: Int = 16 * 1024 * 1024,
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
            self.maxConcurrentStreams = maxConcurrentStreams
            self.idleTimeout = idleTimeout
            self.maximumLifetime = maximumLifetime
            self.connectSpacing = connectSpacing
            self.unavailableAfter = unavailableAfter
            self.whenUnavailable = whenUnavailable
        }
    }

    /// Time limits for pushes, connects and shutdown.
    public struct Timeouts: Sendable {
        /// The deadline of a push that sets none of its own. Covers the queue, connecting, every attempt and the
        /// response. Default 30 s; 1 ms to a day.
        public var deadline: Duration
        /// The time limit for the response to one attempt, from when the push is sent. Default 10 s; 1 ms to a day.
        public var response: Duration
        /// The time limit for DNS lookup, TCP, the tunnel of a proxy, TLS and the first SETTINGS frame of APNs together.
        /// Default 10 s; 1 ms to an hour.
        public var connect: Duration
        /// The time limit for a graceful shutdown. Default 20 s, which is below the 30 s that a pod usually has; zero
        /// to a day.
        public var drain: Duration

        /// Every parameter has the default of its property. Limits are checked when a client is created.
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

    /// Trust roots in addition to the system's roots.
    public struct Trust: Sendable {
        /// The path of a PEM file with additional trust roots.
        public var caFile: String?
        /// Additional trust roots as PEM text.
        public var caPEM: String?

        /// - Parameters:
        ///   - caFile: the path of a PEM file. It is read when a client is created.
        ///   - caPEM: trust roots as PEM text.
        public init(caFile: String? = nil, caPEM: String? = nil) {
            self.caFile = caFile
            self.caPEM = caPEM
        }
    }

    /// Which pushes are retried, and how often. A push that may have been processed is never resent unless you opt in
    /// with `resendsUnknown`.
    public struct Retry: Sendable {
        /// The maximum number of attempts for one push, including the first. Default 5; 1 to 5. With 1, a push that was
        /// sent is not retried.
        ///
        /// Attempts that sent no byte do not count. Neither do attempts that met GOAWAY or a failure which meets every
        /// push, such as a 503. While it lasts, one push at a time is tried, and the others wait: until their
        /// deadlines, or, if they were never sent, as long as `pool.unavailableAfter` and `pool.whenUnavailable` allow.
        public var maxAttempts: Int
        /// Whether a push is retried after a response with status 500. Default true.
        public var retriesInternalServerError: Bool
        /// Whether a push that was written but got no response, or a 5xx response without one of APNs' documented
        /// reasons, is resent with the same `apns-id`. Default false.
        ///
        /// The push may then arrive twice, because APNs does not promise to recognise the id. Unless a later attempt is
        /// accepted, the outcome stays `unknown`. A push is not resent after its deadline or after its task was
        /// cancelled.
        public var resendsUnknown: Bool

        /// Every parameter has the default of its property. Limits are checked when a client is created.
        public init(
            maxAttempts: Int = 5,
            retriesInternalServerError: Bool = true,
            resendsUnknown: Bool = false
        ) {
            self.maxAttempts = maxAttempts
            self.retriesInternalServerError = retriesInternalServerError
            self.resendsUnknown = resendsUnknown
        }
    }

    /// The credential that authenticates the client to APNs. The only setting without a default.
    public var authentication: APNSAuthentication
    /// The APNs service that pushes are sent to. Default `production`.
    public var environment: APNSEnvironment
    /// The topic of notifications that name none: the app's bundle ID. The suffix of each push type is added. Default
    /// nil: each notification must name its own. The apps of an ``APNSClientGroup`` have their own topics instead.
    public var defaultTopic: String?
    /// The connections and the queue in front of them.
    public var pool: Pool
    /// Time limits for pushes, responses, connects and shutdown.
    public var timeouts: Timeouts
    /// The trust roots for servers' certificates: the system's roots and those that are added here. Default: none are
    /// added.
    public var trust: Trust
    /// The HTTP proxy for all connections. Default nil: no proxy.
    public var proxy: Proxy?
    /// Which pushes are retried, and how often.
    public var retry: Retry
    /// How many rejected device tokens indicate a wrong environment or topic. When the limit is reached, a bulk call
    /// stops. For single pushes, the client logs one critical line and sets a flag in the status.
    public var massRejection: MassRejectionLimits
    /// The client's logger. Default: a logger with the label `apns-pool`.
    public var logger: Logger
    /// Optional details in log lines and spans.
    public var logging = Logging()
    /// The tracer for the spans of pushes and calls (`Docs/Operations.md`, "Traces"). Default nil: the tracer given to
    /// `InstrumentationSystem.bootstrap`, or the one that `withTracer` sets around the creation or the run of the
    /// client. Without a tracer there are no spans.
    public var tracer: (any Tracer)?
    /// The event loops of the connections. Default: NIO's own group, with as many loops as the machine has cores.
    ///
    /// The group must outlive the client: shut down the client first. Without its group, a client has no connections.
    public var eventLoopGroup: (any EventLoopGroup)?
    /// The client's clock, replaceable in tests. The deadlines and timers of the connections use it, too.
    package var clock: any MonotonicClock = SystemMonotonicClock()
    /// Labels for all metrics, in addition to those that every client has.
    var metricLabels: [MetricSample.Label] = []
    /// The event hub through which the client's group receives invalid device tokens.
    var groupInvalidTokens: EventHub<InvalidToken>?
    /// Called when the client's `WorkerTally` may have changed; for the client's group.
    var onWorkerTally: (@Sendable () -> Void)?
    /// Called when another credential has come into use; for the client's group.
    var onCredential: (@Sendable (ResolvedAuthentication) -> Void)?
    /// The wall clock in seconds since 1970, replaceable in tests.
    package var wallClock: @Sendable () -> Int64 = { WallClock.secondsSince1970() }
    /// TLS contexts shared with other clients that have the same trust settings; nil: the client makes its own.
    var tlsContexts: TLSContexts?
    /// The provider tokens of a group's keys; nil: the client has its own.
    var tokenCaches: TokenCaches?
    /// The seed for the random part of connect backoffs, for tests that must be reproducible.
    var connectionSeed: UInt64?
    /// After this time without a response to many pushes, a connection gets no more of them, and after twice this time it
    /// is replaced. Longer in tests whose server holds pushes.
    var silenceWarning = UnansweredPushes.defaultWarning
    /// Adjusts the settings of each connection in tests, including connections to the management host.
    var adjustConnection: (@Sendable (inout Connection.Configuration) -> Void)?

    /// Creates a configuration. Only `authentication` is required.
    ///
    /// Nothing is read or validated here. That happens when a client is created, which throws
    /// ``APNSConfigurationError`` with the name of the invalid setting.
    public init(
        authentication: APNSAuthentication,
        environment: APNSEnvironment = .production,
        defaultTopic: String? = nil,
        pool: Pool = Pool(),
        timeouts: Timeouts = Timeouts(),
        trust: Trust = Trust(),
        proxy: Proxy? = nil,
        retry: Retry = Retry(),
        massRejection: MassRejectionLimits = MassRejectionLimits(),
        logger: Logger = Logger(label: "apns-pool"),
        eventLoopGroup: (any EventLoopGroup)? = nil
    ) {
        self.authentication = authentication
        self.environment = environment
        self.defaultTopic = defaultTopic
        self.pool = pool
        self.timeouts = timeouts
        self.trust = trust
        self.proxy = proxy
        self.retry = retry
        self.massRejection = massRejection
        self.logger = logger
        self.eventLoopGroup = eventLoopGroup
    }

    /// The settings of the connection pool.
    var poolConfiguration: PoolConfiguration {
        var configuration = PoolConfiguration()
        configuration.size = self.pool.size
        configuration.maxOverflow = self.pool.maxOverflow
        configuration.strategy = self.pool.strategy
        configuration.maxWaiters = self.pool.maxQueued
        configuration.maxQueuedBytes = self.pool.maxQueuedBytes
        configuration.idleTimeout = self.pool.idleTimeout
        configuration.connectSpacing = self.pool.connectSpacing
        configuration.unavailableAfter = self.pool.unavailableAfter
        configuration.maximumLifetime = self.pool.maximumLifetime
        configuration.whenUnavailable = self.pool.whenUnavailable
        return configuration
    }

    /// Validates all settings. `SettingsTable` has the limits of numbers and times.
    ///
    /// - Throws: An error that names the first setting that is out of its limits.
    func validate() throws(APNSConfigurationError) {
        let environment = self.environment
        for (setting, host) in [("host", environment.host), ("managementHost", environment.managementHost)] {
            guard APNSEnvironment.isHost(host) else {
                throw .outOfRange("environment.\(setting)", "'\(host)'", "a host name or address")
            }
        }
        for (setting, port) in [("port", environment.port), ("managementPort", environment.managementPort)] {
            guard APNSEnvironment.ports.contains(port) else {
                throw .outOfRange("environment.\(setting)", "\(port)", "1 to 65535")
            }
        }
        if let defaultTopic {
            do throws(ValidationError) {
                try HeaderRules.checkTopic(defaultTopic)
            } catch {
                throw .outOfRange("defaultTopic", "'\(ValidationError.shortened(defaultTopic))'", "the app's bundle ID")
            }
        }
        try self.proxy?.validate()
        for setting in SettingsTable.limited { try setting.check(self) }
        guard self.pool.workerCount > 0 else {
            throw .outOfRange("pool.size", "0 with pool.maxOverflow 0", "at least one connection in all")
        }
        let maximum = PoolConfiguration.maximumWorkers
        guard self.pool.workerCount <= maximum else {
            throw .outOfRange("pool.size + pool.maxOverflow", "\(self.pool.workerCount)", "1 to \(maximum)")
        }
    }
}

extension APNSConfigurationError {
    static func outOfRange(_ setting: String, _ value: String, _ allowed: String) -> APNSConfigurationError {
        APNSConfigurationError(
            .outOfRange,
            setting: setting,
            message: "'\(setting)' is \(value); allowed: \(allowed)"
        )
    }

    /// - Parameters:
    ///   - function: The function that was called.
    ///   - what: What was run before: a client or a group.
    static func alreadyRunning(_ function: String, _ what: String) -> APNSConfigurationError {
        APNSConfigurationError(
            .alreadyRunning,
            setting: function,
            message: "the \(what) is already running or has ended: a \(what) can run only once"
        )
    }
}

extension APNSConfigurationError.Code {
    /// The trust roots cannot be read, or the machine has none.
    public static let trustRootsUnusable = APNSConfigurationError.Code(rawValue: "trust-roots-unusable")
    /// The client was run twice.
    public static let alreadyRunning = APNSConfigurationError.Code(rawValue: "already-running")
}

/// The settings of a ``Pool``. Every property has a default. ``validate()`` checks that the values are consistent.
public struct PoolConfiguration: Sendable, Hashable {
    /// Which worker serves a checkout if several have a free stream.
    public enum Strategy: Sendable, Hashable {
        /// The worker with the smallest share of its capacity leased. Spreads the load. Among equally loaded workers,
        /// the one with the lower reported latency serves, then the one with the lowest index.
        case leastLoaded
        /// The worker that served last, base workers before overflow workers. Concentrates the load, so that other
        /// workers become idle.
        case lifo
        /// The worker that has not served for the longest time. Rotates through the workers.
        case fifo
    }

    /// What happens to checkouts while the pool is unavailable.
    public enum WhenUnavailable: Sendable, Hashable {
        /// They fail immediately, with a hint when to retry (``PoolError/retryAfter``).
        case fail
        /// They wait until their deadline.
        case wait
    }

    /// The number of workers that are asked to connect when they register. 0 or more; 1 by default. With 0, the first
    /// checkout makes the first worker connect.
    public var size: Int
    /// The number of workers above ``size`` that connect on demand and are disconnected when idle. 0 or more; 3 by
    /// default.
    public var maxOverflow: Int
    /// How a worker is chosen for a checkout. `leastLoaded` by default.
    public var strategy: Strategy
    /// How many checkouts may wait. 0 to 1,000,000; 10,000 by default.
    public var maxWaiters: Int
    /// The limit for the total size of all waiting checkouts, in bytes, as declared by their callers. 16 MiB by
    /// default.
    public var maxQueuedBytes: Int
    /// The share of each worker's streams that bulk checkouts leave free for interactive ones, in per cent, rounded
    /// down to whole streams. 0 to 90; 20 by default.
    public var interactiveReservePercent: Int
    /// The minimum time between two connects that the pool asks for. Up to 20 % is added at random. Zero is allowed;
    /// 1 s by default. If no worker is ready and a checkout needs one, an idle worker is asked without this delay,
    /// unless that worker was asked within this time.
    public var connectSpacing: Duration
    /// How long an overflow worker may go without a checkout before it is disconnected. 1 ms or more; 5 min by default.
    public var idleTimeout: Duration
    /// How long the pool may have no ready worker, while workers fail to connect, before it counts as unavailable. 10 s
    /// by default.
    public var unavailableAfter: Duration
    /// What happens to checkouts while the pool is unavailable. `fail` by default.
    public var whenUnavailable: WhenUnavailable
    /// How long a worker keeps one session before it is asked to replace it, varied by up to ±10 % at random. 1 s or
    /// more; 24 h by default. `nil` means no limit.
    public var maximumLifetime: Duration?

    /// Creates a configuration. See the properties for the meaning and the limits of each value.
    public init(
        size: Int = 1,
        maxOverflow: Int = 3,
        strategy: Strategy = .leastLoaded,
        maxWaiters: Int = 10_000,
        maxQueuedBytes: Int = 16 * 1024 * 1024,
        interactiveReservePercent: Int = 20,
        connectSpacing: Duration = .seconds(1),
        idleTimeout: Duration = .seconds(300),
        unavailableAfter: Duration = .seconds(10),
        whenUnavailable: WhenUnavailable = .fail,
        maximumLifetime: Duration? = .seconds(86_400)
    ) {
        self.size = size
        self.maxOverflow = maxOverflow
        self.strategy = strategy
        self.maxWaiters = maxWaiters
        self.maxQueuedBytes = maxQueuedBytes
        self.interactiveReservePercent = interactiveReservePercent
        self.connectSpacing = connectSpacing
        self.idleTimeout = idleTimeout
        self.unavailableAfter = unavailableAfter
        self.whenUnavailable = whenUnavailable
        self.maximumLifetime = maximumLifetime
    }

    /// The maximum of `size + maxOverflow`.
    public static let maximumWorkers = 1000

    /// Checks the limits of every setting. ``Pool/run(_:)`` calls it before anything else.
    ///
    /// - Throws: An error that names the first invalid setting.
    public func validate() throws(PoolConfigurationError) {
        func require(
            _ holds: Bool,
            _ setting: String,
            _ rule: @autoclosure () -> String
        ) throws(PoolConfigurationError) {
            if !holds { throw PoolConfigurationError(setting: setting, message: rule()) }
        }
        try require((0...Self.maximumWorkers).contains(self.size), "size", "must be 0 to 1000, is \(self.size)")
        try require(
            (0...Self.maximumWorkers).contains(self.maxOverflow),
            "maxOverflow",
            "must be 0 to 1000, is \(self.maxOverflow)"
        )
        try require(
            self.size + self.maxOverflow > 0,
            "size",
            "is 0, and so is maxOverflow: the pool could never connect"
        )
        try require(
            self.size + self.maxOverflow <= Self.maximumWorkers,
            "maxOverflow",
            "size + maxOverflow must be at most 1000, is \(self.size + self.maxOverflow)"
        )
        try require(
            (0...1_000_000).contains(self.maxWaiters),
            "maxWaiters",
            "must be 0 to 1,000,000, is \(self.maxWaiters)"
        )
        try require(
            (0...(1 << 40)).contains(self.maxQueuedBytes),
            "maxQueuedBytes",
            "must be 0 to 2^40, is \(self.maxQueuedBytes)"
        )
        try require(
            (0...90).contains(self.interactiveReservePercent),
            "interactiveReservePercent",
            "must be 0 to 90, is \(self.interactiveReservePercent)"
        )
        try require(self.connectSpacing >= .zero, "connectSpacing", "must not be negative, is \(self.connectSpacing)")
        try require(self.idleTimeout >= .milliseconds(1), "idleTimeout", "must be 1 ms or more, is \(self.idleTimeout)")
        try require(
            self.unavailableAfter >= .zero,
            "unavailableAfter",
            "must not be negative, is \(self.unavailableAfter)"
        )
        if let maximumLifetime {
            try require(
                maximumLifetime >= .seconds(1),
                "maximumLifetime",
                "must be 1 s or more, is \(maximumLifetime)"
            )
        }
    }

    /// The number of workers, within its limits even if the settings are invalid.
    var workerCount: Int {
        min(max(0, self.size), Self.maximumWorkers) + min(max(0, self.maxOverflow), Self.maximumWorkers)
    }
}

/// An invalid setting.
public struct PoolConfigurationError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The name of the property of ``PoolConfiguration``.
    public let setting: String
    /// The rule, and the value that violates it.
    public let message: String

    public var description: String { "PoolConfiguration.\(self.setting) \(self.message)" }
}

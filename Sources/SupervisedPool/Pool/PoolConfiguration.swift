/// The settings of a ``Pool``. The initialiser shows the defaults. ``validate()`` checks that the values are consistent.
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

    /// The number of workers that are asked to connect when they register. 0 to 1,000, and `size` plus `maxOverflow`
    /// must be 1 to 1,000. With 0, the first checkout makes the first worker connect.
    public var size: Int
    /// The number of workers above ``size`` that connect on demand and are disconnected when idle: 0 to 1,000.
    public var maxOverflow: Int
    /// How a worker is chosen for a checkout.
    public var strategy: Strategy
    /// How many checkouts may wait. 0 to 1,000,000.
    public var maxWaiters: Int
    /// The limit for the total size of all waiting checkouts, in bytes, as declared by their callers. 0 to 1 TiB.
    public var maxQueuedBytes: Int
    /// The share of each worker's streams that bulk checkouts leave free for interactive ones, in per cent, rounded
    /// down to whole streams. 0 to 90.
    public var interactiveReservePercent: Int
    /// The minimum time between two connects that the pool asks for. Up to 20 % is added at random. Zero is allowed. If
    /// no worker is ready and a checkout needs one, an idle worker is asked without this delay, unless that worker was
    /// asked within this time.
    public var connectSpacing: Duration
    /// How long an overflow worker may go without a checkout before it is disconnected. 1 ms or more.
    public var idleTimeout: Duration
    /// How long the pool may have no ready worker, while workers fail to connect, before it counts as unavailable. Zero
    /// is allowed.
    public var unavailableAfter: Duration
    /// What happens to checkouts while the pool is unavailable.
    public var whenUnavailable: WhenUnavailable
    /// How long a worker keeps one connection before it is asked to replace it, varied by up to ±10 % at random. 1 s or
    /// more. `nil` means no limit.
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
        let workers = 0...Self.maximumWorkers
        try Self.check("size", self.size, workers)
        try Self.check("maxOverflow", self.maxOverflow, workers)
        guard self.size + self.maxOverflow > 0 else {
            throw PoolConfigurationError(
                setting: "size",
                message: "is 0, and so is maxOverflow: the pool could never connect"
            )
        }
        guard workers.contains(self.size + self.maxOverflow) else {
            throw PoolConfigurationError(
                setting: "maxOverflow",
                message: "size + maxOverflow must be at most \(workers.upperBound), is \(self.size + self.maxOverflow)"
            )
        }
        try Self.check("maxWaiters", self.maxWaiters, 0...1_000_000)
        try Self.check("maxQueuedBytes", self.maxQueuedBytes, 0...(1 << 40))
        try Self.check("interactiveReservePercent", self.interactiveReservePercent, 0...90)
        try Self.check("connectSpacing", self.connectSpacing, .zero)
        try Self.check("idleTimeout", self.idleTimeout, .milliseconds(1))
        try Self.check("unavailableAfter", self.unavailableAfter, .zero)
        if let maximumLifetime { try Self.check("maximumLifetime", maximumLifetime, .seconds(1)) }
    }

    private static func check(
        _ setting: String,
        _ value: Int,
        _ limits: ClosedRange<Int>
    ) throws(PoolConfigurationError) {
        guard !limits.contains(value) else { return }
        throw PoolConfigurationError(
            setting: setting,
            message: "must be \(limits.lowerBound) to \(limits.upperBound), is \(value)"
        )
    }

    private static func check(
        _ setting: String,
        _ value: Duration,
        _ shortest: Duration
    ) throws(PoolConfigurationError) {
        guard value < shortest else { return }
        throw PoolConfigurationError(setting: setting, message: "must be \(shortest) or more, is \(value)")
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

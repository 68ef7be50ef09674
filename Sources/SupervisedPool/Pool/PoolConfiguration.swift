/// How a ``Pool`` behaves. Every property has a default; ``validate()`` says whether they fit together.
public struct PoolConfiguration: Sendable, Hashable {
    /// Which of several workers with a free slot serves a checkout.
    public enum Strategy: Sendable, Hashable {
        /// The one with the smallest part of its capacity leased; among equals the lowest slot. Spreads the load.
        case leastLoaded
        /// The one that served last, base workers before overflow workers. Packs, so that others become idle.
        case lifo
        /// The one that has not served for the longest time. Rotates.
        case fifo
    }

    /// What happens to checkouts while the pool is unavailable.
    public enum WhenUnavailable: Sendable, Hashable {
        /// They fail at once and are told when to come back.
        case fail
        /// They wait until their deadline.
        case wait
    }

    /// The number of workers that are asked to connect when they register. 0 or more; 1 by default. With 0 the first
    /// checkout makes the first worker connect.
    public var size: Int
    /// The number of workers that connect on demand above ``size`` and are disconnected when idle. 0 or more; 3 by
    /// default.
    public var maxOverflow: Int
    /// `leastLoaded` by default.
    public var strategy: Strategy
    /// How many checkouts may wait. 0 to 1,000,000; 10,000 by default.
    public var maxWaiters: Int
    /// How many bytes the waiting checkouts may stand for, as their callers declared them. 16 MiB by default.
    public var maxQueuedBytes: Int
    /// How long a checkout may wait, whatever its own deadline is; then it fails with `waitedTooLong`. More than zero, or
    /// `nil`, the default: only deadlines count. A pool whose callers would rather fail soon than be served late sets
    /// it. Resent work is exempt.
    public var maxQueueAge: Duration?
    /// The part of each worker's slots that bulk checkouts leave free for interactive ones, in per cent, rounded down to
    /// whole slots. 0 to 90; 20 by default.
    public var interactiveReservePercent: Int
    /// The least time between two connects that the pool asks for; up to 20 % is added at random. Zero is allowed; 1 s
    /// by default. A connect that a checkout needs because nothing is connected does not wait for it.
    public var connectSpacing: Duration
    /// How long an overflow worker may be without a checkout before it is disconnected; 1 ms or more, 5 min by default.
    public var idleTimeout: Duration
    /// How long no worker may be ready, with failing attempts, before the pool is unavailable; 10 s by default.
    public var unavailableAfter: Duration
    /// `fail` by default.
    public var whenUnavailable: WhenUnavailable
    /// How long a worker keeps one session before it is asked to replace it, 10 % more or less at random; 24 h by
    /// default, 1 s or more, `nil` for ever.
    public var maximumLifetime: Duration?

    /// Makes a configuration; see the properties.
    public init(
        size: Int = 1,
        maxOverflow: Int = 3,
        strategy: Strategy = .leastLoaded,
        maxWaiters: Int = 10_000,
        maxQueuedBytes: Int = 16 * 1024 * 1024,
        maxQueueAge: Duration? = nil,
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
        self.maxQueueAge = maxQueueAge
        self.interactiveReservePercent = interactiveReservePercent
        self.connectSpacing = connectSpacing
        self.idleTimeout = idleTimeout
        self.unavailableAfter = unavailableAfter
        self.whenUnavailable = whenUnavailable
        self.maximumLifetime = maximumLifetime
    }

    /// The greatest `size + maxOverflow`.
    public static let maximumWorkers = 1000

    /// Checks each setting's limits. ``Pool/run(_:)`` does it first of all.
    ///
    /// - Throws: An error that names the first setting that is wrong.
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
        if let maxQueueAge {
            try require(maxQueueAge > .zero, "maxQueueAge", "must be more than zero, is \(maxQueueAge)")
        }
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

    /// The number of slots for workers, within its limits whatever the settings are.
    var workerCount: Int {
        min(max(0, self.size), Self.maximumWorkers) + min(max(0, self.maxOverflow), Self.maximumWorkers)
    }
}

/// A setting that cannot work.
public struct PoolConfigurationError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The name of the property of ``PoolConfiguration``.
    public let setting: String
    /// The rule and the value that breaks it.
    public let message: String

    public var description: String { "PoolConfiguration.\(self.setting) \(self.message)" }
}

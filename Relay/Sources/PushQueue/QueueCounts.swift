public import APNSModel

/// The number of pushes in a queue.
public struct QueueCounts: Sendable, Hashable {
    /// The pushes of one route, by state. Settled ones are not counted.
    public struct OfRoute: Sendable, Hashable {
        public var route: Route
        public var queued: Int
        public var claimed: Int
        public var written: Int
        public var parked: Int

        public init(route: Route, queued: Int = 0, claimed: Int = 0, written: Int = 0, parked: Int = 0) {
            self.route = route
            self.queued = queued
            self.claimed = claimed
            self.written = written
            self.parked = parked
        }
    }

    /// Sorted by the route's description. Routes without such pushes may be left out.
    public var routes: [OfRoute]
    /// The maximum number of pushes without an outcome; nil for no limit.
    public var capacity: Int?

    public init(routes: [OfRoute], capacity: Int?) {
        // Each description is made once.
        let named = routes.map { (name: $0.route.description, route: $0) }
        self.routes = named.sorted { $0.name < $1.name }.map(\.route)
        self.capacity = capacity
    }

    /// The pushes of several routes, by state.
    public struct Sum: Sendable, Hashable {
        public var queued = 0
        public var claimed = 0
        public var written = 0
        public var parked = 0

        public init() {}

        /// Pushes without an outcome.
        public var unsettled: Int { self.queued + self.claimed + self.written + self.parked }
    }

    /// Adds up the counts of the routes with equal keys.
    ///
    /// - Parameter key: returns the key of a route, for example its caller.
    public func sums<Key: Hashable>(_ key: (Route) -> Key) -> [Key: Sum] {
        var sums: [Key: Sum] = [:]
        for route in self.routes {
            var sum = sums[key(route.route)] ?? Sum()
            sum.queued += route.queued
            sum.claimed += route.claimed
            sum.written += route.written
            sum.parked += route.parked
            sums[key(route.route)] = sum
        }
        return sums
    }

    public var queued: Int { self.routes.reduce(0) { $0 + $1.queued } }
    public var claimed: Int { self.routes.reduce(0) { $0 + $1.claimed } }
    public var written: Int { self.routes.reduce(0) { $0 + $1.written } }
    public var parked: Int { self.routes.reduce(0) { $0 + $1.parked } }
    /// Pushes without an outcome.
    public var unsettled: Int { self.queued + self.claimed + self.written + self.parked }
}

/// The number of pushes of a batch at one moment.
public struct BatchCounts: Sendable, Hashable {
    /// The pushes without an outcome, by state.
    public var pushes = QueueCounts.Sum()
    /// The settled pushes, by certainty. Certainties without pushes are left out.
    public var outcomes: [Certainty: Int] = [:]
    /// The settled pushes whose outcome says that the device token is invalid.
    public var deadTokens = 0

    public init() {}

    /// The pushes with an outcome.
    public var settled: Int { self.outcomes.values.reduce(0, +) }
    /// All pushes.
    public var total: Int { self.pushes.unsettled + self.settled }
}

/// A route with queued pushes.
public struct QueuedRoute: Sendable, Hashable {
    public var route: Route
    /// When its first push is due; it may be in the past.
    public var due: QueueTime

    public init(route: Route, due: QueueTime) {
        self.route = route
        self.due = due
    }
}

/// How long a queue keeps what it no longer needs for sending.
public struct Retention: Sendable, Hashable {
    /// Outcomes, for the feeds and for status requests. Default 7 days.
    public var outcomes: Duration
    /// Idempotency keys, from the moment the push is settled; before that, a key is always kept. Default 1 day.
    public var idempotencyKeys: Duration
    /// Parked pushes. They are dropped after this time. Default 7 days.
    public var parked: Duration

    public init(
        outcomes: Duration = .seconds(7 * 86_400),
        idempotencyKeys: Duration = .seconds(86_400),
        parked: Duration = .seconds(7 * 86_400)
    ) {
        self.outcomes = outcomes
        self.idempotencyKeys = idempotencyKeys
        self.parked = parked
    }
}

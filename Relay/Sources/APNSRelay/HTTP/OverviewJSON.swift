import PushQueue

/// The state of the relay, for operators.
struct OverviewJSON: Encodable {
    struct Queue: Encodable {
        var queued: Int
        var claimed: Int
        var written: Int
        var parked: Int
        @OrNull var capacity: Int?
        @OrNull var oldestDue: Double?
    }

    struct RouteJSON: Encodable {
        var app: String
        var environment: String
        var lane: String
        var queued: Int
        var claimed: Int
        var written: Int
        var parked: Int
        @OrNull var oldestDue: Double?
        var state: String
        @OrNull var reason: String?
        @OrNull var pausedUntil: Double?
    }

    struct CallerJSON: Encodable {
        var name: String
        var unsettled: Int
        @OrNull var capacity: Int?
        @OrNull var pushesPerSecond: Int?
        @OrNull var available: Int?
    }

    struct AppJSON: Encodable {
        var name: String
        var unsettled: Int
        @OrNull var capacity: Int?
        @OrNull var pushesPerSecond: Int?
    }

    struct Totals: Encodable {
        var queued: Int
        var duplicates: Int
        var accepted: Int
        var rejected: Int
        var notProcessed: Int
        var notSent: Int
        var unknown: Int
        var retried: Int
        var parked: Int
        var late: Int
    }

    struct Webhook: Encodable {
        struct Request: Encodable {
            var id: String
            var outcomes: Int
            var since: Double
        }

        var name: String
        var url: String
        var position: Int64
        var failures: Int
        @OrNull var lastError: String?
        @OrNull var nextAttempt: Double?
        @OrNull var request: Request?
    }

    struct RelayJSON: Encodable {
        var id: String
        var host: String
        var process: Int
        var version: String
        var since: Double
        var isSelf: Bool
        var postsWebhooks: Bool
    }

    struct Problem: Encodable {
        struct App: Encodable {
            var app: String
            var environment: String
        }

        var cause: String
        var effect: String
        var message: String
        var remedy: String
        var since: Double
        /// The number of pushes that wait.
        var waiting: Int
        var apps: [App]
    }

    struct Sample: Encodable {
        var now: Double
        var totals: Totals
    }

    var now: Double
    var version: String
    var ready: Bool
    /// Why the relay is not ready.
    @OrNull var reason: String?
    /// What keeps pushes from being delivered or accepted, or outcomes from a webhook.
    var problems: [Problem]
    /// When the figures of the queue were read.
    @OrNull var readAt: Double?
    /// How many seconds the clock is ahead of what is plausible.
    @OrNull var clockAhead: Double?
    var queue: Queue
    var routes: [RouteJSON]
    var callers: [CallerJSON]
    var apps: [AppJSON]
    var totals: Totals
    /// The totals of the last five minutes, the oldest first.
    var history: [Sample]
    var webhooks: [Webhook]
    var relays: [RelayJSON]

    /// - Parameters:
    ///   - reading: the figures of the queue.
    ///   - callers: what each caller uses.
    ///   - apps: what each app uses.
    ///   - relays: the relays of the fleet, this one first.
    ///   - clockJump: how far the clock is ahead of what is plausible; nil if it is plausible.
    init(
        now: QueueTime,
        version: String,
        reading: OverviewReading,
        problems: [DeliveryProblem],
        callers: [CallerLimits.Use],
        apps: [CallerLimits.Use],
        routes: [RouteStatus],
        totals: RelayTotals,
        history: [DeliveryWatch.Sample],
        relays: [FleetMember],
        clockJump: Duration? = nil
    ) {
        self.now = now.seconds
        self.clockAhead = clockJump.map { $0 / .seconds(1) }
        self.version = version
        let (counts, due) = (reading.counts, reading.due)
        let reason = reading.notReady ?? problems.first { $0.cause == .storage || $0.cause == .disk }?.message
        self.ready = reason == nil
        self.reason = reason
        self.readAt = reading.readAt?.seconds
        self.problems = problems.map { problem in
            let routes = counts.routes.filter { problem.affects($0.route) }
            return Problem(
                cause: problem.cause.rawValue,
                effect: problem.effect,
                message: problem.message,
                remedy: problem.remedy,
                since: problem.since.seconds,
                waiting: routes.reduce(0) { $0 + $1.queued + $1.claimed + $1.written },
                apps: problem.apps.map { .init(app: $0.app, environment: $0.environment) }
            )
        }
        self.queue = Queue(
            queued: counts.queued,
            claimed: counts.claimed,
            written: counts.written,
            parked: counts.parked,
            capacity: counts.capacity,
            oldestDue: due.map(\.due).min()?.seconds
        )
        self.routes = Self.routes(counts, due, routes)
        self.callers = callers.map {
            CallerJSON(
                name: $0.name,
                unsettled: $0.unsettled,
                capacity: $0.capacity,
                pushesPerSecond: $0.pushesPerSecond,
                available: $0.available
            )
        }
        self.apps = apps.map {
            AppJSON(
                name: $0.name,
                unsettled: $0.unsettled,
                capacity: $0.capacity,
                pushesPerSecond: $0.pushesPerSecond
            )
        }
        self.totals = Totals(totals)
        self.history = history.map { Sample(now: $0.time.seconds, totals: Totals($0.totals)) }
        self.relays = Self.relays(relays)
        self.webhooks = reading.webhooks.map { webhook in
            Webhook(
                name: webhook.name,
                url: webhook.url,
                position: webhook.position,
                failures: webhook.failures,
                lastError: webhook.lastError,
                nextAttempt: webhook.nextAttempt?.seconds,
                request: webhook.request.map { .init(id: $0.id, outcomes: $0.outcomes, since: $0.since.seconds) }
            )
        }
    }

    private static func relays(_ members: [FleetMember]) -> [RelayJSON] {
        members.enumerated().map { index, member in
            RelayJSON(
                id: member.id,
                host: member.host,
                process: member.process,
                version: member.version,
                since: member.since.seconds,
                isSelf: index == 0,
                postsWebhooks: member.postsWebhooks
            )
        }
    }

    /// The apps, environments and lanes that the queue or the dispatcher knows, sorted by name. Those of callers and batches are
    /// added up.
    private static func routes(
        _ counts: QueueCounts,
        _ due: [QueuedRoute],
        _ states: [RouteStatus]
    ) -> [RouteJSON] {
        let counts = counts.sums(\.destination)
        let single = due.filter { $0.route.batch == nil }
        let due = Dictionary(single.map { ($0.route.destination, $0.due) }, uniquingKeysWith: min)
        let order: [RouteStatus.State] = [.paused, .sending, .idle]
        let states = Dictionary(states.map { ($0.route.destination, $0) }) { one, other in
            (order.firstIndex(of: one.state) ?? 0) <= (order.firstIndex(of: other.state) ?? 0) ? one : other
        }
        let routes = Set(counts.keys).union(due.keys).union(states.keys)
        return routes.sorted { $0.description < $1.description }.map { route in
            RouteJSON(
                app: route.app,
                environment: route.environment,
                lane: route.lane.text,
                queued: counts[route]?.queued ?? 0,
                claimed: counts[route]?.claimed ?? 0,
                written: counts[route]?.written ?? 0,
                parked: counts[route]?.parked ?? 0,
                oldestDue: due[route]?.seconds,
                state: (states[route]?.state ?? .idle).rawValue,
                reason: states[route]?.reason,
                pausedUntil: states[route]?.pausedUntil?.seconds
            )
        }
    }
}

extension OverviewJSON.Totals {
    init(_ totals: RelayTotals) {
        self.init(
            queued: totals.queued,
            duplicates: totals.duplicates,
            accepted: totals.accepted,
            rejected: totals.rejected,
            notProcessed: totals.notProcessed,
            notSent: totals.notSent,
            unknown: totals.unknown,
            retried: totals.retried,
            parked: totals.parked,
            late: totals.late
        )
    }
}

/// What the overview reads from the queue.
struct OverviewReading: Sendable {
    var counts: QueueCounts
    var due: [QueuedRoute]
    var webhooks: [WebhookStatus]
    /// Why the relay is not ready; nil if it is.
    var notReady: String?
    /// When it was read; nil if it was never read.
    var readAt: QueueTime?
}

import APNSModel
import Metrics
import PostgresPushQueue
import PushQueue
import Synchronization

/// The relay's own metrics, and its totals since the start. `RelayMetrics.table` lists the metrics.
///
/// Every function is cheap enough for each push: it looks up the route's handlers and increments them. Labels contain
/// only names from the settings and fixed words, never ids or device tokens.
package final class RelayMetrics: Sendable {
    /// The result of a request to a webhook.
    enum WebhookResult: String, Sendable, CaseIterable {
        /// 2xx.
        case acknowledged
        /// Another status.
        case refused
        /// There was no status in time.
        case timeout
        /// The connection failed or was lost.
        case failed
    }

    private struct State {
        var routes: [Route.Destination: RouteHandlers] = [:]
        var webhooks: [String: WebhookHandlers] = [:]
        var capacity: Meter?
        var callers: [String: Meter] = [:]
        var certificateLeft: Meter?
        var settingsCurrent: Meter?
        var storage = StorageGauges()
        var totals = RelayTotals()
    }

    private let factory: any MetricsFactory
    private let state = Mutex(State())
    private let ready: Meter
    private let problems: [DeliveryProblem.Cause: Meter]
    private let clockAhead: Meter
    private let fleetMembers: Meter
    private let postsWebhooks: Meter
    private let commitTime: Timer
    private let commitGroup: Recorder
    private let storageErrors: [QueueError.Code: Counter]
    private let recoveredQueued: Counter
    private let recoveredUnknown: Counter
    private let recoveredResent: Counter

    /// - Parameter factory: the backend that receives the metrics.
    init(factory: any MetricsFactory) {
        self.factory = factory
        self.ready = Meter(label: Self.ready.name, factory: factory)
        self.problems = Dictionary(
            uniqueKeysWithValues: DeliveryProblem.Cause.allCases.map { cause in
                (cause, Meter(label: Self.problem.name, dimensions: [("cause", cause.rawValue)], factory: factory))
            }
        )
        self.clockAhead = Meter(label: Self.clockAhead.name, factory: factory)
        self.fleetMembers = Meter(label: Self.fleetMembers.name, factory: factory)
        self.postsWebhooks = Meter(label: Self.postsWebhooks.name, factory: factory)
        self.commitTime = Timer(label: Self.commitTime.name, factory: factory)
        self.commitGroup = Recorder(label: Self.commitGroup.name, aggregate: true, factory: factory)
        let codes: [QueueError.Code] = [.full, .unavailable, .undecided, .unusable, .closed]
        self.storageErrors = Dictionary(
            uniqueKeysWithValues: codes.map { code in
                let dimensions = [("code", code.rawValue)]
                return (code, Counter(label: Self.storageErrors.name, dimensions: dimensions, factory: factory))
            }
        )
        let recovered = { (result: String) in
            Counter(label: Self.recovered.name, dimensions: [("result", result)], factory: factory)
        }
        self.recoveredQueued = recovered("queued")
        self.recoveredUnknown = recovered("unknown")
        self.recoveredResent = recovered("resent")
    }

    /// Counters since the start of the process.
    var totals: RelayTotals { self.state.withLock { $0.totals } }

    // MARK: Pushes

    /// Counts pushes that requests stored.
    func queued(_ count: Int = 1, _ route: Route) {
        self.count(route) { handlers, totals in
            totals.queued &+= count
            handlers.queued.increment(by: count)
        }
    }

    /// Counts pushes that requests submitted although they were already stored.
    func duplicates(_ count: Int = 1, _ route: Route) {
        self.count(route) { handlers, totals in
            totals.duplicates &+= count
            handlers.duplicates.increment(by: count)
        }
    }

    /// Counts outcomes with this certainty.
    func settled(_ certainty: Certainty, _ count: Int, _ route: Route) {
        self.count(route) { handlers, totals in
            switch certainty {
            case .accepted: totals.accepted &+= count
            case .rejected: totals.rejected &+= count
            case .notProcessed: totals.notProcessed &+= count
            case .notSent: totals.notSent &+= count
            case .unknown: totals.unknown &+= count
            }
            handlers.outcomes[certainty]?.increment(by: count)
        }
    }

    /// Counts a push that returned to the queue after an attempt.
    func retried(_ route: Route) {
        self.count(route) { handlers, totals in
            totals.retried &+= 1
            handlers.retries.increment()
        }
    }

    /// Counts a parked push.
    func parked(_ route: Route) {
        self.count(route) { handlers, totals in
            totals.parked &+= 1
            handlers.parked.increment()
        }
    }

    /// Counts an outcome that was not stored, because its push already had one or its claim had ended.
    func late(_ route: Route) {
        self.count(route) { handlers, totals in
            totals.late &+= 1
            handlers.late.increment()
        }
    }

    /// Counts expired leases. The pushes that ended as `unknown` are in neither the totals nor the metric of outcomes,
    /// because the queue does not report their routes.
    func recovered(_ expired: ExpiredLeases) {
        self.recoveredQueued.increment(by: expired.queued)
        self.recoveredUnknown.increment(by: expired.unknown)
        self.recoveredResent.increment(by: expired.resent)
    }

    // MARK: Storage

    /// Records a commit of the storage.
    ///
    /// - Parameters:
    ///   - calls: the number of calls of the queue in the commit.
    ///   - duration: the duration of the transaction and its commit.
    func committed(calls: Int, duration: Duration) {
        self.commitGroup.record(calls)
        let (seconds, attoseconds) = duration.components
        let (nanoseconds, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflow, seconds >= 0 else { return }
        self.commitTime.recordNanoseconds(nanoseconds &+ attoseconds / 1_000_000_000)
    }

    /// Counts a failed call of the queue.
    func storageFailed(_ error: QueueError) { self.storageErrors[error.code]?.increment() }

    // MARK: Webhooks

    /// Counts a request to a webhook that has ended.
    func webhookRequest(_ webhook: String, _ result: WebhookResult) {
        self.handlers(ofWebhook: webhook).requests[result]?.increment()
    }

    /// Counts outcomes that were deleted before the webhook acknowledged them.
    func webhookLost(_ webhook: String, _ outcomes: Int) {
        self.handlers(ofWebhook: webhook).lost.increment(by: outcomes)
    }

    // MARK: Gauges

    /// Sets the gauges of the queue. The gauges of routes that no longer have pushes become 0.
    ///
    /// - Parameters:
    ///   - counts: the pushes without an outcome.
    ///   - queuedRoutes: when the first push of each route is due.
    ///   - now: the time of day.
    func setQueue(_ counts: QueueCounts, _ queuedRoutes: [QueuedRoute], now: QueueTime) {
        let sums = counts.sums(\.destination)
        // A batch may wait because it is paused, or sent slowly.
        let single = queuedRoutes.filter { $0.route.batch == nil }
        let due = Dictionary(single.map { ($0.route.destination, $0.due) }, uniquingKeysWith: min)
        for (route, handlers) in self.handlers(of: Set(sums.keys).union(due.keys)) {
            let counts = sums[route]
            handlers.queuedNow.set(counts?.queued ?? 0)
            handlers.claimedNow.set(counts?.claimed ?? 0)
            handlers.writtenNow.set(counts?.written ?? 0)
            handlers.parkedNow.set(counts?.parked ?? 0)
            handlers.oldestDue.set(due[route].map { max(0, ($0.duration(to: now)).inSeconds) } ?? 0)
        }
        if let capacity = counts.capacity {
            self.state.withLock { state in
                let meter = state.capacity ?? Meter(label: Self.capacity.name, factory: self.factory)
                state.capacity = meter
                return meter
            }.set(capacity)
        }
    }

    /// Sets the parts of their capacity that callers use, and removes the gauges of callers without a capacity.
    func setCallers(_ parts: [String: Double]) {
        let others = self.state.withLock { state in
            let others = state.callers.filter { parts[$0.key] == nil }
            for caller in others.keys { state.callers[caller] = nil }
            return others.values
        }
        for meter in others { meter.destroy() }
        for (caller, part) in parts {
            self.state.withLock { state in
                let dimensions = [("caller", caller)]
                let meter =
                    state.callers[caller]
                    ?? Meter(label: Self.callerUse.name, dimensions: dimensions, factory: self.factory)
                state.callers[caller] = meter
                return meter
            }.set(part)
        }
    }

    /// Sets the gauges of paused routes to 1, and those of all other routes to 0.
    func setRoutes(_ routes: [RouteStatus]) {
        let paused = Set(routes.filter { $0.state == .paused }.map(\.route.destination))
        for (route, handlers) in self.handlers(of: Set(routes.map(\.route.destination))) {
            handlers.paused.set(paused.contains(route) ? 1 : 0)
        }
    }

    /// Sets the gauges of the webhooks, and those of webhooks that the settings no longer have to 0.
    func setWebhooks(_ webhooks: [WebhookStatus], now: QueueTime) {
        for webhook in webhooks {
            let handlers = self.handlers(ofWebhook: webhook.name)
            handlers.lag.set(webhook.request.map { max(0, $0.oldestOutcome.duration(to: now).inSeconds) } ?? 0)
            handlers.failures.set(webhook.failures)
        }
        let names = Set(webhooks.map(\.name))
        let removed = self.state.withLock { $0.webhooks.filter { !names.contains($0.key) }.values }
        for handlers in removed {
            handlers.lag.set(0)
            handlers.failures.set(0)
        }
    }

    /// Sets the gauges of the fleet.
    ///
    /// - Parameter members: the relays, this one first.
    func setFleet(_ members: [FleetMember]) {
        self.fleetMembers.set(members.count)
        self.postsWebhooks.set(members.first?.postsWebhooks == true ? 1 : 0)
    }

    /// Sets how far the clock is ahead of what is plausible; nil if it is plausible.
    func setClock(_ jump: Duration?) { self.clockAhead.set(jump.map(\.inSeconds) ?? 0) }

    /// Sets the time until the certificate of the listener expires; negative afterwards.
    func setCertificate(left: Duration) {
        self.state.withLock { state in
            let meter = state.certificateLeft ?? Meter(label: Self.certificateLeft.name, factory: self.factory)
            state.certificateLeft = meter
            return meter
        }.set(left.inSeconds)
    }

    /// Sets whether the settings that were read last apply.
    func setSettings(areCurrent: Bool) {
        self.state.withLock { state in
            let meter = state.settingsCurrent ?? Meter(label: Self.settingsCurrent.name, factory: self.factory)
            state.settingsCurrent = meter
            return meter
        }.set(areCurrent ? 1 : 0)
    }

    /// Sets the gauges of the file or the database behind the queue.
    func setStorage(_ storage: StorageState) {
        self.state.withLock { $0.storage.set(storage, factory: self.factory) }
    }

    /// Sets the gauges of what keeps pushes from being delivered or accepted.
    func setProblems(_ problems: [DeliveryProblem]) {
        let causes = Set(problems.map(\.cause))
        for (cause, meter) in self.problems { meter.set(causes.contains(cause) ? 1 : 0) }
    }

    /// Sets the gauge that says whether the relay accepts pushes.
    func setReady(_ isReady: Bool) { self.ready.set(isReady ? 1 : 0) }

    // MARK: Handlers

    private func count(_ route: Route, _ body: (RouteHandlers, inout RelayTotals) -> Void) {
        self.state.withLock { state in
            let handlers = Self.handlers(of: route.destination, in: &state, self.factory)
            body(handlers, &state.totals)
        }
    }

    /// The handlers of these destinations and of all of earlier calls.
    private func handlers(of routes: Set<Route.Destination>) -> [Route.Destination: RouteHandlers] {
        self.state.withLock { state in
            for route in routes { _ = Self.handlers(of: route, in: &state, self.factory) }
            return state.routes
        }
    }

    private static func handlers(
        of route: Route.Destination,
        in state: inout State,
        _ factory: any MetricsFactory
    ) -> RouteHandlers {
        if let handlers = state.routes[route] { return handlers }
        let handlers = RouteHandlers(route, factory)
        state.routes[route] = handlers
        return handlers
    }

    private func handlers(ofWebhook name: String) -> WebhookHandlers {
        self.state.withLock { state in
            if let handlers = state.webhooks[name] { return handlers }
            let handlers = WebhookHandlers(name, self.factory)
            state.webhooks[name] = handlers
            return handlers
        }
    }
}

/// The handlers of the routes with one destination. The labels do not have the caller and the batch, so that there are not
/// more and more series. All series begin at 0 with the first use of the destination, so that Prometheus sees the
/// first event as an increase.
private struct RouteHandlers: Sendable {
    let queued: Counter
    let duplicates: Counter
    let outcomes: [Certainty: Counter]
    let retries: Counter
    let parked: Counter
    let late: Counter
    let queuedNow: Meter
    let claimedNow: Meter
    let writtenNow: Meter
    let parkedNow: Meter
    let oldestDue: Meter
    let paused: Meter

    init(_ route: Route.Destination, _ factory: any MetricsFactory) {
        let app = [("app", route.app), ("environment", route.environment)]
        let dimensions = app + [("lane", route.lane == .interactive ? "interactive" : "bulk")]
        let counter = { (metric: MetricDefinition) in
            Counter(label: metric.name, dimensions: dimensions, factory: factory)
        }
        let meter = { (metric: MetricDefinition, state: String?) in
            Meter(
                label: metric.name,
                dimensions: dimensions + (state.map { [("state", $0)] } ?? []),
                factory: factory
            )
        }
        self.queued = counter(RelayMetrics.queued)
        self.duplicates = counter(RelayMetrics.duplicates)
        self.outcomes = Dictionary(
            uniqueKeysWithValues: Certainty.allCases.map { certainty in
                let dimensions = app + [("outcome", certainty.rawValue)]
                return (
                    certainty,
                    Counter(label: RelayMetrics.outcomes.name, dimensions: dimensions, factory: factory)
                )
            }
        )
        self.retries = counter(RelayMetrics.retries)
        self.parked = counter(RelayMetrics.parked)
        self.late = counter(RelayMetrics.late)
        self.queuedNow = meter(RelayMetrics.pushes, "queued")
        self.claimedNow = meter(RelayMetrics.pushes, "claimed")
        self.writtenNow = meter(RelayMetrics.pushes, "written")
        self.parkedNow = meter(RelayMetrics.pushes, "parked")
        self.oldestDue = meter(RelayMetrics.oldestDue, nil)
        self.paused = meter(RelayMetrics.routePaused, nil)
    }
}

/// The handlers of one webhook.
private struct WebhookHandlers: Sendable {
    let requests: [RelayMetrics.WebhookResult: Counter]
    let lost: Counter
    let lag: Meter
    let failures: Meter

    init(_ name: String, _ factory: any MetricsFactory) {
        let dimensions = [("webhook", name)]
        self.requests = Dictionary(
            uniqueKeysWithValues: RelayMetrics.WebhookResult.allCases.map { result in
                let dimensions = dimensions + [("result", result.rawValue)]
                return (
                    result,
                    Counter(label: RelayMetrics.webhookRequests.name, dimensions: dimensions, factory: factory)
                )
            }
        )
        self.lost = Counter(label: RelayMetrics.webhookLost.name, dimensions: dimensions, factory: factory)
        self.lag = Meter(label: RelayMetrics.webhookLag.name, dimensions: dimensions, factory: factory)
        self.failures = Meter(label: RelayMetrics.webhookFailures.name, dimensions: dimensions, factory: factory)
    }
}

extension Duration {
    /// The duration in seconds.
    var inSeconds: Double {
        let (seconds, attoseconds) = self.components
        return Double(seconds) + Double(attoseconds) / 1e18
    }
}

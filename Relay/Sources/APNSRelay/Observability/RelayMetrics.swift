import APNSModel
import Metrics
import PushQueue
import Synchronization

/// The relay's own metrics, and its totals since the start. `RelayMetrics.table` lists the metrics.
///
/// Every function is cheap enough for each push: it looks up the route's counters and increments them. Labels contain
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
        var routes: [Route.Destination: RouteCounters] = [:]
        var webhooks: [String: WebhookCounters] = [:]
        var gauges: Gauges
        var totals = RelayTotals()
    }

    private let factory: any MetricsFactory
    private let state: Mutex<State>
    private let commitTime: Timer
    private let commitGroup: Recorder
    private let storageErrors: [QueueError.Code: Counter]
    private let recoveredQueued: Counter
    private let recoveredUnknown: Counter
    private let recoveredResent: Counter

    /// - Parameter factory: the backend that receives the metrics.
    init(factory: any MetricsFactory) {
        self.factory = factory
        self.state = Mutex(State(gauges: Gauges(factory: factory)))
        self.commitTime = Timer(label: "apns_relay_commit_time", factory: factory)
        self.commitGroup = Recorder(label: "apns_relay_commit_group_size", aggregate: true, factory: factory)
        let codes: [QueueError.Code] = [.full, .unavailable, .undecided, .unusable, .closed]
        self.storageErrors = Dictionary(
            uniqueKeysWithValues: codes.map { code in
                let dimensions = [("code", code.rawValue)]
                return (
                    code, Counter(label: "apns_relay_storage_errors_total", dimensions: dimensions, factory: factory)
                )
            }
        )
        let recovered = { (result: String) in
            Counter(label: "apns_relay_recovered_total", dimensions: [("result", result)], factory: factory)
        }
        self.recoveredQueued = recovered("queued")
        self.recoveredUnknown = recovered("unknown")
        self.recoveredResent = recovered("resent")
        self.setReady(false)
        self.setProblems([])
        self.setClock(nil)
    }

    /// Counters since the start of the process.
    var totals: RelayTotals { self.state.withLock { $0.totals } }

    // MARK: Pushes

    /// Counts pushes that requests stored.
    func queued(_ count: Int = 1, _ route: Route) {
        self.count(route) { counters, totals in
            totals.queued &+= count
            counters.queued.increment(by: count)
        }
    }

    /// Counts pushes that requests submitted although they were already stored.
    func duplicates(_ count: Int = 1, _ route: Route) {
        self.count(route) { counters, totals in
            totals.duplicates &+= count
            counters.duplicates.increment(by: count)
        }
    }

    /// Counts outcomes with this certainty.
    func settled(_ certainty: Certainty, _ count: Int, _ route: Route) {
        self.count(route) { counters, totals in
            switch certainty {
            case .accepted: totals.accepted &+= count
            case .rejected: totals.rejected &+= count
            case .notProcessed: totals.notProcessed &+= count
            case .notSent: totals.notSent &+= count
            case .unknown: totals.unknown &+= count
            }
            counters.outcomes[certainty]?.increment(by: count)
        }
    }

    /// Counts a push that returned to the queue after an attempt.
    func retried(_ route: Route) {
        self.count(route) { counters, totals in
            totals.retried &+= 1
            counters.retries.increment()
        }
    }

    /// Counts a parked push.
    func parked(_ route: Route) {
        self.count(route) { counters, totals in
            totals.parked &+= 1
            counters.parked.increment()
        }
    }

    /// Counts the pushes that were parked after a restore or the promotion of a standby.
    func restored(_ restore: QueueRestore) {
        for (destination, count) in restore.parked {
            self.count(destination) { counters, totals in
                totals.parked &+= count
                counters.parked.increment(by: count)
            }
        }
    }

    /// Counts an outcome that was not stored, because its push already had one or its claim had ended.
    func late(_ route: Route) {
        self.count(route) { counters, totals in
            totals.late &+= 1
            counters.late.increment()
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
        self.counters(ofWebhook: webhook).requests[result]?.increment()
    }

    /// Counts outcomes that were deleted before the webhook acknowledged them.
    func webhookLost(_ webhook: String, _ outcomes: Int) {
        self.counters(ofWebhook: webhook).lost.increment(by: outcomes)
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
        let routes = self.known(with: Set(sums.keys).union(due.keys))
        self.state.withLock { state in
            for route in routes {
                let labels = Self.labels(of: route)
                let sum = sums[route]
                let states = [
                    "queued": sum?.queued, "claimed": sum?.claimed, "written": sum?.written, "parked": sum?.parked,
                ]
                for (name, count) in states {
                    let labels = labels.merging(["state": name]) { $1 }
                    state.gauges.set("apns_relay_pushes", labels, to: Double(count ?? 0))
                }
                let age = due[route].map { max(0, $0.duration(to: now).inSeconds) } ?? 0
                state.gauges.set("apns_relay_oldest_due_age_seconds", labels, to: age)
            }
            if let capacity = counts.capacity { state.gauges.set("apns_relay_queue_capacity", to: Double(capacity)) }
        }
    }

    /// Sets the parts of their capacity that callers use, and removes the gauges of callers without a capacity.
    func setCallers(_ parts: [String: Double]) {
        let values = Dictionary(uniqueKeysWithValues: parts.map { (["caller": $0.key], $0.value) })
        self.state.withLock { $0.gauges.replace("apns_relay_caller_capacity_used", with: values) }
    }

    /// Sets the gauges of paused routes to 1, and those of all other routes to 0.
    func setRoutes(_ routes: [RouteStatus]) {
        let paused = Set(routes.filter { $0.state == .paused }.map(\.route.destination))
        for route in self.known(with: Set(routes.map(\.route.destination))) {
            self.set("apns_relay_route_paused", Self.labels(of: route), to: paused.contains(route) ? 1 : 0)
        }
    }

    /// Sets the gauges of the webhooks, and removes those of webhooks that the settings no longer have.
    func setWebhooks(_ webhooks: [WebhookStatus], now: QueueTime) {
        let lags = webhooks.map { webhook in
            webhook.request.map { max(0, $0.oldestOutcome.duration(to: now).inSeconds) } ?? 0
        }
        let failures = webhooks.map { Double($0.failures) }
        let labels = webhooks.map { ["webhook": $0.name] }
        for (name, values) in [("apns_relay_webhook_lag_seconds", lags), ("apns_relay_webhook_failures", failures)] {
            let values = Dictionary(zip(labels, values)) { first, _ in first }
            self.state.withLock { $0.gauges.replace(name, with: values) }
        }
        // Their counters begin at 0, so that Prometheus sees the first event as an increase.
        for webhook in webhooks { _ = self.counters(ofWebhook: webhook.name) }
    }

    /// Sets the gauges of the fleet.
    ///
    /// - Parameter members: the relays, this one first.
    func setFleet(_ members: [FleetMember]) {
        self.set("apns_relay_fleet_members", to: Double(members.count))
        self.set("apns_relay_posts_webhooks", to: members.first?.postsWebhooks == true ? 1 : 0)
    }

    /// Sets how far the clock is ahead of what is plausible; nil if it is plausible.
    func setClock(_ jump: Duration?) { self.set("apns_relay_clock_ahead_seconds", to: jump.map(\.inSeconds) ?? 0) }

    /// Sets the time until the certificate of the listener expires; negative afterwards.
    func setCertificate(left: Duration) { self.set("apns_relay_certificate_left_seconds", to: left.inSeconds) }

    /// Sets whether the settings that were read last apply.
    func setSettings(areCurrent: Bool) { self.set("apns_relay_settings_current", to: areCurrent ? 1 : 0) }

    /// Sets the gauges of the file or the database behind the queue.
    func setStorage(_ storage: StorageState) { self.state.withLock { storage.set(&$0.gauges) } }

    /// Sets the gauges of what keeps pushes from being delivered or accepted, or outcomes from a webhook.
    func setProblems(_ problems: [DeliveryProblem]) {
        let causes = Set(problems.map(\.cause))
        for cause in DeliveryProblem.Cause.allCases {
            self.set("apns_relay_problem", ["cause": cause.rawValue], to: causes.contains(cause) ? 1 : 0)
        }
    }

    /// Sets the gauge that says whether the relay accepts pushes.
    func setReady(_ isReady: Bool) { self.set("apns_relay_ready", to: isReady ? 1 : 0) }

    private func set(_ name: String, _ labels: Gauges.Labels = [:], to value: Double) {
        self.state.withLock { $0.gauges.set(name, labels, to: value) }
    }

    private static func labels(of route: Route.Destination) -> Gauges.Labels {
        ["app": route.app, "environment": route.environment, "lane": route.lane.text]
    }

    // MARK: Counters

    private func count(_ route: Route, _ body: (RouteCounters, inout RelayTotals) -> Void) {
        self.count(route.destination, body)
    }

    private func count(_ destination: Route.Destination, _ body: (RouteCounters, inout RelayTotals) -> Void) {
        self.state.withLock { state in
            let counters = Self.counters(of: destination, in: &state, self.factory)
            body(counters, &state.totals)
        }
    }

    /// These destinations and all of earlier calls.
    private func known(with routes: Set<Route.Destination>) -> [Route.Destination] {
        self.state.withLock { state in
            for route in routes { _ = Self.counters(of: route, in: &state, self.factory) }
            return Array(state.routes.keys)
        }
    }

    private static func counters(
        of route: Route.Destination,
        in state: inout State,
        _ factory: any MetricsFactory
    ) -> RouteCounters {
        if let counters = state.routes[route] { return counters }
        let counters = RouteCounters(route, factory)
        state.routes[route] = counters
        return counters
    }

    private func counters(ofWebhook name: String) -> WebhookCounters {
        self.state.withLock { state in
            if let counters = state.webhooks[name] { return counters }
            let counters = WebhookCounters(name, self.factory)
            state.webhooks[name] = counters
            return counters
        }
    }
}

/// The counters of the routes with one destination. The labels do not have the caller and the batch, so that there are not
/// more and more series. All series begin at 0 with the first use of the destination, so that Prometheus sees the
/// first event as an increase.
private struct RouteCounters: Sendable {
    let queued: Counter
    let duplicates: Counter
    let outcomes: [Certainty: Counter]
    let retries: Counter
    let parked: Counter
    let late: Counter

    init(_ route: Route.Destination, _ factory: any MetricsFactory) {
        let app = [("app", route.app), ("environment", route.environment)]
        let counter = { (name: String, label: (String, String)) in
            Counter(label: name, dimensions: app + [label], factory: factory)
        }
        let lane = ("lane", route.lane.text)
        self.queued = counter("apns_relay_queued_total", lane)
        self.duplicates = counter("apns_relay_duplicates_total", lane)
        self.outcomes = Dictionary(
            uniqueKeysWithValues: Certainty.allCases.map { certainty in
                (certainty, counter("apns_relay_outcomes_total", ("outcome", certainty.rawValue)))
            }
        )
        self.retries = counter("apns_relay_retries_total", lane)
        self.parked = counter("apns_relay_parked_total", lane)
        self.late = counter("apns_relay_late_outcomes_total", lane)
    }
}

/// The counters of one webhook.
private struct WebhookCounters: Sendable {
    let requests: [RelayMetrics.WebhookResult: Counter]
    let lost: Counter

    init(_ name: String, _ factory: any MetricsFactory) {
        let webhook = [("webhook", name)]
        self.requests = Dictionary(
            uniqueKeysWithValues: RelayMetrics.WebhookResult.allCases.map { result in
                let dimensions = webhook + [("result", result.rawValue)]
                return (
                    result,
                    Counter(label: "apns_relay_webhook_requests_total", dimensions: dimensions, factory: factory)
                )
            }
        )
        self.lost = Counter(label: "apns_relay_webhook_lost_outcomes_total", dimensions: webhook, factory: factory)
    }
}

extension Duration {
    /// The duration in seconds.
    var inSeconds: Double {
        let (seconds, attoseconds) = self.components
        return Double(seconds) + Double(attoseconds) / 1e18
    }
}

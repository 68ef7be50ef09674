import PushQueue

/// Connects the API with the dispatcher, the webhooks and the metrics.
struct RelayState: RelayStatus {
    let dispatcher: Dispatcher
    let sendWebhooks: Webhooks
    let fleet: Fleet
    let metrics: RelayMetrics
    let probe: ReadyProbe
    let queue: any PushQueue
    let guardedClock: GuardedClock?
    let isStopping: StopFlag
    let delivery: DeliveryWatch

    var totals: RelayTotals { self.metrics.totals }

    func problems() -> [DeliveryProblem] { self.delivery.problems }

    var history: [DeliveryWatch.Sample] { self.delivery.history }

    /// The routes. One whose client delivers nothing is paused, even while pushes wait in the client.
    func routes() async -> [RouteStatus] {
        let problems = self.delivery.problems.filter { !$0.apps.isEmpty }
        return await self.dispatcher.routes().map { route in
            guard route.state == .sending, let problem = problems.first(where: { $0.affects(route.route) }) else {
                return route
            }
            var route = route
            route.state = .paused
            route.reason = problem.message
            return route
        }
    }

    func webhooks() async -> [WebhookStatus] { await self.sendWebhooks.statuses() }

    func members() -> [FleetMember] { self.fleet.members }

    func clockJump() -> Duration? { self.guardedClock?.jump }

    func confirmClock() async throws(QueueError) {
        self.guardedClock?.confirm()
        try await self.guardedClock?.store(in: self.queue)
        self.dispatcher.signal()
    }

    func didStore(_ settings: [UInt8]) { self.fleet.didStore(settings) }

    func skipWebhookRequest(_ webhook: String, _ id: String) async throws(QueueError) -> Int? {
        try await self.sendWebhooks.skip(webhook, id)
    }

    func notReady() async -> String? {
        if self.isStopping.isSet { return "the relay is shutting down" }
        return await self.probe.problem()
    }

    func count(queued: [Route: Int], duplicates: [Route: Int]) {
        for (route, count) in queued { self.metrics.queued(count, route) }
        for (route, count) in duplicates { self.metrics.duplicates(count, route) }
    }

    func countStorageError(_ error: QueueError) { self.metrics.storageFailed(error) }

    func signal() { self.dispatcher.signal() }
}

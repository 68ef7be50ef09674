import PushQueue
import Synchronization

/// The page `/metrics`. Gauges are set when the page is read.
final class MetricsPage: Sendable {
    private let prometheus: PrometheusMetrics
    private let metrics: RelayMetrics
    private let queue: any PushQueue
    private let status: any RelayStatus
    private let clock: any QueueClock
    private let refresh = Mutex<(task: Task<Void, Never>, started: ContinuousClock.Instant)?>(nil)

    /// - Parameters:
    ///   - prometheus: all metrics of the process.
    ///   - metrics: the relay's own metrics, which are part of `prometheus`.
    ///   - queue: the queue whose pushes are counted.
    ///   - status: the routes, the webhooks, and whether the relay is ready.
    ///   - clock: the time of day.
    init(
        prometheus: PrometheusMetrics,
        metrics: RelayMetrics,
        queue: any PushQueue,
        status: any RelayStatus,
        clock: any QueueClock
    ) {
        self.prometheus = prometheus
        self.metrics = metrics
        self.queue = queue
        self.status = status
        self.clock = clock
    }

    /// All metrics in Prometheus' text format.
    ///
    /// Requests within a second share one reading of the queue, so frequent requests put no load on it. If the queue
    /// cannot be read, its gauges keep their values, and `apns_relay_storage_errors_total` counts the error.
    func text() async -> String {
        let now = ContinuousClock.now
        let task = self.refresh.withLock { refresh in
            if let last = refresh, last.started.duration(to: now) < .seconds(1) { return last.task }
            let task = Task { await self.setGauges() }
            refresh = (task, now)
            return task
        }
        await task.value
        return self.prometheus.text()
    }

    private func setGauges() async {
        self.metrics.setReady(await self.status.notReady() == nil)
        self.metrics.setClock(self.status.clockJump())
        self.metrics.setRoutes(await self.status.routes())
        self.metrics.setWebhooks(await self.status.webhooks(), now: self.clock.now)
        self.metrics.setFleet(self.status.members())
        do {
            let counts = try await self.queue.counts()
            let routes = try await self.queue.queuedRoutes()
            self.metrics.setQueue(counts, routes, now: self.clock.now)
        } catch {
            self.metrics.storageFailed(error)
        }
    }
}

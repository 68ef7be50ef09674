import Logging
import PushQueue

/// The page `/metrics`. Gauges are set when the page is read.
final class MetricsPage: Sendable {
    /// Reads the state of the file or the database behind the queue.
    typealias ReadStorage = @Sendable () async throws(QueueError) -> StorageState

    private let prometheus: PrometheusMetrics
    private let longestWait: Duration
    private let gauges: SharedReading<Void>
    /// Sets the gauges of the file or the database.
    private let storage: SharedReading<Void>?

    /// - Parameters:
    ///   - prometheus: all metrics of the process.
    ///   - metrics: the relay's own metrics, which are part of `prometheus`.
    ///   - queue: the queue whose pushes are counted.
    ///   - status: the routes, the webhooks, and whether the relay is ready.
    ///   - clock: the time of day.
    ///   - limits: the limits of callers; nil for none.
    ///   - certificateExpiry: when the certificate of the listener expires; nil without TLS.
    ///   - readStorage: reads the state of the file or the database behind the queue; nil if there is none.
    ///   - logger: the logger for failed readings of that state.
    ///   - longestWait: the longest wait of a request for new values. Prometheus' own limit is 10 seconds by default.
    init(
        prometheus: PrometheusMetrics,
        metrics: RelayMetrics,
        queue: any PushQueue,
        status: any RelayStatus,
        clock: any QueueClock,
        limits: CallerLimits? = nil,
        certificateExpiry: @escaping @Sendable () -> QueueTime? = { nil },
        readStorage: ReadStorage? = nil,
        logger: Logger,
        longestWait: Duration = .seconds(2)
    ) {
        self.prometheus = prometheus
        self.longestWait = longestWait
        self.gauges = SharedReading(every: .seconds(1)) {
            metrics.setReady(await status.notReady() == nil)
            metrics.setProblems(status.problems())
            metrics.setClock(status.clockJump())
            if let expiry = certificateExpiry() { metrics.setCertificate(left: clock.now.duration(to: expiry)) }
            metrics.setRoutes(await status.routes())
            metrics.setWebhooks(await status.webhooks(), now: clock.now)
            metrics.setFleet(status.members())
            do throws(QueueError) {
                let counts = try await queue.counts()
                let routes = try await queue.queuedRoutes()
                metrics.setQueue(counts, routes, now: clock.now)
                if let limits { metrics.setCallers(limits.usedParts(counts)) }
            } catch {
                metrics.storageFailed(error)
            }
        }
        self.storage = readStorage.map { readStorage in
            SharedReading(every: .seconds(15)) {
                do throws(QueueError) {
                    metrics.setStorage(try await readStorage())
                } catch {
                    // Not an error of the storage: the queue does not need this state.
                    logger.debug("The state of the storage cannot be read", metadata: ["error": "\(error)"])
                }
            }
        }
    }

    /// All metrics in Prometheus' text format.
    ///
    /// Requests within a second share one reading of the queue, and requests within 15 seconds share one of the
    /// storage's state, so frequent requests put no load on them. If they cannot be read, their gauges keep their
    /// values, and `apns_relay_storage_errors_total` counts the errors of the queue. A reading that takes longer than two
    /// seconds continues after the response.
    func text() async -> String {
        async let storage: Void? = self.storage?.value(within: self.longestWait)
        _ = await self.gauges.value(within: self.longestWait)
        _ = await storage
        return self.prometheus.text()
    }
}

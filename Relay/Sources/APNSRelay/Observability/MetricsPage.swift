import Logging
import PushQueue
import Synchronization

/// The page `/metrics`. Gauges are set when the page is read.
final class MetricsPage: Sendable {
    /// Reads the state of the file or the database behind the queue.
    typealias ReadStorage = @Sendable () async throws(QueueError) -> StorageState

    private struct Readings {
        var status = Reading(interval: .seconds(1))
        var storage = Reading(interval: .seconds(15))
    }

    /// A reading that requests share.
    private struct Reading {
        /// The time between the starts of two readings.
        var interval: Duration
        var started: ContinuousClock.Instant?
        /// Nil if it has ended.
        var task: Task<Void, Never>?
    }

    private let prometheus: PrometheusMetrics
    private let metrics: RelayMetrics
    private let queue: any PushQueue
    private let status: any RelayStatus
    private let clock: any QueueClock
    private let limits: CallerLimits?
    private let certificateExpiry: @Sendable () -> QueueTime?
    private let readStorage: ReadStorage?
    private let logger: Logger
    private let longestWait: Duration
    private let readings = Mutex(Readings())

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
        self.metrics = metrics
        self.queue = queue
        self.status = status
        self.clock = clock
        self.limits = limits
        self.certificateExpiry = certificateExpiry
        self.readStorage = readStorage
        self.logger = logger
        self.longestWait = longestWait
    }

    /// All metrics in Prometheus' text format.
    ///
    /// Requests within a second share one reading of the queue, and requests within 15 seconds share one of the
    /// storage's state, so frequent requests put no load on them. If they cannot be read, their gauges keep their
    /// values, and `apns_relay_storage_errors_total` counts the errors of the queue. A reading that takes longer than two
    /// seconds continues after the response.
    func text() async -> String {
        let now = ContinuousClock.now
        let tasks = self.readings.withLock { readings in
            [
                Self.start(&readings.status, now) {
                    await self.setGauges()
                    self.readings.withLock { $0.status.task = nil }
                },
                self.readStorage.flatMap { readStorage in
                    Self.start(&readings.storage, now) {
                        await self.setStorage(readStorage)
                        self.readings.withLock { $0.storage.task = nil }
                    }
                },
            ]
            .compactMap { $0 }
        }
        if !tasks.isEmpty { await self.wait(for: tasks) }
        return self.prometheus.text()
    }

    /// Starts a reading if it is due and none is running.
    ///
    /// - Returns: the running one; nil if there is none.
    private static func start(
        _ reading: inout Reading,
        _ now: ContinuousClock.Instant,
        _ read: @escaping @Sendable () async -> Void
    ) -> Task<Void, Never>? {
        if let task = reading.task { return task }
        if let started = reading.started, started.duration(to: now) < reading.interval { return nil }
        reading.started = now
        reading.task = Task { await read() }
        return reading.task
    }

    /// Waits for tasks, but no longer than the limit.
    private func wait(for tasks: [Task<Void, Never>]) async {
        let (ends, end) = AsyncStream.makeStream(of: Never.self)
        let limit = Task {
            try? await Task.sleep(for: self.longestWait)
            end.finish()
        }
        Task {
            for task in tasks { await task.value }
            end.finish()
        }
        for await _ in ends {}
        limit.cancel()
    }

    private func setGauges() async {
        self.metrics.setReady(await self.status.notReady() == nil)
        self.metrics.setClock(self.status.clockJump())
        if let expiry = self.certificateExpiry() {
            self.metrics.setCertificate(left: self.clock.now.duration(to: expiry))
        }
        self.metrics.setRoutes(await self.status.routes())
        self.metrics.setWebhooks(await self.status.webhooks(), now: self.clock.now)
        self.metrics.setFleet(self.status.members())
        do {
            let counts = try await self.queue.counts()
            let routes = try await self.queue.queuedRoutes()
            self.metrics.setQueue(counts, routes, now: self.clock.now)
            if let limits { self.metrics.setCallers(limits.usedParts(counts)) }
        } catch {
            self.metrics.storageFailed(error)
        }
    }

    private func setStorage(_ readStorage: ReadStorage) async {
        do throws(QueueError) {
            self.metrics.setStorage(try await readStorage())
        } catch {
            // Not an error of the storage: the queue does not need this state.
            self.logger.debug("The state of the storage cannot be read", metadata: ["error": "\(error)"])
        }
    }
}

import HTTP2Wire
import Metrics
import SupervisedPool
import Synchronization

extension ClientRuntime {
    static let metricsInterval = Duration.seconds(5)

    /// The labels of this client's metrics. Replacing the client's credential begins a new series.
    private var metricLabels: [MetricSample.Label] {
        let resolved = self.credentials.latest.resolved
        return [
            .init(name: "environment", value: self.configuration.environment.name),
            .init(name: "credential", value: resolved.signer?.identifiers.keyID ?? resolved.metricName),
        ] + self.configuration.metricLabels
    }

    func metricSnapshot() async -> MetricSnapshot {
        let session = self.credentials.latest
        let monitor = self.monitor
        let pool = await session.pool.status()
        var snapshot = MetricSnapshot(health: self.health(of: session, pool), pool: pool)
        snapshot.pushes = monitor.pushes.totals
        snapshot.pushesInFlight = self.lifecycle.pushesInFlight
        snapshot.resends = self.monitor.resends.load(ordering: .relaxed)
        snapshot.restarts = self.monitor.restarts.load(ordering: .relaxed)
        snapshot.connects = monitor.connects.load(ordering: .relaxed)
        snapshot.reconnects = monitor.reconnects.load(ordering: .relaxed)
        snapshot.connectionLosses = monitor.connectionLosses.load(ordering: .relaxed)
        snapshot.degradedConnections = self.monitor.events.degradedConnections
        snapshot.suspectsMisconfiguration = self.sending.massRejection.isRaised
        snapshot.providerTokenAge = session.tokens.status.age
        snapshot.certificateSecondsLeft = session.resolved.certificate.map {
            $0.notAfter - self.configuration.wallClock()
        }
        snapshot.queueTimes = monitor.queueTimes.take()
        snapshot.connectTimes = monitor.connectTimes.take()
        snapshot.responseTimes = self.monitor.events.responseTimes.take()
        return snapshot
    }

    /// An exporter for the metrics backend in use when the client runs; nil without one.
    func makeMetricExporter() -> MetricExporter? {
        guard let exporter = MetricExporter(factory: MetricsSystem.factory) else { return nil }
        self.monitor.queueTimes.enable()
        self.monitor.connectTimes.enable()
        self.monitor.events.responseTimes.enable()
        return exporter
    }

    func export(_ exporter: MetricExporter) async {
        exporter.export(await self.metricSnapshot().samples, common: self.metricLabels)
    }

    /// Exports at intervals until the task is cancelled.
    func exportMetrics(_ exporter: MetricExporter) async {
        while !Task.isCancelled {
            await self.export(exporter)
            try? await self.clock.sleep(until: self.clock.now.advanced(by: Self.metricsInterval))
        }
    }
}

extension ResolvedAuthentication {
    fileprivate var metricName: String { self.certificate == nil ? "none" : "certificate" }
}

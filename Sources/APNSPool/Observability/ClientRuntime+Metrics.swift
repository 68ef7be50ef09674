import APNSTransport
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

    private func metricSnapshot() async -> MetricSnapshot {
        let resolved = self.credentials.latest.resolved
        let monitor = self.monitor
        return MetricSnapshot(
            status: await self.status(),
            pushes: monitor.pushes.totals,
            reconnects: monitor.reconnects.load(ordering: .relaxed),
            providerTokenAge: self.credentials.latest.tokens.status.age,
            certificateSecondsLeft: resolved.certificate.map { $0.notAfter - self.configuration.wallClock() },
            queueTimes: monitor.queueTimes.take(),
            connectTimes: monitor.connectTimes.take(),
            responseTimes: monitor.events.responseTimes.take()
        )
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

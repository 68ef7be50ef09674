import APNSTransport
import Metrics
import SupervisedPool
import Synchronization

extension ClientRuntime {
    static let metricsInterval = Duration.seconds(5)

    /// The labels of this client's metrics. Replacing the client's credential begins a new series.
    private func metricLabels(of session: CredentialSession) -> [MetricSample.Label] {
        let resolved = session.resolved
        return [
            .init(name: "environment", value: self.configuration.environment.name),
            .init(name: "credential", value: resolved.signer?.identifiers.keyID ?? resolved.metricName),
        ] + self.configuration.metricLabels
    }

    private func metricSnapshot(of session: CredentialSession) async -> MetricSnapshot {
        let monitor = self.monitor
        return MetricSnapshot(
            status: await self.status(of: session),
            pushes: monitor.pushes.totals,
            reconnects: monitor.reconnects.load(ordering: .relaxed),
            providerTokenAge: session.tokens.status.age,
            certificateSecondsLeft: session.resolved.certificate.map { $0.notAfter - self.configuration.wallClock() },
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
        // One session for all values: the client may adopt another one meanwhile.
        let session = self.credentials.latest
        exporter.export(await self.metricSnapshot(of: session).samples, common: self.metricLabels(of: session))
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

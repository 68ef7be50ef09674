public import APNSPool
import Hummingbird
public import Logging
public import PushQueue
public import ServiceLifecycle

/// A relay: takes pushes over HTTP, keeps them in a queue and sends them to APNs.
public struct Relay: Sendable {
    private let settings: RelaySettings
    private let queue: any PushQueue
    private let clock: any QueueClock
    private let metrics: PrometheusMetrics
    private let logger: Logger
    private let group: APNSClientGroup

    /// - Parameters:
    ///   - settings: what the operator has set.
    ///   - queue: an open queue, which the relay closes.
    ///   - clock: the clock of the queue.
    ///   - metrics: the backend whose metrics `/metrics` shows. It must be that of swift-metrics' `MetricsSystem`.
    ///   - logger: for everything that an operator should know. It never gets device tokens or payloads.
    /// - Throws: `APNSConfigurationError` if an app's credential or a limit of the group cannot be used.
    public init(
        settings: RelaySettings,
        queue: any PushQueue,
        clock: any QueueClock = SystemQueueClock(),
        metrics: PrometheusMetrics,
        logger: Logger
    ) throws(APNSConfigurationError) {
        self.settings = settings
        self.queue = queue
        self.clock = clock
        self.metrics = metrics
        self.logger = logger
        var configuration = settings.group
        configuration.client.logger = logger
        self.group = try APNSClientGroup(configuration: configuration)
        for app in settings.apps {
            try self.group.add(
                APNSApp(
                    name: app.name,
                    topic: app.topic,
                    authentication: app.authentication,
                    environments: Set(app.environments.values)
                )
            )
        }
    }
}

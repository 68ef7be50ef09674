import APNSPool
import Metrics
import Hummingbird
import Logging
import ServiceLifecycle

/// A service that takes notifications over HTTP, sends each one to APNs, and returns its outcome.
@main
struct NotificationService {
    static func main() async throws {
        // First of all: a client that was made before has no metrics.
        let metrics = PrometheusText()
        MetricsSystem.bootstrap(metrics)
        let settings = try Settings.fromEnvironment()
        let client = try APNSClient(configuration: settings.client)
        let readiness = Readiness(drainDelay: settings.drainDelay)
        let app = Application(
            router: makeRouter(client: client, readiness: readiness, metrics: metrics, settings: settings),
            configuration: .init(address: .hostname(settings.host, port: settings.port)),
            logger: settings.logger
        )
        // A group stops its services one after another, the last one first, and waits for each. On SIGTERM:
        //
        // 1. `readiness`: /ready returns 503 and the server goes on for `DRAIN_DELAY`, so that the load balancer has
        //    time to send its requests elsewhere. Requests that still come are served.
        // 2. `app`: the server takes no new connections, completes the requests that it has, and closes. A response is
        //    an outcome from APNs, so this takes as long as the longest of them: at most `MAX_DEADLINE`.
        // 3. `client`: takes no pushes any more, waits for those that are still on their way (here: none, since each
        //    belonged to a request), at most 20 seconds, and closes its connections.
        //
        // In another order, the server could still have a request when the client takes no pushes any more.
        var group = ServiceGroupConfiguration(
            services: [client, app, readiness],
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: settings.logger
        )
        // Whatever hangs, the process ends before Kubernetes kills it (after 30 seconds, unless told otherwise).
        group.maximumGracefulShutdownDuration = .seconds(28)
        try await ServiceGroup(configuration: group).run()
    }
}

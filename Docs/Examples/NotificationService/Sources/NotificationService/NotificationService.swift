import APNSPool
import Foundation
import Hummingbird
import Logging
import ServiceLifecycle

/// Your app's bundle ID.
let topic = "com.grasscove.Fern"

@main
struct NotificationService {
    static func main() async {
        let logger = Logger(label: "notification-service")
        do {
            try await serve(logger)
        } catch {
            // An error thrown by `main` would print a crash report.
            logger.critical("\(error)")
            exit(1)
        }
    }

    static func serve(_ logger: Logger) async throws {
        let environment = ProcessInfo.processInfo.environment
        let client = try APNSClient(configuration: APNSClientConfiguration(settings: [.environment(environment)]))
        let store = try DeviceStore(path: environment["DATABASE"] ?? "devices.sqlite")
        let port = Int(environment["PORT"] ?? "") ?? 8080
        let server = Application(
            router: makeRouter(sender: client, store: store, isReady: { await client.health.isReady }),
            configuration: .init(address: .hostname(environment["HOST"] ?? "127.0.0.1", port: port)),
            logger: logger
        )
        // On SIGTERM, the group stops the last service first and waits for each: the server completes its requests, the
        // announcements stop after the pushes in flight, and the client drains.
        var group = ServiceGroupConfiguration(
            services: [client, AnnouncementService(sender: client, store: store), server],
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: logger
        )
        // Less than the 30 seconds after which Kubernetes kills the process.
        group.maximumGracefulShutdownDuration = .seconds(28)
        try await ServiceGroup(configuration: group).run()
    }
}

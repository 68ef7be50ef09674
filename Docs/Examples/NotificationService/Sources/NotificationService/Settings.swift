import APNSPool
import Logging

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// What the environment says: the client's settings as `Docs/Configuration.md` lists them, and the service's own. `apns
/// simulator --write-credentials` writes such an environment for the client.
struct Settings {
    var host: String
    var port: Int
    /// How long requests are still taken after SIGTERM, while `/ready` says no.
    var drainDelay: Duration
    /// What a request may ask for at most. Shorter than the time in which a process has to end.
    var maximumDeadline: Duration
    var logger: Logger
    var client: APNSClientConfiguration

    struct Missing: Error, CustomStringConvertible {
        let name: String
        var description: String { "the environment variable \(self.name) is missing or no number" }
    }

    static func fromEnvironment(_ all: [String: String] = ProcessInfo.processInfo.environment) throws -> Settings {
        func number(_ name: String, default value: Int) throws -> Int {
            guard let text = all[name] else { return value }
            guard let number = Int(text), number >= 0 else { throw Missing(name: name) }
            return number
        }
        var logger = Logger(label: "notification-service") { StreamLogHandler.standardError(label: $0) }
        logger.logLevel = all["LOG_LEVEL"].flatMap(Logger.Level.init(rawValue:)) ?? .info
        // What the environment does not say keeps these values. A mistake in it ends the service here, with all that is wrong.
        var client = APNSClientConfiguration(authentication: .withoutToken, logger: logger)
        try client.apply(settings: [.environment(all)])
        let maximum = Duration.seconds(try number("MAX_DEADLINE", default: 15))
        client.timeouts.deadline = min(client.timeouts.deadline, maximum)
        return Settings(
            host: all["HOST"] ?? "127.0.0.1",
            port: try number("PORT", default: 8080),
            drainDelay: .seconds(try number("DRAIN_DELAY", default: 3)),
            maximumDeadline: maximum,
            logger: logger,
            client: client
        )
    }
}

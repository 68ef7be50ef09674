import APNSPool
import Logging

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// What the environment says. `apns simulator --write-credentials` writes such an environment.
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
        guard let keyFile = all["APNS_KEY_FILE"] else { throw Missing(name: "APNS_KEY_FILE") }
        guard let teamID = all["APNS_TEAM_ID"] else { throw Missing(name: "APNS_TEAM_ID") }
        var logger = Logger(label: "notification-service") { StreamLogHandler.standardError(label: $0) }
        logger.logLevel = all["LOG_LEVEL"].flatMap(Logger.Level.init(rawValue:)) ?? .info
        var client = APNSClientConfiguration(
            authentication: .token(keyFile: keyFile, keyID: all["APNS_KEY_ID"], teamID: teamID),
            environment: all["APNS_ENVIRONMENT"] == "development" ? .development : .production,
            logger: logger
        )
        // A simulator, for example: https://localhost:2197
        if let endpoint = all["APNS_ENDPOINT"] {
            guard let url = URL(string: endpoint), let host = url.host() else { throw Missing(name: "APNS_ENDPOINT") }
            client.environment = .custom(host: host, port: url.port ?? 443)
        }
        client.trust.caFile = all["APNS_CA_FILE"]
        let maximum = Duration.seconds(try number("MAX_DEADLINE", default: 15))
        client.timeouts.deadline = maximum
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

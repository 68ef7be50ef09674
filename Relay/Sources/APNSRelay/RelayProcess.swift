import APNSPool
public import Configuration
import Logging
import Metrics
public import PushQueue
import SystemPackage

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Runs a relay as a process: reads the settings, sets up logs and metrics, opens the queue, and serves.
public enum RelayProcess {
    /// A reader of the environment variables `APNS_RELAY_…` and of a JSON file. The variables take precedence.
    ///
    /// - Parameter file: the path of the file; nil for the environment alone.
    /// - Throws: `RelaySettingsError` if the file cannot be read.
    public static func reader(file: String?) async throws(RelaySettingsError) -> ConfigReader {
        let environment = EnvironmentVariablesProvider().prefixKeys(with: ConfigKey("apns.relay"))
        guard let file else { return ConfigReader(provider: environment) }
        do {
            let values = try await FileProvider<JSONSnapshot>(filePath: FilePath(file))
            return ConfigReader(providers: [environment, values])
        } catch {
            throw RelaySettingsError(["\(file): it cannot be read as JSON: \(error)"])
        }
    }

    /// Runs a relay until SIGTERM or SIGINT.
    ///
    /// - Parameters:
    ///   - reader: the settings.
    ///   - wrap: returns the queue to use instead of the opened one, for tests.
    /// - Throws: `RelaySettingsError`, `QueueError`, or an error of the listening socket.
    public static func serve(
        _ reader: ConfigReader,
        wrap: (any PushQueue) -> any PushQueue = { $0 }
    ) async throws {
        let settings = try RelaySettings(reader)
        let logger = try Self.logger(reader)
        let prometheus = PrometheusMetrics()
        MetricsSystem.bootstrap(prometheus)
        let metrics = RelayMetrics(factory: prometheus)
        let opened = try await settings.storage.open(logger: logger) { calls, duration in
            metrics.committed(calls: calls, duration: duration)
        }
        metrics.recovered(opened.expired)
        let relay: Relay
        do {
            relay = try Relay(
                settings: settings,
                queue: wrap(opened.queue),
                clock: opened.clock,
                outcomes: opened.outcomes,
                waitForFailure: opened.waitForFailure,
                prometheus: prometheus,
                metrics: metrics,
                logger: logger
            )
        } catch {
            await opened.queue.close()
            throw error
        }
        try await relay.run { port in
            let scheme = settings.http.certificateChainFile == nil ? "http" : "https"
            logger.notice(
                "The relay is listening",
                metadata: ["url": "\(scheme)://\(settings.http.host):\(port)", "file": "\(settings.storage.file)"]
            )
        }
    }

    /// Sets up the log: `log.format` is `text` or `json`, `log.level` one of swift-log's levels.
    static func logger(_ reader: ConfigReader) throws(RelaySettingsError) -> Logger {
        var settings = SettingsReader(reader)
        var level = Logger.Level.info
        if let text = settings.text("log.level") {
            if let value = Logger.Level(rawValue: text) {
                level = value
            } else {
                let levels = Logger.Level.allCases.map(\.rawValue).joined(separator: ", ")
                settings.fail("log.level", "\"\(text)\" is not one of \(levels)")
            }
        }
        let format = settings.text("log.format") ?? "text"
        if format != "text", format != "json" {
            settings.fail("log.format", "\"\(format)\" is neither text nor json")
        }
        guard settings.problems.isEmpty else { throw RelaySettingsError(settings.problems) }
        LoggingSystem.bootstrap { label in
            if format == "json" { JSONLogHandler(label: label) } else { StreamLogHandler.standardError(label: label) }
        }
        var logger = Logger(label: "apns-relay")
        logger.logLevel = level
        return logger
    }
}

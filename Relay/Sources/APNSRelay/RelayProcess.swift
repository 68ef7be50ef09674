@_spi(Relay) public import APNSPool
import Logging
import Metrics
import PostgresPushQueue
public import PushQueue

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Runs a relay as a process: reads the settings, sets up logs and metrics, opens the queue, and serves.
public enum RelayProcess {
    /// The sources of the settings: the environment variables `APNS_RELAY_…`, which take precedence, and a JSON file.
    ///
    /// - Parameter file: the path of the file; nil for the environment alone.
    /// - Throws: `RelaySettingsError` if the file cannot be read.
    public static func sources(file: String?) throws(RelaySettingsError) -> [APNSSettingsSource] {
        let environment = APNSSettingsSource.environment().below("apns.relay")
        guard let file else { return [environment] }
        do throws(APNSSettingsError) {
            return [environment, try .jsonFile(file)]
        } catch {
            throw RelaySettingsError(error.faults)
        }
    }

    /// Runs a relay until SIGTERM or SIGINT.
    ///
    /// It reads the settings again when a file with settings, tokens or certificates has changed, and at each SIGHUP.
    ///
    /// - Parameters:
    ///   - file: the path of the JSON file with settings; nil for the environment alone.
    ///   - wrap: returns the queue that is used instead of the opened one. Only tests need it.
    /// - Throws: `RelaySettingsError`, `QueueError`, or an error of the listening socket.
    public static func serve(
        file: String?,
        wrap: (any PushQueue) -> any PushQueue = { $0 }
    ) async throws {
        // Until the relay follows this signal, it must not end the process.
        signal(SIGHUP, SIG_IGN)
        let loaded = try LoadedSettings(file: file)
        let settings = loaded.settings
        let logger = Self.logger(settings.log)
        let prometheus = PrometheusMetrics()
        MetricsSystem.bootstrap(prometheus)
        let metrics = RelayMetrics(factory: prometheus)
        let opened = try await settings.storage.open(metrics: metrics, logger: logger)
        let relay: Relay
        do {
            try await opened.publish?(settings.sqlIntake)
            relay = try Relay(
                settings: settings,
                reading: (loaded, { () throws(RelaySettingsError) in try LoadedSettings(file: file) }),
                queue: wrap(opened.queue),
                clock: opened.clock,
                tokens: settings.storage.fileTokens(logger: logger),
                news: opened.news,
                waitForFailure: opened.waitForFailure,
                publish: opened.publish,
                progress: opened.progress,
                readStorage: opened.readStorage,
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
                metadata: ["url": "\(scheme)://\(settings.http.host):\(port)", "storage": "\(settings.storage.place)"]
            )
        }
    }

    /// Creates the queue's schema in the database of the settings. Blocks.
    ///
    /// - Returns: a line for a person.
    /// - Throws: `QueueError`.
    public static func migrate(_ settings: RelaySettings) throws(QueueError) -> String {
        guard let postgres = settings.storage.postgres else {
            throw QueueError(code: .unusable, message: "storage.postgres is not set, so there is no schema to create.")
        }
        return try PostgresSchema.create(postgres) ? "The schema was created." : "The schema is there already."
    }

    /// Says that a backup of the queue was restored. Relays that share a database may run meanwhile, but not while it is
    /// being restored.
    ///
    /// - Returns: a line for a person.
    /// - Throws: `QueueError`: `inUse` if a relay uses the file.
    public static func restored(_ settings: RelaySettings) async throws(QueueError) -> String {
        let logger = Logger(label: "apns-relay") { _ in SwiftLogNoOpLogHandler() }
        let restore = try await settings.storage.restored(logger: logger)
        let readers =
            "Readers of the feed that have read further than the backup get 410, with the cursor to continue with."
        guard settings.storage.afterFailover == .park else {
            return
                "\(readers) No push is parked, because storage.afterFailover is send."
        }
        return restore.parkedCount == 0
            ? "\(readers) No push was due or in flight, so none is parked."
            : "\(restore.parkedCount) pushes may have been sent after the backup. They are parked. Start the relay, and retry or "
                + "drop them on its page."
    }

    /// The SQL text that creates the queue's schema in an empty database.
    public static var migrationScript: String { PostgresSchema.script }

    private static func logger(_ settings: LogSettings) -> Logger {
        LoggingSystem.bootstrap { label in
            switch settings.format {
            case .json: JSONLogHandler(label: label)
            case .text: StreamLogHandler.standardError(label: label)
            }
        }
        var logger = Logger(label: "apns-relay")
        logger.logLevel = settings.level
        return logger
    }
}

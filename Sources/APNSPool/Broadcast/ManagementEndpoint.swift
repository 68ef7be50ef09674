import APNSTransport
import Logging
import SupervisedPool

/// The host that manages channels. At Apple it differs from the host of pushes.
///
/// It has its own pool with one connection, which the first call opens and which closes when idle.
final class ManagementEndpoint: Sendable {
    let settings: ConnectionSettings
    /// The retries of calls after 503 and 500.
    let retries = SharedTokenBucket.channelRetries()
    let currentPool: CurrentPool

    var pool: Pool<ConnectionActor> { self.currentPool.current }

    /// A list of 10,000 channels takes about 300 KiB.
    static let responseBodyLimit = 4 * 1024 * 1024
    /// The limit of calls that may wait for the connection.
    private static let maxWaiters = 1000

    /// - Parameter pushes: The connection settings of pushes, most of which also apply here.
    init(
        _ configuration: APNSClientConfiguration,
        connection pushes: Connection.Configuration,
        pool: PoolConfiguration,
        events: ClientEvents
    ) {
        var connection = pushes
        connection.host = configuration.environment.managementHost
        connection.port = configuration.environment.managementPort
        connection.variableNames = BroadcastRequests.variableNames
        connection.responseFilter = nil
        connection.responseBodyLimit = Self.responseBodyLimit
        self.settings = ConnectionSettings(
            connection: connection,
            streamCap: configuration.pool.maxConcurrentStreams,
            replacements: .replacements(burst: 1),
            events: events
        )
        self.currentPool = CurrentPool(
            Self.poolConfiguration(pool),
            clock: configuration.clock,
            logger: Self.logger(configuration)
        )
    }

    /// Adapts the pool settings of pushes to this endpoint.
    static func poolConfiguration(_ pushes: PoolConfiguration) -> PoolConfiguration {
        var configuration = pushes
        configuration.size = 0
        configuration.maxOverflow = 1
        configuration.maxWaiters = Self.maxWaiters
        return configuration
    }

    /// Returns the client's logger with the management host in its metadata, so that the errors of this endpoint are
    /// not mistaken for those of pushes.
    static func logger(_ configuration: APNSClientConfiguration) -> Logger {
        var logger = configuration.logger
        logger[metadataKey: "endpoint"] = "\(configuration.environment.managementAuthority)"
        return logger
    }
}

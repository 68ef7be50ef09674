import APNSModel
import APNSTransport
import NIOCore
import SupervisedPool

/// Creates credential sessions from the parts that all sessions of a client share.
final class CredentialSessionFactory: Sendable {
    let configuration: APNSClientConfiguration
    private let monitor: ClientMonitor
    private let replacements: SharedTokenBucket
    private let version: SendRouteVersion
    private let contexts: TLSContexts
    private let tokenCaches: TokenCaches

    init(
        _ configuration: APNSClientConfiguration,
        monitor: ClientMonitor,
        replacements: SharedTokenBucket,
        version: SendRouteVersion
    ) {
        self.configuration = configuration
        self.monitor = monitor
        self.replacements = replacements
        self.version = version
        self.contexts = configuration.tlsContexts ?? TLSContexts(trust: configuration.trust)
        self.tokenCaches =
            configuration.tokenCaches
            ?? TokenCaches(clock: configuration.clock, wallClock: configuration.wallClock)
    }

    /// - Parameter configuration: The configuration with the settings now in effect.
    /// - Throws: OpenSSL's objection to the certificate or the trust roots.
    func make(
        _ number: Int,
        _ resolved: ResolvedAuthentication,
        _ configuration: APNSClientConfiguration
    ) throws(APNSConfigurationError) -> CredentialSession {
        let context = try self.contexts.context(for: resolved.certificate)
        // A candidate's troubles are reported as the result of its probe: pushes do not meet them.
        let adopted = Latch()
        let breaker = CredentialBreaker { [events = self.monitor.events, version = self.version] event in
            version.advance()
            if adopted.isOpen { events.write(.credential(event)) }
        }
        let weather = Weather(
            onChange: { [version = self.version] in version.advance() },
            onEvent: { [events = self.monitor.events] in if adopted.isOpen { events.write(.weather($0)) } }
        )
        let settings = ConnectionSettings(
            connection: Self.connection(configuration, context),
            streamCap: configuration.pool.maxConcurrentStreams,
            silenceWarning: configuration.silenceWarning,
            replacements: self.replacements,
            seed: configuration.connectionSeed,
            events: self.monitor.events,
            credentialBreaker: breaker,
            weather: weather
        )
        let pool = configuration.poolConfiguration
        return CredentialSession(
            number: number,
            resolved: resolved,
            settings: settings,
            adopted: adopted,
            tokens: self.tokenCaches.cache(of: resolved),
            currentPool: CurrentPool(
                pool,
                clock: configuration.clock,
                logger: configuration.logger,
                client: self.monitor,
                version: self.version
            ),
            management: ManagementEndpoint(
                configuration,
                connection: settings.connection,
                pool: pool,
                events: self.monitor.managementEvents
            ),
            version: self.version
        )
    }

    private static func connection(
        _ configuration: APNSClientConfiguration,
        _ tls: TLSContext
    ) -> Connection.Configuration {
        var connection = Connection.Configuration(
            host: configuration.environment.host,
            port: configuration.environment.port,
            tls: tls,
            variableNames: RequestEncoder.variableNames
        )
        connection.responseFilter = RequestEncoder.responseFilter
        connection.responseBodyLimit = Rejection.maximumBodySize
        connection.proxy = configuration.proxy?.endpoint
        connection.connectTimeout = TimeAmount(configuration.timeouts.connect)
        configuration.adjustConnection?(&connection)
        return connection
    }
}

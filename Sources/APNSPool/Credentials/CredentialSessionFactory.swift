import HTTP2Wire
import NIOCore
import SupervisedPool
import Synchronization

/// Makes the session of a credential, with what all sessions of a client share.
final class CredentialSessionFactory: Sendable {
    let configuration: APNSClientConfiguration
    private let monitor: ClientMonitor
    private let replacements: ReplacementBudget
    private let retries: RetryBudget
    private let version: SendRouteVersion
    private let contexts: TLSContexts
    /// The provider tokens of the keys in use, and of the last ones before.
    private let tokenCaches: Mutex<TokenCaches>

    init(
        _ configuration: APNSClientConfiguration,
        monitor: ClientMonitor,
        replacements: ReplacementBudget,
        retries: RetryBudget,
        version: SendRouteVersion
    ) {
        self.configuration = configuration
        self.monitor = monitor
        self.replacements = replacements
        self.retries = retries
        self.version = version
        self.contexts = configuration.tlsContexts ?? TLSContexts(trust: configuration.trust)
        self.tokenCaches = Mutex(TokenCaches(version: version))
    }

    /// - Parameters:
    ///   - configuration: with the settings that hold now.
    ///   - key: the active key, whose provider token is kept.
    ///   - onVerdict: told what APNs' first responses say about a candidate; nil: it is no candidate. Called on event
    ///     loops.
    /// - Throws: what OpenSSL objects to in the certificate or the trust roots.
    func make(
        _ number: CredentialRotation.Number,
        _ resolved: ResolvedAuthentication,
        _ configuration: APNSClientConfiguration,
        keeping key: SigningKey? = nil,
        onVerdict: (@Sendable (CredentialStateMachine.Event) -> Void)? = nil
    ) throws(APNSConfigurationError) -> CredentialSession {
        let context = try self.contexts.context(for: resolved.certificate)
        let credentials = CredentialBreaker(isOnTrial: onVerdict != nil) {
            [events = self.monitor.events, version = self.version] event in
            switch event {
            case .proven, .refusedOnTrial: onVerdict?(event)
            case .declared, .ended:
                version.advance()
                events.write(.credential(event))
            }
        }
        let settings = ConnectionSettings(
            connection: Self.connection(configuration, context),
            streamCap: configuration.pool.maxConcurrentStreams,
            backoffMinimum: .milliseconds(100),
            backoffMaximum: .seconds(30),
            replacements: self.replacements,
            retries: self.retries,
            seed: configuration.connectionSeed,
            events: self.monitor.events,
            credentials: credentials
        )
        let pool = configuration.poolConfiguration
        return CredentialSession(
            number: number,
            resolved: resolved,
            settings: settings,
            tokens: self.tokenCaches.withLock { $0.cache(of: resolved, keeping: key) },
            pools: CurrentPool(
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
            )
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
        connection.proxy = configuration.proxy?.endpoint
        connection.connectTimeout = TimeAmount(configuration.timeouts.connect)
        configuration.adjustConnection?(&connection)
        return connection
    }
}

import APNSModel
public import SupervisedPool
import Synchronization

/// A snapshot of a client: its health, its pool and its counts. Contains no key, provider token or device token.
///
/// ```swift
/// print(await client.status.health)
/// ```
public struct APNSClientStatus: Sendable {
    /// The health, as ``APNSClient/health``.
    public var health: APNSHealth
    /// The pool: its connections, their streams and the waiting pushes.
    public var pool: PoolStatus
    /// The key or certificate in use, and its expiry.
    public var authentication: APNSAuthenticationStatus
    /// Pushes and bulk calls that have no outcome yet.
    public var pushesInFlight: Int
    /// How many times a push was resent.
    public var resends: Int
    /// How many connections became ready.
    public var connects: Int
    /// How many connections were lost, and how many connects failed.
    public var connectionLosses: Int
    /// How many times a part of the supervision tree crashed and was restarted.
    public var restarts: Int
    /// The number of connections that use fewer streams than they could, because APNs responds with 503 more often than
    /// connections may be replaced.
    public var degradedConnections: Int
    /// Whether APNs refuses the credential on each new connection. Pushes then fail at once with the code `credential`,
    /// except for an occasional push that tests the credential.
    public var hasCredentialFault: Bool
    /// Whether APNs rejects so many device tokens that the environment, the topic or the key must be wrong (see
    /// `APNSClientConfiguration.massRejection`).
    public var suspectsMisconfiguration: Bool
}

extension APNSClient {
    /// A snapshot of the client: health, pool, connections, authentication, and counts so far.
    ///
    /// Reading it sends nothing and waits for no connection. Polling it is cheap.
    public var status: APNSClientStatus {
        get async { await self.runtime.status() }
    }
}

extension ClientRuntime {
    func status() async -> APNSClientStatus { await self.status(of: self.credentials.latest) }

    func status(of session: CredentialSession) async -> APNSClientStatus {
        let pool = await session.pool.status()
        let inputs = self.healthInputs(of: session, pool)
        let monitor = self.monitor
        return APNSClientStatus(
            health: APNSHealth(inputs),
            pool: pool,
            authentication: APNSAuthenticationStatus(session, self.credentials),
            pushesInFlight: self.lifecycle.pushesInFlight,
            resends: monitor.resends.load(ordering: .relaxed),
            connects: monitor.connects.load(ordering: .relaxed),
            connectionLosses: monitor.connectionLosses.load(ordering: .relaxed),
            restarts: monitor.restarts.load(ordering: .relaxed),
            degradedConnections: inputs.degradedConnections,
            hasCredentialFault: inputs.credentialFault != nil,
            suspectsMisconfiguration: inputs.suspectsMisconfiguration
        )
    }
}

import APNSBasics
import SupervisedPool
import Synchronization

/// The resources of one credential: its provider token, its pool and its connections.
///
/// No connection ever carries another credential's token, because APNs binds a connection to the first team and key
/// that it sees (Apple, "Establishing a token-based connection to APNs").
final class CredentialSession: Sendable, Equatable {
    /// 1 for the client's first session, 2 for the next.
    let number: Int
    let resolved: ResolvedAuthentication
    let settings: ConnectionSettings
    let tokens: ProviderTokenCache
    let supervisor = ChildRef<Supervisor>()
    let resizer = PoolResizer()
    /// Opens when this becomes the client's active credential, or when the session stops. Until then the session has
    /// one connection.
    let adopted: Latch
    /// Opens when the session's tree must end. Also ends the pause before another tree starts.
    let stopping = Latch()
    /// Opens when the session's tree has ended.
    let ended = Latch()
    /// What became of the session as a candidate.
    let end = OneShot<CandidateEnd>()
    /// The end of the pause after an internal fault of its tree; nil: it is not paused.
    let pausedUntil = Mutex<MonotonicInstant?>(nil)
    let version: SendRouteVersion
    private let retired = Atomic<Bool>(false)

    let currentPool: CurrentPool
    /// The endpoint that manages broadcast channels.
    let management: ManagementEndpoint

    init(
        number: Int,
        resolved: ResolvedAuthentication,
        settings: ConnectionSettings,
        adopted: Latch,
        tokens: ProviderTokenCache,
        currentPool: CurrentPool,
        management: ManagementEndpoint,
        version: SendRouteVersion
    ) {
        self.number = number
        self.resolved = resolved
        self.settings = settings
        self.adopted = adopted
        self.tokens = tokens
        self.currentPool = currentPool
        self.management = management
        self.version = version
    }

    static func == (one: CredentialSession, other: CredentialSession) -> Bool { one === other }

    var pool: Pool<ConnectionActor> { self.currentPool.current }

    /// Whether no new route uses the session. Pushes that wait in its pool then try its successor (`SendRoute.end`).
    var isRetired: Bool { self.retired.load(ordering: .sequentiallyConsistent) }

    func retire() {
        self.retired.store(true, ordering: .sequentiallyConsistent)
        self.version.advance()
    }

    /// Whether no further tree may start. Code that starts a tree checks this after it has set `supervisor`.
    var isStopped: Bool { self.stopping.isOpen }

    /// Ends the waits in its pools when no tree runs them.
    func failWaiters() async {
        for pool in [self.pool, self.management.pool] {
            await pool.drain()
            await pool.failWaiters()
        }
    }

    /// Ends the session's tree, including streams in flight, and prevents another one from starting.
    func stop() {
        // First: code that starts a tree now either sees that this is open or has already set the supervisor.
        self.stopping.open()
        self.adopted.open()
        self.supervisor.current?.shutdown()
    }
}

import SupervisedPool
import Synchronization

/// What belongs to one credential alone: its provider token, its pool, its connections. No connection ever carries
/// another one's token, for APNs binds a connection to the team and key that it saw first.
final class CredentialSession: Sendable {
    let number: CredentialRotation.Number
    let resolved: ResolvedAuthentication
    let settings: ConnectionSettings
    let tokens: ProviderTokenCache
    let tokenActor = ChildRef<TokenActor>()
    let supervisor = ChildRef<Supervisor>()
    let workers = PoolResizer()
    /// Opens when it is the client's credential. Until then it has one connection.
    let adopted = Latch()
    /// Opens when its tree is to end, however it is at the moment.
    let stopping = Latch()
    /// Opens when its tree is gone.
    let ended = Latch()
    /// What happens while it is on trial; nobody reads it otherwise.
    let trial = TrialEvents()
    private let retired = Atomic<Bool>(false)
    private let stopped = Atomic<Bool>(false)

    let pools: CurrentPool
    /// Where channels are managed.
    let management: ManagementEndpoint

    init(
        number: CredentialRotation.Number,
        resolved: ResolvedAuthentication,
        settings: ConnectionSettings,
        tokens: ProviderTokenCache,
        pools: CurrentPool,
        management: ManagementEndpoint
    ) {
        self.number = number
        self.resolved = resolved
        self.settings = settings
        self.tokens = tokens
        self.pools = pools
        self.management = management
    }

    var pool: Pool<ConnectionActor> { self.pools.current }

    /// No new route uses it; what could not begin goes with its successor.
    var isRetired: Bool { self.retired.load(ordering: .sequentiallyConsistent) }

    func retire() { self.retired.store(true, ordering: .sequentiallyConsistent) }

    /// Whether no tree may be started any more. Asked after `supervisor` is set.
    var isStopped: Bool { self.stopped.load(ordering: .sequentiallyConsistent) }

    /// Ends the waits in its pools, which nobody runs (any more).
    func failWaiters() async {
        for pool in [self.pool, self.management.pool] {
            await pool.drain()
            await pool.failWaiters()
        }
    }

    /// Ends its tree, with what is in flight, and starts no other one.
    func stop() {
        // The flag comes first: whoever starts a tree at this moment sees it, or has set the supervisor before.
        self.stopped.store(true, ordering: .sequentiallyConsistent)
        self.stopping.open()
        self.adopted.open()
        self.supervisor.current?.shutdown()
    }
}

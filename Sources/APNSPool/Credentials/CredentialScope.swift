import HTTP2Wire
import Logging
import SupervisedPool
import Synchronization

/// What belongs to one credential alone: its provider token, its pool, its connections. No connection ever carries
/// another one's token, for APNs binds a connection to the team and key that it saw first.
final class CredentialScope: Sendable {
    let number: CredentialSwitch.Number
    let resolved: ResolvedAuthentication
    let settings: ConnectionSettings
    let tokens: ProviderTokenCache
    let tokenActor = ChildRef<TokenActor>()
    let supervisor = ChildRef<Supervisor>()
    let workers = WorkerCount()
    /// Opens when it is the client's credential. Until then it has one connection.
    let adopted = Gate()
    /// Opens when its tree is gone.
    let ended = Gate()
    /// What happens while it is on trial; nobody reads it otherwise.
    let trial: TrialEvents
    private let retired = Atomic<Bool>(false)
    private let stopped = Atomic<Bool>(false)

    let pools: PoolHolder
    /// Where channels are managed.
    let management: ManagementEndpoint

    init(
        number: CredentialSwitch.Number,
        resolved: ResolvedAuthentication,
        settings: ConnectionSettings,
        tokens: ProviderTokenCache,
        trial: TrialEvents,
        pools: PoolHolder,
        management: ManagementEndpoint
    ) {
        self.number = number
        self.resolved = resolved
        self.settings = settings
        self.tokens = tokens
        self.trial = trial
        self.pools = pools
        self.management = management
    }

    var pool: Pool<ConnectionActor> { self.pools.current }

    /// Nothing begins with it any more; what could not begin goes with its successor.
    var isRetired: Bool { self.retired.load(ordering: .sequentiallyConsistent) }

    func retire() { self.retired.store(true, ordering: .sequentiallyConsistent) }

    /// Whether no tree may be started any more. Asked after `supervisor` is set.
    var isStopped: Bool { self.stopped.load(ordering: .sequentiallyConsistent) }

    /// Ends its tree, with what is in flight, and starts no other one.
    func stop() {
        // The flag comes first: whoever starts a tree at this moment sees it, or has set the supervisor before.
        self.stopped.store(true, ordering: .sequentiallyConsistent)
        self.adopted.open()
        self.supervisor.current?.shutdown()
    }
}

/// What those who wait for a trial's verdict are told.
struct TrialEvents: Sendable {
    enum Event: Sendable, Equatable {
        /// A push went with it and gave no verdict.
        case inconclusive
        case accepted
        case refused(String)
        /// Another trial has begun, or the authentication was revoked.
        case superseded
    }

    let stream: AsyncStream<Event>
    private let continuation: AsyncStream<Event>.Continuation

    init() {
        (self.stream, self.continuation) = AsyncStream.makeStream(bufferingPolicy: .unbounded)
    }

    func tell(_ event: Event) { self.continuation.yield(event) }
}

/// What one push is sent with.
struct PushCredential: Sendable {
    let scope: CredentialScope
    var token: ProviderToken?
    /// Not nil: this push tries a new credential.
    let claim: TrialClaim?

    /// How long it waits for a slot of a credential on trial: one was free a moment ago.
    private static let trialWait = Duration.seconds(1)

    var isTrial: Bool { self.claim != nil }

    func isIdentical(to other: PushCredential) -> Bool {
        self.scope === other.scope && self.token === other.token && self.claim === other.claim
    }

    var authorization: HeaderBlock? { self.token?.authorization }

    /// How many pushes may be sent with it at once: one while it is doubtful.
    func limit(_ count: Int) -> Int {
        self.isTrial || self.scope.settings.credentials.hasFault ? min(count, 1) : count
    }

    func slotDeadline(_ deadline: MonotonicInstant, now: MonotonicInstant) -> MonotonicInstant {
        self.isTrial ? min(deadline, now.advanced(by: Self.trialWait)) : deadline
    }

    /// Takes the token that is current. False: one has to be signed first.
    mutating func renew(now: MonotonicInstant) -> Bool {
        guard self.scope.resolved.signer != nil else { return true }
        guard let token = self.scope.tokens.current(now: now) else { return false }
        self.token = token
        return true
    }

    /// The same after a wait for a slot; nil: its token ran out meanwhile.
    func renewed(now: MonotonicInstant) -> PushCredential? {
        var copy = self
        return copy.renew(now: now) ? copy : nil
    }

    /// Reads why its pool gave no slot. What waited with a credential that is used no more goes with the next one.
    func end(_ error: PoolError) -> AttemptEnd {
        guard self.isTrial || self.scope.isRetired, error.code != .cancelled else { return AttemptEnd(error) }
        return self.again
    }

    /// Try again with whatever credential is current then.
    var again: AttemptEnd {
        .notSent(.connectionLost, "the credential was replaced before it was sent", isFinal: false)
    }
}

/// The right of one push to try a new credential. It ends with the last reference, whatever becomes of the push.
final class TrialClaim: Sendable {
    private let scope: CredentialScope
    private let keeper: CredentialKeeper

    init(_ scope: CredentialScope, _ keeper: CredentialKeeper) {
        self.scope = scope
        self.keeper = keeper
    }

    deinit { self.keeper.claimEnded(self.scope) }
}

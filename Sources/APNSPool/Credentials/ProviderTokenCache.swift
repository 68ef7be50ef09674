import APNSModel
import HTTP2Wire
import SupervisedPool
import Synchronization

/// One signed provider token, with what every request that carries it needs made once.
final class ProviderToken: Sendable, CustomStringConvertible {
    /// The token in its compact form. A secret: never logged.
    let jwt: String
    /// 1 for the first token of its cache, 2 for the next.
    let generation: Int
    /// The token's `iat`, in seconds since 1970.
    let issuedAt: Int64
    /// The `authorization` field, never to enter an HPACK table.
    let authorization: HeaderBlock

    init(jwt: String, generation: Int, issuedAt: Int64) {
        self.jwt = jwt
        self.generation = generation
        self.issuedAt = issuedAt
        self.authorization = HeaderBlock([.init("authorization", "bearer " + jwt, .never)])
    }

    var description: String { "provider token \(self.generation), issued at \(self.issuedAt)" }
}

/// Where the provider token of one key lives, with all that is known about it. It outlives the ``TokenActor``, so that a
/// restarted one presents the same token: a new token at each restart is what APNs answers with 429.
///
/// Shared by all connections of the key; every method takes one lock for a moment.
final class ProviderTokenCache: Sendable {
    private struct State {
        var machine: TokenStateMachine
        var token: ProviderToken?
        /// The token before, which the machine may make the current one again.
        var fallback: ProviderToken?
        /// Until this instant the token may be handed out without asking the machine.
        var unaskedUntil = State.never
        var lastFailure: TokenError?

        /// Before every instant, also those that others read from the clock just before and bring here just after.
        static let never = MonotonicInstant(nanoseconds: .min)

        /// The token after the machine allowed it.
        mutating func handOut(now: MonotonicInstant) -> ProviderToken? {
            self.unaskedUntil = self.machine.unaskedUntil(now: now)
            return self.token
        }
    }

    private let state: Mutex<State>
    private let version: SendRouteVersion

    /// - Parameter version: advanced when routes with the token before are outdated.
    init(policy: TokenPolicy = .standard, version: SendRouteVersion = SendRouteVersion()) {
        self.state = Mutex(State(machine: TokenStateMachine(policy: policy)))
        self.version = version
    }

    /// The current token if it may be used without asking anybody, and until when: for up to 30 s at a time.
    ///
    /// - Returns: `nil` when ``TokenActor/token()`` has to be asked.
    func current(now: MonotonicInstant) -> (token: ProviderToken, until: MonotonicInstant)? {
        self.state.withLock { state in
            guard now < state.unaskedUntil, let token = state.token else { return nil }
            return (token, state.unaskedUntil)
        }
    }

    enum Step: Sendable {
        case use(ProviderToken)
        case sign(TokenStateMachine.Order)
        /// There is no token, and no call of the signer before the instant.
        case unavailable(TokenError, until: MonotonicInstant)
    }

    /// A request needs a token.
    func next(now: MonotonicInstant, wallNow: Int64) -> Step {
        self.state.withLock { state in
            switch state.machine.use(now: now, wallNow: wallNow) {
            case .useCurrent:
                if let token = state.handOut(now: now) { return .use(token) }
                // Not reached: the machine knows a token only once it is here.
                return .sign(TokenStateMachine.Order(generation: 1, issuedAt: wallNow, orderedAt: now))
            case .sign(let order):
                state.unaskedUntil = State.never
                return .sign(order)
            case .unavailable(let until):
                state.unaskedUntil = State.never
                return .unavailable(state.lastFailure ?? .tooSlow, until: until)
            }
        }
    }

    /// A signature was made.
    ///
    /// - Parameters:
    ///   - isUsed: Whether somebody waits for the token and will use it now.
    ///   - isShared: Whether other processes have it, too.
    /// - Returns: The current token: this one, unless another one came first.
    func install(
        _ jwt: String,
        for order: TokenStateMachine.Order,
        now: MonotonicInstant,
        isUsed: Bool,
        isShared: Bool = false
    ) -> ProviderToken {
        let token = ProviderToken(jwt: jwt, generation: order.generation, issuedAt: order.issuedAt)
        defer { self.version.advance() }
        return self.state.withLock { state in
            if state.machine.signed(order, now: now, isUsed: isUsed, isShared: isShared) {
                state.fallback = state.token
                state.token = token
                state.lastFailure = nil
            }
            return state.handOut(now: now) ?? token
        }
    }

    /// What follows from a failed signature.
    enum Failure: Sendable {
        /// The old token still serves.
        case serves(ProviderToken)
        /// There is no token. If nobody asks for one, the next try is due at this instant.
        case noToken(nextTry: MonotonicInstant)
    }

    /// A signature could not be made.
    ///
    /// - Parameter isSilent: Whether the signer did not answer in time.
    func signingFailed(_ error: TokenError, isSilent: Bool, now: MonotonicInstant, wallNow: Int64) -> Failure {
        self.state.withLock { state in
            state.lastFailure = error
            switch state.machine.signingFailed(isSilent: isSilent, now: now, wallNow: wallNow) {
            case .useCurrent:
                // The machine knows a token only once it is here.
                return state.handOut(now: now).map(Failure.serves) ?? .noToken(nextTry: now)
            case .fail(let nextTry):
                state.unaskedUntil = State.never
                return .noToken(nextTry: nextTry)
            }
        }
    }

    /// Nobody is there to sign.
    ///
    /// - Returns: The current token if it still serves.
    func signerIsGone(now: MonotonicInstant, wallNow: Int64) -> ProviderToken? {
        self.state.withLock { $0.machine.signerIsGone(now: now, wallNow: wallNow) ? $0.token : nil }
    }

    /// APNs rejected a request that carried the token of this generation.
    ///
    /// - Parameters:
    ///   - reason: of the rejection.
    ///   - serverTime: the `date` of the response, in seconds since 1970, if there is one.
    func rejected(
        _ reason: RejectionReason?,
        generation: Int,
        serverTime: Int64? = nil,
        now: MonotonicInstant,
        wallNow: Int64
    ) -> TokenStateMachine.Verdict {
        self.state.withLock { state in
            let verdict = state.machine.rejected(
                reason,
                generation: generation,
                serverTime: serverTime,
                now: now,
                wallNow: wallNow
            )
            let wasUsable = state.unaskedUntil != State.never
            switch verdict {
            case .replaced(isRestored: true):
                state.unaskedUntil = State.never
                if let fallback = state.fallback {
                    state.token = fallback
                    state.fallback = nil
                }
            case .replaced(isRestored: false), .expired(.refresh):
                state.unaskedUntil = State.never
            case .unrelated, .expired, .clockSuspect, .tooManyUpdates:
                break
            }
            // Inside the lock: whoever else learns of the refusal must not find the route before it is outdated.
            if wasUsable, state.unaskedUntil == State.never { self.version.advance() }
            return verdict
        }
    }

    /// Another authentication with the same key: its refresh interval counts from now on.
    func setPolicy(_ policy: TokenPolicy) {
        defer { self.version.advance() }
        self.state.withLock { state in
            state.machine.policy = policy
            state.unaskedUntil = State.never
        }
    }

    /// The time until the signer is called again although nobody asks for a token; nil unless a signature has failed.
    func nextTry(now: MonotonicInstant) -> Duration? {
        self.state.withLock { $0.machine.retryAt.map { max(now.duration(to: $0), .zero) } }
    }

    /// What is to be known before a new token is made.
    struct Current: Sendable {
        /// The token in use, whether it still serves or not.
        var jwt: String?
        /// Whether it serves while another one is being made.
        var isUsable: Bool
        /// Whether APNs has called it expired.
        var isRefused: Bool
        var refreshInterval: Duration
    }

    func inspect(now: MonotonicInstant, wallNow: Int64) -> Current {
        self.state.withLock { state in
            Current(
                jwt: state.token?.jwt,
                isUsable: state.machine.isUsable(now: now, wallNow: wallNow),
                isRefused: state.machine.isRefused,
                refreshInterval: state.machine.policy.refreshInterval
            )
        }
    }

    /// What there is to see, for the client's status and its log.
    struct Status: Sendable, Hashable {
        /// The current token's generation; `nil` before the first signature.
        var generation: Int?
        /// The time since its signature.
        var age: Duration?
        /// Set while APNs has complained of too many tokens.
        var heldBackUntil: MonotonicInstant?
        /// Whether APNs called a token expired that was just signed.
        var isClockSuspect: Bool
        /// Why the last signature failed; `nil` once one was made.
        var lastFailure: TokenError?
    }

    /// What the last failed signature means for pushes.
    enum Trouble: Sendable, Hashable {
        /// The old token serves for now.
        case notRenewed(TokenError)
        case noToken(TokenError)
    }

    /// Nil while all is well.
    func trouble(now: MonotonicInstant, wallNow: Int64) -> Trouble? {
        self.state.withLock { state in
            guard let failure = state.lastFailure else { return nil }
            return state.machine.isUsable(now: now, wallNow: wallNow) ? .notRenewed(failure) : .noToken(failure)
        }
    }

    func status(now: MonotonicInstant) -> Status {
        self.state.withLock { state in
            Status(
                generation: state.token?.generation,
                age: state.machine.age(now: now),
                heldBackUntil: state.machine.heldBackUntil(now: now),
                isClockSuspect: state.machine.isClockSuspect,
                lastFailure: state.lastFailure
            )
        }
    }
}

import APNSModel
import HTTP2Wire
import SupervisedPool
import Synchronization

/// One signed provider token, with the values that every request needs prepared in advance.
final class ProviderToken: Sendable, CustomStringConvertible {
    /// The token in compact form. A secret: never logged.
    let jwt: String
    /// 1 for the first token of its cache, 2 for the next.
    let generation: Int
    /// The token's `iat`, in seconds since 1970.
    let issuedAt: Int64
    /// The `authorization` field. It never enters an HPACK table.
    let authorization: HeaderBlock

    init(jwt: String, generation: Int, issuedAt: Int64) {
        self.jwt = jwt
        self.generation = generation
        self.issuedAt = issuedAt
        self.authorization = HeaderBlock([.init("authorization", "bearer " + jwt, .never)])
    }

    var description: String { "provider token \(self.generation), issued at \(self.issuedAt)" }
}

/// The provider token of one key and its state. It outlives the ``TokenActor``, so that a restarted actor presents the
/// current token: APNs responds with 429 to a new token at each restart.
///
/// Shared by all connections of the key. Every method takes one lock briefly.
final class ProviderTokenCache: Sendable {
    private struct State {
        var machine: TokenStateMachine
        var token: ProviderToken?
        /// The previous token, which the machine may restore.
        var fallback: ProviderToken?
        /// Until this instant the token may be used without consulting the machine.
        var uncheckedUntil = State.never
        var lastFailure: TokenError?

        /// Earlier than any instant. The time of the change is not early enough: a caller's `now` may be older.
        static let never = MonotonicInstant(nanoseconds: .min)

        /// Hands out the token after the machine allowed it.
        mutating func handOut(now: MonotonicInstant) -> ProviderToken? {
            self.uncheckedUntil = self.machine.uncheckedUntil(now: now)
            return self.token
        }
    }

    private let state: Mutex<State>
    private let version: SendRouteVersion
    private let renewals: (team: TeamRenewals, key: TokenIdentifiers)?

    /// - Parameters:
    ///   - version: Advanced when routes with the previous token become outdated.
    ///   - renewals: Where new tokens of this key are recorded; nil: nowhere.
    init(
        policy: TokenPolicy = .standard,
        version: SendRouteVersion = SendRouteVersion(),
        renewals: (team: TeamRenewals, key: TokenIdentifiers)? = nil
    ) {
        self.state = Mutex(State(machine: TokenStateMachine(policy: policy)))
        self.version = version
        self.renewals = renewals
    }

    /// The current token if it may be used without further checks, and the end of that period: at most 30 s.
    ///
    /// - Returns: `nil` if you must call ``TokenActor/token()``.
    func current(now: MonotonicInstant) -> (token: ProviderToken, until: MonotonicInstant)? {
        self.state.withLock { state in
            guard now < state.uncheckedUntil, let token = state.token else { return nil }
            return (token, state.uncheckedUntil)
        }
    }

    enum Step: Sendable {
        case use(ProviderToken)
        case sign(TokenStateMachine.Order)
        /// There is no token, and the signer is not called before this instant.
        case unavailable(TokenError, until: MonotonicInstant)
    }

    /// Decides how a request gets its token.
    func next(now: MonotonicInstant, wallNow: Int64) -> Step {
        let waitsUntil = self.renewals.flatMap { $0.team.waitsUntil($0.key) }
        return self.state.withLock { state in
            state.machine.waitsUntil = waitsUntil
            switch state.machine.use(now: now, wallNow: wallNow) {
            case .useCurrent:
                if let token = state.handOut(now: now) { return .use(token) }
                // Unreachable: the machine knows a token only once it is stored here.
                return .sign(TokenStateMachine.Order(generation: 1, issuedAt: wallNow, orderedAt: now))
            case .sign(let order):
                state.uncheckedUntil = State.never
                return .sign(order)
            case .unavailable(let until):
                state.uncheckedUntil = State.never
                return .unavailable(state.lastFailure ?? .tooSlow, until: until)
            }
        }
    }

    /// Stores a new signature.
    ///
    /// - Parameters:
    ///   - isUsed: Whether a waiting request will use the token now.
    ///   - isShared: Whether other clients or processes may have the token too.
    /// - Returns: The current token: this one, unless another one was installed first.
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
                state.machine.renewAt = self.renewals.flatMap { renewals in
                    renewals.team.signed(
                        renewals.key,
                        at: order.orderedAt,
                        interval: state.machine.policy.refreshInterval
                    )
                }
                state.fallback = state.token
                state.token = token
                state.lastFailure = nil
            }
            return state.handOut(now: now) ?? token
        }
    }

    /// Whether there has been no token yet, and no failure to get one.
    var isWaitingForFirst: Bool {
        self.state.withLock { $0.token == nil && $0.lastFailure == nil }
    }

    /// The consequence of a failed signature.
    enum Failure: Sendable {
        /// The old token is still usable.
        case serves(ProviderToken)
        /// There is no token. If no request needs one earlier, the next call of the signer is due at this instant.
        case noToken(nextTry: MonotonicInstant)
    }

    /// Records a failed signature.
    ///
    /// - Parameter isSilent: Whether the signer did not return in time.
    func signingFailed(_ error: TokenError, isSilent: Bool, now: MonotonicInstant, wallNow: Int64) -> Failure {
        self.state.withLock { state in
            state.lastFailure = error
            switch state.machine.signingFailed(isSilent: isSilent, now: now, wallNow: wallNow) {
            case .useCurrent:
                // The machine knows a token only once it is stored here.
                return state.handOut(now: now).map(Failure.serves) ?? .noToken(nextTry: now)
            case .fail(let nextTry):
                state.uncheckedUntil = State.never
                return .noToken(nextTry: nextTry)
            }
        }
    }

    /// Call this when no signature can be made: there is no signer, or its call is late.
    ///
    /// - Returns: The current token if it is still usable.
    func useWithoutSigning(now: MonotonicInstant, wallNow: Int64) -> ProviderToken? {
        self.state.withLock { $0.machine.useWithoutSigning(now: now, wallNow: wallNow) ? $0.token : nil }
    }

    /// APNs rejected a request that carried the token of this generation.
    ///
    /// - Parameters:
    ///   - reason: The reason of the rejection.
    ///   - serverTime: The `date` of the response, in seconds since 1970, if present.
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
            let wasUsable = state.uncheckedUntil != State.never
            switch verdict {
            case .replaced(isRestored: true):
                state.uncheckedUntil = State.never
                if let fallback = state.fallback {
                    state.token = fallback
                    state.fallback = nil
                }
            case .replaced(isRestored: false), .expired(.refresh):
                state.uncheckedUntil = State.never
            case .unrelated, .expired, .clockSuspect, .tooManyUpdates:
                break
            }
            // Inside the lock: no other caller that learns of the refusal may find a route with the refused token.
            if wasUsable, state.uncheckedUntil == State.never { self.version.advance() }
            return verdict
        }
    }

    /// Applies the refresh interval of another authentication with this key from now on.
    func setPolicy(_ policy: TokenPolicy) {
        defer { self.version.advance() }
        self.state.withLock { state in
            state.machine.policy = policy
            state.uncheckedUntil = State.never
        }
    }

    /// The time until `retryAt`: no refresh that can wait is made earlier. If there is no usable token by then, the
    /// signer is called even without a request. Nil unless a signature has failed or the previous token was restored.
    func nextTry(now: MonotonicInstant) -> Duration? {
        self.state.withLock { $0.machine.retryAt.map { max(now.duration(to: $0), .zero) } }
    }

    /// The state that the maker of a new token needs.
    struct Current: Sendable {
        /// The current token, whether it is still usable or not.
        var jwt: String?
        /// Whether it is usable while another one is being made.
        var isUsable: Bool
        /// Whether APNs has refused it: as expired, or because its `iat` was in the future.
        var isRefused: Bool
        var refreshInterval: Duration
    }

    func inspect(now: MonotonicInstant, wallNow: Int64) -> Current {
        self.state.withLock { state in
            Current(
                jwt: state.token?.jwt,
                isUsable: state.machine.isUsable(now: now, wallNow: wallNow),
                isRefused: state.machine.isRefused,
                refreshInterval: state.machine.refreshInterval
            )
        }
    }

    /// The token's state for the client's status and log.
    struct Status: Sendable, Hashable {
        /// The current token's generation; `nil` before the first signature.
        var generation: Int?
        /// The time since its signature.
        var age: Duration?
        /// Set while signing is held back because APNs reported too many token updates.
        var heldBackUntil: MonotonicInstant?
        /// Whether APNs refused a newly signed token because of its `iat`, so that this machine's clock must be wrong.
        var isClockSuspect: Bool
        /// The reason why the last signature failed; `nil` after a successful one.
        var lastFailure: TokenError?
    }

    /// The effect of the last failed signature on pushes.
    enum SigningFailure: Sendable, Hashable {
        /// The old token is usable for now.
        case notRenewed(TokenError)
        case noToken(TokenError)
    }

    /// The last failed signature and whether the old token is still usable; nil if signing works.
    func signingFailure(now: MonotonicInstant, wallNow: Int64) -> SigningFailure? {
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

import APNSModel
import HTTP2Wire
import SupervisedPool
import Synchronization

/// One signed provider token, with the values that every request needs prepared in advance.
final class ProviderToken: Sendable, Hashable, CustomStringConvertible {
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

    static func == (one: ProviderToken, other: ProviderToken) -> Bool { one === other }

    func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }

    var description: String { "provider token \(self.generation), issued at \(self.issuedAt)" }
}

/// The provider token of one key and its state. It outlives the ``TokenActor``, so that a restarted actor presents the
/// current token: APNs responds with 429 to a new token at each restart.
///
/// Shared by all connections of the key. Requests ask for a token here, and wait for changes; a ``TokenActor`` makes the
/// calls of the signer that its `TokenStateMachine` decides on.
final class ProviderTokenCache: Sendable {
    typealias Decision = TokenStateMachine.Decision

    private struct State {
        var machine: TokenStateMachine
        var work = Latch()
        /// The token that the machine allowed last, and until when it may be used without asking the machine again.
        var allowed: ProviderToken?
        var allowedUntil = MonotonicInstant(nanoseconds: .min)
    }

    private let state: Mutex<State>
    private let clock: any MonotonicClock
    private let wallClock: @Sendable () -> Int64
    private let version: SendRouteVersion
    private let renewals: (team: TeamRenewals, key: TokenIdentifiers)?

    /// - Parameters:
    ///   - refreshInterval: How long a token is used, from its first use.
    ///   - clock: Measures the tokens' age and how long a call takes.
    ///   - wallClock: Seconds since 1970, for `iat`.
    ///   - version: Advanced when routes with the previous token become outdated, and when a call has ended.
    ///   - renewals: Where new tokens of this key are recorded; nil: nowhere.
    init(
        refreshInterval: Duration = TokenPolicy.refreshInterval,
        clock: any MonotonicClock,
        wallClock: @escaping @Sendable () -> Int64,
        version: SendRouteVersion = SendRouteVersion(),
        renewals: (team: TeamRenewals, key: TokenIdentifiers)? = nil
    ) {
        self.state = Mutex(State(machine: TokenStateMachine(refreshInterval: refreshInterval)))
        self.clock = clock
        self.wallClock = wallClock
        self.version = version
        self.renewals = renewals
    }

    // MARK: For requests

    /// The token of a request that is about to be sent, and until when it may be used without further checks: at most
    /// 30 s.
    ///
    /// - Returns: `nil` if it must be signed first: wait for it with `token(until:while:)`.
    func current(now: MonotonicInstant) -> (token: ProviderToken, until: MonotonicInstant)? {
        let allowed = self.state.withLock { state -> (token: ProviderToken, until: MonotonicInstant)? in
            guard now < state.allowedUntil, let token = state.allowed else { return nil }
            return (token, state.allowedUntil)
        }
        if let allowed { return allowed }
        var request = TokenStateMachine.Request()
        guard case .use(let token, let until) = self.ask(&request, now: now) else { return nil }
        return (token, until)
    }

    /// Returns a token for a request that is about to be sent. Waits only while a token is being signed, and at most
    /// `TokenPolicy.longestWait` for one call.
    ///
    /// - Parameters:
    ///   - deadline: When the wait ends at the latest.
    ///   - isWanted: Asked after each change of the client; false ends the wait.
    /// - Returns: `wait` if the wait has ended without a result: by the deadline, by `isWanted` or by a cancellation.
    func token(until deadline: MonotonicInstant, while isWanted: () -> Bool) async -> Decision {
        var request = TokenStateMachine.Request()
        while true {
            let change = self.version.nextChange
            let now = self.clock.now
            let decision = self.ask(&request, now: now)
            guard case .wait(let until) = decision, now < deadline, isWanted(), !Task.isCancelled else {
                return decision
            }
            _ = await change.wait(until: min(deadline, until), clock: self.clock)
        }
    }

    private func ask(_ request: inout TokenStateMachine.Request, now: MonotonicInstant) -> Decision {
        let wallNow = self.wallClock()
        let waitsUntil = self.renewals.flatMap { $0.team.waitsUntil($0.key) }
        let (decision, work) = self.state.withLock { state in
            state.machine.waitsUntil = waitsUntil
            let wasWanted = state.machine.isWanted
            let decision = state.machine.use(&request, now: now, wallNow: wallNow)
            if case .use(let token, let until) = decision {
                (state.allowed, state.allowedUntil) = (token, until)
            } else {
                state.allowed = nil
            }
            return (decision, state.machine.isWanted && !wasWanted ? state.work : nil)
        }
        work?.open()
        return decision
    }

    /// APNs rejected a request that carried the token of this generation.
    ///
    /// - Parameters:
    ///   - reason: The reason of the rejection.
    ///   - serverTime: The `date` of the response, in seconds since 1970, if present.
    func rejected(
        _ reason: RejectionReason?,
        generation: Int,
        serverTime: Int64? = nil
    ) -> TokenStateMachine.Verdict {
        let (now, wallNow) = (self.clock.now, self.wallClock())
        return self.state.withLock { state in
            let before = state.machine.current
            let verdict = state.machine.rejected(
                reason,
                generation: generation,
                serverTime: serverTime,
                now: now,
                wallNow: wallNow
            )
            // Inside the lock: no other caller that learns of the refusal may find a route with the refused token.
            if state.machine.current != before {
                state.allowed = nil
                self.version.advance()
            }
            return verdict
        }
    }

    // MARK: For the actor

    /// Opens when there may be a new step. Read it before you take a step.
    var work: Latch {
        self.state.withLock { state in
            if state.work.isOpen { state.work = Latch() }
            return state.work
        }
    }

    /// Lets the actors take another step.
    func wake() { self.state.withLock { $0.work }.open() }

    /// Decides whether a call is made or abandoned now.
    func step(patience: Duration) -> TokenStateMachine.Step {
        let (now, wallNow) = (self.clock.now, self.wallClock())
        let step = self.state.withLock { $0.machine.step(patience: patience, now: now, wallNow: wallNow) }
        if step.report != nil { self.version.advance() }
        return step
    }

    /// Records the result of a call.
    ///
    /// - Parameter isShared: Whether other clients or processes may have the token too.
    /// - Returns: Nil if the result has no effect.
    func completed(
        _ call: TokenStateMachine.Call,
        _ result: Result<SharedProviderToken, TokenError>,
        isShared: Bool
    ) -> SigningReport? {
        let now = self.clock.now
        let (report, work) = self.state.withLock { state in
            let report = state.machine.completed(call, result, isShared: isShared, now: now)
            state.allowed = nil
            if let report, report.failure == nil, let renewals, let signedAt = state.machine.signedAt {
                let interval = state.machine.refreshInterval
                state.machine.renewAt = renewals.team.signed(renewals.key, at: signedAt, interval: interval)
            }
            return (report, state.work)
        }
        self.version.advance()
        work.open()
        return report
    }

    /// The actor that made the call has ended.
    func abandon(_ call: TokenStateMachine.Call) {
        self.state.withLock { $0.machine.abandon(call) }
        self.version.advance()
    }

    /// Applies the refresh interval of another authentication with this key from now on.
    func setRefreshInterval(_ interval: Duration) {
        defer { self.version.advance() }
        self.state.withLock { state in
            state.machine.refreshInterval = interval
            state.allowed = nil
        }
    }

    // MARK: For health and status

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
        /// Whether the token is usable, whether or not it could be renewed.
        var isUsable: Bool
    }

    /// When a new token is possible again; nil unless APNs has reported too many updates.
    var heldBackUntil: MonotonicInstant? {
        let now = self.clock.now
        return self.state.withLock { $0.machine.heldBackUntil(now: now) }
    }

    var status: Status {
        let (now, wallNow) = (self.clock.now, self.wallClock())
        let machine = self.state.withLock { $0.machine }
        return Status(
            generation: machine.generation,
            age: machine.age(now: now),
            heldBackUntil: machine.heldBackUntil(now: now),
            isClockSuspect: machine.isClockSuspect,
            lastFailure: machine.lastFailure,
            isUsable: machine.isUsable(now: now, wallNow: wallNow)
        )
    }
}

import APNSModel
import APNSTransport
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
/// Shared by all connections of the key, in all clients of a group. Requests ask for a token here, and wait for changes;
/// a ``TokenActor`` makes the calls of the signer that its `TokenStateMachine` decides on.
final class ProviderTokenCache: Sendable {
    typealias Decision = TokenStateMachine.Decision

    /// A credential session that uses the token.
    final class User: Sendable {
        /// Advanced when routes with the previous token become outdated, and when a call has ended.
        let version: SendRouteVersion
        /// Receives the result of each call of the signer. Must return at once.
        let onReport: @Sendable (SigningReport) -> Void

        init(version: SendRouteVersion, onReport: @escaping @Sendable (SigningReport) -> Void = { _ in }) {
            self.version = version
            self.onReport = onReport
        }
    }

    private struct State {
        var machine: TokenStateMachine
        var work = Latch()
        var users: [User] = []

        func advanceVersions() { for user in self.users { user.version.advance() } }
    }

    private let state: Mutex<State>
    private let clock: any MonotonicClock
    private let wallClock: @Sendable () -> Int64

    /// - Parameters:
    ///   - refreshInterval: How long a token is used, from its first use.
    ///   - clock: Measures the tokens' age and how long a call takes.
    ///   - wallClock: Seconds since 1970, for `iat`.
    init(
        refreshInterval: Duration = TokenPolicy.refreshInterval,
        clock: any MonotonicClock,
        wallClock: @escaping @Sendable () -> Int64
    ) {
        self.state = Mutex(State(machine: TokenStateMachine(refreshInterval: refreshInterval)))
        self.clock = clock
        self.wallClock = wallClock
    }

    // MARK: Users

    /// Notifies `user` of changes from now on.
    func add(_ user: User) {
        self.state.withLock { $0.users.append(user) }
        // A change before this moment may have outdated its routes.
        user.version.advance()
    }

    func remove(_ user: User) {
        self.state.withLock { $0.users.removeAll { $0 === user } }
    }

    // MARK: For requests

    /// The token of a request that is about to be sent, and until when it may be used without further checks: at most
    /// 30 s.
    ///
    /// - Returns: `nil` if it must be signed first: wait for it with `token(until:version:while:)`.
    func current(now: MonotonicInstant) -> (token: ProviderToken, until: MonotonicInstant)? {
        guard case .use(let token, let until) = self.ask(now: now) else { return nil }
        return (token, until)
    }

    /// Returns a token for a request that is about to be sent. Waits only while a token is being signed, and at most
    /// `TokenPolicy.longestWait` for one call.
    ///
    /// - Parameters:
    ///   - deadline: When the wait ends at the latest.
    ///   - version: The version of a user of this cache.
    ///   - isWanted: Asked after each change of the client; false ends the wait.
    /// - Returns: `wait` if the wait has ended without a result: by the deadline, by `isWanted` or by a cancellation.
    func token(
        until deadline: MonotonicInstant,
        version: SendRouteVersion,
        while isWanted: () -> Bool
    ) async -> Decision {
        while true {
            let change = version.nextChange
            let now = self.clock.now
            let decision = self.ask(now: now)
            guard case .wait(let until) = decision, now < deadline, isWanted(), !Task.isCancelled else {
                return decision
            }
            _ = await change.wait(until: min(deadline, until), clock: self.clock)
        }
    }

    private func ask(now: MonotonicInstant) -> Decision {
        let wallNow = self.wallClock()
        let (decision, work) = self.state.withLock { state in
            let wasWanted = state.machine.isWanted
            let decision = state.machine.use(now: now, wallNow: wallNow)
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
            if state.machine.current != before { state.advanceVersions() }
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
    func step() -> TokenStateMachine.Step {
        let (now, wallNow) = (self.clock.now, self.wallClock())
        let (step, state) = self.state.withLock { state in
            (state.machine.step(now: now, wallNow: wallNow), state)
        }
        if let report = step.report { self.announce(report, to: state) }
        return step
    }

    private func announce(_ report: SigningReport?, to state: State) {
        state.advanceVersions()
        if let report { for user in state.users { user.onReport(report) } }
    }

    /// Records the result of a call.
    ///
    /// - Parameter isShared: Whether other processes may have the token too.
    func completed(
        _ call: TokenStateMachine.Call,
        _ result: Result<SharedProviderToken, TokenError>,
        isShared: Bool
    ) {
        let now = self.clock.now
        let (report, state) = self.state.withLock { state in
            (state.machine.completed(call, result, isShared: isShared, now: now), state)
        }
        self.announce(report, to: state)
        state.work.open()
    }

    /// The actor that made the call has ended. Another one may make the next call.
    func abandon(_ call: TokenStateMachine.Call) {
        let state = self.state.withLock { state in
            state.machine.abandon(call)
            return state
        }
        state.advanceVersions()
        state.work.open()
    }

    /// Applies the refresh interval of another authentication with this key from now on.
    func setRefreshInterval(_ interval: Duration) {
        self.state.withLock { state in
            state.machine.refreshInterval = interval
            state.advanceVersions()
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

    /// Whether APNs may still remember the last token, or signatures are held back.
    var isRemembered: Bool {
        let now = self.clock.now
        return self.state.withLock { state in
            state.machine.heldBackUntil(now: now) != nil
                || state.machine.age(now: now).map { $0 < TokenPolicy.memory } ?? false
        }
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

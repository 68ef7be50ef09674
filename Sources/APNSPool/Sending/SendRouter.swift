import SupervisedPool
import Synchronization

/// Makes the route of each attempt. Keeps the last signed route of pushes until something changes, for 30 s at most: a probe
/// and a route that has to be admitted are made anew each time, and so are those of broadcasts and channel calls.
final class SendRouter: Sendable {
    private let credentials: CredentialManager
    private let lifecycle: ClientLifecycle
    private let clock: any MonotonicClock
    private let version: SendRouteVersion
    private let cached = Mutex<SendRoute?>(nil)
    private let pausedUntil = Mutex<MonotonicInstant?>(nil)

    /// The first wait for a provider token whose actor is being started, doubling to `longestWait`.
    private static let firstWait = Duration.milliseconds(5)
    private static let longestWait = Duration.milliseconds(200)

    init(
        credentials: CredentialManager,
        lifecycle: ClientLifecycle,
        clock: any MonotonicClock,
        version: SendRouteVersion
    ) {
        self.credentials = credentials
        self.lifecycle = lifecycle
        self.clock = clock
        self.version = version
    }

    // MARK: Routes

    /// The route of a push's next attempt. Costs one lock while nothing has changed.
    ///
    /// - Returns: a route that may still have to be signed.
    /// - Throws: why nothing is sent now.
    func next(now: MonotonicInstant) throws(AttemptEnd) -> SendRoute {
        if let route = self.cached.withLock({ $0 }), route.version == self.version.current, now < route.validUntil {
            return route
        }
        return try self.make(.pushes, mayProbe: true, now: now)
    }

    /// The route of a request that is no push. It never probes a candidate credential.
    ///
    /// - Returns: a route that may still have to be signed.
    /// - Throws: why nothing is sent now.
    func next(to destination: SendRoute.Destination, now: MonotonicInstant) throws(AttemptEnd) -> SendRoute {
        try self.make(destination, mayProbe: false, now: now)
    }

    /// A route of pushes, signed.
    ///
    /// - Throws: why nothing is sent now.
    func signed(until deadline: MonotonicInstant) async throws(AttemptEnd) -> SendRoute {
        let route = try self.next(now: self.clock.now)
        return route.isUnsigned ? try await self.sign(route, until: deadline) : route
    }

    private func make(
        _ destination: SendRoute.Destination,
        mayProbe: Bool,
        now: MonotonicInstant
    ) throws(AttemptEnd) -> SendRoute {
        // Read first: a change that comes later makes the route outdated.
        let version = self.version.current
        if let end = self.interruption(now: now) { throw end }
        guard let (session, probe) = mayProbe ? self.credentials.route() : self.credentials.routeWithoutProbe() else {
            throw .credentialRevoked
        }
        var route = SendRoute(session, destination, probe: probe, version: version)
        if session.resolved.signer != nil {
            guard let (token, validUntil) = session.tokens.current(now: now) else { return route }
            route = route.with(token, validUntil: validUntil)
        }
        if let end = route.admit(now: now) { throw end }
        // While the credential is refused each attempt asks whether it may be the one that finds out.
        if mayProbe, !route.isProbe, !route.settings.credentials.hasFault {
            let route = route
            self.cached.withLock { $0 = route }
        }
        return route
    }

    /// Whether nothing has changed since the route was made.
    func isCurrent(_ route: SendRoute) -> Bool { route.version == self.version.current }

    /// The route with the token that is current now. Changes nothing but the token.
    ///
    /// - Returns: the same route unless its token has changed; nil if a token has to be signed first.
    func renewed(_ route: SendRoute, now: MonotonicInstant) -> SendRoute? {
        let version = self.version.current
        if route.session.resolved.signer == nil || now < route.validUntil && route.version == version { return route }
        guard let (token, validUntil) = route.session.tokens.current(now: now) else { return nil }
        return token === route.token ? route : route.with(token, validUntil: validUntil, version: version)
    }

    // MARK: Interruptions

    /// Whether the client rests after an internal fault.
    var isPaused: Bool { self.pausedUntil.withLock { $0 != nil } }

    /// The client rests after an internal fault; nil: it goes on.
    func pause(until instant: MonotonicInstant?) {
        self.pausedUntil.withLock { $0 = instant }
        self.version.advance()
    }

    /// Why nothing at all is sent now.
    func interruption(now: MonotonicInstant) -> AttemptEnd? {
        if self.lifecycle.current == .stopped {
            return .notSent(.shuttingDown, "the client was shut down", isFinal: true)
        }
        guard let until = self.pausedUntil.withLock({ $0 }) else { return nil }
        return .notSent(
            .unavailable,
            "the client restarts after an internal fault",
            retryAfter: now.duration(to: until),
            isFinal: true
        )
    }

    // MARK: Signing

    /// Has a provider token signed for the route, or waits until the actor that signs has started.
    ///
    /// - Throws: why the attempt goes no further. A candidate whose token is late or fails leaves the attempt to the active
    ///   credential.
    func sign(_ route: SendRoute, until deadline: MonotonicInstant) async throws(AttemptEnd) -> SendRoute {
        let deadline = route.waitDeadline(deadline, now: self.clock.now)
        var wait = Self.firstWait
        while true {
            if let actor = route.session.tokenActor.current {
                switch await self.token(of: actor, until: deadline) {
                case .success(let token):
                    // Not kept: the next push reads how long the token may be used.
                    let signed = route.with(token, validUntil: .init(nanoseconds: .min))
                    if let end = signed.admit(now: self.clock.now) { throw end }
                    return signed
                case .failure(let error) where error.code == .signingFailed:
                    if route.isProbe { throw .credentialReplaced }
                    let retryAfter = route.session.tokens.nextTry(now: self.clock.now)
                    throw .notSent(.credential, error.description, retryAfter: retryAfter, isFinal: true)
                case .failure, nil:
                    break
                }
            }
            // The token's actor is about to start or to be restarted.
            if Task.isCancelled { throw .notSent(.cancelled, "the sending task was cancelled", isFinal: true) }
            let now = self.clock.now
            if let end = self.interruption(now: now) { throw end }
            if route.session.isRetired { throw .credentialReplaced }
            guard now < deadline else {
                if route.isProbe { throw .credentialReplaced }
                throw .notSent(.deadlineExceeded, "no provider token was ready in time", isFinal: true)
            }
            try? await self.clock.sleep(until: min(now.advanced(by: wait), deadline))
            wait = min(wait * 2, Self.longestWait)
        }
    }

    /// - Returns: nil at the deadline.
    private func token(
        of actor: TokenActor,
        until deadline: MonotonicInstant
    ) async -> Result<ProviderToken, TokenError>? {
        await withTaskGroup(of: Result<ProviderToken, TokenError>?.self) { group in
            group.addTask { await actor.token() }
            group.addTask {
                try? await self.clock.sleep(until: deadline)
                return nil
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            return first
        }
    }
}

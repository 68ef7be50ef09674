import APNSModel
import APNSTransport
import SupervisedPool
import Synchronization

/// Creates the route of each attempt. Caches the last usable route for pushes until something changes. A route with a
/// provider token stays cached for at most 30 s. Never cached are routes made while the credential is refused or in
/// bad weather, routes of probes, broadcasts and channel calls, and routes that `sign` returns.
final class SendRouter: Sendable {
    private let credentials: CredentialManager
    private let lifecycle: ClientLifecycle
    private let clock: any MonotonicClock
    private let version: SendRouteVersion
    private struct Cache {
        var route: SendRoute?
        var blocks: HeaderBlocks
    }

    /// What a push needs from the client, under one lock.
    private let cache: Mutex<Cache>

    init(
        credentials: CredentialManager,
        lifecycle: ClientLifecycle,
        authority: String,
        clock: any MonotonicClock,
        version: SendRouteVersion
    ) {
        self.cache = Mutex(Cache(blocks: HeaderBlocks(authority: authority)))
        self.credentials = credentials
        self.lifecycle = lifecycle
        self.clock = clock
        self.version = version
    }

    // MARK: Routes

    /// Returns the route and the header block for a push's next attempt. Takes one lock while nothing has changed.
    ///
    /// - Returns: a route that may still need to be signed.
    /// - Throws: the reason why nothing is sent now.
    func next(
        for push: PreparedPush,
        now: MonotonicInstant
    ) throws(AttemptEnd) -> (route: SendRoute, block: HeaderBlock) {
        let (route, block) = self.cache.withLock { ($0.route, $0.blocks.block(for: push)) }
        if let route, self.isUsable(route, now: now) { return (route, block) }
        return (try self.makeForPush(now: now), block)
    }

    /// Returns the header block of a push.
    func block(for push: PreparedPush) -> HeaderBlock { self.cache.withLock { $0.blocks.block(for: push) } }

    /// Returns the next route for pushes.
    ///
    /// - Returns: a route that may still need to be signed.
    /// - Throws: the reason why nothing is sent now.
    func next(now: MonotonicInstant) throws(AttemptEnd) -> SendRoute {
        if let route = self.cache.withLock({ $0.route }), self.isUsable(route, now: now) { return route }
        return try self.makeForPush(now: now)
    }

    private func isUsable(_ route: SendRoute, now: MonotonicInstant) -> Bool {
        self.isCurrent(route.version) && now < route.validUntil
    }

    /// Returns a route for requests other than pushes.
    ///
    /// - Returns: a route that may still need to be signed.
    /// - Throws: the reason why nothing is sent now.
    func next(to destination: SendRoute.Destination, now: MonotonicInstant) throws(AttemptEnd) -> SendRoute {
        // Read first, so that a later change makes the route outdated.
        let version = self.version.current
        guard let session = self.credentials.current else { throw self.stopped ?? .credentialRevoked }
        return try self.route(by: session, to: destination, version: version, now: now)
    }

    /// Returns a signed route for pushes.
    ///
    /// - Throws: the reason why nothing is sent now.
    func signed(until deadline: MonotonicInstant) async throws(AttemptEnd) -> SendRoute {
        let route = try self.next(now: self.clock.now)
        return route.isUnsigned ? try await self.sign(route, until: deadline) : route
    }

    private func makeForPush(now: MonotonicInstant) throws(AttemptEnd) -> SendRoute {
        let route = try self.next(to: .pushes, now: now)
        // Not cached while the credential is refused or the weather is bad: each attempt must ask whether it may be tried.
        let settings = route.settings
        if !route.isUnsigned, !route.isAdmitted, settings.weather.isFair, !settings.credentialBreaker.hasFault {
            self.cache.withLock { $0.route = route }
        }
        return route
    }

    /// Returns a route by a session's credential, whether or not it is in use.
    ///
    /// - Parameter version: the version that was read before the session was chosen.
    /// - Returns: a route that may still need to be signed.
    /// - Throws: the reason why nothing is sent now.
    func route(
        by session: CredentialSession,
        to destination: SendRoute.Destination,
        version: Int,
        now: MonotonicInstant
    ) throws(AttemptEnd) -> SendRoute {
        if let end = self.stopped ?? self.pause(of: session, now: now) { throw end }
        var route = SendRoute(session, destination, version: version)
        if session.resolved.signer != nil {
            guard let (token, validUntil) = session.tokens.current(now: now) else { return route }
            route = route.with(token, validUntil: validUntil)
        }
        return try route.admitted(now: now)
    }

    /// The app of the last push; nil before the first one.
    var lastBundleID: String? { self.cache.withLock { $0.blocks.lastBundleID } }

    /// Whether nothing has changed since a route with this version was made.
    @inline(__always)
    func isCurrent(_ version: Int) -> Bool { version == self.version.current }

    @inline(__always)
    var currentVersion: Int { self.version.current }

    /// Waits until something changes that a route depends on, unless it has changed since `version`.
    func waitForChange(since version: Int, until instant: MonotonicInstant) async {
        let change = self.version.nextChange
        guard self.isCurrent(version) else { return }
        _ = await change.wait(until: instant, clock: self.clock)
    }

    /// Returns the route with the current provider token. The credential session and the pool stay the same.
    ///
    /// - Returns: the route itself if its token is unchanged; nil if a token must be signed first.
    func renewed(_ route: SendRoute, now: MonotonicInstant) -> SendRoute? {
        let version = self.version.current
        if route.credentialSession.resolved.signer == nil || now < route.validUntil && route.version == version {
            return route
        }
        guard let (token, validUntil) = route.credentialSession.tokens.current(now: now) else { return nil }
        return token === route.token ? route : route.with(token, validUntil: validUntil, version: version)
    }

    // MARK: Interruptions

    /// Whether the active credential is paused after an internal fault.
    var isPaused: Bool { self.credentials.latest.pausedUntil.withLock { $0 != nil } }

    /// Pauses a credential after an internal fault of its tree; nil: resumes it. Meanwhile another credential can be
    /// tried, and used.
    func pause(_ session: CredentialSession, until instant: MonotonicInstant?) {
        session.pausedUntil.withLock { $0 = instant }
        self.version.advance()
    }

    /// The end of an attempt if the client has stopped.
    private var stopped: AttemptEnd? {
        guard self.lifecycle.current == .stopped else { return nil }
        return .notSent(.shuttingDown, "the client was shut down", isFinal: true)
    }

    private func pause(of session: CredentialSession, now: MonotonicInstant) -> AttemptEnd? {
        guard let until = session.pausedUntil.withLock({ $0 }) else { return nil }
        return .notSent(
            .unavailable,
            "the client restarts after an internal fault",
            retryAfter: now.duration(to: until),
            isFinal: true
        )
    }

    // MARK: Signing

    /// Signs a provider token for the route.
    ///
    /// - Throws: the reason why the attempt ends.
    func sign(_ route: SendRoute, until deadline: MonotonicInstant) async throws(AttemptEnd) -> SendRoute {
        let session = route.credentialSession
        let decision = await session.tokens.token(until: deadline, version: self.version) {
            self.obstacle(session) == nil
        }
        switch decision {
        case .use(let token, let validUntil):
            return try route.with(token, validUntil: validUntil).admitted(now: self.clock.now)
        case .fail(let error, let nextTry):
            let retryAfter = nextTry.map { max(self.clock.now.duration(to: $0), .zero) }
            throw .notSent(.credential, error.description, retryAfter: retryAfter, isFinal: true)
        case .wait:
            if Task.isCancelled { throw .notSent(.cancelled, "the sending task was cancelled", isFinal: true) }
            if let end = self.obstacle(session) { throw end }
            throw .notSent(.deadlineExceeded, "no provider token was ready in time", isFinal: true)
        }
    }

    /// Why no push is sent with this credential now; nil if it may be.
    private func obstacle(_ session: CredentialSession) -> AttemptEnd? {
        if let end = self.stopped ?? self.pause(of: session, now: self.clock.now) { return end }
        return session.isRetired ? .credentialReplaced : nil
    }
}

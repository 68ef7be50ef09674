import APNSTransport
import SupervisedPool
import Synchronization

/// The route of an attempt: the pool, connections and provider token of one credential. Immutable; `SendRouter` makes a
/// new route when something changes.
final class SendRoute: Sendable {
    /// The hosts that a client connects to.
    enum Destination: Sendable {
        /// The host for pushes and broadcasts.
        case pushes
        /// The host for managing channels.
        case management
    }

    let credentialSession: CredentialSession
    let destination: Destination
    let pool: Pool<ConnectionActor>
    let token: ProviderToken?
    /// Before this instant, the route may be used without checking that its token is still valid.
    let validUntil: MonotonicInstant
    /// The version of the client's state from which the route was made.
    let version: Int
    /// Whether the attempt was admitted in bad weather or while the credential is refused. The route is then for this attempt
    /// alone.
    let isAdmitted: Bool

    init(_ session: CredentialSession, _ destination: Destination, version: Int) {
        self.isAdmitted = false
        self.credentialSession = session
        self.destination = destination
        self.pool = destination == .pushes ? session.pool : session.management.pool
        self.token = nil
        self.validUntil = .distantFuture
        self.version = version
    }

    /// Keeps the pool even if the session has a new one by now: a lease must be returned to the pool that it came from.
    private init(
        _ other: SendRoute,
        _ token: ProviderToken?,
        validUntil: MonotonicInstant,
        version: Int,
        isAdmitted: Bool
    ) {
        self.isAdmitted = isAdmitted
        self.credentialSession = other.credentialSession
        self.destination = other.destination
        self.pool = other.pool
        self.token = token
        self.validUntil = validUntil
        self.version = version
    }

    /// Returns this route with another provider token.
    ///
    /// - Parameter version: the version of the new route; nil: unchanged.
    func with(_ token: ProviderToken, validUntil: MonotonicInstant, version: Int? = nil) -> SendRoute {
        SendRoute(
            self,
            token,
            validUntil: validUntil,
            version: version ?? self.version,
            isAdmitted: self.isAdmitted
        )
    }

    var settings: ConnectionSettings {
        self.destination == .pushes ? self.credentialSession.settings : self.credentialSession.management.settings
    }

    /// Whether a provider token must be signed before the route can be used.
    var isUnsigned: Bool { self.token == nil && self.credentialSession.resolved.signer != nil }

    /// The `authorization` field; nil for a certificate.
    var authorization: HeaderBlock? { self.token?.authorization }

    /// Limits `count` to the pushes that may be sent at once: one while the credential is in doubt, and fewer while bad
    /// weather clears.
    ///
    /// - Parameter isLeased: whether the pushes have their streams. Only then do they count as sent while the weather clears.
    func limit(_ count: Int, isLeased: Bool = true) -> Int {
        guard count > 0 else { return 0 }
        if self.settings.credentialBreaker.hasFault { return 1 }
        return isLeased ? self.settings.weather.take(count) : count
    }

    /// How an attempt ends after its checkout failed. Pushes that waited for a credential that is no longer used are
    /// retried with the next one.
    func end(_ error: PoolError) -> AttemptEnd {
        switch error.code {
        case .cancelled, .timedOut: AttemptEnd(error)
        default: self.credentialSession.isRetired ? .credentialReplaced : AttemptEnd(error)
        }
    }

    /// Returns the route for one attempt that may proceed. While APNs refuses the credential, and in bad weather, one attempt
    /// may proceed from time to time, to test whether pushes are delivered again.
    ///
    /// - Throws: why nothing is sent now.
    func admitted(now: MonotonicInstant) throws(AttemptEnd) -> SendRoute {
        let isFair = self.settings.weather.isFair && !self.settings.credentialBreaker.hasFault
        if let end = self.admit(now: now) { throw end }
        return isFair ? self : self.forOneAttempt
    }

    /// Returns the route for an attempt that has waited for its stream: the weather may have turned bad meanwhile.
    ///
    /// - Throws: why it is not written.
    func admittedLate(now: MonotonicInstant) throws(AttemptEnd) -> SendRoute {
        if self.isAdmitted || self.settings.weather.isFair { return self }
        if let end = self.admitInWeather(now: now) { throw end }
        return self.forOneAttempt
    }

    private var forOneAttempt: SendRoute {
        SendRoute(self, self.token, validUntil: self.validUntil, version: self.version, isAdmitted: true)
    }

    private func admit(now: MonotonicInstant) -> AttemptEnd? {
        guard let (refusal, retryAfter) = self.settings.credentialBreaker.refusal(now: now) else {
            return self.admitInWeather(now: now)
        }
        return .notSent(
            .credential,
            "APNs refuses the credential (\(self.credentialSession.resolved.name)) on each new connection: \(refusal)",
            retryAfter: retryAfter,
            isFinal: true
        )
    }

    /// Why nothing is sent in bad weather; nil if the attempt may proceed.
    private func admitInWeather(now: MonotonicInstant) -> AttemptEnd? {
        guard case .wait(let until, let cause, let since) = self.settings.weather.admit(now: now) else { return nil }
        let newToken = cause.concernsCredential ? self.credentialSession.tokens.heldBackUntil : nil
        return .held(cause, since: since, until: until, newToken: newToken)
    }

    /// Records that the attempt was not sent, so that another one may be tried in bad weather.
    func returnAdmission() {
        if self.isAdmitted { self.settings.weather.returnAdmission() }
    }
}

extension AttemptEnd {
    /// The next attempt uses the credential that is active then.
    static let credentialReplaced = AttemptEnd.notSent(
        .connectionLost,
        "its credential was replaced before it was sent",
        isFinal: false
    )

    static let revokedMessage =
        "the authentication was revoked: nothing is sent until replaceAuthentication sets a new one"
    static let credentialRevoked = AttemptEnd.notSent(
        .credential,
        Self.revokedMessage,
        isFinal: true
    )
}

/// Counts the changes that make a `SendRoute` outdated, or for which the signing of its token waits: of the credential,
/// its token, its pool, or the state of the client. Call `advance()` after such a change.
final class SendRouteVersion: Sendable {
    private let value = Atomic<Int>(0)
    private let change = Mutex(Latch())

    var current: Int { self.value.load(ordering: .acquiring) }

    /// Opens at the next change.
    var nextChange: Latch { self.change.withLock { $0 } }

    func advance() {
        self.value.wrappingAdd(1, ordering: .releasing)
        let change = self.change.withLock { change in
            defer { change = Latch() }
            return change
        }
        change.open()
    }
}

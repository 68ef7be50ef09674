import HTTP2Wire
import SupervisedPool
import Synchronization

/// Where an attempt goes and what it shows to APNs: pool, connections and provider token of one credential. Immutable;
/// `SendRouter` makes another one when something changes.
final class SendRoute: Sendable {
    /// The hosts that a client talks to.
    enum Destination: Sendable {
        /// The host of pushes and broadcasts.
        case pushes
        /// The host on which channels are managed.
        case management
    }

    let session: CredentialSession
    let destination: Destination
    let pool: Pool<ConnectionActor>
    let token: ProviderToken?
    /// Not nil: this attempt probes a candidate credential.
    let probe: RotationProbe?
    /// The route may be used before this instant without asking whether its token still serves.
    let validUntil: MonotonicInstant
    /// The state of the client that the route was made from.
    let version: Int

    /// How long an attempt waits for a candidate credential: a stream and a token were ready a moment ago.
    static let probeWait = Duration.seconds(1)

    init(_ session: CredentialSession, _ destination: Destination, probe: RotationProbe? = nil, version: Int) {
        self.session = session
        self.destination = destination
        self.pool = destination == .pushes ? session.pool : session.management.pool
        self.token = nil
        self.probe = probe
        self.validUntil = .distantFuture
        self.version = version
    }

    /// The pool stays, whichever one the session has by now: a lease goes back to the pool that it is from.
    private init(_ other: SendRoute, _ token: ProviderToken, validUntil: MonotonicInstant, version: Int) {
        self.session = other.session
        self.destination = other.destination
        self.pool = other.pool
        self.token = token
        self.probe = other.probe
        self.validUntil = validUntil
        self.version = version
    }

    /// The same route with another provider token.
    ///
    /// - Parameter version: nil: the route's own.
    func with(_ token: ProviderToken, validUntil: MonotonicInstant, version: Int? = nil) -> SendRoute {
        SendRoute(self, token, validUntil: validUntil, version: version ?? self.version)
    }

    var settings: ConnectionSettings {
        self.destination == .pushes ? self.session.settings : self.session.management.settings
    }

    /// Whether a provider token has to be signed first.
    var isUnsigned: Bool { self.token == nil && self.session.resolved.signer != nil }

    /// The `authorization` field; nil with a certificate.
    var authorization: HeaderBlock? { self.token?.authorization }

    /// Whether this attempt probes a candidate credential.
    var isProbe: Bool { self.probe != nil }

    /// How many pushes may be sent at once: one while the credential is doubtful.
    func limit(_ count: Int) -> Int {
        self.isProbe || self.settings.credentials.hasFault ? min(count, 1) : count
    }

    /// Until when an attempt waits for a signature, and then for a stream.
    func waitDeadline(_ deadline: MonotonicInstant, now: MonotonicInstant) -> MonotonicInstant {
        self.isProbe ? min(deadline, now.advanced(by: Self.probeWait)) : deadline
    }

    /// How an attempt ends whose checkout failed. What waited with a credential that is no longer used goes with the
    /// next one.
    func end(_ error: PoolError) -> AttemptEnd {
        switch error.code {
        case .cancelled: return AttemptEnd(error)
        case .timedOut where !self.isProbe: return AttemptEnd(error)
        default: return self.isProbe || self.session.isRetired ? .credentialReplaced : AttemptEnd(error)
        }
    }

    /// Why nothing is sent while APNs refuses the credential; nil if it does not. While it does, each call may admit one
    /// push, which finds out whether that is over.
    func admit(now: MonotonicInstant) -> AttemptEnd? {
        guard let (refusal, retryAfter) = self.settings.credentials.refusal(now: now) else { return nil }
        if self.isProbe { return .credentialReplaced }
        return .notSent(
            .credential,
            "APNs refuses the credential (\(self.session.resolved.name)) on each new connection: \(refusal)",
            retryAfter: retryAfter,
            isFinal: true
        )
    }
}

extension AttemptEnd {
    /// The next attempt goes with the credential that is current then.
    static let credentialReplaced = AttemptEnd.notSent(
        .connectionLost,
        "the credential was replaced before it was sent",
        isFinal: false
    )

    static let credentialRevoked = AttemptEnd.notSent(
        .credential,
        "the authentication was revoked: nothing is sent until replaceAuthentication gives another one",
        isFinal: true
    )
}

/// Counts the changes after which a `SendRoute` has to be made anew: of the credential, its token or its pool, and of
/// the client's life. Whoever makes such a change calls `advance()` after it.
final class SendRouteVersion: Sendable {
    private let value = Atomic<Int>(0)

    var current: Int { self.value.load(ordering: .acquiring) }

    func advance() { self.value.wrappingAdd(1, ordering: .releasing) }
}

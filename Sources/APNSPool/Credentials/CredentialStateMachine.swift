import APNSModel
import SupervisedPool

/// Whether APNs takes the client's credential, as a value shared by all its connections.
///
/// ```
///            refused by a fresh connection          the same by another one
///   trusted ────────────────────────────▶ suspected ───────────────────────▶ declared ◀──┐ refused: the hold-off
///      ▲                                      │                               │  │       │ doubles
///      │                                      │ accepted                      │  │ hold-off over: one push
///      └──────────────────────────────────────┴───────────────────────────────┘  └──▶ probing
/// ```
///
/// One refusal proves little: a single server of APNs can be confused for a while, and a connection that has refused one
/// provider token has been seen to refuse every later one. What follows a declared fault spares APNs a storm of requests
/// that must fail (pushy#454, #609, #1078).
struct CredentialStateMachine: Sendable {
    /// What was refused, and how.
    enum Refusal: Hashable, Sendable {
        /// A response 403 with this reason.
        case rejection(RejectionReason)
        /// TLS, or a GOAWAY that names the certificate; and its words.
        case certificate(String)

        /// Nil: the response does not say that the credential itself is bad.
        init?(status: Int, reason: RejectionReason?) {
            guard status == 403, let reason, Self.reasons.contains(reason) else { return nil }
            self = .rejection(reason)
        }

        /// Not among them: what a fresh provider token mends, and what concerns one topic.
        private static let reasons: Set<RejectionReason> = [
            .invalidProviderToken, .missingProviderToken, .badEnvironmentKeyInToken, .badCertificate,
            .badCertificateEnvironment,
        ]
    }

    /// One session of one worker.
    struct Source: Hashable, Sendable {
        var worker: WorkerID
        var session: Int
    }

    enum State: Equatable, Sendable {
        /// It is to take another one's place, and no push was taken with it yet.
        case onTrial
        case trusted
        case suspected(Refusal, by: Source)
        /// Nothing is sent before `until`.
        case declared(Refusal, until: MonotonicInstant, holdOff: Duration)
        /// One push is under way; if nothing is heard of it, the next one may go at `until`.
        case probing(Refusal, until: MonotonicInstant, holdOff: Duration)
    }

    enum Event: Equatable, Sendable {
        case declared(Refusal, holdOff: Duration)
        /// The fault is over.
        case ended
        /// The first push was taken with a credential on trial.
        case proven
        case refusedOnTrial(Refusal)
    }

    enum Admission: Equatable, Sendable {
        case send
        case refuse(Refusal, retryAfter: Duration)
    }

    static let firstHoldOff = Duration.seconds(5)
    static let longestHoldOff = Duration.seconds(300)
    /// How long a probe's silence keeps the next one back.
    static let probeTime = Duration.seconds(15)

    private(set) var state: State

    init(isOnTrial: Bool = false) {
        self.state = isOnTrial ? .onTrial : .trusted
    }

    /// It is in use without a trial.
    mutating func trust() {
        if self.state == .onTrial { self.state = .trusted }
    }

    // MARK: Evidence

    /// APNs refused the credential.
    ///
    /// - Parameter isFresh: no push was answered well on that connection.
    mutating func refused(_ refusal: Refusal, by source: Source, isFresh: Bool, now: MonotonicInstant) -> Event? {
        switch self.state {
        case .onTrial:
            // The other one goes on, so that one refusal is enough.
            self.holdOff(refusal, Self.firstHoldOff, now)
            return .refusedOnTrial(refusal)
        case .trusted:
            if isFresh { self.state = .suspected(refusal, by: source) }
        case .suspected(let before, let first):
            guard isFresh, first != source else { return nil }
            guard before == refusal else {
                self.state = .suspected(refusal, by: source)
                return nil
            }
            self.state = .declared(
                refusal,
                until: now.advanced(by: Self.firstHoldOff),
                holdOff: Self.firstHoldOff
            )
            return .declared(refusal, holdOff: Self.firstHoldOff)
        case .declared(_, let until, let holdOff):
            // What was under way when the fault was declared says nothing new.
            if now >= until { self.holdOff(refusal, holdOff * 2, now) }
        case .probing(_, _, let holdOff):
            self.holdOff(refusal, holdOff * 2, now)
        }
        return nil
    }

    /// A push was answered in a way that only a good credential gets.
    ///
    /// - Parameter isTaken: a push was taken, and so the credential is good for its topic, too. A trial asks for that.
    mutating func accepted(isTaken: Bool = true) -> Event? {
        if self.state == .onTrial {
            guard isTaken else { return nil }
            self.state = .trusted
            return .proven
        }
        defer { self.state = .trusted }
        return self.isDeclared ? .ended : nil
    }

    /// There is another key.
    mutating func replaced() -> Event? { self.accepted() }

    /// A connection got through TLS and SETTINGS: after a fault of the certificate the next push may try at once.
    mutating func connected(now: MonotonicInstant) {
        if case .declared(.certificate(let words), _, let holdOff) = self.state {
            self.state = .declared(.certificate(words), until: now, holdOff: holdOff)
        }
    }

    private mutating func holdOff(_ refusal: Refusal, _ time: Duration, _ now: MonotonicInstant) {
        let time = min(time, Self.longestHoldOff)
        self.state = .declared(refusal, until: now.advanced(by: time), holdOff: time)
    }

    // MARK: Questions

    /// Whether a push may be sent now. One that may while the fault is declared is the probe.
    mutating func admit(now: MonotonicInstant) -> Admission {
        switch self.state {
        case .onTrial, .trusted, .suspected:
            return .send
        case .declared(let refusal, let until, let holdOff), .probing(let refusal, let until, let holdOff):
            guard now >= until else { return .refuse(refusal, retryAfter: now.duration(to: until)) }
            self.state = .probing(refusal, until: now.advanced(by: Self.probeTime), holdOff: holdOff)
            return .send
        }
    }

    var isDeclared: Bool {
        switch self.state {
        case .declared, .probing: true
        case .onTrial, .trusted, .suspected: false
        }
    }

    var declaredRefusal: Refusal? {
        switch self.state {
        case .declared(let refusal, _, _), .probing(let refusal, _, _): refusal
        case .onTrial, .trusted, .suspected: nil
        }
    }

    /// What one connection was refused, until another one confirms or refutes it.
    var suspectedRefusal: Refusal? {
        if case .suspected(let refusal, _) = self.state { refusal } else { nil }
    }

    /// How long a connection that was refused should stay away; nil unless a fault is declared.
    func holdOff(now: MonotonicInstant) -> Duration? {
        switch self.state {
        case .declared(_, let until, _), .probing(_, let until, _): max(now.duration(to: until), .zero)
        case .onTrial, .trusted, .suspected: nil
        }
    }
}

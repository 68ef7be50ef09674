import APNSModel
import SupervisedPool

/// Whether APNs accepts one credential. All connections with this credential share this value.
///
/// ```
///            refused by a fresh connection          the same by another one
///   trusted ────────────────────────────▶ suspected ───────────────────────▶ declared ◀──┐ refused: the hold-off
///      ▲                                      │                               │  │       │ doubles
///      │                                      │ accepted                      │  │ hold-off over: one push
///      └──────────────────────────────────────┴───────────────────────────────┘  └──▶ trial
/// ```
/// If the trial is refused, the fault is declared again with twice the hold-off. If it is accepted, the credential is
/// trusted again.
///
/// One refusal is weak evidence. A single APNs server can be confused for a while. Also, once APNs has refused a
/// provider token on a connection, it has been seen to refuse every later one there. After a declared fault, pushes are
/// held back to spare APNs a storm of requests that must fail (pushy#454, #609, #1078).
struct CredentialStateMachine: Sendable {
    /// The refusal and the way it arrived.
    enum Refusal: Hashable, Sendable {
        /// A response 403 with this reason.
        case rejection(RejectionReason)
        /// A TLS failure, or a GOAWAY that names the certificate (`BadCertificateEnvironment`, apns2#93), with its text.
        case certificate(String)

        /// Nil if the response does not say that the credential itself is bad.
        init?(status: Int, reason: RejectionReason?) {
            guard status == 403, let reason, Self.reasons.contains(reason) else { return nil }
            self = .rejection(reason)
        }

        /// Excludes reasons that a fresh provider token fixes and reasons that concern one topic.
        private static let reasons: Set<RejectionReason> = [
            .invalidProviderToken, .missingProviderToken, .badEnvironmentKeyInToken, .badCertificate,
            .badCertificateEnvironment,
        ]
    }

    /// One connection of one worker.
    struct Source: Hashable, Sendable {
        var worker: WorkerID
        var connection: Int
    }

    enum State: Equatable, Sendable {
        case trusted
        case suspected(Refusal, by: Source)
        case declared(Fault)
    }

    struct Fault: Equatable, Sendable {
        var refusal: Refusal
        /// No push is sent before this instant.
        var until: MonotonicInstant
        var holdOffs: Backoff
        /// Whether a trial was admitted after the hold-off. If it gets no response, `until` admits the next one.
        var hasTrial = false
    }

    enum Event: Equatable, Sendable {
        case declared(Refusal, holdOff: Duration)
        /// The fault has ended.
        case ended
    }

    enum Admission: Equatable, Sendable {
        case send
        case refuse(Refusal, retryAfter: Duration)
    }

    /// How long pushes are held back after a declaration, longer with each one in a row.
    static let holdOffs = Backoff(.doubling(), minimum: .seconds(5), maximum: .seconds(300))
    /// How long a trial without a response holds back the next one.
    static let trialTime = Duration.seconds(15)

    private(set) var state = State.trusted

    // MARK: Evidence

    /// APNs refused the credential.
    ///
    /// - Parameter isFresh: Whether the connection had received no success before.
    mutating func refused(_ refusal: Refusal, by source: Source, isFresh: Bool, now: MonotonicInstant) -> Event? {
        switch self.state {
        case .trusted:
            if isFresh { self.state = .suspected(refusal, by: source) }
        case .suspected(let before, let first):
            guard isFresh, first != source else { return nil }
            guard before == refusal else {
                self.state = .suspected(refusal, by: source)
                return nil
            }
            self.declare(refusal, Self.holdOffs, now)
            return .declared(refusal, holdOff: Self.holdOffs.minimum)
        case .declared(let fault):
            // Responses to pushes already under way when the fault was declared carry no new evidence.
            if fault.hasTrial || now >= fault.until { self.declare(refusal, fault.holdOffs, now) }
        }
        return nil
    }

    /// A push got a response that requires a valid credential.
    mutating func accepted() -> Event? {
        defer { self.state = .trusted }
        return self.fault == nil ? nil : .ended
    }

    /// Call this when another credential replaces this one. A declared fault then ends.
    mutating func replaced() -> Event? { self.accepted() }

    /// A connection completed TLS and SETTINGS: after a certificate fault, the next push may be tried at once.
    mutating func connected(now: MonotonicInstant) {
        guard case .declared(var fault) = self.state, case .certificate = fault.refusal, !fault.hasTrial else { return }
        fault.until = now
        self.state = .declared(fault)
    }

    private mutating func declare(_ refusal: Refusal, _ holdOffs: Backoff, _ now: MonotonicInstant) {
        var fault = Fault(refusal: refusal, until: now, holdOffs: holdOffs)
        fault.until = now.advanced(by: fault.holdOffs.next())
        self.state = .declared(fault)
    }

    // MARK: Questions

    /// Whether a push may be sent now. A push admitted while a fault is declared is the trial.
    mutating func admit(now: MonotonicInstant) -> Admission {
        guard case .declared(var fault) = self.state else { return .send }
        guard now >= fault.until else { return .refuse(fault.refusal, retryAfter: now.duration(to: fault.until)) }
        fault.until = now.advanced(by: Self.trialTime)
        fault.hasTrial = true
        self.state = .declared(fault)
        return .send
    }

    /// The declared fault.
    var fault: Fault? {
        if case .declared(let fault) = self.state { fault } else { nil }
    }

    /// The refusal that one connection received, until another connection confirms or refutes it.
    var suspectedRefusal: Refusal? {
        if case .suspected(let refusal, _) = self.state { refusal } else { nil }
    }

    /// How long a refused connection should wait before it reconnects; nil unless a fault is declared.
    func holdOff(now: MonotonicInstant) -> Duration? {
        self.fault.map { max(now.duration(to: $0.until), .zero) }
    }
}

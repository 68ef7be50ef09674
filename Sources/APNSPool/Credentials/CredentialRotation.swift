/// Decides which credential the next push uses while a candidate is on trial. Pure.
///
/// The current credential is 1, and the candidate is 2:
///
/// ```
///   1                 ── begin ───────────────────────▶ 1, trial of 2: preparing
///   preparing         ── arm ─────────────────────────▶ armed
///   armed             ── route: one push ─────────────▶ claimed
///   claimed           ── probeEnded: no verdict ──────▶ preparing
///   claimed           ── accepted ────────────────────▶ 2
///   any of the three  ── giveUp: refused, not needed ─▶ 1
/// ```
/// One push at a time tries the candidate. All others use the current credential until the candidate is accepted.
struct CredentialRotation<Credential: Equatable & Sendable>: Sendable, Equatable {
    struct Trial: Sendable, Equatable {
        enum Phase: Sendable, Equatable {
            /// The candidate's connection or token is not ready.
            case preparing
            /// The next push tries the candidate.
            case armed
            /// A push is trying the candidate.
            case claimed
        }

        var candidate: Credential
        var phase = Phase.preparing
    }

    enum Route: Sendable, Equatable {
        case current(Credential)
        /// The requesting push tries the candidate; `probeEnded` must follow.
        case trial(Credential)
        /// There is no credential.
        case revoked
    }

    /// The current credential; after a revocation, the last one.
    private(set) var latest: Credential
    private(set) var isRevoked = false
    private(set) var trial: Trial?

    init(_ current: Credential) {
        self.latest = current
    }

    /// Nil after a revocation.
    var current: Credential? { self.isRevoked ? nil : self.latest }

    /// Chooses the route of a push that is about to be sent.
    mutating func route() -> Route {
        if let trial, trial.phase == .armed {
            self.trial?.phase = .claimed
            return .trial(trial.candidate)
        }
        return self.current.map(Route.current) ?? .revoked
    }

    /// The phase of a candidate's trial; nil if it is not on trial.
    func phase(of candidate: Credential) -> Trial.Phase? {
        self.trial.flatMap { $0.candidate == candidate ? $0.phase : nil }
    }

    /// Begins the trial of a candidate.
    ///
    /// - Returns: The candidate whose trial this ends, if any.
    mutating func begin(_ candidate: Credential) -> Credential? {
        defer { self.trial = Trial(candidate: candidate) }
        return self.trial?.candidate
    }

    /// Allows a push to try the candidate, which is ready. False: it is no longer on trial.
    mutating func arm(_ candidate: Credential) -> Bool {
        guard let phase = self.phase(of: candidate) else { return false }
        if phase == .preparing { self.trial?.phase = .armed }
        return true
    }

    /// Ends a push's claim on the candidate. If it is still on trial, the push ended without a verdict.
    mutating func probeEnded(_ candidate: Credential) {
        if self.phase(of: candidate) == .claimed { self.trial?.phase = .preparing }
    }

    /// Makes the candidate the current credential after APNs accepted a push with it.
    ///
    /// - Returns: Whether it was on trial, and the credential that it replaced.
    mutating func accepted(_ candidate: Credential) -> (isAdopted: Bool, retired: Credential?) {
        guard self.phase(of: candidate) != nil else { return (false, nil) }
        return (true, self.install(candidate).first { $0 != candidate })
    }

    /// Ends a trial after a refusal, or when its result is no longer needed. False: the credential was not on trial.
    mutating func giveUp(_ candidate: Credential) -> Bool {
        guard self.phase(of: candidate) != nil else { return false }
        self.trial = nil
        return true
    }

    /// Makes a credential the current one without a trial.
    ///
    /// - Returns: The credentials that are no longer used.
    mutating func install(_ credential: Credential) -> [Credential] {
        defer { self.latest = credential }
        let retired = [self.current, self.trial?.candidate].compactMap(\.self)
        self.isRevoked = false
        self.trial = nil
        return retired
    }

    /// Removes the current credential. Nothing is sent until another one is installed.
    mutating func revoke() {
        self.isRevoked = true
        self.trial = nil
    }
}

/// The end of the trial of a credential.
enum TrialVerdict: Sendable, Equatable {
    case accepted
    /// APNs' reason, or an internal fault.
    case refused(String)
    /// Neither accepted nor refused in time, with the reason.
    case undecided(String)
    /// Another trial has begun, another credential is active without a trial, the authentication was revoked, or
    /// the client or the candidate's tree has ended.
    case superseded
    case cancelled
}

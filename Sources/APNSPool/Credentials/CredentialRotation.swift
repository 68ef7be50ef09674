/// Decides which credential the next push uses while a candidate is on trial. Pure; credentials are numbers here.
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
struct CredentialRotation: Sendable, Equatable {
    typealias Number = Int

    struct Trial: Sendable, Equatable {
        enum Phase: Sendable, Equatable {
            /// The candidate's connection or token is not ready.
            case preparing
            /// The next push tries the candidate.
            case armed
            /// A push is trying the candidate.
            case claimed
        }

        var number: Number
        var phase = Phase.preparing
    }

    /// The end of a trial.
    enum Verdict: Sendable, Equatable {
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

    enum Route: Sendable, Equatable {
        case current(Number)
        /// The requesting push tries the candidate; `probeEnded` must follow.
        case trial(Number)
        /// There is no credential.
        case revoked
    }

    /// Nil after a revocation.
    private(set) var current: Number?
    private(set) var trial: Trial?

    init(_ current: Number) {
        self.current = current
    }

    /// Chooses the route of a push that is about to be sent.
    mutating func route() -> Route {
        if let trial, trial.phase == .armed {
            self.trial?.phase = .claimed
            return .trial(trial.number)
        }
        return self.current.map(Route.current) ?? .revoked
    }

    /// Begins the trial of a candidate.
    ///
    /// - Returns: The candidate whose trial this ends, if any.
    mutating func begin(_ number: Number) -> Number? {
        defer { self.trial = Trial(number: number) }
        return self.trial?.number
    }

    /// Allows a push to try the candidate, which is ready. False: it is no longer on trial.
    mutating func arm(_ number: Number) -> Bool {
        guard self.trial?.number == number else { return false }
        if self.trial?.phase == .preparing { self.trial?.phase = .armed }
        return true
    }

    /// Ends a push's claim on the candidate. If it is still on trial, the push ended without a verdict.
    mutating func probeEnded(_ number: Number) {
        if self.trial == Trial(number: number, phase: .claimed) { self.trial?.phase = .preparing }
    }

    /// Makes the candidate the current credential after APNs accepted a push with it.
    ///
    /// - Returns: Whether it was on trial, and the credential that it replaced.
    mutating func accepted(_ number: Number) -> (isAdopted: Bool, retired: Number?) {
        guard self.trial?.number == number else { return (false, nil) }
        defer { self.current = number }
        self.trial = nil
        return (true, self.current)
    }

    /// Ends a trial after a refusal, or when its result is no longer needed. False: the credential was not on trial.
    mutating func giveUp(_ number: Number) -> Bool {
        guard self.trial?.number == number else { return false }
        self.trial = nil
        return true
    }

    /// Makes a credential the current one without a trial.
    ///
    /// - Returns: The credentials that are no longer used.
    mutating func install(_ number: Number) -> [Number] {
        let retired = [self.current, self.trial?.number].compactMap(\.self)
        self.current = number
        self.trial = nil
        return retired
    }

    /// Removes the current credential. Nothing is sent until another one is installed.
    mutating func revoke() {
        self.current = nil
        self.trial = nil
    }
}

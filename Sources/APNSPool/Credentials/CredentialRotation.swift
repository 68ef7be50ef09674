/// With which credential the next push goes, while one may take another's place. Pure; credentials are numbers here.
///
/// ```
///            begin(2)                armed             route: one push
///   1 ─────────────────▶ 1, 2 prepares ──▶ 1, 2 waits ─────────────────▶ 1, 2 is tried
///   ▲                      ▲    │                                          │    │
///   │ given up, refused    │    │                     no verdict           │    │ accepted
///   └──────────────────────┼────┴──────────────────────────────────────────┘    ▼
///                          └─────────────────────────────────────────────────── 2
/// ```
/// One push at a time tries the new one; all others go with the old one until the new one is accepted.
struct CredentialRotation: Sendable, Equatable {
    typealias Number = Int

    struct Trial: Sendable, Equatable {
        enum Phase: Sendable, Equatable {
            /// Its connection or its token is not ready.
            case preparing
            /// The next push tries it.
            case armed
            /// A push is under way with it.
            case claimed
        }

        var number: Number
        var phase = Phase.preparing
    }

    enum Route: Sendable, Equatable {
        case current(Number)
        /// The push that asked is the one that tries it; `claimEnded` must follow.
        case trial(Number)
        /// There is no credential.
        case revoked
    }

    /// Nil: revoked.
    private(set) var current: Number?
    private(set) var trial: Trial?

    init(_ current: Number) {
        self.current = current
    }

    /// A push is about to be sent.
    mutating func route() -> Route {
        if let trial, trial.phase == .armed {
            self.trial?.phase = .claimed
            return .trial(trial.number)
        }
        return self.current.map(Route.current) ?? .revoked
    }

    /// Another one is to be tried.
    ///
    /// - Returns: the one whose trial it ends.
    mutating func begin(_ number: Number) -> Number? {
        defer { self.trial = Trial(number: number) }
        return self.trial?.number
    }

    /// The one on trial can be tried by a push. False: it is on trial no more.
    mutating func arm(_ number: Number) -> Bool {
        guard self.trial?.number == number else { return false }
        if self.trial?.phase == .preparing { self.trial?.phase = .armed }
        return true
    }

    /// The push that tried it is done with it. True: and has given no verdict.
    mutating func claimEnded(_ number: Number) -> Bool {
        guard self.trial == Trial(number: number, phase: .claimed) else { return false }
        self.trial?.phase = .preparing
        return true
    }

    /// APNs accepted a push with the one on trial, which is the current one from now on.
    ///
    /// - Returns: whether it was on trial, and whose place it took.
    mutating func accepted(_ number: Number) -> (isAdopted: Bool, retired: Number?) {
        guard self.trial?.number == number else { return (false, nil) }
        defer { self.current = number }
        self.trial = nil
        return (true, self.current)
    }

    /// APNs refused it, or nobody wants to know any more. False: it was not on trial (any more).
    mutating func giveUp(_ number: Number) -> Bool {
        guard self.trial?.number == number else { return false }
        self.trial = nil
        return true
    }

    /// Another one is the current one from now on, untried.
    ///
    /// - Returns: those that are used no more.
    mutating func install(_ number: Number) -> [Number] {
        let retired = [self.current, self.trial?.number].compactMap(\.self)
        self.current = number
        self.trial = nil
        return retired
    }

    /// Nothing is sent any more until another one is installed.
    ///
    /// - Returns: those that are used no more.
    mutating func revoke() -> [Number] {
        let retired = [self.current, self.trial?.number].compactMap(\.self)
        self.current = nil
        self.trial = nil
        return retired
    }
}

import SupervisedPool

/// How long a call of the signer, or of the token source, is waited for, when it is given up and when the next one
/// follows. Pure.
///
/// ```
///          wanted               longestWait            patience
///   idle ──────────▶ calling ───────────────▶ late ───────────────▶ idle, the call is cancelled
///    ▲                  │ answered             │ answered
///    └──────────────────┴──────────────────────┘
/// ```
/// Those who wait fail after `longestWait`. Without patience the call is given up in the same moment. With it, the call
/// may still answer, and no other one is made before it has answered or is given up.
struct SignerCallMachine: Sendable {
    struct Timer: Sendable, Hashable {
        enum Kind: Sendable, Hashable {
            /// The call has taken its time.
            case limit
            /// The next call is made although nobody may be waiting.
            case retry
        }

        var kind: Kind
        /// The call that it is about; 0 for a retry.
        var number: Int
        var at: MonotonicInstant
    }

    enum Action: Sendable, Hashable {
        case call(Int, TokenStateMachine.Order)
        /// The call is given up. It is told, and not waited for.
        case cancel(Int)
        /// Those who wait have waited long enough: the call counts as failed.
        case fail
        /// No call is made for those who wait. Nothing new has failed.
        case refuse
        case arm(Timer)
        case disarm(Timer.Kind)
        /// Ask the token's machine whether a token is still missing, and call if it is.
        case tryAgain
    }

    private enum State: Sendable, Hashable {
        case idle, calling, late
    }

    /// How much longer than `TokenPolicy.longestWait` a call may take before it is given up.
    let patience: Duration
    /// So many calls that were given up may not have returned; then no other one is made until one of them has. A signer
    /// that blocks its thread would else take one thread after another.
    static let mostGivenUp = 4
    private var givenUp = 0
    private var state = State.idle
    private var lastNumber = 0

    init(patience: Duration) {
        self.patience = patience
    }

    /// A token has to be signed.
    mutating func wanted(_ order: TokenStateMachine.Order, now: MonotonicInstant) -> [Action] {
        switch self.state {
        case .calling:
            return []
        case .late:
            return [.refuse]
        case .idle where self.givenUp >= Self.mostGivenUp:
            return [.fail]
        case .idle:
            self.state = .calling
            self.lastNumber &+= 1
            return [
                .disarm(.retry), .call(self.lastNumber, order),
                .arm(self.limit(now.advanced(by: TokenPolicy.longestWait))),
            ]
        }
    }

    /// A timer has run out.
    mutating func fired(_ timer: Timer, now: MonotonicInstant) -> [Action] {
        switch (timer.kind, self.state) {
        case (.retry, .idle):
            return [.tryAgain]
        case (.limit, .calling) where timer.number == self.lastNumber:
            guard self.patience > .zero else {
                self.state = .idle
                self.givenUp += 1
                return [.cancel(self.lastNumber), .fail]
            }
            self.state = .late
            return [.arm(self.limit(now.advanced(by: self.patience))), .fail]
        case (.limit, .late) where timer.number == self.lastNumber:
            self.state = .idle
            self.givenUp += 1
            return [.cancel(self.lastNumber), .tryAgain]
        default:
            return []
        }
    }

    /// Whether the call is under way and not given up.
    func isCurrent(_ number: Int) -> Bool {
        number == self.lastNumber && self.state != .idle
    }

    /// A call has answered.
    ///
    /// - Parameter hasToken: whether it brought a token that is used. Then a later call is not needed any more.
    mutating func completed(_ number: Int, hasToken: Bool) -> [Action] {
        if self.isCurrent(number) {
            self.state = .idle
            return [.disarm(.limit)]
        }
        self.givenUp -= 1
        guard hasToken, self.state != .idle else { return [] }
        self.state = .idle
        self.givenUp += 1
        return [.disarm(.limit), .cancel(self.lastNumber)]
    }

    /// There is no token: the next call is made at this instant, if nobody asks for one before.
    func tryAgain(at instant: MonotonicInstant) -> [Action] {
        self.state == .idle ? [.arm(Timer(kind: .retry, number: 0, at: instant))] : []
    }

    private func limit(_ instant: MonotonicInstant) -> Timer {
        Timer(kind: .limit, number: self.lastNumber, at: instant)
    }
}

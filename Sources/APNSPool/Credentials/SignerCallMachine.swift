import SupervisedPool

/// Decides how long to wait for a call of the signer or the token source, when to abandon it and when to make the next
/// one. Pure.
///
/// ```
///          wanted               longestWait            patience
///   idle ──────────▶ calling ───────────────▶ late ───────────────▶ idle, the call is cancelled
///    ▲                  │ returned             │ returned
///    └──────────────────┴──────────────────────┘
/// ```
/// After `longestWait`, waiting requests get the old token or an error. Without patience, the call is abandoned at that
/// moment. With patience, the call may still return, and no other call is made until it has returned or was abandoned.
struct SignerCallMachine: Sendable {
    struct Timer: Sendable, Hashable {
        enum Kind: Sendable, Hashable {
            /// The time limit of the call.
            case limit
            /// Makes the next call even if no request is waiting.
            case retry
        }

        var kind: Kind
        /// The number of the call that the timer belongs to; 0 for a retry.
        var number: Int
        var at: MonotonicInstant
    }

    enum Action: Sendable, Hashable {
        case call(Int, TokenStateMachine.Order)
        /// Cancel the abandoned call and do not wait for it.
        case cancel(Int)
        /// The waiting requests have reached their limit, or too many abandoned calls prevent a new one. This counts as
        /// a failed call.
        case fail
        /// No call is made for the waiting requests. There is no new failure.
        case refuse
        case arm(Timer)
        case disarm(Timer.Kind)
        /// Ask the token's machine whether a token is still missing, and make a call if it is.
        case tryAgain
    }

    private enum State: Sendable, Hashable {
        case idle, calling, late
    }

    /// How much longer than `TokenPolicy.longestWait` a call may take before it is abandoned.
    let patience: Duration
    /// The limit of abandoned calls that have not returned. At this limit, no call is made until one of them returns.
    /// Otherwise a signer that blocks its thread would take up one thread after another.
    static let abandonedLimit = 4
    /// The number of abandoned calls that have not returned.
    private var abandonedCalls = 0
    private var state = State.idle
    private var lastNumber = 0

    init(patience: Duration) {
        self.patience = patience
    }

    /// A token must be signed.
    mutating func wanted(_ order: TokenStateMachine.Order, now: MonotonicInstant) -> [Action] {
        switch self.state {
        case .calling:
            return []
        case .late:
            return [.refuse]
        case .idle where self.abandonedCalls >= Self.abandonedLimit:
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

    /// A timer has fired.
    mutating func fired(_ timer: Timer, now: MonotonicInstant) -> [Action] {
        switch (timer.kind, self.state) {
        case (.retry, .idle):
            return [.tryAgain]
        case (.limit, .calling) where timer.number == self.lastNumber:
            guard self.patience > .zero else {
                self.state = .idle
                self.abandonedCalls += 1
                return [.cancel(self.lastNumber), .fail]
            }
            self.state = .late
            return [.arm(self.limit(now.advanced(by: self.patience))), .fail]
        case (.limit, .late) where timer.number == self.lastNumber:
            self.state = .idle
            self.abandonedCalls += 1
            return [.cancel(self.lastNumber), .tryAgain]
        default:
            return []
        }
    }

    /// Whether the call is under way and was not abandoned.
    func isCurrent(_ number: Int) -> Bool {
        number == self.lastNumber && self.state != .idle
    }

    /// A call has returned.
    ///
    /// - Parameter hasToken: Whether it returned a token that is used. Later calls are then no longer needed.
    mutating func completed(_ number: Int, hasToken: Bool) -> [Action] {
        if self.isCurrent(number) {
            self.state = .idle
            return [.disarm(.limit)]
        }
        self.abandonedCalls -= 1
        guard hasToken, self.state != .idle else { return [] }
        self.state = .idle
        self.abandonedCalls += 1
        return [.disarm(.limit), .cancel(self.lastNumber)]
    }

    /// There is no token: the next call is made at this instant, if no request needs one earlier.
    func tryAgain(at instant: MonotonicInstant) -> [Action] {
        self.state == .idle ? [.arm(Timer(kind: .retry, number: 0, at: instant))] : []
    }

    private func limit(_ instant: MonotonicInstant) -> Timer {
        Timer(kind: .limit, number: self.lastNumber, at: instant)
    }
}

import SupervisedPool
import Synchronization

/// The `CredentialStateMachine` of one credential, shared by the connections of its session.
///
/// Connections report evidence from their event loops, and each new `SendRoute` queries it. A declared fault makes the
/// cached route outdated. While the credential is trusted, a query or a report of success costs one atomic load.
final class CredentialBreaker: Sendable {
    private let machine = Mutex(CredentialStateMachine())
    /// True in any state but `trusted`.
    private let isUntrusted = Atomic<Bool>(false)
    /// Whether a fault is declared.
    private let isDeclared = Atomic<Bool>(false)
    private let onEvent: @Sendable (CredentialStateMachine.Event) -> Void

    /// - Parameter onEvent: Called once when a fault is declared, and once when it ends. Called on the connections' event
    ///   loops, or by `replaced()`, and inside the lock: must return at once.
    init(onEvent: @escaping @Sendable (CredentialStateMachine.Event) -> Void = { _ in }) {
        self.onEvent = onEvent
    }

    /// - Returns: How long the connection should wait before it reconnects; nil unless a fault is declared.
    @discardableResult
    func refused(
        _ refusal: CredentialStateMachine.Refusal,
        by source: CredentialStateMachine.Source,
        isFresh: Bool,
        now: MonotonicInstant
    ) -> Duration? {
        self.change {
            let event = $0.refused(refusal, by: source, isFresh: isFresh, now: now)
            return (event, $0.holdOff(now: now))
        }
    }

    /// A push got a response that requires a valid credential.
    func accepted() {
        guard self.isUntrusted.load(ordering: .relaxed) else { return }
        self.change { ($0.accepted(), ()) }
    }

    /// A connection completed TLS and SETTINGS. See `CredentialStateMachine.connected`.
    func connected(now: MonotonicInstant) {
        guard self.isDeclared.load(ordering: .relaxed) else { return }
        self.change {
            $0.connected(now: now)
            return (nil, ())
        }
    }

    /// Call this when another credential replaces this one. A declared fault then ends.
    func replaced() { self.change { ($0.replaced(), ()) } }

    /// The reason why no push may be sent now; nil if one may be sent. While a fault is declared, nil makes that push
    /// the trial.
    func refusal(
        now: @autoclosure () -> MonotonicInstant
    ) -> (refusal: CredentialStateMachine.Refusal, retryAfter: Duration)? {
        guard self.isDeclared.load(ordering: .relaxed) else { return nil }
        let now = now()
        guard case .refuse(let refusal, let retryAfter) = self.machine.withLock({ $0.admit(now: now) }) else {
            return nil
        }
        return (refusal, retryAfter)
    }

    /// Whether a fault is declared.
    var hasFault: Bool { self.isDeclared.load(ordering: .relaxed) }

    /// The declared refusal; nil unless a fault is declared.
    var declaredRefusal: CredentialStateMachine.Refusal? {
        guard self.hasFault else { return nil }
        return self.machine.withLock { $0.fault?.refusal }
    }

    /// The refusal that one connection received, until another connection confirms or refutes it.
    var suspectedRefusal: CredentialStateMachine.Refusal? {
        guard self.isUntrusted.load(ordering: .relaxed) else { return nil }
        return self.machine.withLock { $0.suspectedRefusal }
    }

    private func change<Result: Sendable>(
        _ body: (inout CredentialStateMachine) -> (CredentialStateMachine.Event?, Result)
    ) -> Result {
        self.machine.withLock { machine in
            let (event, result) = body(&machine)
            // Inside the lock, so that these flags always match the machine's latest state.
            self.isUntrusted.store(machine.state != .trusted, ordering: .relaxed)
            self.isDeclared.store(machine.fault != nil, ordering: .relaxed)
            if let event { self.onEvent(event) }
            return result
        }
    }
}

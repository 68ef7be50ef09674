import SupervisedPool
import Synchronization

/// The one `CredentialStateMachine` of a client. Connections give it evidence from their loops, the dispatch asks it
/// before each push; while all is well both cost one look at an atomic.
final class CredentialBreaker: Sendable {
    private let machine: Mutex<CredentialStateMachine>
    /// Anything but trusted.
    private let isTroubled: Atomic<Bool>
    private let isDeclared = Atomic<Bool>(false)
    private let onEvent: @Sendable (CredentialStateMachine.Event) -> Void

    /// - Parameters:
    ///   - isOnTrial: whether it is to take another one's place.
    ///   - onEvent: told once when a fault is declared and once when it ends; called on connections' loops.
    init(isOnTrial: Bool = false, onEvent: @escaping @Sendable (CredentialStateMachine.Event) -> Void = { _ in }) {
        self.machine = Mutex(CredentialStateMachine(isOnTrial: isOnTrial))
        self.isTroubled = Atomic(isOnTrial)
        self.onEvent = onEvent
    }

    /// - Returns: how long the connection should stay away; nil unless a fault is declared.
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

    /// - Parameter isTaken: see `CredentialStateMachine.accepted`.
    func accepted(isTaken: Bool = true) {
        guard self.isTroubled.load(ordering: .relaxed) else { return }
        self.change { ($0.accepted(isTaken: isTaken), ()) }
    }

    func connected(now: MonotonicInstant) {
        guard self.isDeclared.load(ordering: .relaxed) else { return }
        self.change {
            $0.connected(now: now)
            return (nil, ())
        }
    }

    /// It is in use without a trial.
    func trust() {
        self.change {
            $0.trust()
            return (nil, ())
        }
    }

    /// There is another key.
    func replaced() { self.change { ($0.replaced(), ()) } }

    /// Why no push may be sent now; nil: it may.
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

    /// What is refused, while a fault is declared.
    var declaredRefusal: CredentialStateMachine.Refusal? {
        guard self.hasFault else { return nil }
        return self.machine.withLock { $0.declaredRefusal }
    }

    /// What one connection was refused, until another one confirms or refutes it.
    var suspectedRefusal: CredentialStateMachine.Refusal? {
        guard self.isTroubled.load(ordering: .relaxed) else { return nil }
        return self.machine.withLock { $0.suspectedRefusal }
    }

    private func change<Result: Sendable>(
        _ body: (inout CredentialStateMachine) -> (CredentialStateMachine.Event?, Result)
    ) -> Result {
        self.machine.withLock { machine in
            let (event, result) = body(&machine)
            // Inside the lock, so that the last one to change the machine also has the last word here.
            self.isTroubled.store(machine.state != .trusted, ordering: .relaxed)
            self.isDeclared.store(machine.isDeclared, ordering: .relaxed)
            if let event { self.onEvent(event) }
            return result
        }
    }
}

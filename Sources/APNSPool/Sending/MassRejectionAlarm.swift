import APNSModel
import Synchronization

/// The client's own `MassRejectionBreaker`: single sends feed it, and bulk calls while it is attentive. It stops nobody;
/// it is a line in the log and a flag in the status. (A bulk call has a breaker of its own, which stops it.)
final class MassRejectionAlarm: Sendable {
    private let breaker: Mutex<MassRejectionBreaker>
    private let isAttentive = Atomic<Bool>(false)
    private let isOpen = Atomic<Bool>(false)

    init(limits: MassRejectionLimits) {
        self.breaker = Mutex(MassRejectionBreaker(limits: limits))
    }

    /// Whether so many device tokens were refused that environment or topic must be wrong.
    var isRaised: Bool { self.isOpen.load(ordering: .relaxed) }

    /// - Returns: true once when the alarm is raised.
    func rejected(_ token: DeviceToken, inFlight: Int) -> Bool {
        self.change {
            $0.widen(to: inFlight)
            return $0.rejected(token)
        }
    }

    /// - Returns: true once when the alarm is over.
    func recordResponse(_ token: DeviceToken) -> Bool {
        guard self.isAttentive.load(ordering: .relaxed) else { return false }
        return self.change { $0.recordResponse(token) }
    }

    /// The breaker of a bulk call opened: what it saw is the newest there is.
    ///
    /// - Returns: true if the alarm had not been raised.
    func raise(_ breaker: MassRejectionBreaker) -> Bool {
        self.change { own in
            defer { own = breaker }
            return !own.isOpen
        }
    }

    private func change(_ body: (inout MassRejectionBreaker) -> Bool) -> Bool {
        self.breaker.withLock { breaker in
            let result = body(&breaker)
            self.isAttentive.store(breaker.isAttentive, ordering: .relaxed)
            self.isOpen.store(breaker.isOpen, ordering: .relaxed)
            return result
        }
    }
}

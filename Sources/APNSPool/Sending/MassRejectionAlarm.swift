import APNSModel
import Synchronization

/// The client-wide mass-rejection alarm. It records the rejections of single sends, and those of bulk calls whose limits
/// are off. While its detector has rejections in its window (`isAttentive`), it also records the tokens that work, of
/// single sends and bulk calls. It never stops sending: it only causes a log line and a flag in the status. Each bulk
/// call has its own `MassRejectionDetector`, which does stop the call.
final class MassRejectionAlarm: Sendable {
    private let detector: Mutex<MassRejectionDetector>
    private let isAttentive = Atomic<Bool>(false)
    private let isOpen = Atomic<Bool>(false)

    init(limits: MassRejectionLimits) {
        self.detector = Mutex(MassRejectionDetector(limits: limits))
    }

    /// Whether so many device tokens were rejected that the environment or topic must be wrong.
    var isRaised: Bool { self.isOpen.load(ordering: .relaxed) }

    /// Records a rejected device token.
    ///
    /// - Returns: true if this rejection raises the alarm.
    func rejected(_ token: DeviceToken, inFlight: Int) -> Bool {
        self.change {
            $0.widen(to: inFlight)
            return $0.rejected(token)
        }
    }

    /// Records a response that shows that the token works.
    ///
    /// - Returns: true if this response ends the alarm.
    func recordWorkingToken(_ token: DeviceToken) -> Bool {
        guard self.isAttentive.load(ordering: .relaxed) else { return false }
        return self.change { $0.recordWorkingToken(token) }
    }

    /// Raises the alarm because a bulk call has detected mass rejection. Its state replaces the alarm's own, because it is
    /// newer.
    ///
    /// - Returns: true if the alarm was not raised before.
    func raise(_ detector: MassRejectionDetector) -> Bool {
        self.change { own in
            defer { own = detector }
            return !own.isOpen
        }
    }

    private func change(_ body: (inout MassRejectionDetector) -> Bool) -> Bool {
        self.detector.withLock { detector in
            let result = body(&detector)
            self.isAttentive.store(detector.isAttentive, ordering: .relaxed)
            self.isOpen.store(detector.isOpen, ordering: .relaxed)
            return result
        }
    }
}

import SupervisedPool

@testable import APNSPool

extension SendContext {
    /// The deadline of a call that is made now.
    func deadline(_ own: Duration?) -> MonotonicInstant { self.deadline(own, from: self.clock.now) }
}

import APNSModel
import PushQueue
import SupervisedPool

/// Decides after an attempt whether the push ends, is sent again or is parked. Pure.
struct RetryRules: Sendable, Hashable {
    enum Decision: Sendable, Hashable {
        /// The outcome is final.
        case settle
        /// The push returns to the queue, due at this time. The attempt counts only if the push itself was at fault.
        case release(notBefore: QueueTime, countsAttempt: Bool)
        /// An operator must decide, because the push has returned to the queue too often, or can never be sent.
        case park
    }

    /// The number of attempts after which a push that would return to the queue is parked.
    var maxAttempts: Int
    /// Whether a push is sent again after a response with status 500.
    var retriesInternalServerError = true

    /// The delays between the attempts of one push.
    static let delays = Backoff(.doubling(), minimum: .seconds(1), maximum: .seconds(60))

    /// - Parameters:
    ///   - outcome: the outcome of the attempt.
    ///   - push: the push before the attempt.
    ///   - now: `expiry` of the queue's clock, not `now`. A push that was released with a time from an implausible
    ///     clock would still wait after the clock was corrected.
    func decide(_ outcome: PushOutcome, for push: ClaimedPush, at now: QueueTime) -> Decision {
        guard let error = outcome.error else { return .settle }
        if self.isFinal(error, for: push) { return .settle }
        let delay = max(error.retryAfter ?? .zero, Self.delays.wait(after: push.attempts + 1))
        let next = now.advanced(by: delay)
        // If the next attempt would be too late, the outcome is final now.
        guard next < push.deadline, !push.push.isExpired(at: next) else { return .settle }
        // The limit on attempts always applies to a push that may have been processed.
        let isOwnFault = RouteFault(error) == nil || error.certainty == .unknown
        if isOwnFault, push.attempts + 1 >= self.maxAttempts { return .park }
        return .release(notBefore: next, countsAttempt: isOwnFault)
    }

    /// Whether another attempt would fail in the same way, or could show the push twice.
    private func isFinal(_ error: PushError, for push: ClaimedPush) -> Bool {
        switch error.certainty {
        case .accepted: true
        case .unknown: !push.resendsUnknown
        case .rejected where error.rejection?.status == 500 && !self.retriesInternalServerError: true
        // A wrong credential is not the push's fault. The push waits until the credential is corrected.
        case .rejected: !error.canResend && error.advice != .fixCredential
        case .notProcessed, .notSent: !error.canResend
        }
    }
}

extension PreparedPush {
    func isExpired(at time: QueueTime) -> Bool {
        self.isExpired(atSecondsSince1970: time.millisecondsSince1970 / 1_000)
    }
}

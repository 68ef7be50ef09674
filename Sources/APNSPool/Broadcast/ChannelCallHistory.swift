import APNSModel
import SupervisedPool

/// What became of a call to the management host so far, over all its tries. Pure.
///
/// As with a push, but for two things: a call that can be repeated (all but `create`) is sent again when its fate is
/// unknown, and then an answer that settles the matter counts, whatever a try before it may have done.
struct ChannelCallHistory: Sendable {
    enum Decision: Equatable {
        case finish(PushError)
        case retry(after: Duration)
    }

    let isRepeatable: Bool
    var tries: PushHistory

    init(id: APNSID, deadline: MonotonicInstant, isRepeatable: Bool) {
        self.tries = PushHistory(id: id, deadline: deadline)
        self.isRepeatable = isRepeatable
    }

    /// A call that ends without (another) try.
    mutating func fail(_ code: PushError.Code, _ message: String) -> PushError {
        Self.error(of: self.tries.fail(code, message), id: self.tries.id)
    }

    /// The end of a try without success, and what follows from it.
    mutating func decide(
        _ end: AttemptEnd,
        policy: APNSClientConfiguration.Retry,
        now: MonotonicInstant,
        using generator: inout some RandomNumberGenerator,
        takeBudget: () -> Bool
    ) -> Decision {
        if self.isRepeatable, case .rejected(let rejection, let retryAfter) = end, Self.isSettled(rejection) {
            var error = PushError.rejected(rejection, attempts: self.tries.attempts, retryAfter: retryAfter)
            error.apnsID = self.tries.id
            return .finish(error)
        }
        var policy = policy
        policy.resendsUnknown = self.isRepeatable
        // A 500 may come from behind the making of the channel.
        policy.retriesInternalServerError = policy.retriesInternalServerError && self.isRepeatable
        let decision = self.tries.decide(end, policy: policy, now: now, using: &generator, takeBudget: takeBudget)
        switch decision {
        case .retry(let delay): return .retry(after: delay)
        case .finish(let outcome): return .finish(Self.error(of: outcome, id: self.tries.id))
        }
    }

    /// Whether the answer tells how things stand, rather than that APNs could not or would not look.
    private static func isSettled(_ rejection: Rejection) -> Bool {
        [400, 404, 405, 413].contains(rejection.status) && rejection.reason != .idleTimeout
    }

    private static func error(of outcome: PushOutcome, id: APNSID) -> PushError {
        outcome.error
            ?? PushError(
                code: .internalFault,
                certainty: .unknown,
                apnsID: id,
                message: "a call ended without an error"
            )
    }
}

import APNSModel
import HTTP2Wire
import SupervisedPool

extension ConnectionStateMachine {
    /// The evaluation of the results of one tick. Responses are summed up instead of turned into single actions, so
    /// that a tick of successes allocates nothing.
    struct Evaluation: Equatable {
        /// The actions to perform, in the order of the results.
        var actions: [Action] = []
        /// The number of responses, which the retry budget depends on.
        var responses = 0
        /// The number of responses that report an invalid device token.
        var invalidTokens = 0
        /// Whether a response proves that APNs accepts the credential.
        var provesCredential = false
        /// Whether a response proves that APNs accepts the credential for the topic, too.
        var provesTopic = false
        /// The smoothed latency; nil unless a report is due.
        var latency: Duration?
        /// The response time of the timed push in nanoseconds; nil if its response is not among the results.
        var responseTime: Int64?
    }

    /// Evaluates the results of one tick. A success costs a few additions.
    ///
    /// - Parameters:
    ///   - quietSince: since when streams have been open without a response frame.
    ///   - takeReplacement: as in `suspect`.
    mutating func evaluate(
        _ results: [StreamResult],
        connection: Int,
        quietSince: MonotonicInstant,
        now: MonotonicInstant,
        using generator: inout some RandomNumberGenerator,
        takeReplacement: () -> Bool
    ) -> Evaluation {
        var evaluation = Evaluation()
        var successes = 0
        for result in results {
            if result.tag == self.latency.tag {
                evaluation.latency = self.latency.ended(hasResponse: result.ending == .response, now: now)
                evaluation.responseTime = self.latency.measured
            }
            if result.ending == .response {
                evaluation.responses += 1
                switch result.status {
                case 403, 500, 503:
                    self.count(&successes, connection, &evaluation)
                    evaluation.actions += self.receivedError(
                        result,
                        connection: connection,
                        now: now,
                        using: &generator,
                        takeReplacement: takeReplacement
                    )
                case 200, 201, 204, 400, 410:
                    successes += 1
                    evaluation.provesCredential = true
                    if result.status != 400 { evaluation.provesTopic = true }
                    if result.status == 410 { evaluation.invalidTokens += 1 }
                default:
                    // A server may respond with 404, 405 or 413 without checking the credential. A 429 can be about the
                    // credential.
                    successes += 1
                }
            } else if result.cause == .deadline, result.ending == .unknown {
                self.count(&successes, connection, &evaluation)
                evaluation.actions += self.deadlinePassed(
                    connection: connection,
                    quiet: quietSince.duration(to: now),
                    now: now,
                    using: &generator,
                    takeReplacement: takeReplacement
                )
            }
        }
        self.count(&successes, connection, &evaluation)
        return evaluation
    }

    /// Records the successes so far in one step. Called before any other result is recorded.
    private mutating func count(_ successes: inout Int, _ connection: Int, _ evaluation: inout Evaluation) {
        guard successes > 0 else { return }
        evaluation.actions += self.receivedProof(connection: connection, count: successes)
        successes = 0
    }

    /// Evaluates a 403, 500 or 503.
    private mutating func receivedError(
        _ result: StreamResult,
        connection: Int,
        now: MonotonicInstant,
        using generator: inout some RandomNumberGenerator,
        takeReplacement: () -> Bool
    ) -> [Action] {
        switch result.status {
        case 503:
            return self.suspect(
                connection: connection,
                now: now,
                using: &generator,
                takeReplacement: takeReplacement
            )
        case 500:
            return self.receivedInternalServerError(
                connection: connection,
                now: now,
                using: &generator,
                takeReplacement: takeReplacement
            )
        default:
            return self.receivedForbidden(result, connection: connection, takeReplacement: takeReplacement)
        }
    }

    private mutating func receivedForbidden(
        _ result: StreamResult,
        connection: Int,
        takeReplacement: () -> Bool
    ) -> [Action] {
        let reason = Rejection(status: 403, body: result.body).reason
        if let refusal = CredentialStateMachine.Refusal(status: 403, reason: reason) {
            let isFresh = self.isFresh(connection: connection)
            return [.refuseCredential(refusal, connection: connection, isFresh: isFresh)]
                + self.tokenRefused(connection: connection, takeReplacement: takeReplacement)
        }
        if reason == .expiredProviderToken || reason == .unrelatedKeyIDInToken {
            return self.tokenRefused(connection: connection, takeReplacement: takeReplacement)
        }
        return self.receivedOtherResponse(connection: connection)
    }
}

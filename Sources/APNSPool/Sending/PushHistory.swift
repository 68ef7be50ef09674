import APNSModel
import SupervisedPool

/// What became of a push so far, over all its tries. Pure.
struct PushHistory: Sendable {
    enum Decision: Equatable {
        case finish(PushOutcome)
        case retry(after: Duration)
    }

    /// What is sent again, and when, depends on it.
    enum Kind: Sendable {
        case push
        /// A call about channels. One that can be repeated (all but `create`) is sent again when its fate is unknown, and
        /// then a response that settles the matter counts, whatever an attempt before it may have done.
        case channelCall(isRepeatable: Bool)
    }

    /// Tries that ended before a byte was written are free, but not endless.
    static let unsentLimit = 20

    let id: APNSID
    let deadline: MonotonicInstant
    // Small, for there is one of these for each push in flight.
    private var attemptCount: Int32 = 0
    private var unsent: Int32 = 0
    private var strongest: PushError?
    private var usedSecondChance = false
    private var hasOtherToken = false
    private let kind: Kind

    init(id: APNSID, deadline: MonotonicInstant, kind: Kind = .push) {
        self.kind = kind
        self.id = id
        self.deadline = deadline
    }

    /// How often the push was given to a connection that took it.
    var attempts: Int { Int(self.attemptCount) }

    /// Whether this is not the first try: it goes to the front of the queue.
    var isResend: Bool { self.attemptCount + self.unsent > 0 }

    mutating func countAttempt() { self.attemptCount += 1 }

    /// APNs refused a token whose `iat` lies in the future; the next attempt carries another one.
    mutating func tokenIsReplaced() { self.hasOtherToken = true }

    /// A push that ends without (another) try.
    mutating func fail(
        _ code: PushError.Code,
        _ message: String,
        retryAfter: Duration? = nil
    ) -> PushOutcome {
        .failed(self.merged(PushError(code: code, certainty: .notSent, message: message, retryAfter: retryAfter)))
    }

    /// The end of a try, and what follows from it.
    ///
    /// - Parameters:
    ///   - isDegraded: APNs is overloaded: after 503 and 500 the second try waits too.
    ///   - takeBudget: asked once when the response was 503 or 500 and a retry is otherwise due.
    mutating func decide(
        _ end: AttemptEnd,
        policy: APNSClientConfiguration.Retry,
        now: MonotonicInstant,
        using generator: inout some RandomNumberGenerator,
        isDegraded: Bool = false,
        takeBudget: () -> Bool
    ) -> Decision {
        var wait = Duration.zero
        var isOverloaded = false
        let policy = self.kind.adjusted(policy)
        switch end {
        case .accepted(let receipt):
            return .finish(.accepted(receipt))
        case .rejected(let rejection, let retryAfter):
            if self.kind.isSettled(by: rejection) { self.strongest = nil }
            self.strongest = self.merged(
                .rejected(rejection, attempts: self.attempts, retryAfter: retryAfter)
            )
            guard self.mayResend(rejection, policy), self.attempts < policy.maxAttempts else {
                return self.finish()
            }
            if rejection.status == 503 || rejection.status == 500 {
                wait = retryAfter ?? .zero
                isOverloaded = isDegraded
                // A try that would come too late is not taken from the others.
                guard now.advanced(by: wait) < self.deadline, takeBudget() else { return self.finish() }
            }
        case .notProcessed(let code, let message):
            self.strongest = self.merged(PushError(code: code, certainty: .notProcessed, message: message))
            guard self.attempts < policy.maxAttempts else { return self.finish() }
        case .notSent(let code, let message, let retryAfter, let isFinal):
            self.strongest = self.merged(
                PushError(code: code, certainty: .notSent, message: message, retryAfter: retryAfter)
            )
            guard !isFinal, self.unsent < Self.unsentLimit else { return self.finish() }
            self.unsent += 1
        case .unknown(let code, let message):
            self.strongest = self.merged(PushError(code: code, certainty: .unknown, message: message))
            // What is over is over: the deadline of the push, its task, the client.
            guard policy.resendsUnknown, code == .connectionLost || code == .deadlineExceeded,
                self.attempts < policy.maxAttempts
            else { return self.finish() }
        }
        let delay = max(wait, self.delay(isOverloaded: isOverloaded, using: &generator))
        guard now.advanced(by: delay) < self.deadline else { return self.finish() }
        return .retry(after: delay)
    }

    private func finish() -> Decision {
        .finish(
            .failed(
                self.strongest
                    ?? PushError(code: .internalFault, certainty: .notSent, apnsID: self.id, message: "no try was made")
            )
        )
    }

    private mutating func mayResend(_ rejection: Rejection, _ policy: APNSClientConfiguration.Retry) -> Bool {
        switch (rejection.status, rejection.reason) {
        case (503, _): return true
        case (500, _): return policy.retriesInternalServerError
        case (400, .idleTimeout): return true
        case (403, .invalidProviderToken) where !self.hasOtherToken:
            return false
        case (403, .expiredProviderToken), (403, .unrelatedKeyIDInToken), (403, .invalidProviderToken):
            // Once, on a new session and with a fresh token.
            defer { self.usedSecondChance = true }
            return !self.usedSecondChance
        default: return false
        }
    }

    /// The second try follows at once, later ones after full jitter of 50 ms · 2ⁿ; one step further while APNs is
    /// overloaded.
    private func delay(isOverloaded: Bool, using generator: inout some RandomNumberGenerator) -> Duration {
        let tries = self.attempts + Int(self.unsent) + (isOverloaded ? 1 : 0)
        guard tries >= 2 else { return .zero }
        let limit = Int64(50) << Int64(min(tries, 6))
        return .milliseconds(Int64.random(in: 0...limit, using: &generator))
    }

    /// The strongest of all tries so far: what may have reached a device cannot be taken back by a later failure.
    private func merged(_ error: PushError) -> PushError {
        var result = error
        if let strongest, strongest.certainty > error.certainty {
            result = strongest
            if !strongest.message.hasSuffix(error.message) { result.message += "; after that: \(error.message)" }
        }
        result.apnsID = self.id
        result.attempts = self.attempts
        return result
    }
}

extension PushHistory.Kind {
    fileprivate func adjusted(_ policy: APNSClientConfiguration.Retry) -> APNSClientConfiguration.Retry {
        guard case .channelCall(let isRepeatable) = self else { return policy }
        var policy = policy
        policy.resendsUnknown = isRepeatable
        // A 500 may come after the channel was made.
        policy.retriesInternalServerError = policy.retriesInternalServerError && isRepeatable
        return policy
    }

    /// Whether the response says how things stand, rather than that APNs could not or would not look.
    fileprivate func isSettled(by rejection: Rejection) -> Bool {
        guard case .channelCall(isRepeatable: true) = self else { return false }
        return [400, 404, 405, 413].contains(rejection.status) && rejection.reason != .idleTimeout
    }
}

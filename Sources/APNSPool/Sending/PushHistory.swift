import APNSModel
import SupervisedPool

/// The history of one push over all its attempts. Decides whether another attempt follows. Pure.
struct PushHistory: Sendable {
    enum Decision: Equatable {
        case finish(PushOutcome)
        case retry(after: Duration)
    }

    /// The kind of request, which determines what is resent and when.
    enum Kind: Equatable, Sendable {
        case push
        /// A push of a bulk call. It waits for APNs to accept its provider token again until its deadline, because nobody
        /// waits for this push alone.
        case row
        /// A call that manages channels. A repeatable call (any except `create`) is resent when its outcome is unknown.
        /// A later response that settles the state of the channel then decides the outcome, even if the outcome of an
        /// earlier attempt is unknown.
        case channelCall(isRepeatable: Bool)
    }

    /// The limit for attempts that ended before a byte was written. They do not count towards `maxAttempts`.
    static let unsentLimit = 20
    /// The limit for attempts that met weather and may be repeated. They do not count towards `maxAttempts`, because only
    /// one push at a time is tried in bad weather.
    static let weatherLimit = 100
    /// The limit for attempts that ended with a GOAWAY which declares them unprocessed. A server may close each connection
    /// after a few requests, and then a push may be on many of them.
    static let goAwayLimit = 1000

    let id: APNSID
    let deadline: MonotonicInstant
    // Small integers, because one of these exists for every push in flight.
    private var attemptCount: Int32 = 0
    private var unsent: Int32 = 0
    /// The attempts that met weather.
    private var weather: Int32 = 0
    /// The attempts that ended with a connection which the server closed without processing them.
    private var goAways: Int32 = 0
    /// The error of all attempts so far, with the strongest `Certainty` among them.
    private var strongest: PushError?
    private var usedSecondChance = false
    private var hasOtherToken = false
    private let kind: Kind

    init(id: APNSID, deadline: MonotonicInstant, kind: Kind = .push) {
        self.kind = kind
        self.id = id
        self.deadline = deadline
    }

    /// The number of attempts in which the push was written to a connection, at least in part.
    var attempts: Int { Int(self.attemptCount) }

    /// Whether this is a resend. Resends are placed at the front of the queue.
    var isResend: Bool { self.attemptCount + self.unsent > 0 }

    mutating func countAttempt() { self.attemptCount += 1 }

    /// Records that APNs refused a token whose `iat` lies in the future. The next attempt uses another token.
    mutating func tokenIsReplaced() { self.hasOtherToken = true }

    /// Returns the outcome of a push that ends without a further attempt.
    mutating func fail(
        _ code: PushError.Code,
        _ message: String,
        retryAfter: Duration? = nil
    ) -> PushOutcome {
        .failed(self.merged(PushError(code: code, certainty: .notSent, message: message, retryAfter: retryAfter)))
    }

    /// Records the end of an attempt and decides whether another one follows.
    ///
    /// - Parameters:
    ///   - isDegraded: whether APNs is overloaded. If so, even the second attempt after 503 or 500 is delayed.
    ///   - patience: how long the push waits for bad weather to pass before its first attempt; nil: until its deadline.
    ///   - takeBudget: takes one retry from the budget. Called at most once: if the status was 500 or more and a retry
    ///     is otherwise possible.
    mutating func decide(
        _ end: AttemptEnd,
        policy: APNSClientConfiguration.Retry,
        now: MonotonicInstant,
        using generator: inout some RandomNumberGenerator,
        isDegraded: Bool = false,
        patience: Duration? = nil,
        takeBudget: () -> Bool = { true }
    ) -> Decision {
        var wait = Duration.zero
        var isOverloaded = false
        var needsBudget = false
        let policy = self.kind.adjusted(policy)
        switch end {
        case .accepted(let receipt):
            return .finish(.accepted(receipt))
        case .rejected(let rejection, let retryAfter):
            if self.kind.isSettled(by: rejection) { self.strongest = nil }
            self.strongest = self.merged(
                .rejected(rejection, attempts: self.attempts, retryAfter: retryAfter)
            )
            if rejection.isWeather { self.weather += 1 }
            guard self.mayResend(rejection, policy), self.hasAttemptsLeft(policy) else { return self.finish() }
            if rejection.reason == .tooManyProviderTokenUpdates {
                if self.kind != .row { wait = self.strongest?.retryAfter ?? .zero }
            } else if rejection.status >= 429 {
                wait = retryAfter ?? .zero
            }
            if rejection.status >= 500 {
                isOverloaded = isDegraded
                needsBudget = true
            }
        case .notProcessed(let code, let message):
            self.strongest = self.merged(PushError(code: code, certainty: .notProcessed, message: message))
            if code == .goAway { self.goAways += 1 } else { self.weather += 1 }
            guard self.hasAttemptsLeft(policy) else { return self.finish() }
        case .notSent(let code, let message, let retryAfter, let isFinal):
            self.strongest = self.merged(
                PushError(code: code, certainty: .notSent, message: message, retryAfter: retryAfter)
            )
            guard !isFinal, self.unsent < Self.unsentLimit else { return self.finish() }
            self.unsent += 1
        case .held(_, let since, let until, _):
            if let error = end.error(now: now) { self.strongest = self.merged(error) }
            // A push that has met the weather itself waits for it to pass, because no better outcome is left for it.
            let isPatient = patience.map { self.attempts > 0 || since.duration(to: now) < $0 } ?? true
            guard isPatient, now < self.deadline else { return self.finish() }
            return .retry(after: max(now.duration(to: min(until, self.deadline)), .zero))
        case .unknown(let code, let message):
            self.strongest = self.merged(PushError(code: code, certainty: .unknown, message: message))
            // A lost connection or a response timeout (`deadlineExceeded`), but not a cancellation or shutdown. After
            // the push's own deadline, the check at the end of this method prevents a resend.
            guard policy.resendsUnknown, code == .connectionLost || code == .deadlineExceeded,
                self.attempts < policy.maxAttempts
            else { return self.finish() }
        }
        let delay = max(wait, self.delay(isOverloaded: isOverloaded, using: &generator))
        guard now.advanced(by: delay) < self.deadline else { return self.finish() }
        // Last, because a retry that would miss the deadline must not use up the shared budget.
        if needsBudget, !takeBudget() { return self.finish() }
        return .retry(after: delay)
    }

    private func finish() -> Decision {
        .finish(
            .failed(
                self.strongest
                    ?? PushError(
                        code: .internalFault,
                        certainty: .notSent,
                        apnsID: self.id,
                        message: "no attempt was made"
                    )
            )
        )
    }

    /// Whether the limits of attempts allow another one. An attempt that met weather or a GOAWAY counts towards a limit of
    /// its own; `maxAttempts` 1 allows no second attempt of any kind.
    private func hasAttemptsLeft(_ policy: APNSClientConfiguration.Retry) -> Bool {
        policy.maxAttempts > 1 && self.weather < Self.weatherLimit && self.goAways < Self.goAwayLimit
            && self.attempts - Int(self.weather + self.goAways) < policy.maxAttempts
    }

    private mutating func mayResend(_ rejection: Rejection, _ policy: APNSClientConfiguration.Retry) -> Bool {
        switch (rejection.status, rejection.reason) {
        case (500, _) where !policy.retriesInternalServerError: return false
        case (500..., _) where !rejection.provesNoEffect: return policy.resendsUnknown
        case (500, _), (503, _): return true
        case (400, .idleTimeout): return true
        case (403, .invalidProviderToken) where !self.hasOtherToken:
            return false
        case (403, .unrelatedKeyIDInToken), (403, .invalidProviderToken):
            // Allowed once, on a new connection and with a fresh token.
            defer { self.usedSecondChance = true }
            return !self.usedSecondChance
        // On a new connection and with a fresh token. If that is refused, too, this machine's clock is wrong or APNs' is.
        case (403, .expiredProviderToken): return true
        case (429, .tooManyProviderTokenUpdates), (429, nil): return true
        default: return false
        }
    }

    /// The delays before the third and all later attempts. The second one follows at once.
    private static let delays = Backoff(
        .doubling(randomPercent: 100),
        minimum: .milliseconds(200),
        maximum: .milliseconds(3200)
    )

    /// The delay before the next attempt. While APNs is overloaded, even the second attempt is delayed.
    private func delay(isOverloaded: Bool, using generator: inout some RandomNumberGenerator) -> Duration {
        // The pause after a GOAWAY is that of the next connect.
        let tries = self.attempts - Int(self.goAways) + Int(self.unsent) + (isOverloaded ? 1 : 0)
        return tries >= 2 ? Self.delays.wait(after: tries - 1, using: &generator) : .zero
    }

    /// Merges the error with the strongest error of all attempts so far. A later failure cannot undo that an earlier
    /// attempt may have reached a device.
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
        // APNs may respond with 500 after it has created the channel.
        policy.retriesInternalServerError = policy.retriesInternalServerError && isRepeatable
        return policy
    }

    /// Whether the response settles the state of the channel. Other responses only say that APNs could not or would not
    /// process the call.
    fileprivate func isSettled(by rejection: Rejection) -> Bool {
        guard case .channelCall(isRepeatable: true) = self else { return false }
        return [400, 404, 405, 413].contains(rejection.status) && rejection.reason != .idleTimeout
    }
}

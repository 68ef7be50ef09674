import APNSModel
import APNSTransport
import SupervisedPool

extension ConnectionStateMachine {
    /// The evaluation of the results of one tick. Responses are summed up instead of turned into single actions, so
    /// that a tick of successes allocates nothing.
    struct Evaluation: Equatable {
        /// The actions to perform, in the order of the results.
        var actions: [Action] = []
        /// The number of responses.
        var responses = 0
        /// Whether a response proves that APNs accepts the credential.
        var provesCredential = false
        /// The smoothed latency; nil unless a report is due.
        var latency: Duration?
        /// The response time of the timed push in nanoseconds; nil if its response is not among the results.
        var responseTime: Int64?
        /// What the results say about the weather.
        var weather = WeatherStateMachine.Results()
    }

    /// How many pushes without a response count as weather in one tick. A single lost connection must not look like an
    /// outage.
    static let lostLimit = 10
    /// A deadline that passes after a shorter silence shows only that the caller is impatient.
    static let shortestQuiet = Duration.seconds(1)

    /// Evaluates the results of one tick. A success costs a few additions.
    ///
    /// - Parameters:
    ///   - quietSince: since when streams have been open without a response frame.
    mutating func evaluate(
        _ results: [StreamResult],
        connection: Int,
        quietSince: MonotonicInstant,
        now: MonotonicInstant
    ) -> Evaluation {
        var evaluation = Evaluation()
        var successes = 0
        var lost = 0
        let quiet = quietSince.duration(to: now)
        for result in results {
            if result.tag == self.latency.tag {
                evaluation.latency = self.latency.ended(hasResponse: result.ending == .response, now: now)
                evaluation.responseTime = self.latency.measured
            }
            if result.ending == .response {
                evaluation.responses += 1
                switch result.status {
                case 200, 201, 204, 410:
                    successes += 1
                    evaluation.weather.latestWeather = 0
                    evaluation.provesCredential = true
                default:
                    let rejection = Rejection(status: result.status, body: result.body)
                    evaluation.record(rejection, retryAfter: result.retryAfter)
                    if !rejection.isWeather {
                        successes += 1
                        evaluation.weather.latestWeather = 0
                        continue
                    }
                    self.count(&successes, connection, &evaluation)
                    evaluation.actions += self.receivedError(
                        rejection,
                        connection: connection,
                        now: now
                    )
                }
            } else {
                if let cause = result.weather(quiet: quiet) {
                    evaluation.weather.cause = cause
                    if case .reset = result.cause { evaluation.weather.addWeather() } else { lost += 1 }
                }
                guard result.cause == .deadline, result.ending == .unknown else { continue }
                self.count(&successes, connection, &evaluation)
                evaluation.actions += self.timedOut(connection: connection, quietSince: quietSince, now: now)
            }
        }
        self.count(&successes, connection, &evaluation)
        evaluation.weather.verdicts += evaluation.responses
        evaluation.weather.addWeather(min(lost, Self.lostLimit))
        return evaluation
    }

    /// Records the successes so far in one step. Called before any other result is recorded.
    private mutating func count(_ successes: inout Int, _ connection: Int, _ evaluation: inout Evaluation) {
        guard successes > 0 else { return }
        evaluation.actions += self.receivedProof(connection: connection, count: successes)
        successes = 0
    }

    /// Evaluates a response that is weather.
    private mutating func receivedError(
        _ rejection: Rejection,
        connection: Int,
        now: MonotonicInstant
    ) -> [Action] {
        switch rejection.status {
        case 403:
            return self.receivedForbidden(rejection, connection: connection, now: now)
        case 500, 503:
            return self.receivedServerError(rejection.status, connection: connection, now: now)
        default:
            return self.receivedOtherResponse(connection: connection)
        }
    }

    private mutating func receivedForbidden(
        _ rejection: Rejection,
        connection: Int,
        now: MonotonicInstant
    ) -> [Action] {
        let reason = rejection.reason
        if let refusal = CredentialStateMachine.Refusal(status: 403, reason: reason) {
            let isFresh = self.isFresh(connection: connection)
            return [.refuseCredential(refusal, connection: connection, isFresh: isFresh)]
                + self.providerTokenRefused(connection: connection, now: now)
        }
        if reason == .expiredProviderToken || reason == .unrelatedKeyIDInToken {
            return self.providerTokenRefused(connection: connection, now: now)
        }
        return self.receivedOtherResponse(connection: connection)
    }
}

extension ConnectionStateMachine.Evaluation {
    /// Records what a response other than 200 and 410 says about the weather and the credential.
    fileprivate mutating func record(_ rejection: Rejection, retryAfter: Duration?) {
        if rejection.provesCredential { self.provesCredential = true }
        guard rejection.isWeather else { return }
        // The verdicts are the responses that remain.
        self.weather.verdicts -= 1
        // The credential's own machine holds pushes back for a refused credential.
        guard CredentialStateMachine.Refusal(status: rejection.status, reason: rejection.reason) == nil else { return }
        self.weather.addWeather()
        self.weather.cause = .init(
            description:
                "\(rejection.status) \(rejection.reason.map { PeerText.printable($0.rawValue) } ?? "without a reason")",
            concernsCredential: rejection.isCredentialWeather
        )
        if let retryAfter { self.weather.retryAfter = max(retryAfter, self.weather.retryAfter ?? .zero) }
    }
}

extension StreamResult {
    /// The weather that ended a stream without a response; nil if its end says nothing about APNs: the caller cancelled it,
    /// the client closed the connection, or the server did not process it because it closes this connection.
    ///
    /// - Parameter quiet: how long streams have been open without a response frame.
    func weather(quiet: Duration) -> WeatherStateMachine.Cause? {
        switch (self.ending, self.cause) {
        case (.unknown, .deadline):
            quiet < ConnectionStateMachine.shortestQuiet ? nil : .init(description: "no response in time")
        case (.unknown, .reset(let code)): .init(description: "streams reset (\(code)) without a response")
        case (.notProcessed, .reset(let code)): .init(description: "streams refused (\(code))")
        case (.unknown, .connectionLost), (.unknown, .goAway): .init(description: "connections lost without a response")
        default: nil
        }
    }

    /// The `retry-after` of the response in whole seconds, up to a day; nil if it has none.
    var retryAfter: Duration? {
        let seconds = self.fields.first("retry-after").flatMap { Int64($0) }
        return seconds.flatMap { $0 >= 0 && $0 <= 86_400 ? Duration.seconds($0) : nil }
    }
}

import APNSModel
import APNSTransport
import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The effect of one tick's results on the connection, the credential and the budgets.
struct ConnectionEvaluationTests {
    private typealias Machine = ConnectionStateMachine
    private let start = MonotonicInstant(nanoseconds: 1_000_000_000_000)
    private let replaced: [Machine.Action] = [
        .report(.draining), .drain(connection: 1), .report(.connecting), .open(connection: 2),
    ]

    private func ready(isProven: Bool = true) -> Machine {
        var machine = Machine(isBase: true, streamCap: 1000, backoff: Backoff())
        _ = machine.connect()
        _ = machine.ready(connection: 1, limit: 100)
        if isProven { _ = machine.receivedProof(connection: 1) }
        return machine
    }

    private func response(_ status: Int, _ reason: String? = nil, tag: StreamTag = 0) -> StreamResult {
        let body = reason.map { Array("{\"reason\":\"\($0)\"}".utf8) } ?? []
        return StreamResult(tag: tag, ending: .response, cause: .responded, status: status, body: body)
    }

    private func timeOut(_ ending: StreamEnding = .unknown) -> StreamResult {
        StreamResult(tag: 0, ending: ending, cause: .deadline)
    }

    private func evaluate(
        _ machine: inout Machine,
        _ results: [StreamResult],
        connection: Int = 1,
        budget: Bool = true,
        quiet: Duration = .seconds(10),
        at now: MonotonicInstant? = nil
    ) -> Machine.Evaluation {
        machine.takeReplacement = { _ in budget }
        return machine.evaluate(
            results,
            connection: connection,
            quietSince: (now ?? start).advanced(by: .zero - quiet),
            now: now ?? start
        )
    }

    // MARK: Sums

    @Test(
        "Each status counts as a response; some prove the credential",
        arguments: [
            (200, true), (201, true), (204, true), (410, true), (400, false), (404, false), (405, false), (413, false),
            (429, false), (403, false), (500, false), (503, false),
        ]
    )
    func proof(_ status: Int, _ provesCredential: Bool) {
        var machine = ready()
        let evaluation = evaluate(&machine, [response(status)])
        #expect(evaluation.responses == 1)
        #expect(evaluation.provesCredential == provesCredential)
    }

    @Test(
        "A response says something about its push, or would have met any other push; only APNs' reasons prove the credential",
        arguments: [
            (400, "BadDeviceToken", false, true), (400, "DeviceTokenNotForTopic", false, true),
            (400, "BadTopic", false, false),
            (400, nil, true, false), (400, "IdleTimeout", true, false), (400, "SomethingNew", false, false),
            (403, "ExpiredProviderToken", true, false),
            (403, nil, true, false),
            (404, "BadPath", false, false), (404, nil, true, false), (413, "PayloadTooLarge", false, false),
            (429, "TooManyRequests", false, true), (429, "TooManyProviderTokenUpdates", true, false),
            (429, nil, true, false),
            (500, "InternalServerError", true, false), (502, nil, true, false), (503, "Shutdown", true, false),
        ] as [(Int, String?, Bool, Bool)]
    )
    func weather(_ status: Int, _ reason: String?, _ isWeather: Bool, _ provesCredential: Bool) {
        var machine = self.ready()
        let evaluation = self.evaluate(&machine, [self.response(status, reason), self.response(200)])
        #expect(evaluation.weather.verdicts == (isWeather ? 1 : 2))
        #expect(evaluation.weather.weather == (isWeather ? 1 : 0))
        #expect(
            evaluation.weather.cause?.description == (isWeather ? "\(status) \(reason ?? "without a reason")" : nil)
        )
        var alone = self.ready()
        #expect(self.evaluate(&alone, [self.response(status, reason)]).provesCredential == provesCredential)
    }

    @Test(
        "Streams without a response are weather, unless the caller or the client ended them or the connection only closes"
    )
    func streamsWithoutResponse() {
        func weather(_ ending: StreamEnding, _ cause: StreamCause, quiet: Duration = .seconds(10)) -> Int {
            var machine = self.ready()
            let result = StreamResult(tag: 0, ending: ending, cause: cause)
            return self.evaluate(&machine, [result], quiet: quiet).weather.weather
        }
        #expect(weather(.unknown, .connectionLost) == 1)
        #expect(weather(.unknown, .reset(.internalError)) == 1)
        #expect(weather(.notProcessed, .reset(.refusedStream)) == 1)
        #expect(weather(.unknown, .deadline) == 1)
        #expect(weather(.unknown, .deadline, quiet: .milliseconds(500)) == 0)
        #expect(weather(.unknown, .cancelled) == 0)
        #expect(weather(.unknown, .closedLocally) == 0)
        #expect(weather(.notProcessed, .goAway) == 0)
        #expect(weather(.notSent, .connectionLost) == 0)
        // One lost connection does not look like an outage.
        var machine = self.ready()
        let lost = [StreamResult](repeating: .init(tag: 0, ending: .unknown, cause: .connectionLost), count: 500)
        #expect(self.evaluate(&machine, lost).weather.weather == Machine.lostLimit)
    }

    @Test("Weather after the last verdict of a tick is counted, because the verdict is older")
    func latestWeather() {
        func latest(_ results: [StreamResult]) -> [Int] {
            var machine = self.ready()
            let weather = self.evaluate(&machine, results).weather
            return [weather.weather, weather.latestWeather]
        }
        let bad = [
            self.response(502), StreamResult(tag: 0, ending: .unknown, cause: .reset(.internalError)),
            StreamResult(tag: 0, ending: .unknown, cause: .connectionLost),
        ]
        #expect(latest(bad) == [3, 3])
        #expect(latest([self.response(200)] + bad) == [3, 3])
        for verdict in [self.response(200), self.response(400, "BadDeviceToken")] {
            #expect(latest([bad[0], bad[1], verdict]) == [2, 0])
            #expect(latest([bad[0], verdict] + bad) == [4, 3])
        }
    }

    @Test("A tick of successes and of streams without a response causes no action")
    func sums() {
        var machine = ready()
        let others = [
            StreamResult(tag: 1, ending: .notSent, cause: .noCapacity),
            StreamResult(tag: 2, ending: .unknown, cause: .cancelled),
            StreamResult(tag: 3, ending: .notProcessed, cause: .goAway),
        ]
        var expected = Machine.Evaluation()
        #expect(evaluate(&machine, others) == expected)
        #expect(evaluate(&machine, []) == expected)
        expected.responses = 5
        expected.provesCredential = true
        expected.weather.verdicts = 5
        let results = [200, 410, 201, 410, 204].map { response($0) }
        #expect(evaluate(&machine, results + others) == expected)
    }

    @Test("A first success proves the connection, so a failure in the same tick replaces it")
    func successesComeFirst() {
        var machine = ready(isProven: false)
        #expect(evaluate(&machine, [response(200), response(503)]).actions == replaced)
        machine = ready(isProven: false)
        let actions = evaluate(&machine, [response(503), response(200)]).actions
        #expect(actions.first == .report(.capacity(0)))
        #expect(machine.readyConnection == 1)
    }

    @Test("Successes after the last failure of a tick count too")
    func successesComeLast() {
        var machine = ready()
        _ = evaluate(&machine, [response(503)], budget: false)
        let results = [response(500)] + (0..<10).map { _ in response(200) }
        #expect(evaluate(&machine, results).actions == [.report(.capacity(51))])
    }

    // MARK: Failures

    @Test("A 503 replaces the connection once, or halves its stream limit if the budget is spent")
    func serviceUnavailable() {
        var machine = ready()
        #expect(evaluate(&machine, [response(503), response(503)]).actions == replaced)
        machine = ready()
        #expect(evaluate(&machine, [response(503)], budget: false).actions == [.report(.capacity(50))])
    }

    @Test("Five 500 responses among twenty replace the connection, also across several ticks")
    func internalServerErrors() {
        var machine = ready()
        let error = response(500)
        #expect(evaluate(&machine, [error, response(200), error, error]).actions == [])
        #expect(evaluate(&machine, [error, response(404), error]).actions == replaced)
        machine = ready()
        let diluted = [error, error] + (0..<20).map { _ in response(200) } + [error, error, error]
        #expect(evaluate(&machine, diluted).actions == [])
    }

    @Test("Five passed deadlines in a row watch the connection, unless a response comes between them")
    func deadlines() {
        var machine = ready()
        let four = (0..<4).map { _ in timeOut() }
        #expect(evaluate(&machine, four + [response(200)] + four).actions == [])
        #expect(evaluate(&machine, [timeOut()]).actions == [.checkForStall(at: start, connection: 1)])
        #expect(evaluate(&machine, four).responses == 0)
    }

    @Test("A deadline does not count for a push that was not sent") func harmlessDeadlines() {
        var machine = ready()
        #expect(evaluate(&machine, (0..<20).map { _ in timeOut(.notSent) }).actions == [])
    }

    @Test("Results of a replaced connection change only the sums")
    func staleConnection() {
        var machine = ready()
        _ = machine.replace()
        _ = machine.ready(connection: 2, limit: 100)
        let state = machine.state
        let results = (0..<6).flatMap { _ in [response(500), response(503), timeOut(), response(200)] }
        let evaluation = evaluate(&machine, results)
        #expect(evaluation.actions == [])
        #expect(evaluation.responses == 18)
        #expect(machine.state == state)
    }

    // MARK: Credential

    @Test("A refused credential is reported, fresh if no push succeeded before, and replaces a proven connection")
    func refusedCredential() {
        var machine = ready()
        let refusal = CredentialStateMachine.Refusal.rejection(.invalidProviderToken)
        let refused = response(403, "InvalidProviderToken")
        let first = Machine.Action.refuseCredential(refusal, connection: 1, isFresh: false)
        // The second result is of a connection that has been replaced.
        #expect(evaluate(&machine, [refused, refused]).actions == [first] + replaced + [first])
        machine = ready(isProven: false)
        let fresh = Machine.Action.refuseCredential(refusal, connection: 1, isFresh: true)
        #expect(evaluate(&machine, [refused], budget: false).actions == [fresh])
        #expect(evaluate(&machine, [refused]).actions == [fresh] + replaced)
    }

    @Test(
        "An expired or unrelated provider token replaces the connection without evidence against the credential",
        arguments: ["ExpiredProviderToken", "UnrelatedKeyIdInToken"]
    )
    func mendableToken(_ reason: String) {
        var machine = ready()
        #expect(evaluate(&machine, [response(403, reason)]).actions == replaced)
    }

    @Test("Any other 403 proves only that the connection responds", arguments: ["Forbidden", "TopicDisallowed"])
    func otherForbidden(_ reason: String) {
        var machine = ready()
        let evaluation = evaluate(&machine, (0..<30).map { _ in response(403, reason) })
        #expect(evaluation.actions == [])
        #expect(evaluation.responses == 30)
        #expect(machine.state == .ready(connection: 1))
        // It interrupts a row of passed deadlines.
        let four = (0..<4).map { _ in timeOut() }
        #expect(evaluate(&machine, four + [response(403, reason)] + four).actions == [])
    }

    // MARK: Latency

    @Test("One push at a time is timed; its response reports the latency once a second")
    func latency() {
        var machine = ready()
        let later = start.advanced(by: .milliseconds(40))
        machine.willSubmit(tag: 7, now: start)
        machine.willSubmit(tag: 8, now: start.advanced(by: .milliseconds(30)))
        #expect(evaluate(&machine, [response(200, tag: 8)], at: later).latency == nil)
        let timed = evaluate(&machine, [response(200, tag: 7)], at: later)
        #expect(timed.latency == .milliseconds(40))
        #expect(timed.responseTime == 40_000_000)
        machine.willSubmit(tag: 9, now: later)
        let soon = evaluate(&machine, [response(200, tag: 9)], at: later.advanced(by: .milliseconds(5)))
        #expect(soon.latency == nil)
        #expect(soon.responseTime == 5_000_000)
    }

    @Test("A push that gets no response, or one of an earlier connection, is not timed")
    func untimed() {
        var machine = ready()
        machine.willSubmit(tag: 7, now: start)
        let lost = StreamResult(tag: 7, ending: .unknown, cause: .connectionLost)
        let evaluation = evaluate(&machine, [lost], at: start.advanced(by: .seconds(9)))
        #expect(evaluation.latency == nil && evaluation.responseTime == nil)
        machine.willSubmit(tag: 8, now: start)
        _ = machine.replace()
        _ = machine.ready(connection: 2, limit: 1)
        #expect(evaluate(&machine, [response(200, tag: 8)], at: start.advanced(by: .seconds(9))).responseTime == nil)
    }
}

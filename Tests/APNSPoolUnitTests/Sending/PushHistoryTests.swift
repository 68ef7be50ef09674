import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport
@testable import APNSTransport

/// Which pushes are resent, how often, and the outcome of several attempts.
struct PushHistoryTests {
    private let start = MonotonicInstant(nanoseconds: 0)
    private let id = APNSID.random()

    /// Attempts that end one after another, with the decision after each.
    private final class Run {
        var history: PushHistory
        var policy = APNSClientConfiguration.Retry()
        var random = SeededRandom(seed: 7)
        var now = MonotonicInstant(nanoseconds: 0)
        var budget = Int.max
        var asked = 0
        var isDegraded = false

        init(_ id: APNSID, deadline: Duration = .seconds(30), kind: PushHistory.Kind = .push) {
            let end = MonotonicInstant(nanoseconds: 0).advanced(by: deadline)
            self.history = PushHistory(id: id, deadline: end, kind: kind)
        }

        func end(_ end: AttemptEnd) -> PushHistory.Decision {
            if case .notSent = end {} else { self.history.countAttempt() }
            return self.history.decide(
                end,
                policy: self.policy,
                now: self.now,
                using: &self.random,
                isDegraded: self.isDegraded
            ) {
                self.asked += 1
                self.budget -= 1
                return self.budget >= 0
            }
        }
    }

    private func run(deadline: Duration = .seconds(30)) -> Run { Run(self.id, deadline: deadline) }

    /// A response of APNs: by default with the documented reason of 500 and 503.
    private func rejected(_ status: Int, _ reason: RejectionReason? = nil) -> AttemptEnd {
        let documented: [Int: RejectionReason] = [500: .internalServerError, 503: .serviceUnavailable]
        return .rejected(Rejection(status: status, reason: reason ?? documented[status]), retryAfter: nil)
    }

    /// A response of a proxy or gateway.
    private func gateway(_ status: Int, _ reason: RejectionReason? = nil) -> AttemptEnd {
        .rejected(Rejection(status: status, reason: reason), retryAfter: .seconds(1))
    }

    private let lost = AttemptEnd.notSent(.connectionLost, "lost", isFinal: false)
    private let late = AttemptEnd.notSent(.deadlineExceeded, "late", isFinal: true)
    private let refused = AttemptEnd.notProcessed(.refused, "refused")
    private let unknown = AttemptEnd.unknown(.connectionLost, "gone")

    // MARK: Resent

    @Test func anAcceptedPushIsFinished() {
        let receipt = Receipt(apnsID: id)
        #expect(run().end(.accepted(receipt)) == .finish(.accepted(receipt)))
    }

    @Test func notSentAndNotProcessedAreResentAtOnce() {
        #expect(run().end(lost) == .retry(after: .zero))
        #expect(run().end(refused) == .retry(after: .zero))
        #expect(run().end(.notProcessed(.goAway, "")) == .retry(after: .zero))
    }

    @Test func aFinalNotSentIsNotResent() throws {
        let error = try #require(finish(run().end(late)).error)
        #expect(error.certainty == .notSent && error.code == .deadlineExceeded && error.attempts == 0)
        #expect(error.apnsID == id)
    }

    @Test(
        "A 5xx response without one of APNs' documented reasons proves nothing: the push is not resent, and is unknown",
        arguments: [
            (500, nil), (502, nil), (503, nil), (504, nil), (599, nil), (503, RejectionReason(rawValue: "Busy")),
        ]
    )
    func gatewayResponse(_ status: Int, _ reason: RejectionReason?) {
        let outcome = finish(run().end(gateway(status, reason)))
        #expect(outcome.certainty == .unknown && !outcome.canResend && outcome.status == status)
        #expect(outcome.error?.code == .rejected && outcome.error?.rejection?.reason == reason)

        // With resendsUnknown it is resent, within the budget, and only a later acceptance settles it.
        let resent = run()
        resent.policy.resendsUnknown = true
        #expect(resent.end(gateway(status, reason)) == .retry(after: .seconds(1)))
        #expect(resent.asked == 1)
        #expect(finish(resent.end(rejected(400, .badDeviceToken))).certainty == .unknown)
        let accepted = run()
        accepted.policy.resendsUnknown = true
        _ = accepted.end(gateway(status, reason))
        #expect(finish(accepted.end(.accepted(Receipt(apnsID: id)))).certainty == .accepted)
    }

    @Test(arguments: [
        (503, RejectionReason.serviceUnavailable), (503, .shutdown), (500, .internalServerError), (400, .idleTimeout),
    ])
    func theseRejectionsAreResent(_ status: Int, _ reason: RejectionReason?) {
        #expect(run().end(rejected(status, reason)) == .retry(after: .zero))
    }

    @Test func aPushOnAConnectionOfAnotherKeyIsResentOnce() {
        let run = run()
        #expect(run.end(rejected(403, .unrelatedKeyIDInToken)) == .retry(after: .zero))
        _ = run.end(refused)
        #expect(finish(run.end(rejected(403, .unrelatedKeyIDInToken))).status == 403)
    }

    @Test("A push whose provider token is expired is resent until its deadline, after growing pauses")
    func expiredToken() {
        let run = run(deadline: .seconds(20))
        #expect(run.end(rejected(403, .expiredProviderToken)) == .retry(after: .zero))
        var attempts = 1
        while case .retry(let delay) = run.end(rejected(403, .expiredProviderToken)) {
            attempts += 1
            run.now = run.now.advanced(by: delay)
        }
        #expect(attempts > 5 && attempts < PushHistory.weatherLimit)
    }

    @Test(arguments: [
        (429, RejectionReason.tooManyRequests), (429, .tooManyProviderTokenUpdates), (400, .badDeviceToken),
        (403, .invalidProviderToken), (404, .badPath), (410, .unregistered), (413, .payloadTooLarge), (405, nil),
        (400, nil), (403, nil), (301, nil),
    ])
    func otherRejectionsAreNotResent(_ status: Int, _ reason: RejectionReason?) {
        let outcome = finish(run().end(rejected(status, reason)))
        #expect(outcome.certainty == .rejected && outcome.attempts == 1 && outcome.status == status)
    }

    @Test("A push that gets 429 without a reason is resent at once")
    func reasonless429() {
        guard case .retry(after: .zero) = run().end(rejected(429, nil)) else {
            Issue.record("the push is not resent at once")
            return
        }
    }

    @Test("A push whose provider token was from the future is resent once, with another token")
    func tokenFromTheFuture() {
        let run = run()
        run.history.tokenIsReplaced()
        guard case .retry = run.end(rejected(403, .invalidProviderToken)) else {
            Issue.record("the push is not resent")
            return
        }
        #expect(finish(run.end(rejected(403, .invalidProviderToken))).certainty == .rejected)
    }

    @Test func unknownIsNotResentByDefault() {
        let outcome = finish(run().end(unknown))
        #expect(outcome.certainty == .unknown && !outcome.canResend)
    }

    @Test func unknownIsResentIfThePolicyAllowsIt() {
        let run = run()
        run.policy.resendsUnknown = true
        #expect(run.end(unknown) == .retry(after: .zero))
        #expect(run.history.id == id)
        // A later rejection leaves the outcome unknown; a later acceptance settles it.
        let outcome = finish(run.end(rejected(400, .badDeviceToken)))
        #expect(outcome.certainty == .unknown && outcome.attempts == 2)
        let other = self.run()
        other.policy.resendsUnknown = true
        #expect(other.end(.unknown(.deadlineExceeded, "no response within its time")) == .retry(after: .zero))
        #expect(finish(other.end(.accepted(Receipt(apnsID: id)))).certainty == .accepted)
    }

    @Test(arguments: [PushError.Code.cancelled, .shuttingDown])
    func aCancelledOrShutDownPushIsNotResent(_ code: PushError.Code) {
        let run = run()
        run.policy.resendsUnknown = true
        #expect(finish(run.end(.unknown(code, ""))).error?.code == code)
    }

    @Test func anUnknownPushAfterItsDeadlineIsNotResent() {
        let run = run(deadline: .seconds(1))
        run.policy.resendsUnknown = true
        run.now = run.now.advanced(by: .seconds(1))
        #expect(finish(run.end(unknown)).certainty == .unknown)
        let tired = self.run()
        tired.policy.resendsUnknown = true
        tired.policy.maxAttempts = 1
        #expect(finish(tired.end(unknown)).attempts == 1)
    }

    @Test func theRetryAfterOfTheServerIsRespected() {
        let run = run(deadline: .seconds(30))
        let busy = AttemptEnd.rejected(Rejection(status: 503, reason: .serviceUnavailable), retryAfter: .seconds(7))
        #expect(run.end(busy) == .retry(after: .seconds(7)))
        // A pause beyond the deadline ends the push, and spends no budget.
        run.now = run.now.advanced(by: .seconds(24))
        let asked = run.asked
        let outcome = finish(run.end(busy))
        #expect(outcome.status == 503 && outcome.retryAfter == .seconds(7))
        #expect(run.asked == asked)
    }

    @Test("A retry whose random delay would miss the deadline uses no budget") func delayBeyondTheDeadline() {
        let run = run(deadline: .seconds(30))
        _ = run.end(rejected(503))
        run.now = run.now.advanced(by: .seconds(30) - .nanoseconds(1))
        let asked = run.asked
        #expect(finish(run.end(rejected(503))).status == 503)
        #expect(run.asked == asked)
    }

    @Test func aPushIsNotResentAtOnceToAnOverloadedAPNs() {
        let run = run()
        run.isDegraded = true
        guard case .retry(let delay) = run.end(rejected(503)) else {
            Issue.record("the push ended without a retry")
            return
        }
        #expect(delay > .zero && delay <= .milliseconds(200))
        // Other failures do not indicate an overload.
        let other = self.run()
        other.isDegraded = true
        #expect(other.end(refused) == .retry(after: .zero))
    }

    @Test func aServerErrorIsNotResentIfThePolicyForbidsIt() {
        let run = run()
        run.policy.retriesInternalServerError = false
        #expect(finish(run.end(rejected(500))).status == 500)
    }

    // MARK: Limits

    @Test(arguments: 1...5)
    func noMoreAttemptsThanAllowed(_ limit: Int) {
        let run = run()
        run.policy.maxAttempts = limit
        run.policy.resendsUnknown = true
        for _ in 1..<limit {
            guard case .retry = run.end(unknown) else {
                Issue.record("the push ended after \(run.history.attempts) attempts")
                return
            }
        }
        #expect(finish(run.end(unknown)).attempts == limit)
    }

    @Test("What meets every push does not count towards maxAttempts, but maxAttempts 1 turns all resends off")
    func weatherHasItsOwnLimit() {
        for (end, limit) in [
            (rejected(503), PushHistory.weatherLimit), (refused, PushHistory.weatherLimit),
            (.notProcessed(.goAway, ""), PushHistory.goAwayLimit),
        ] {
            let run = run(deadline: .seconds(1_000_000))
            while case .retry = run.end(end) {}
            #expect(run.history.attempts == limit)
            let single = self.run()
            single.policy.maxAttempts = 1
            #expect(finish(single.end(end)).attempts == 1)
        }
    }

    @Test("A row of a bulk call waits for its deadline after a 429 of the token; a single push ends at once")
    func tokenUpdates() {
        let rejection = Rejection(status: 429, reason: .tooManyProviderTokenUpdates)
        let end = AttemptEnd.rejected(rejection, retryAfter: .seconds(1200))
        #expect(finish(run().end(end)).retryAfter == .seconds(1200))
        let row = Run(self.id, kind: .row)
        #expect(row.end(end) == .retry(after: .zero))
        row.now = row.now.advanced(by: .seconds(30))
        let outcome = finish(row.end(end))
        #expect(outcome.certainty == .rejected && outcome.retryAfter == .seconds(1200) && outcome.attempts == 2)
    }

    @Test("Bad weather holds a push as long as it waits for a connection, or until its deadline if it was sent before")
    func held() {
        let cause = WeatherStateMachine.Cause(description: "503 ServiceUnavailable")
        let policy = APNSClientConfiguration.Retry()
        var random = SeededRandom(seed: 1)
        let now = self.start.advanced(by: .seconds(12))
        func held(_ history: inout PushHistory, since: Int64, patience: Duration?) -> PushHistory.Decision {
            let end = AttemptEnd.held(
                cause,
                since: self.start.advanced(by: .seconds(since)),
                until: now.advanced(by: .seconds(3))
            )
            return history.decide(end, policy: policy, now: now, using: &random, patience: patience)
        }
        var new = PushHistory(id: self.id, deadline: self.start.advanced(by: .seconds(60)))
        #expect(held(&new, since: 3, patience: .seconds(10)) == .retry(after: .seconds(3)))
        #expect(held(&new, since: 0, patience: nil) == .retry(after: .seconds(3)))
        let error = finish(held(&new, since: 0, patience: .seconds(10))).error
        #expect(error?.code == .outage && error?.certainty == .notSent && error?.canResend == true)
        #expect(error?.retryAfter == .seconds(3))
        #expect(error?.message.contains("503 ServiceUnavailable") == true)
        var sent = PushHistory(id: self.id, deadline: self.start.advanced(by: .seconds(14)))
        sent.countAttempt()
        #expect(held(&sent, since: 0, patience: .seconds(10)) == .retry(after: .seconds(2)))
        var late = PushHistory(id: self.id, deadline: now)
        #expect(finish(held(&late, since: 11, patience: nil)).certainty == .notSent)
    }

    @Test func unsentAttemptsAreFreeButLimited() {
        let run = run(deadline: .seconds(1_000_000))
        for _ in 0..<PushHistory.unsentLimit {
            guard case .retry = run.end(lost) else {
                Issue.record("the push ended too early")
                return
            }
        }
        let outcome = finish(run.end(lost))
        #expect(outcome.certainty == .notSent && outcome.attempts == 0)
    }

    @Test func delaysHaveFullJitterFromTheThirdAttemptOn() {
        var longest: [Duration] = [.zero, .zero, .zero, .zero, .zero]
        for seed in 0..<300 as Range<UInt64> {
            let run = run(deadline: .seconds(1000))
            run.random = SeededRandom(seed: seed)
            for attempt in 1...4 {
                guard case .retry(let delay) = run.end(refused) else { continue }
                longest[attempt] = max(longest[attempt], delay)
                #expect(delay >= .zero && delay <= (attempt == 1 ? .zero : .milliseconds(50 << attempt)))
            }
        }
        #expect(longest[1] == .zero)
        for attempt in 2...4 { #expect(longest[attempt] > .milliseconds(40 << attempt)) }
    }

    @Test func nothingIsResentAfterTheDeadline() {
        let run = run(deadline: .seconds(1))
        run.now = start.advanced(by: .seconds(1))
        #expect(finish(run.end(rejected(503))).status == 503)
        #expect(finish(self.run(deadline: .zero).end(lost)).certainty == .notSent)
    }

    @Test func theBudgetCountsServerErrorsOnly() {
        let run = run()
        run.budget = 0
        #expect(run.end(refused) == .retry(after: .zero))
        guard case .retry = run.end(lost), case .retry = run.end(rejected(400, .idleTimeout)) else {
            Issue.record("the push was not retried without a budget")
            return
        }
        #expect(run.asked == 0)
        let outcome = finish(run.end(rejected(503)))
        #expect(outcome.status == 503 && run.asked == 1)
    }

    @Test func pushesThatAreNotResentSpendNoBudget() {
        let run = run()
        run.policy.maxAttempts = 1
        _ = run.end(rejected(503))
        _ = run.end(rejected(400, .badDeviceToken))
        #expect(run.asked == 0)
    }

    // MARK: Several attempts

    @Test func aRefusalThenADeadlineIsNotProcessed() {
        let run = run()
        _ = run.end(refused)
        let error = finish(run.end(late)).error
        #expect(error?.certainty == .notProcessed && error?.code == .refused && error?.attempts == 1)
        #expect(error?.message.contains("after that") == true)
    }

    @Test("A failure that repeats after a stronger one appears in the message once")
    func messagesDoNotGrow() {
        let run = run()
        _ = run.end(refused)
        let lost = AttemptEnd.notSent(.connectionLost, "lost", isFinal: false)
        for _ in 0..<5 { _ = run.end(lost) }
        let error = finish(run.end(.notSent(.connectionLost, "lost", isFinal: true))).error
        #expect(
            error?.message.hasSuffix("; after that: lost") == true && error?.message.contains("lost; after") == false,
            "\(error?.message ?? "")"
        )
    }

    @Test func a503ThenALostConnectionIsUnknown() {
        let run = run()
        _ = run.end(rejected(503))
        let outcome = finish(run.end(unknown))
        #expect(outcome.certainty == .unknown && outcome.attempts == 2)
    }

    @Test func a503ThenADeadlineIsRejected() {
        let run = run()
        _ = run.end(rejected(503, .shutdown))
        let outcome = finish(run.end(late))
        #expect(outcome.status == 503 && outcome.error?.rejection?.reason == .shutdown)
    }

    @Test func theLastOfTwoRejectionsCounts() {
        let run = run()
        _ = run.end(rejected(503))
        #expect(finish(run.end(rejected(410, .unregistered))).status == 410)
    }

    @Test func anAcceptanceAfterFailuresCounts() {
        let run = run()
        _ = run.end(rejected(503))
        _ = run.end(refused)
        #expect(finish(run.end(.accepted(Receipt(apnsID: id, attempts: 3)))).certainty == .accepted)
    }

    @Test func aFailureWithoutAnAttemptKeepsTheStrongerResult() {
        let run = run()
        #expect(run.history.fail(.cancelled, "x").certainty == .notSent)
        _ = run.end(refused)
        #expect(run.history.fail(.cancelled, "x").error?.code == .refused)
    }

    /// For any order of attempt ends, the push ends with the strongest outcome.
    @Test(arguments: 0..<300)
    func theStrongestResultCounts(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let ends: [(AttemptEnd, Certainty)] = [
            (.accepted(Receipt(apnsID: id)), .accepted), (unknown, .unknown), (rejected(503), .rejected),
            (rejected(500), .rejected), (refused, .notProcessed), (lost, .notSent), (lost, .notSent),
        ]
        let run = run(deadline: .seconds(100_000))
        var seen: [Certainty] = []
        for _ in 0..<60 {
            guard let (end, certainty) = ends.randomElement(using: &random) else { return }
            seen.append(certainty)
            guard case .finish(let outcome) = run.end(end) else { continue }
            #expect(outcome.certainty == seen.max(), "seed \(seed): \(seen)")
            return
        }
        Issue.record("seed \(seed): the push did not end after \(seen)")
    }

    private func finish(_ decision: PushHistory.Decision) -> PushOutcome {
        if case .finish(let outcome) = decision { return outcome }
        Issue.record("\(decision) does not end the push")
        return .accepted(Receipt(apnsID: id))
    }
}

/// The conversion of a stream's result to the end of an attempt.
struct AttemptEndTests {
    private func read(
        _ ending: StreamEnding,
        _ cause: StreamCause,
        status: Int = 0,
        fields: [(String, String)] = [],
        isPastDeadline: Bool = false,
        isShuttingDown: Bool = false,
        body: String = ""
    ) -> AttemptEnd {
        var list = FieldList()
        for (name, value) in fields { list.append(name: name, value: value) }
        let result = StreamResult(
            tag: 0,
            ending: ending,
            cause: cause,
            status: status,
            fields: list,
            body: Array(body.utf8)
        )
        return AttemptEnd(
            result,
            id: APNSID.random(),
            attempts: 1,
            responseTimeout: .seconds(10),
            isPastDeadline: isPastDeadline,
            isShuttingDown: isShuttingDown
        )
    }

    @Test func aStreamClosedByAShutdownReportsTheShutdown() {
        guard case .unknown(.shuttingDown, _) = read(.unknown, .closedLocally, isShuttingDown: true),
            case .notSent(.shuttingDown, _, _, isFinal: true) = read(.notSent, .closedLocally, isShuttingDown: true),
            // A connection that is lost meanwhile, or closed while the client runs, is reported as lost.
            case .unknown(.connectionLost, _) = read(.unknown, .connectionLost, isShuttingDown: true),
            case .unknown(.connectionLost, _) = read(.unknown, .closedLocally),
            case .notSent(.connectionLost, _, _, isFinal: false) = read(.notSent, .closedLocally)
        else {
            Issue.record("the attempt has another end")
            return
        }
    }

    @Test(arguments: [(nil, Duration.seconds(60)), ("9", .seconds(9))])
    func aBusyDeviceGetsAPause(_ text: String?, _ expected: Duration) {
        let end = read(
            .response,
            .responded,
            status: 429,
            fields: text.map { [("retry-after", $0)] } ?? [],
            body: #"{"reason":"TooManyRequests"}"#
        )
        guard case .rejected(let rejection, let retryAfter) = end else {
            Issue.record("the attempt has another end")
            return
        }
        #expect(rejection.disposition == .pauseDevice && retryAfter == expected)
    }

    @Test("A 429 without a reason, which comes from a server before APNs, pauses no device")
    func pauseWithoutAReason() {
        let end = self.read(.response, .responded, status: 429, body: "<html>")
        guard case .rejected(let rejection, let retryAfter) = end else {
            Issue.record("the attempt has another end")
            return
        }
        #expect(rejection.disposition == .retryLater && retryAfter == nil)
    }

    @Test("Control characters in the text of a rejection are escaped, and long text is cut")
    func hostileRejection() {
        let reason = #"\u001b[2J\nERROR forged"# + String(repeating: "x", count: 1000)
        let end = self.read(
            .response,
            .responded,
            status: 400,
            fields: [("apns-unique-id", "\u{9B}31m")],
            body: #"{"reason":"\#(reason)"}"#
        )
        guard case .rejected(let rejection, _) = end else {
            Issue.record("the attempt has another end")
            return
        }
        #expect(rejection.reason?.rawValue.hasPrefix(#"\u{1b}[2J\u{a}ERROR forgedxx"#) == true)
        #expect(rejection.reason?.rawValue.utf8.count ?? 0 < 300)
        #expect(rejection.apnsUniqueID == #"\u{9b}31m"#)
        // The raw body is unchanged.
        #expect(rejection.rawBody.count > 1000)
    }

    @Test func aResponseTimeoutBeforeTheDeadlineIsNotFinal() {
        guard case .notSent(.deadlineExceeded, _, _, let isFinal) = read(.notSent, .deadline) else {
            Issue.record("the attempt has another end")
            return
        }
        #expect(!isFinal)
        guard case .notSent(.deadlineExceeded, _, _, true) = read(.notSent, .deadline, isPastDeadline: true) else {
            Issue.record("the attempt has another end")
            return
        }
    }

    @Test func aPushThatBreaksAConnectionIsNotResent() {
        guard case .notSent(.connectionFault, _, _, isFinal: true) = read(.notSent, .faulty) else {
            Issue.record("the attempt has another end")
            return
        }
    }

    @Test(arguments: [StreamCause.noCapacity, .connectionLost, .goAway, .reset(.refusedStream)])
    func anUnsentPushMovesToAnotherConnection(_ cause: StreamCause) {
        guard case .notSent(.connectionLost, _, _, isFinal: false) = read(.notSent, cause) else {
            Issue.record("the attempt has another end")
            return
        }
    }

    @Test(arguments: [
        ("5", Duration.seconds(5)), ("0", .zero), ("-1", nil), ("soon", nil), ("99999999999999999999", nil),
    ])
    func anInvalidRetryAfterIsIgnored(_ text: String, _ expected: Duration?) {
        guard
            case .rejected(_, let retryAfter) = read(
                .response,
                .responded,
                status: 503,
                fields: [("retry-after", text)]
            )
        else {
            Issue.record("the attempt has another end")
            return
        }
        #expect(retryAfter == expected)
    }

    @Test func theResponseIDMayBeMissingOrInUpperCase() {
        let id = APNSID.random()
        guard
            case .accepted(let receipt) = read(
                .response,
                .responded,
                status: 200,
                fields: [("apns-id", id.description.uppercased())]
            ), case .accepted = read(.response, .responded, status: 200),
            case .accepted = read(.response, .responded, status: 200, fields: [("apns-id", "nonsense")])
        else {
            Issue.record("the attempt has another end")
            return
        }
        #expect(receipt.apnsID == id)
    }
}

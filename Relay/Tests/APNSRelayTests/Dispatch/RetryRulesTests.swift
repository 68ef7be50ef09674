import APNSModel
import PushQueue
import SupervisedPool
import Testing

@testable import APNSRelay

struct RetryRulesTests {
    private let rules = RetryRules(maxAttempts: 3)
    private let now = QueueTime(secondsSince1970: 1_000)

    private func push(
        attempts: Int = 0,
        deadline: Int64 = 10_000,
        resendsUnknown: Bool = false,
        expiration: Expiration = .systemDefault
    ) throws -> ClaimedPush {
        ClaimedPush(
            claim: Claim(id: .random(), epoch: 1, position: 1),
            token: try DeviceToken("ab12"),
            push: try PreparedPush(topic: "com.a", pushType: .alert, payload: [0x7b, 0x7d], expiration: expiration),
            deadline: QueueTime(secondsSince1970: deadline),
            queuedAt: self.now,
            attempts: attempts,
            resendsUnknown: resendsUnknown,
            mayBeProcessed: false
        )
    }

    private func failed(_ code: PushError.Code, _ certainty: Certainty, after: Duration? = nil) -> PushOutcome {
        .failed(PushError(code: code, certainty: certainty, message: "test", retryAfter: after))
    }

    private func rejected(_ status: Int, _ reason: RejectionReason) -> PushOutcome {
        .failed(.rejected(Rejection(status: status, reason: reason), attempts: 1))
    }

    @Test("An accepted push is settled")
    func accepted() throws {
        let outcome = PushOutcome.accepted(Receipt(apnsID: .random()))
        #expect(self.rules.decide(outcome, for: try self.push(), at: self.now) == .settle)
    }

    @Test("An unknown outcome is final, unless the owner wants the push sent again")
    func unknown() throws {
        let outcome = self.failed(.connectionLost, .unknown)
        #expect(self.rules.decide(outcome, for: try self.push(), at: self.now) == .settle)
        let later = self.rules.decide(outcome, for: try self.push(resendsUnknown: true), at: self.now)
        #expect(later == .release(notBefore: self.now.advanced(by: .seconds(1)), countsAttempt: true))
    }

    @Test(
        "Rejections that would repeat are final; those of a busy APNs are not",
        arguments: [
            (400, RejectionReason.badDeviceToken, true), (410, .unregistered, true), (413, .payloadTooLarge, true),
            (429, .tooManyRequests, false), (503, .serviceUnavailable, false), (500, .internalServerError, false),
        ]
    )
    func rejections(status: Int, reason: RejectionReason, isFinal: Bool) throws {
        let decision = self.rules.decide(self.rejected(status, reason), for: try self.push(), at: self.now)
        #expect((decision == .settle) == isFinal)
    }

    @Test("A 5xx response of a proxy is unknown: final, unless the owner wants the push sent again")
    func gateway() throws {
        for status in [500, 502, 503, 504] {
            let outcome = PushOutcome.failed(.rejected(Rejection(status: status, reason: nil), attempts: 1))
            #expect(outcome.certainty == .unknown)
            #expect(self.rules.decide(outcome, for: try self.push(), at: self.now) == .settle)
            let later = self.rules.decide(outcome, for: try self.push(resendsUnknown: true), at: self.now)
            #expect(later == .release(notBefore: self.now.advanced(by: .seconds(1)), countsAttempt: true))
        }
    }

    @Test("A 500 is final if client.retry.retriesInternalServerError is false")
    func internalServerError() throws {
        let rules = RetryRules(maxAttempts: 3, retriesInternalServerError: false)
        let error = self.rejected(500, .internalServerError)
        #expect(rules.decide(error, for: try self.push(), at: self.now) == .settle)
        let busy = self.rejected(503, .serviceUnavailable)
        #expect(rules.decide(busy, for: try self.push(), at: self.now) != .settle)
    }

    @Test("A push that the bulk call has pulled may have been written: without an outcome it is unknown")
    func withoutOutcome() throws {
        var pending = PendingPush(push: try self.push(), markedAt: self.now)
        #expect(pending.outcomeWithoutDelivery == nil)
        pending.isPulled = true
        let outcome = try #require(pending.outcomeWithoutDelivery)
        #expect(outcome.certainty == .unknown && outcome.apnsID == pending.push.claim.id)
        #expect(self.rules.decide(outcome, for: pending.push, at: self.now) == .settle)
    }

    @Test("A push that APNs rejected because of the credential is retried, however many attempts it has had")
    func credential() throws {
        let outcome = self.rejected(403, .invalidProviderToken)
        let decision = self.rules.decide(outcome, for: try self.push(attempts: 50), at: self.now)
        #expect(decision == .release(notBefore: self.now.advanced(by: RetryRules.delays.maximum), countsAttempt: false))
    }

    @Test(
        "A push that was not sent returns to the queue, unless it is invalid, expired or superseded",
        arguments: [
            (PushError.Code.validation, true), (.expired, true), (.superseded, true), (.unavailable, false),
            (.deadlineExceeded, false), (.shuttingDown, false), (.queueFull, false), (.configuration, false),
        ]
    )
    func notSent(code: PushError.Code, isFinal: Bool) throws {
        let decision = self.rules.decide(self.failed(code, .notSent), for: try self.push(), at: self.now)
        #expect((decision == .settle) == isFinal)
    }

    @Test("The time to the next attempt doubles up to a minute, and respects a longer retry-after")
    func delays() throws {
        let outcome = self.failed(.unavailable, .notSent)
        for (attempts, seconds) in [(0, 1), (1, 2), (3, 8), (6, 60), (1_000, 60)] {
            let decision = self.rules.decide(outcome, for: try self.push(attempts: attempts), at: self.now)
            #expect(decision == .release(notBefore: self.now.advanced(by: .seconds(seconds)), countsAttempt: false))
        }
        let asked = self.failed(.unavailable, .notSent, after: .seconds(90))
        let decision = self.rules.decide(asked, for: try self.push(), at: self.now)
        #expect(decision == .release(notBefore: self.now.advanced(by: .seconds(90)), countsAttempt: false))
    }

    @Test("A push whose next attempt would be too late has its outcome now")
    func tooLate() throws {
        let outcome = self.failed(.unavailable, .notSent)
        let late = self.rules.decide(outcome, for: try self.push(deadline: 1_001), at: self.now)
        #expect(late == .settle)
        let expired = try self.push(expiration: .at(secondsSince1970: 1_001))
        #expect(self.rules.decide(outcome, for: expired, at: self.now) == .settle)
    }

    @Test("A push that is sent back too often is parked, but not for a fault of its route")
    func parks() throws {
        let own = self.failed(.refused, .notProcessed)
        #expect(self.rules.decide(own, for: try self.push(attempts: 1), at: self.now) != .park)
        #expect(self.rules.decide(own, for: try self.push(attempts: 2), at: self.now) == .park)
        let route = self.failed(.unavailable, .notSent)
        #expect(self.rules.decide(route, for: try self.push(attempts: 2), at: self.now) != .park)
    }
}

struct RoutePauseTests {
    private let start = QueueTime(secondsSince1970: 1_000)

    private func fault() throws -> RouteFault {
        try #require(RouteFault(PushError(code: .credential, certainty: .notSent, message: "no connection")))
    }

    @Test("Pauses double with each failure after a pause, up to a minute")
    func doubles() throws {
        var pause = RoutePause()
        var now = self.start
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            pause.fail(try self.fault(), retryAfter: nil, at: now)
            // The other pushes in flight fail for the same reason.
            pause.fail(try self.fault(), retryAfter: nil, at: now)
            #expect(pause.until == now.advanced(by: .seconds(seconds)))
            #expect(pause.isPaused(at: now.advanced(by: .seconds(seconds) - .milliseconds(1))))
            now = now.advanced(by: .seconds(seconds))
            #expect(!pause.isPaused(at: now))
            #expect(pause.isProbing)
        }
        #expect(pause.reason == "no connection")
    }

    @Test("A response ends the pause and forgets the failures")
    func succeeds() throws {
        var pause = RoutePause()
        pause.fail(try self.fault(), retryAfter: .seconds(5), at: self.start)
        #expect(pause.until == self.start.advanced(by: .seconds(5)))
        pause.record(.accepted(Receipt(apnsID: .random())), at: self.start)
        #expect(pause == RoutePause())
        #expect(!pause.isProbing && !pause.isPaused(at: self.start))
    }

    @Test("A rejected device token proves that APNs responds: it ends a pause, and begins none")
    func badTokens() throws {
        let rejected = PushOutcome.failed(.rejected(Rejection(status: 400, reason: .badDeviceToken), attempts: 1))
        var pause = RoutePause()
        pause.record(rejected, at: self.start)
        #expect(pause == RoutePause())
        pause.fail(try self.fault(), retryAfter: nil, at: self.start)
        pause.record(rejected, at: self.start.advanced(by: .seconds(1)))
        #expect(pause == RoutePause())
    }

    @Test("Without a connection, a route is tested every two seconds, however long the outage lasts")
    func unavailable() throws {
        let error = PushError(
            code: .unavailable,
            certainty: .notSent,
            message: "no connection",
            retryAfter: .seconds(30)
        )
        var pause = RoutePause()
        var now = self.start
        for _ in 0..<20 {
            pause.record(.failed(error), at: now)
            #expect(pause.until == now.advanced(by: .seconds(2)))
            now = now.advanced(by: .seconds(2))
        }
    }

    @Test("A 5xx response of a proxy pauses the route, so that not every push ends as unknown")
    func gateway() throws {
        var pause = RoutePause()
        pause.record(.failed(.rejected(Rejection(status: 502, reason: nil), attempts: 1)), at: self.start)
        #expect(pause.isPaused(at: self.start))
        var other = RoutePause()
        other.record(.failed(.rejected(Rejection(status: 503, reason: .shutdown), attempts: 1)), at: self.start)
        #expect(other == RoutePause())
    }
}

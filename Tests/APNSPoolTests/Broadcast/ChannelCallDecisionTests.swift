import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The decisions after the attempts of a channel call.
struct ChannelCallDecisionTests {
    private let policy = APNSClientConfiguration.Retry()

    private func history(repeatable: Bool) -> PushHistory {
        PushHistory(
            id: APNSID(high: 1, low: 2),
            deadline: MonotonicInstant(nanoseconds: 60_000_000_000),
            kind: .channelCall(isRepeatable: repeatable)
        )
    }

    /// The decisions on these attempt ends, up to the one that finishes the call.
    private func decisions(
        _ ends: [AttemptEnd],
        repeatable: Bool,
        _ policy: APNSClientConfiguration.Retry? = nil
    ) -> [PushHistory.Decision] {
        var history = self.history(repeatable: repeatable)
        var random = SeededRandom(seed: 1)
        var decisions: [PushHistory.Decision] = []
        for end in ends {
            switch end {
            case .notSent: break
            default: history.countAttempt()
            }
            let decision = history.decide(
                end,
                policy: policy ?? self.policy,
                now: MonotonicInstant(nanoseconds: 0),
                using: &random,
                takeBudget: { true }
            )
            decisions.append(decision)
            if case .finish = decision { break }
        }
        return decisions
    }

    private func error(_ decisions: [PushHistory.Decision]) -> PushError? {
        if case .finish(let outcome)? = decisions.last { outcome.error } else { nil }
    }

    private func rejected(_ reason: RejectionReason) -> AttemptEnd {
        .rejected(Rejection(status: reason.status ?? 400, reason: reason), retryAfter: nil)
    }

    private let lost = AttemptEnd.unknown(.connectionLost, "lost")

    @Test func aCreateWithAnUnknownOutcomeIsNeverResent() {
        var policy = self.policy
        policy.resendsUnknown = true
        let decisions = self.decisions([self.lost], repeatable: false, policy)
        #expect(decisions.count == 1)
        #expect(self.error(decisions)?.certainty == .unknown)
        #expect(self.error(decisions)?.canResend == false)
        #expect(self.error(decisions)?.apnsID == APNSID(high: 1, low: 2))
    }

    @Test func aCreateIsResentAfter503ButNotAfter500() {
        #expect(self.error(self.decisions([self.rejected(.internalServerError)], repeatable: false))?.code == .rejected)
        #expect(self.error(self.decisions([self.rejected(.serviceUnavailable)], repeatable: false)) == nil)
        #expect(self.error(self.decisions([.notProcessed(.refused, "")], repeatable: false)) == nil)
        #expect(
            self.error(self.decisions([.notSent(.connectionLost, "", isFinal: false)], repeatable: false)) == nil
        )
    }

    @Test func aRepeatableCallIsResentUpToTheLimit() {
        let decisions = self.decisions(Array(repeating: self.lost, count: 9), repeatable: true)
        #expect(decisions.count == 5)
        #expect(self.error(decisions)?.certainty == .unknown)
        #expect(self.error(decisions)?.attempts == 5)
    }

    @Test func aResponseSettlesAnEarlierUnknownAttempt() {
        let settled = self.error(self.decisions([self.lost, self.rejected(.badChannelID)], repeatable: true))
        #expect(settled?.certainty == .rejected)
        #expect(settled?.rejection?.reason == .badChannelID)
        #expect(settled?.attempts == 2)
        // These reasons only say that APNs did not evaluate the call.
        for reason in [RejectionReason.tooManyRequests, .invalidProviderToken] {
            #expect(
                self.error(self.decisions([self.lost, self.rejected(reason)], repeatable: true))?.certainty == .unknown
            )
        }
        let unsent = AttemptEnd.notSent(.deadlineExceeded, "", isFinal: true)
        #expect(self.error(self.decisions([self.lost, unsent], repeatable: true))?.certainty == .unknown)
    }

    @Test func anExpiredTokenIsRetriedAtOnceAndThenAfterPauses() {
        let expired = self.rejected(.expiredProviderToken)
        for repeatable in [true, false] {
            let decisions = self.decisions([expired, expired], repeatable: repeatable)
            #expect(decisions.first == .retry(after: .zero))
            guard case .retry(let delay)? = decisions.last else {
                Issue.record("the call is not repeated")
                return
            }
            #expect(delay > .zero)
        }
    }

    @Test func aCancelledOrShutDownCallIsNotResent() {
        for code in [PushError.Code.cancelled, .shuttingDown] {
            #expect(self.decisions([.unknown(code, "")], repeatable: true).count == 1)
            #expect(self.error(self.decisions([.unknown(code, "")], repeatable: true))?.code == code)
        }
    }
}

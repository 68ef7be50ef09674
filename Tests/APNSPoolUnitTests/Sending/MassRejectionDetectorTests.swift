import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

struct MassRejectionDetectorTests {
    private func breaker(_ window: Int = 200, _ rejections: Int = 150) -> MassRejectionDetector {
        MassRejectionDetector(limits: MassRejectionLimits(window: window, rejections: rejections))
    }

    @Test func the150thRejectionOf200TokensOpensTheBreaker() {
        var breaker = breaker()
        for number in 0..<149 { #expect(breaker.rejected(.sample(number)) == false) }
        for number in 149..<199 { #expect(breaker.recordWorkingToken(.sample(number)) == false) }
        #expect(!breaker.isOpen)
        #expect(breaker.rejected(.sample(199)) == true)
        #expect(breaker.isOpen)
        // The breaker reports its opening once.
        #expect(breaker.rejected(.sample(200)) == false)
    }

    @Test func oneMoreWorkingTokenKeepsTheBreakerClosed() {
        var breaker = breaker()
        for number in 0..<149 { _ = breaker.rejected(.sample(number)) }
        for number in 149..<200 { _ = breaker.recordWorkingToken(.sample(number)) }
        // With each further token, the oldest rejection leaves the window.
        for number in 200..<349 { #expect(breaker.rejected(.sample(number)) == false) }
    }

    @Test func aTokenCountsOnce() {
        var breaker = breaker()
        for _ in 0..<10_000 { #expect(breaker.rejected(.sample(1)) == false) }
        #expect(breaker.rejections == 1)
        // Its newest response counts.
        #expect(breaker.recordWorkingToken(.sample(1)) == false)
        #expect(breaker.rejections == 0)
        #expect(!breaker.isAttentive)
    }

    @Test func workingTokensBeforeTheFirstRejectionAreNotTracked() {
        var breaker = breaker()
        for number in 0..<1000 { _ = breaker.recordWorkingToken(.sample(number)) }
        #expect(!breaker.isAttentive)
        for number in 1000..<1149 { #expect(breaker.rejected(.sample(number)) == false) }
        #expect(breaker.rejected(.sample(1149)) == true)
    }

    @Test func theBreakerClosesWhenMostTokensWorkAgain() {
        var breaker = breaker(20, 10)
        for number in 0..<10 { _ = breaker.rejected(.sample(number)) }
        #expect(breaker.isOpen)
        for number in 10..<20 { #expect(breaker.recordWorkingToken(.sample(number)) == false) }
        for number in 20..<25 { #expect(breaker.recordWorkingToken(.sample(number)) == false) }
        #expect(breaker.recordWorkingToken(.sample(25)) == true)
        #expect(!breaker.isOpen)
        for number in 26..<31 { #expect(breaker.recordWorkingToken(.sample(number)) == false) }
        #expect(!breaker.isAttentive)
    }

    /// Responses come in any order: of 1000 pushes in flight, the rejected half may get its responses last.
    @Test(arguments: [true, false]) func theWindowCoversAllPushesInFlight(_ areRefusedLast: Bool) {
        var breaker = breaker()
        breaker.widen(to: 1000)
        #expect(breaker.limit == 750)
        _ = breaker.rejected(.sample(100_000))
        for number in 0..<20_000 {
            let isRejected = (number % 1000 < 500) != areRefusedLast
            let changes = isRejected ? breaker.rejected(.sample(number)) : breaker.recordWorkingToken(.sample(number))
            #expect(!changes)
        }
    }

    @Test func aFullWindowIsWidenedInOrder() {
        var breaker = breaker(4, 3)
        for number in 0..<6 {
            if number % 2 == 0 {
                _ = breaker.rejected(.sample(number))
            } else {
                _ = breaker.recordWorkingToken(.sample(number))
            }
        }
        #expect(breaker.rejections == 2)
        breaker.widen(to: 3)
        #expect(breaker.window == 4)
        breaker.widen(to: 8)
        #expect(breaker.window == 8 && breaker.limit == 6)
        // The window has the tokens 2 to 5; the rejected ones leave it in order.
        for number in 6..<10 { _ = breaker.recordWorkingToken(.sample(number)) }
        #expect(breaker.rejections == 2)
        _ = breaker.recordWorkingToken(.sample(10))
        #expect(breaker.rejections == 1)
        _ = breaker.recordWorkingToken(.sample(11))
        #expect(breaker.rejections == 1)
        _ = breaker.recordWorkingToken(.sample(12))
        #expect(breaker.rejections == 0)
        // The window narrows again with the last rejection.
        #expect(breaker.window == 4)
    }

    @Test(arguments: [(0, 0, 1, 1), (-5, -5, 1, 1), (Int.max, 3, 100_000, 3), (10, .max, 10, .max)])
    func extremeLimitsAreClamped(_ window: Int, _ rejections: Int, _ realWindow: Int, _ realRejections: Int) {
        let limits = MassRejectionLimits(window: window, rejections: rejections)
        #expect(limits.window == realWindow && limits.rejections == realRejections)
        var breaker = MassRejectionDetector(limits: limits)
        breaker.widen(to: .max)
        for number in 0..<5 { _ = breaker.rejected(.sample(number)) }
        for number in 0..<5 { _ = breaker.recordWorkingToken(.sample(number)) }
        #expect(!breaker.isOpen)
    }

    @Test func theBreakerCanBeTurnedOff() {
        var breaker = MassRejectionDetector(limits: .off)
        for number in 0..<1000 { #expect(breaker.rejected(.sample(number)) == false) }
        #expect(!breaker.isAttentive)
    }

    @Test(arguments: [
        (RejectionReason.badDeviceToken, true), (.deviceTokenNotForTopic, true), (.topicDisallowed, true),
        (.unregistered, false), (.payloadTooLarge, false), (nil, false),
    ])
    func rejectionsThatSuggestMisconfigurationCount(_ reason: RejectionReason?, _ counts: Bool) {
        #expect(MassRejectionDetector.counts(Rejection(status: 400, reason: reason)) == counts)
    }

    /// Compares the breaker with a list of the last tokens, from the first rejection on.
    @Test(arguments: 0..<30 as Range<UInt64>) func theBreakerAgreesWithAList(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let window = Int.random(in: 1...20, using: &random)
        let limit = Int.random(in: 1...window, using: &random)
        var breaker = breaker(window, limit)
        var list: [(token: Int, isRejected: Bool)] = []
        var isOpen = false
        for _ in 0..<2000 {
            let token = Int.random(in: 0..<40, using: &random)
            let isRejected = Int.random(in: 0..<100, using: &random) < Int(seed) * 3 + 5
            if let place = list.firstIndex(where: { $0.token == token }) {
                list[place].isRejected = isRejected
            } else if isRejected || list.contains(where: \.isRejected) {
                list.append((token, isRejected))
                if list.count > window { list.removeFirst() }
            }
            let count = list.count { $0.isRejected }
            if count == 0 { list = [] }
            var expected = false
            if isRejected, !isOpen, count >= limit {
                isOpen = true
                expected = true
            } else if !isRejected, isOpen, count * 2 < limit {
                isOpen = false
                expected = true
            }
            let changes = isRejected ? breaker.rejected(.sample(token)) : breaker.recordWorkingToken(.sample(token))
            #expect(changes == expected && breaker.rejections == count && breaker.isOpen == isOpen, "seed \(seed)")
        }
    }

    @Test func theAlarmTakesOverTheBreakerOfABulkCall() {
        let alarm = MassRejectionAlarm(limits: MassRejectionLimits(window: 4, rejections: 2))
        #expect(!alarm.recordWorkingToken(.sample(0)))
        var breaker = breaker(4, 2)
        for number in 0..<4 { _ = breaker.rejected(.sample(number)) }
        #expect(alarm.raise(breaker))
        #expect(alarm.isRaised)
        #expect(!alarm.raise(breaker))
        #expect((4..<8).map { alarm.recordWorkingToken(.sample($0)) }.contains(true))
        #expect(!alarm.isRaised)
    }
}

import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

struct BudgetTests {
    private func at(_ seconds: Double) -> MonotonicInstant {
        MonotonicInstant(nanoseconds: Int64(seconds * 1_000_000_000))
    }

    @Test func replacementsHaveABurstAndThenAnInterval() {
        let budget = ReplacementBudget(burst: 2)
        #expect(budget.take(now: at(100)) && budget.take(now: at(100)))
        #expect(!budget.take(now: at(104.9)))
        #expect(budget.take(now: at(105)))
        #expect(!budget.take(now: at(109.9)))
        // Never more than the burst, even after a long idle time.
        #expect(budget.take(now: at(10_000)) && budget.take(now: at(10_000)))
        #expect(!budget.take(now: at(10_000)))
        // A clock that stops or runs backwards allows no replacement.
        #expect(!budget.take(now: at(0)))
    }

    @Test("A client may replace as many connections at once as its pool has, and then one every five seconds")
    func replacementsOfAClient() throws {
        var configuration = APNSClientConfiguration.local(port: 1, caPEM: nil)
        configuration.pool.size = 3
        let budget = try APNSClient(configuration: configuration).runtime.replacements
        #expect((0..<4).map { _ in budget.take(now: at(100)) } == [true, true, true, false])
        #expect([104.9, 105, 105, 110].map { budget.take(now: at($0)) } == [false, true, false, true])
    }

    @Test func aPoolWithoutBaseConnectionsMayReplaceOne() {
        let budget = ReplacementBudget(burst: 0)
        #expect(budget.take(now: at(0)))
        #expect(!budget.take(now: at(1)))
    }

    @Test func extremeTimesDoNotTrap() {
        let budget = ReplacementBudget(burst: 1)
        let retries = RetryBudget(percent: 20)
        for now in [MonotonicInstant(nanoseconds: 0), .distantFuture, at(5), .distantFuture] {
            _ = budget.take(now: now)
            retries.recordResponses(1, now: now)
            _ = retries.take(now: now)
        }
    }

    @Test func retriesHaveAFloor() {
        let budget = RetryBudget(percent: 20)
        var taken = 0
        while budget.take(now: at(3)) { taken += 1 }
        #expect(taken == 100)
        #expect(!budget.take(now: at(12)))
        #expect(budget.take(now: at(13)))
    }

    @Test func retriesAreAShareOfTheResponses() {
        let budget = RetryBudget(percent: 20)
        budget.recordResponses(10_000, now: at(50))
        var taken = 0
        while budget.take(now: at(55)) { taken += 1 }
        #expect(taken == 2000)
        // Ten seconds later those responses no longer count; the retries still do.
        #expect(!budget.take(now: at(60)))
        #expect(budget.take(now: at(65)))
    }

    /// Compares the budget with a list of all events.
    @Test(arguments: 0..<50)
    func retriesAgreeWithAModel(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let budget = RetryBudget(percent: 50, floor: 3)
        var responses: [Int64] = []
        var retries: [Int64] = []
        var now: Int64 = 0
        for _ in 0..<500 {
            now += Int64.random(in: 0...2, using: &random) == 0 ? Int64.random(in: 0...15, using: &random) : 0
            let instant = MonotonicInstant(nanoseconds: now * 1_000_000_000)
            if Bool.random(using: &random) {
                budget.recordResponses(3, now: instant)
                responses += [now, now, now]
            } else {
                let allowed = max(3, responses.count { $0 > now - 10 } / 2)
                let isAllowed = retries.count { $0 > now - 10 } < allowed
                if isAllowed { retries.append(now) }
                #expect(budget.take(now: instant) == isAllowed, "seed \(seed) at \(now)")
            }
        }
    }
}

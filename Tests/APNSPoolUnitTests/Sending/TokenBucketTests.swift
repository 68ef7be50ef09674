import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

struct TokenBucketTests {
    private func at(_ seconds: Double) -> MonotonicInstant {
        MonotonicInstant(nanoseconds: Int64(seconds * 1_000_000_000))
    }

    @Test func replacementsHaveABurstAndThenAnInterval() {
        let budget = SharedTokenBucket.replacements(burst: 2)
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
        let budget = SharedTokenBucket.replacements(burst: 0)
        #expect(budget.take(now: at(0)))
        #expect(!budget.take(now: at(1)))
    }

    @Test func extremeTimesDoNotTrap() {
        let budget = SharedTokenBucket.replacements(burst: 1)
        for now in [MonotonicInstant(nanoseconds: 0), .distantFuture, at(5), .distantFuture] {
            _ = budget.take(now: now)
        }
    }

    @Test func channelCallsHaveABurstOfRetriesAndThenARate() {
        let budget = SharedTokenBucket.channelRetries()
        var taken = 0
        while budget.take(now: at(3)) { taken += 1 }
        #expect(taken == 100)
        #expect(!budget.take(now: at(3.05)))
        #expect(budget.take(now: at(3.1)) && !budget.take(now: at(3.1)))
        taken = 0
        while budget.take(now: at(5)) { taken += 1 }
        #expect((18...19).contains(taken), "\(taken)")
    }
}

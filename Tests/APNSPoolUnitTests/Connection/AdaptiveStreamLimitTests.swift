import SupervisedPool
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

struct AdaptiveStreamLimitTests {
    private let start = MonotonicInstant(nanoseconds: 0)

    @Test func theLimitIsHalvedOnceASecondAndGrowsWithSuccesses() {
        var limit = AdaptiveStreamLimit()
        #expect(limit.limit == nil)
        limit.halve(capacity: 1000, now: start)
        limit.halve(capacity: 500, now: start.advanced(by: .milliseconds(999)))
        #expect(limit.limit == 500)
        limit.halve(capacity: 500, now: start.advanced(by: .seconds(1)))
        #expect(limit.limit == 250)
        limit.succeeded(9, maximum: 1000)
        #expect(limit.limit == 250)
        limit.succeeded(1, maximum: 1000)
        #expect(limit.limit == 251)
        limit.succeeded(7_480, maximum: 1000)
        #expect(limit.limit == 999)
        limit.succeeded(10, maximum: 1000)
        #expect(limit.limit == nil)
    }

    @Test func theLimitIsAtLeastOneStream() {
        var limit = AdaptiveStreamLimit()
        for second in 0..<20 as Range<Int64> {
            limit.halve(capacity: limit.limit ?? 1000, now: start.advanced(by: .seconds(second)))
        }
        #expect(limit.limit == 1)
        limit.succeeded(10, maximum: 1000)
        #expect(limit.limit == 2)
    }
}

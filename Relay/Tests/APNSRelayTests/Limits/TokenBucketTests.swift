import PushQueue
import PushQueueConformance
import Testing

@testable import APNSRelay

struct TokenBucketTests {
    private static func at(_ milliseconds: Int64) -> QueueTime { QueueTime(millisecondsSince1970: milliseconds) }

    @Test("Ten seconds' worth of pushes may come at once, and one more request")
    func burst() {
        var bucket = TokenBucket(rate: 5, now: Self.at(0))
        for _ in 0..<50 {
            let wait = bucket.take(1, now: Self.at(0))
            #expect(wait == nil)
        }
        let wait = bucket.take(1, now: Self.at(0))
        #expect(wait == .milliseconds(200))
        let later = bucket.take(1, now: Self.at(200))
        #expect(later == nil)
    }

    @Test("Asking takes nothing")
    func asking() {
        var bucket = TokenBucket(rate: 1, now: Self.at(0))
        for _ in 0..<100 {
            let wait = bucket.take(0, now: Self.at(0))
            #expect(wait == nil)
        }
        let wait = bucket.take(1_000, now: Self.at(0))
        #expect(wait == nil)
    }

    @Test("A clock that goes back fills nothing and takes nothing")
    func clockBack() {
        var bucket = TokenBucket(rate: 1, now: Self.at(10_000))
        _ = bucket.take(10, now: Self.at(10_000))
        let back = bucket.take(1, now: Self.at(0))
        #expect(back == .seconds(1))
        let same = bucket.take(1, now: Self.at(10_000))
        #expect(same == .seconds(1))
        let forth = bucket.take(1, now: Self.at(11_000))
        #expect(forth == nil)
    }

    @Test("Over any time, the average is kept, and no size of request waits for ever", arguments: 0..<5)
    func average(_ seed: Int) {
        var random = SeededRandom(seed: UInt64(seed))
        let rate = 10
        var bucket = TokenBucket(rate: Double(rate), now: Self.at(0))
        var (time, admitted, largest): (Int64, Int, Int) = (0, 0, 0)
        for _ in 0..<2_000 {
            let count = Int.random(in: 1...400, using: &random)
            if let wait = bucket.take(count, now: Self.at(time)) {
                // Whoever waits as long as it was told is admitted, whatever the size.
                time += Int64((wait / .milliseconds(1)).rounded(.up))
                let again = bucket.take(count, now: Self.at(time))
                #expect(again == nil, "seed \(seed)")
            }
            admitted += count
            largest = max(largest, count)
            #expect(Double(admitted) <= Double(rate) * (Double(time) / 1_000 + 10) + Double(largest) + 1)
            time += Int64.random(in: 0...500, using: &random)
        }
    }
}

import PushQueue
import Synchronization

/// Limits how many pushes a minute each sender may submit and each device may get, so that whoever knows an address cannot
/// flood a device. Each relay counts by itself.
final class PushQuota: Sendable {
    /// The number of buckets that are remembered. Then all begin again, which admits a burst more.
    private static let capacity = 200_000

    private let clock: any QueueClock
    private let buckets = Mutex<[String: TokenBucket]>([:])

    init(clock: any QueueClock) {
        self.clock = clock
    }

    /// Takes one push from each of several buckets, or from none.
    ///
    /// - Parameter limits: the names of the buckets, and how many pushes a minute each admits.
    /// - Returns: nil if the push is admitted; otherwise how long to wait.
    func take(_ limits: [(name: String, pushesPerMinute: Int)]) -> Duration? {
        let now = self.clock.lease
        return self.buckets.withLock { buckets in
            if buckets.count > Self.capacity { buckets = [:] }
            var taken: [String: TokenBucket] = [:]
            for (name, pushesPerMinute) in limits {
                let rate = Double(pushesPerMinute) / 60
                var bucket = buckets[name] ?? TokenBucket(rate: rate, burst: .seconds(60), now: now)
                if let wait = bucket.take(1, now: now) { return wait }
                taken[name] = bucket
            }
            buckets.merge(taken) { $1 }
            return nil
        }
    }
}

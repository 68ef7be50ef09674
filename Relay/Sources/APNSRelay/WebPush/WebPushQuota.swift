import PushQueue
import Synchronization
import WebPush

/// Limits the pushes of each subscription, sender and device, so that whoever knows an endpoint cannot flood a device. Each
/// relay counts by itself.
final class WebPushQuota: Sendable {
    /// The number of buckets that are remembered. Then all begin again, which admits a burst more.
    private static let capacity = 200_000

    private let pushesPerMinute: Int
    private let clock: any QueueClock
    private let buckets = Mutex<[String: TokenBucket]>([:])

    init(pushesPerMinute: Int, clock: any QueueClock) {
        self.pushesPerMinute = pushesPerMinute
        self.clock = clock
    }

    /// Takes one push.
    ///
    /// - Parameters:
    ///   - subscription: the subscription, which has the rate of the settings.
    ///   - senderKey: the sender's public key; nil if it is not known. A sender may push to many subscriptions, so its rate is a
    ///     thousand times as high.
    /// - Returns: nil if the push is admitted; otherwise how long to wait.
    func take(_ subscription: Subscription, senderKey: [UInt8]?) -> Duration? {
        var limits = [
            ("s" + subscription.id, self.pushesPerMinute), ("d" + subscription.deviceTag, self.pushesPerMinute * 5),
        ]
        if let senderKey {
            limits.append(("k" + Base64Text.encode(senderKey), self.pushesPerMinute * 1_000))
        }
        return self.take(limits)
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

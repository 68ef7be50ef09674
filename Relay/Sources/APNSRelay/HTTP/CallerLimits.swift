import HTTPTypes
import PushQueue
import Synchronization

/// The token buckets of the callers that have a limit.
final class CallerLimits: Sendable {
    /// The buckets of callers, each with its rate.
    private let buckets = Mutex<[String: (bucket: TokenBucket, rate: Int)]>([:])
    private let clock: any QueueClock

    init(clock: any QueueClock) {
        self.clock = clock
    }

    /// Takes pushes out of the caller's bucket.
    ///
    /// - Parameter count: the number of pushes; 0 to ask whether any push would be admitted.
    /// - Throws: `rateLimited` if the caller must wait. Nothing was taken.
    func take(_ count: Int, _ caller: Caller) throws(APIError) {
        guard let rate = caller.pushesPerSecond else { return }
        let now = self.clock.lease
        let wait = self.buckets.withLock { buckets in
            // A caller's first request, or its first one after the setting has changed.
            if buckets[caller.name]?.rate != rate {
                buckets[caller.name] = (TokenBucket(rate: Double(rate), now: now), rate)
            }
            return buckets[caller.name]?.bucket.take(count, now: now)
        }
        guard let wait else { return }
        let seconds = Int((wait / .seconds(1)).rounded(.up))
        throw APIError(
            .tooManyRequests,
            .rateLimited,
            "The caller \(caller.name) submits more than \(rate) pushes per second. "
                + "Nothing was stored; try again in \(seconds) s.",
            retryAfter: max(1, seconds)
        )
    }

    /// Gives pushes back that were taken out of the bucket and then not stored.
    func giveBack(_ count: Int, _ caller: Caller) {
        self.buckets.withLock { $0[caller.name]?.bucket.giveBack(count) }
    }
}

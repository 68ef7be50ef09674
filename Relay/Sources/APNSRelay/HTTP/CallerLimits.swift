import HTTPTypes
import PushQueue
import Synchronization

/// The token buckets of the callers that have a limit.
final class CallerLimits: Sendable {
    private let buckets: Mutex<[String: TokenBucket]>
    private let clock: any QueueClock

    init(_ callers: [Caller], clock: any QueueClock) {
        var buckets: [String: TokenBucket] = [:]
        for caller in callers {
            guard let rate = caller.pushesPerSecond else { continue }
            buckets[caller.name] = TokenBucket(rate: Double(rate), now: clock.lease)
        }
        self.buckets = Mutex(buckets)
        self.clock = clock
    }

    /// Takes pushes out of the caller's bucket.
    ///
    /// - Parameter count: the number of pushes; 0 to ask whether any push would be admitted.
    /// - Throws: `rateLimited` if the caller must wait. Nothing was taken.
    func take(_ count: Int, _ caller: Caller) throws(APIError) {
        let now = self.clock.lease
        guard let wait = self.buckets.withLock({ $0[caller.name]?.take(count, now: now) ?? nil }) else { return }
        let seconds = Int((wait / .seconds(1)).rounded(.up))
        throw APIError(
            .tooManyRequests,
            .rateLimited,
            "The caller \(caller.name) submits more than \(caller.pushesPerSecond ?? 0) pushes per second. "
                + "Nothing was stored; try again in \(seconds) s.",
            retryAfter: max(1, seconds)
        )
    }

    /// Gives pushes back that were taken out of the bucket and then not stored.
    func giveBack(_ count: Int, _ caller: Caller) {
        self.buckets.withLock { $0[caller.name]?.giveBack(count) }
    }
}

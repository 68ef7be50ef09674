import APNSModel
import SupervisedPool
import Synchronization

/// Limits how often something may happen: a burst at once, and then a rate. Pure.
///
/// The rate of a bulk call, the connections that may be replaced because of errors, and the retries of channel calls.
struct TokenBucket: Sendable {
    /// Tokens a second.
    let rate: Double
    /// The most tokens that are kept. At least 1.
    private(set) var burst: Double
    private var credit: Double
    /// When tokens were last earned; nil before the first use.
    private var last: MonotonicInstant?

    /// - Parameter credit: The tokens at the beginning; nil: the burst.
    init(rate: Double, burst: Double, credit: Double? = nil) {
        self.rate = rate
        self.burst = max(burst, 1)
        self.credit = min(credit ?? self.burst, self.burst)
    }

    mutating func setBurst(_ burst: Double) {
        self.burst = max(burst, 1)
        self.credit = min(self.credit, self.burst)
    }

    /// Takes up to `wanted` tokens. Returns how many.
    mutating func take(upTo wanted: Int, now: MonotonicInstant) -> Int {
        self.earn(now)
        // Sums of rounded products may miss a whole number by a trifle.
        let taken = min(Double(max(wanted, 0)), (self.credit + 1e-9).rounded(.down))
        self.credit -= taken
        return Int(taken)
    }

    /// Returns tokens that were taken but not used.
    mutating func giveBack(_ count: Int) {
        self.credit = min(self.burst, self.credit + Double(count))
    }

    /// When there will be `count` tokens, or the burst if that is less.
    func next(_ count: Double, now: MonotonicInstant) -> MonotonicInstant {
        let seconds = (min(self.burst, max(1, count)) - self.credit) / self.rate
        return now.advanced(by: .nanoseconds(Int64(min(max(seconds, 0) * 1e9, 9e18)).advanced(by: 1)))
    }

    private mutating func earn(_ now: MonotonicInstant) {
        let last = self.last ?? now
        self.last = max(last, now)
        guard now > last else { return }
        let seconds = Double(now.nanoseconds &- last.nanoseconds) / 1e9
        self.credit = min(self.burst, self.credit + seconds * self.rate)
    }
}

extension TokenBucket {
    /// How long a call sleeps, in seconds, to earn several turns at once. A timer for each push would cost more than the
    /// push.
    private static let slumber = 0.002

    /// A bulk call's rate; each push takes one token. Tokens that are not used within 0.01 s are lost, except one, so that
    /// a pause is not followed by a burst.
    init(_ rate: PushRate) {
        self.init(rate: rate.perSecond, burst: rate.perSecond * 0.01, credit: 1)
    }

    /// When to ask for turns again.
    func nextTurns(now: MonotonicInstant) -> MonotonicInstant { self.next(self.rate * Self.slumber, now: now) }
}

/// A `TokenBucket` that several threads use.
final class SharedTokenBucket: Sendable {
    private let bucket: Mutex<TokenBucket>

    init(_ bucket: TokenBucket) {
        self.bucket = Mutex(bucket)
    }

    /// The connections that may be replaced because of errors (503, many 500s, missing responses, refused tokens): a
    /// burst, then one every five seconds. When it is used up, connections are kept, so that an overloaded APNs does not
    /// also face a storm of handshakes.
    static func replacements(burst: Int) -> SharedTokenBucket {
        SharedTokenBucket(TokenBucket(rate: 0.2, burst: Double(burst)))
    }

    /// The retries of channel calls after 503 and 500. (`Weather` limits those of pushes.)
    static func channelRetries() -> SharedTokenBucket { SharedTokenBucket(TokenBucket(rate: 10, burst: 100)) }

    func setBurst(_ burst: Int) { self.bucket.withLock { $0.setBurst(Double(burst)) } }

    /// Takes a token. Returns false if there is none.
    func take(now: MonotonicInstant) -> Bool { self.bucket.withLock { $0.take(upTo: 1, now: now) == 1 } }
}

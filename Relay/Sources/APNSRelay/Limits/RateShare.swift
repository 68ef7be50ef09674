import PushQueue

/// The share of this relay in a rate that all relays have together, and the bucket that limits it. Each relay has an equal
/// share.
///
/// A relay that starts counts itself alone until its first heartbeat, and the others count it from their next one. So for
/// about one heartbeat after a relay has joined, all relays together may exceed the rate.
struct RateShare: Sendable {
    /// The pushes per second of all relays together.
    let total: Double
    private let burst: Duration
    private let reservedPart: Double
    /// The number of relays that share the rate.
    private var members = 1
    var bucket: TokenBucket

    /// Creates a full bucket.
    ///
    /// - Parameters:
    ///   - total: the pushes per second of all relays together.
    ///   - burst: how many seconds' pushes the bucket can hold.
    ///   - reservedPart: the part of these pushes that the bucket can hold besides; 0 for none.
    ///   - now: a time that never jumps.
    init(_ total: Double, burst: Duration, reservedPart: Double = 0, now: QueueTime) {
        self.total = total
        self.burst = burst
        self.reservedPart = reservedPart
        // The values of the whole rate. `divide(by:now:)` makes them smaller.
        let held = Self.held(total, burst)
        let least = held + Self.reserve(held, reservedPart)
        self.bucket = TokenBucket(rate: total, burst: burst, least: least, now: now)
    }

    /// The pushes per second of this relay.
    var rate: Double { self.total / Double(self.members) }

    /// How many pushes the bucket can hold without the reserve, at least one.
    var held: Double { Self.held(self.rate, self.burst) }

    /// How many pushes the bucket can hold besides, at least one unless there is no reserve.
    var reserve: Double { Self.reserve(self.held, self.reservedPart) }

    /// Divides the rate among another number of relays. The balance stays, as far as the bucket can hold it.
    mutating func divide(by members: Int, now: QueueTime) {
        let members = max(1, members)
        guard members != self.members else { return }
        // What has come in until now, at the old rate.
        _ = self.bucket.take(0, now: now)
        self.members = members
        self.bucket = TokenBucket(
            rate: self.rate,
            burst: self.burst,
            least: self.held + self.reserve,
            state: self.bucket.state,
            now: now
        )
    }

    private static func held(_ rate: Double, _ burst: Duration) -> Double { max(1, rate * (burst / .seconds(1))) }

    private static func reserve(_ held: Double, _ part: Double) -> Double { part == 0 ? 0 : max(1, held * part) }
}

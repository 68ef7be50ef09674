import SupervisedPool

/// Limits the streams of a connection while APNs responds with 503 and the pool's replacement budget is spent. The limit
/// is halved by trouble and grows again with successes, like TCP's congestion window. Pure.
struct AdaptiveStreamLimit: Sendable {
    /// Trouble within this time counts once.
    static let halvingInterval = Duration.seconds(1)
    /// The limit grows by one stream after this many successes.
    static let successesPerStream = 10

    /// Nil: the peer's limit applies.
    private(set) var limit: Int?
    private var successes = 0
    private var halvedAt: MonotonicInstant?

    /// The connection would have been replaced if the budget had allowed it.
    ///
    /// - Parameter capacity: how many streams the connection takes now.
    mutating func halve(capacity: Int, now: MonotonicInstant) {
        if let halvedAt, halvedAt.duration(to: now) < Self.halvingInterval { return }
        self.limit = max(capacity / 2, 1)
        self.halvedAt = now
        self.successes = 0
    }

    /// Responses of a healthy APNs.
    ///
    /// - Parameter maximum: how many streams the connection takes without this limit, which ends there.
    mutating func succeeded(_ count: Int, maximum: Int) {
        guard let limit else { return }
        self.successes += count
        let grown = limit + self.successes / Self.successesPerStream
        self.successes %= Self.successesPerStream
        self.limit = grown < maximum ? grown : nil
    }

    mutating func reset() {
        self.limit = nil
        self.successes = 0
    }
}

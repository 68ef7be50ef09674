import SupervisedPool

/// Limits the streams of a connection while APNs responds with 503 and the pool's replacement budget is spent. Failures
/// halve the limit, and successes raise it again, like TCP's congestion window. Pure.
struct AdaptiveStreamLimit: Sendable {
    /// The limit is halved at most once in this time.
    static let halvingInterval = Duration.seconds(1)
    /// The limit grows by one stream after this many successes.
    static let successesPerStream = 10

    /// Nil: only the limits of the peer and the configuration apply.
    private(set) var limit: Int?
    private var successes = 0
    private var halvedAt: MonotonicInstant?

    /// Halves the limit. Called when the connection would have been replaced, but the budget did not allow it.
    ///
    /// - Parameter capacity: the number of streams that the connection currently accepts.
    mutating func halve(capacity: Int, now: MonotonicInstant) {
        if let halvedAt, halvedAt.duration(to: now) < Self.halvingInterval { return }
        self.limit = max(capacity / 2, 1)
        self.halvedAt = now
        self.successes = 0
    }

    /// Records responses of a healthy APNs.
    ///
    /// - Parameter maximum: the number of streams that the connection accepts without this limit. The limit is removed
    ///   when it reaches this number.
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

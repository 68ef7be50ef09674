import SupervisedPool

/// How many streams a connection takes of those that its peer allows, while APNs answers 503 and the pool's budget for
/// replacements is spent: halved, and grown again by successes, as TCP does with its window. Pure.
struct StreamAllowance: Sendable {
    /// Trouble within this time counts once: the answers of one moment tell of one moment.
    static let halvingInterval = Duration.seconds(1)
    /// One stream more for so many successes.
    static let successesPerStream = 10

    /// Nil: all that the peer allows.
    private(set) var limit: Int?
    private var successes = 0
    private var halvedAt: MonotonicInstant?

    /// Trouble that a replacement would have answered, had there been one left.
    ///
    /// - Parameter capacity: how many streams the connection takes now.
    mutating func halve(capacity: Int, now: MonotonicInstant) {
        if let halvedAt, halvedAt.duration(to: now) < Self.halvingInterval { return }
        self.limit = max(capacity / 2, 1)
        self.halvedAt = now
        self.successes = 0
    }

    /// Answers of a healthy APNs.
    ///
    /// - Parameter maximum: what the connection takes without this allowance; the allowance ends there.
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

import NIOCore

/// Decides when a connection examines a send window that limits its requests, and whether the window has grown in the
/// meantime. Pure.
struct SendWindowWatch {
    /// How long requests wait for a larger send window before `SendWindowRule` is relaxed by one level: a few round
    /// trips. Also the interval of `WindowStreamLimit`.
    static let interval = TimeAmount.milliseconds(500)

    /// When the interval ends; nil: none has begun.
    private(set) var deadline: NIODeadline?
    /// How often the peer had enlarged the window when the interval began.
    private var updates: UInt64 = 0

    /// Begins an interval.
    ///
    /// - Parameter updates: How often the peer has enlarged the window.
    /// - Returns: When the interval ends.
    mutating func begin(_ now: NIODeadline, updates: UInt64) -> NIODeadline {
        let deadline = now + Self.interval
        self.deadline = deadline
        self.updates = updates
        return deadline
    }

    /// Ends the interval, unless it is too early for that.
    ///
    /// - Returns: Whether the window has grown since the interval began; nil: the interval has not ended.
    mutating func end(_ now: NIODeadline, updates: UInt64) -> Bool? {
        guard let deadline, now >= deadline else { return nil }
        self.deadline = nil
        return updates != self.updates
    }
}

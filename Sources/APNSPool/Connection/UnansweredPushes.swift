import SupervisedPool

/// Detects a connection that accepts pushes but responds to none of them, without waiting for their deadlines. PING
/// acknowledgements do not count: they prove that the peer's HTTP/2 layer works, but not the service behind it.
///
/// Pure. Detection begins when `streams` streams are open. It costs one timer per connection, not one per push.
struct StallDetector: Sendable {
    /// With fewer open streams, silence may be a coincidence.
    static let streams = 8
    /// After this time without a response frame, the connection gets no new streams.
    static let warning = Duration.seconds(5)
    /// After this time without a response frame, the connection is replaced.
    static let end = Duration.seconds(10)

    enum Verdict: Equatable {
        /// The connection is not watched any more.
        case calm
        case watched(until: MonotonicInstant)
        case silent(until: MonotonicInstant)
        case dead
    }

    /// When the number of open streams reached `streams`. Silence is measured from then on.
    private var since: MonotonicInstant?
    private(set) var isSilent = false
    /// When `check` is due.
    private var dueAt = MonotonicInstant(nanoseconds: 0)

    var isWatching: Bool { self.since != nil }

    /// Pushes were submitted, and `open` streams are open now.
    ///
    /// - Returns: when to call `check`; nil if a check is scheduled already or not needed.
    mutating func submitted(open: Int, now: MonotonicInstant) -> MonotonicInstant? {
        guard self.since == nil, open >= Self.streams else { return nil }
        return self.watch(now)
    }

    private mutating func watch(_ now: MonotonicInstant) -> MonotonicInstant {
        let due = now.advanced(by: Self.warning)
        self.since = now
        self.dueAt = due
        return due
    }

    /// Checks the connection.
    ///
    /// A silent connection stays silent until a response arrives or a check comes late; streams that reach their deadlines
    /// are no sign of life. Watching ends when no stream is left, or when fewer than `streams` are open and the connection
    /// is not silent.
    mutating func check(now: MonotonicInstant, open: Int, lastResponse: MonotonicInstant) -> Verdict {
        guard let since, open > 0, self.isSilent || open >= Self.streams else {
            self.reset()
            return .calm
        }
        // A late check proves nothing, because the computer was suspended or the loop was busy. Start over.
        if self.dueAt.advanced(by: Self.end) < now {
            self.isSilent = false
            return .watched(until: self.watch(now))
        }
        let quiet = max(since, lastResponse)
        let silence = quiet.duration(to: now)
        if silence >= Self.end { return .dead }
        self.isSilent = silence >= Self.warning
        self.dueAt = quiet.advanced(by: self.isSilent ? Self.end : Self.warning)
        return self.isSilent ? .silent(until: self.dueAt) : .watched(until: self.dueAt)
    }

    /// Records a response.
    ///
    /// - Returns: whether it ends a silence.
    mutating func responded() -> Bool {
        defer { self.isSilent = false }
        return self.isSilent
    }

    /// Stops watching: another connection begins, or this one has no open streams.
    mutating func reset() {
        self.since = nil
        self.isSilent = false
    }
}

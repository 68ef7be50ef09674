import SupervisedPool

/// Counts the pushes that had no response, and detects a connection that responds to none. PING acknowledgements do not
/// count: they prove that the peer's HTTP/2 layer works, but not the service behind it.
///
/// Pure. It costs one timer per connection, not one per push.
struct UnansweredPushes: Sendable {
    /// With fewer unanswered pushes, silence may be a coincidence.
    static let limit = 5
    /// The default of `warning`.
    static let defaultWarning = Duration.seconds(5)
    /// After this time without a response frame, the connection gets no new streams.
    private let warning: Duration
    /// After this time without a response frame, which is twice as long, the connection is replaced.
    private var end: Duration { self.warning * 2 }

    enum Verdict: Equatable {
        /// The connection is not watched any more.
        case calm
        case watched(until: MonotonicInstant)
        case silent(until: MonotonicInstant)
        case dead
    }

    /// The pushes that got no response by their deadlines or within `timeouts.response`, since the last response.
    private var timedOut = 0
    /// Since when pushes have waited for a response.
    private var since = MonotonicInstant(nanoseconds: 0)
    /// When `check` is due; nil while the connection is not watched.
    private var dueAt: MonotonicInstant?
    private(set) var isSilent = false

    init(warning: Duration = Self.defaultWarning) { self.warning = warning }

    var isWatching: Bool { self.dueAt != nil }

    /// Whether a connection with so many open streams has too many unanswered pushes to go unwatched.
    func wantsWatching(open: Int) -> Bool { self.dueAt == nil && open + self.timedOut >= Self.limit }

    /// Begins to watch a connection, because `wantsWatching` says so.
    ///
    /// - Returns: when to call `check`.
    mutating func watch(now: MonotonicInstant) -> MonotonicInstant {
        if self.timedOut == 0 { self.since = now }
        let due = max(self.since.advanced(by: self.warning), now)
        self.dueAt = due
        return due
    }

    /// Records that a push got no response in time.
    ///
    /// - Parameter quietSince: since when streams have been open without a response frame.
    mutating func timeOut(quietSince: MonotonicInstant) {
        if self.timedOut == 0, self.dueAt == nil { self.since = quietSince }
        self.timedOut += 1
    }

    /// Checks the connection.
    ///
    /// A silent connection stays silent until a response arrives or a check comes late. Watching ends when fewer than
    /// `limit` pushes are unanswered.
    mutating func check(now: MonotonicInstant, open: Int, lastResponse: MonotonicInstant) -> Verdict {
        guard let dueAt, open + self.timedOut >= Self.limit else {
            self.dueAt = nil
            self.isSilent = false
            return .calm
        }
        // A late check proves nothing, because the computer was suspended or the loop was busy. Start over.
        if dueAt.advanced(by: self.end) < now {
            self.reset()
            return .watched(until: self.watch(now: now))
        }
        let quiet = max(self.since, lastResponse)
        let silence = quiet.duration(to: now)
        if silence >= self.end { return .dead }
        self.isSilent = silence >= self.warning
        let due = quiet.advanced(by: self.isSilent ? self.end : self.warning)
        self.dueAt = due
        return self.isSilent ? .silent(until: due) : .watched(until: due)
    }

    /// Records a response.
    ///
    /// - Returns: whether it ends a silence.
    mutating func responded() -> Bool {
        self.timedOut = 0
        defer { self.isSilent = false }
        return self.isSilent
    }

    /// Starts over for a new connection.
    mutating func reset() { self = UnansweredPushes(warning: self.warning) }
}

import SupervisedPool

/// Finds a session that takes pushes and answers none, long before their deadlines do. A PING says that the peer's
/// HTTP/2 lives; it says nothing of what stands behind it, so it is not asked.
///
/// Pure. Watching begins when `streamLimit` streams are open and costs one timer a session, not one a push.
struct SilenceWatch: Sendable {
    struct Limits: Sendable, Equatable {
        /// With fewer open streams silence may be chance.
        var streams = 8
        /// Without a response frame for so long, no new streams.
        var warning = Duration.seconds(5)
        /// For so long: the session is given up.
        var end = Duration.seconds(10)

        static let standard = Limits()
    }

    enum Verdict: Equatable {
        /// Not watched any more.
        case calm
        case watched(until: MonotonicInstant)
        case silent(until: MonotonicInstant)
        case dead
    }

    let limits: Limits
    /// Since when so many streams have been open; silence counts from there.
    private var since: MonotonicInstant?
    private(set) var isSilent = false

    init(limits: Limits = .standard) {
        self.limits = limits
    }

    var isWatching: Bool { self.since != nil }

    /// So many streams are open after a submission. When to look next, if nobody looks yet.
    mutating func submitted(open: Int, now: MonotonicInstant) -> MonotonicInstant? {
        guard self.since == nil, open >= self.limits.streams else { return nil }
        self.since = now
        return now.advanced(by: self.limits.warning)
    }

    /// A look at the session.
    ///
    /// One that was found silent stays so until it answers: that its streams run out of time is no sign of life. Only
    /// when none is left there is nothing to be silent about.
    mutating func look(now: MonotonicInstant, open: Int, lastResponse: MonotonicInstant) -> Verdict {
        guard let since, open > 0, self.isSilent || open >= self.limits.streams else {
            self.reset()
            return .calm
        }
        let quiet = max(since, lastResponse)
        let silence = quiet.duration(to: now)
        if silence >= self.limits.end { return .dead }
        self.isSilent = silence >= self.limits.warning
        return self.isSilent
            ? .silent(until: quiet.advanced(by: self.limits.end))
            : .watched(until: quiet.advanced(by: self.limits.warning))
    }

    /// A response came. True: the session was silent, and is not any more.
    mutating func responded() -> Bool {
        defer { self.isSilent = false }
        return self.isSilent
    }

    /// Another session begins, or this one has nothing to answer.
    mutating func reset() {
        self.since = nil
        self.isSilent = false
    }
}

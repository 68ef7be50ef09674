/// Decides when the reader of a journal is replaced. A reader on a slow connection needs time, so the wait between two
/// replacements doubles, up to a limit, until entries are applied again.
package struct ReaderWatch {
    private static let shortestWait = Duration.milliseconds(500)
    private static let longestWait = Duration.seconds(8)
    /// How long a reader may deliver nothing before it is assumed to be broken.
    private static let quietTime = Duration.seconds(2)

    /// Whether a new reader is needed. True at the start, when there is none.
    private var isNeeded = true
    private var nextRead: ContinuousClock.Instant
    private var wait = Self.shortestWait
    private var lastEvents: ContinuousClock.Instant

    package init(at now: ContinuousClock.Instant = .now) {
        self.nextRead = now
        self.lastEvents = now
    }

    /// Requests a new reader, because entries may be missing.
    package mutating func need() { self.isNeeded = true }

    /// Requests a new reader, because calls wait for entries, unless the present one has just delivered something.
    package mutating func needIfQuiet(at now: ContinuousClock.Instant = .now) {
        if self.lastEvents.duration(to: now) > Self.quietTime { self.isNeeded = true }
    }

    package mutating func handledEvents(at now: ContinuousClock.Instant = .now) { self.lastEvents = now }

    /// Shortens the wait again, because entries were applied.
    package mutating func advanced(at now: ContinuousClock.Instant = .now) {
        self.wait = Self.shortestWait
        self.nextRead = min(self.nextRead, now.advanced(by: Self.shortestWait))
    }

    /// Requests a new reader without a wait, because the connection is new.
    package mutating func restart(at now: ContinuousClock.Instant = .now) {
        self.isNeeded = true
        self.nextRead = now
        self.wait = Self.shortestWait
    }

    /// Whether to start a reader now. If this returns true, the caller must start one.
    package mutating func shouldRead(at now: ContinuousClock.Instant = .now) -> Bool {
        guard self.isNeeded, now >= self.nextRead else { return false }
        self.isNeeded = false
        self.nextRead = now.advanced(by: self.wait)
        self.wait = min(self.wait * 2, Self.longestWait)
        return true
    }
}

/// Decides when the reader of a journal is replaced. A reader on a slow connection needs time, so the less the new ones
/// achieve, the more rarely it is replaced.
package struct ReaderWatch {
    private static let shortestWait = Duration.milliseconds(500)
    private static let longestWait = Duration.seconds(8)
    /// How long a reader has nothing to read before something may be wrong with it.
    private static let quietTime = Duration.seconds(2)

    /// There is none at the start.
    private var isNeeded = true
    private var nextRead: ContinuousClock.Instant
    private var wait = Self.shortestWait
    private var lastEvents: ContinuousClock.Instant

    package init(at now: ContinuousClock.Instant = .now) {
        self.nextRead = now
        self.lastEvents = now
    }

    /// Entries may be missing.
    package mutating func need() { self.isNeeded = true }

    /// Calls wait for entries: a new reader is needed unless the present one has just read something.
    package mutating func needIfQuiet(at now: ContinuousClock.Instant = .now) {
        if self.lastEvents.duration(to: now) > Self.quietTime { self.isNeeded = true }
    }

    package mutating func handledEvents(at now: ContinuousClock.Instant = .now) { self.lastEvents = now }

    /// Entries were applied.
    package mutating func advanced(at now: ContinuousClock.Instant = .now) {
        self.wait = Self.shortestWait
        self.nextRead = min(self.nextRead, now.advanced(by: Self.shortestWait))
    }

    /// There is a new connection, on which nothing was read yet.
    package mutating func restart(at now: ContinuousClock.Instant = .now) {
        self.isNeeded = true
        self.nextRead = now
        self.wait = Self.shortestWait
    }

    /// Whether to start a reader now. If so, the caller does.
    package mutating func shouldRead(at now: ContinuousClock.Instant = .now) -> Bool {
        guard self.isNeeded, now >= self.nextRead else { return false }
        self.isNeeded = false
        self.nextRead = now.advanced(by: self.wait)
        self.wait = min(self.wait * 2, Self.longestWait)
        return true
    }
}

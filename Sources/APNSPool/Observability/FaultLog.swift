import SupervisedPool

/// Decides when a lasting fault is logged: at once, then every five minutes with its duration and count. A log that
/// repeats itself every second is not read. Pure.
struct FaultLog<Fault: Hashable & Sendable>: Sendable {
    enum Line: Equatable, Sendable {
        case first
        /// - Parameter count: Includes the first occurrence.
        case again(after: Duration, count: Int)
    }

    private struct Entry {
        var since: MonotonicInstant
        var loggedAt: MonotonicInstant
        var count = 1
    }

    /// The maximum number of faults tracked at once; beyond it, the table is cleared.
    static var room: Int { 64 }

    let interval: Duration
    private var entries: [Fault: Entry] = [:]

    init(interval: Duration = .seconds(300)) {
        self.interval = interval
    }

    /// The fault occurred. Nil: do not log it now.
    mutating func seen(_ fault: Fault, now: MonotonicInstant) -> Line? {
        guard var entry = self.entries[fault] else {
            if self.entries.count >= Self.room { self.entries = [:] }
            self.entries[fault] = Entry(since: now, loggedAt: now)
            return .first
        }
        entry.count += 1
        defer { self.entries[fault] = entry }
        guard entry.loggedAt.advanced(by: self.interval) <= now else { return nil }
        entry.loggedAt = now
        return .again(after: entry.since.duration(to: now), count: entry.count)
    }

    /// The fault still lasts; this is not counted as an occurrence. Nil: do not log it now, or it does not last.
    mutating func lasts(_ fault: Fault, now: MonotonicInstant) -> Line? {
        guard let entry = self.entries[fault], entry.loggedAt.advanced(by: self.interval) <= now else { return nil }
        self.entries[fault]?.loggedAt = now
        return .again(after: entry.since.duration(to: now), count: entry.count)
    }

    /// All faults have ended: the next one counts as a first.
    mutating func ended() { self.entries = [:] }

    /// When a lasting fault must be logged even without a new event; nil if no fault lasts.
    var next: MonotonicInstant? { self.entries.values.map { $0.loggedAt.advanced(by: self.interval) }.min() }
}

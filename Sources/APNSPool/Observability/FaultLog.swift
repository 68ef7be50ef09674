import SupervisedPool

/// When a fault that lasts is told: at once, then every five minutes with how long it has lasted and how often it was
/// seen. A log that repeats itself each second is not read. Pure.
struct FaultLog<Fault: Hashable & Sendable>: Sendable {
    enum Line: Equatable, Sendable {
        case first
        /// - Parameter count: with the first.
        case again(after: Duration, count: Int)
    }

    private struct Entry {
        var since: MonotonicInstant
        var toldAt: MonotonicInstant
        var count = 1
    }

    /// Faults that are told of at once; beyond, the books start anew.
    static var room: Int { 64 }

    let interval: Duration
    private var entries: [Fault: Entry] = [:]

    init(interval: Duration = .seconds(300)) {
        self.interval = interval
    }

    /// The fault was seen (again). Nil: nothing is to be told now.
    mutating func seen(_ fault: Fault, now: MonotonicInstant) -> Line? {
        guard var entry = self.entries[fault] else {
            if self.entries.count >= Self.room { self.entries = [:] }
            self.entries[fault] = Entry(since: now, toldAt: now)
            return .first
        }
        entry.count += 1
        defer { self.entries[fault] = entry }
        guard entry.toldAt.advanced(by: self.interval) <= now else { return nil }
        entry.toldAt = now
        return .again(after: entry.since.duration(to: now), count: entry.count)
    }

    /// The fault lasts, and is not to be counted. Nil: nothing is to be told now, or it does not last.
    mutating func lasts(_ fault: Fault, now: MonotonicInstant) -> Line? {
        guard let entry = self.entries[fault], entry.toldAt.advanced(by: self.interval) <= now else { return nil }
        self.entries[fault]?.toldAt = now
        return .again(after: entry.since.duration(to: now), count: entry.count)
    }

    /// All faults are over: the next one is a first.
    mutating func ended() { self.entries = [:] }

    /// When something is to be told although nothing happens; nil: no fault lasts.
    var next: MonotonicInstant? { self.entries.values.map { $0.toldAt.advanced(by: self.interval) }.min() }
}

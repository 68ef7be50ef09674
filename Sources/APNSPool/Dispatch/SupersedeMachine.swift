/// Who of the pushes with one key goes, who waits, and who was replaced. Pure.
///
/// Of each key at most one has the turn; behind it wait final pushes, which are never replaced, in their order, and at most
/// one that is not final, the newest, as the last. A key without pushes is forgotten, but for its last timestamp.
struct SupersedeMachine<Key: Hashable> {
    typealias Ticket = UInt64

    struct Arrival: Equatable {
        var ticket: Ticket
        /// Whether it has the turn at once.
        var goes: Bool
        /// The one that waited and was replaced by this one.
        var superseded: Ticket?
        /// Not less than what was asked for, and above all others of the key.
        var timestamp: Int64?
    }

    /// What a push is that may have waited.
    enum Standing: Equatable {
        /// It has the turn.
        case goes
        /// Another one took its place.
        case superseded
        /// It waited, and does so no longer.
        case withdrawn
    }

    /// Who has the turn when the one before it has its outcome.
    struct Successor: Equatable {
        var ticket: Ticket
        /// It goes before others: it takes over the place in the queue of one that gave it up.
        var isHeir: Bool
    }

    private struct Push {
        var ticket: Ticket
        var isFinal: Bool
    }

    private enum Turn {
        /// Not written yet. If a newer one waits when it is to be, it is replaced; it keeps the key's place in the queue
        /// until then.
        case queued
        /// Replaced: it gave its place up.
        case yielded
        /// Written, or bound to be: were an heir replaced too, updates that come fast enough would never be sent.
        case fixed
    }

    private struct Line {
        var holder: Push
        var turn = Turn.queued
        var waiting: [Push] = []
    }

    private var lines: [Key: Line] = [:]
    private var timestamps: [Key: Int64] = [:]
    private var nextTicket: Ticket = 0
    /// Above so many, the oldest half of the timestamps of keys without pushes is forgotten. They count only when the time
    /// of day goes backwards, or within one second.
    let timestampLimit: Int

    init(timestampLimit: Int = 10_000) {
        self.timestampLimit = max(2, timestampLimit)
    }

    var keyCount: Int { self.lines.count }
    var arrivalCount: UInt64 { self.nextTicket }
    var timestampCount: Int { self.timestamps.count }

    /// A push comes in.
    ///
    /// - Parameters:
    ///   - isFinal: nothing replaces it.
    ///   - timestamp: the time of day, if one is to be filled in.
    mutating func arrive(_ key: Key, isFinal: Bool, timestamp: Int64? = nil) -> Arrival {
        self.nextTicket &+= 1
        let push = Push(ticket: self.nextTicket, isFinal: isFinal)
        var arrival = Arrival(ticket: push.ticket, goes: false)
        if let timestamp { arrival.timestamp = self.raised(timestamp, key) }
        guard var line = self.lines[key] else {
            self.lines[key] = Line(holder: push)
            arrival.goes = true
            return arrival
        }
        if let last = line.waiting.last, !last.isFinal {
            line.waiting.removeLast()
            arrival.superseded = last.ticket
        }
        line.waiting.append(push)
        self.lines[key] = line
        return arrival
    }

    /// The push's wait is over, for whatever reason; one that waited does so no longer.
    mutating func claim(_ key: Key, _ ticket: Ticket) -> Standing {
        guard var line = self.lines[key] else { return .superseded }
        if line.holder.ticket == ticket { return .goes }
        guard let index = line.waiting.firstIndex(where: { $0.ticket == ticket }) else { return .superseded }
        line.waiting.remove(at: index)
        self.lines[key] = line
        return .withdrawn
    }

    /// The push that has the turn is about to be written. False: it was replaced, and must not be.
    mutating func write(_ key: Key, _ ticket: Ticket) -> Bool {
        guard var line = self.lines[key], line.holder.ticket == ticket else { return false }
        if line.turn == .queued {
            line.turn = line.holder.isFinal || line.waiting.isEmpty ? .fixed : .yielded
            self.lines[key] = line
        }
        return line.turn == .fixed
    }

    /// The push that has the turn has its outcome.
    mutating func end(_ key: Key, _ ticket: Ticket) -> Successor? {
        guard var line = self.lines[key], line.holder.ticket == ticket else { return nil }
        guard !line.waiting.isEmpty else {
            self.lines[key] = nil
            return nil
        }
        let isHeir = line.turn == .yielded
        line.holder = line.waiting.removeFirst()
        line.turn = isHeir ? .fixed : .queued
        self.lines[key] = line
        return Successor(ticket: line.holder.ticket, isHeir: isHeir)
    }

    private mutating func raised(_ timestamp: Int64, _ key: Key) -> Int64 {
        var result = timestamp
        if let last = self.timestamps[key], last >= timestamp {
            result = last == .max ? last : last + 1
        }
        if self.timestamps[key] == nil, self.timestamps.count >= self.timestampLimit { self.forgetTimestamps() }
        self.timestamps[key] = result
        return result
    }

    private mutating func forgetTimestamps() {
        let idle = self.timestamps.filter { self.lines[$0.key] == nil }.sorted { $0.value < $1.value }
        for (key, _) in idle.prefix(max(1, idle.count / 2)) { self.timestamps[key] = nil }
    }
}

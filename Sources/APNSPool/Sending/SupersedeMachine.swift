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

    private enum Phase {
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
        var phase = Phase.queued
        var waiting: [Push] = []
        /// The last one of the key, if any push of it had one.
        var timestamp: Int64?

        /// - Returns: the time of day, or what is above all timestamps of the key; nil if none was asked for.
        mutating func raise(_ time: Int64?) -> Int64? {
            guard let time else { return nil }
            var result = time
            if let timestamp, timestamp >= time { result = timestamp == .max ? timestamp : timestamp + 1 }
            self.timestamp = result
            return result
        }
    }

    private var lines: [Key: Line] = [:]
    /// The last timestamps of keys without pushes, in two generations: when the younger one is full it becomes the older
    /// one, which is forgotten. So each arrival costs the same, however many keys there are.
    private var recentTimestamps: [Key: Int64] = [:]
    private var olderTimestamps: [Key: Int64] = [:]
    private var nextTicket: Ticket = 0
    /// How many timestamps of keys without pushes are kept at most. They count only when the time of day goes backwards,
    /// or within one second.
    let timestampLimit: Int

    init(timestampLimit: Int = 10_000) {
        self.timestampLimit = max(2, timestampLimit)
    }

    var keyCount: Int { self.lines.count }
    var arrivalCount: UInt64 { self.nextTicket }
    /// Of keys without pushes.
    var timestampCount: Int { self.recentTimestamps.count + self.olderTimestamps.count }

    /// A push comes in.
    ///
    /// - Parameters:
    ///   - isFinal: nothing replaces it.
    ///   - timestamp: the time of day, if one is to be filled in.
    mutating func arrive(_ key: Key, isFinal: Bool, timestamp: Int64? = nil) -> Arrival {
        self.nextTicket &+= 1
        let push = Push(ticket: self.nextTicket, isFinal: isFinal)
        var arrival = Arrival(ticket: push.ticket, goes: false)
        guard var line = self.lines[key] else {
            var line = Line(holder: push, timestamp: self.takeTimestamp(key))
            arrival.timestamp = line.raise(timestamp)
            self.lines[key] = line
            arrival.goes = true
            return arrival
        }
        arrival.timestamp = line.raise(timestamp)
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
        if line.phase == .queued {
            line.phase = line.holder.isFinal || line.waiting.isEmpty ? .fixed : .yielded
            self.lines[key] = line
        }
        return line.phase == .fixed
    }

    /// The push that has the turn has its outcome.
    mutating func end(_ key: Key, _ ticket: Ticket) -> Successor? {
        guard var line = self.lines[key], line.holder.ticket == ticket else { return nil }
        guard !line.waiting.isEmpty else {
            self.lines[key] = nil
            if let timestamp = line.timestamp { self.keep(timestamp, key) }
            return nil
        }
        let isHeir = line.phase == .yielded
        line.holder = line.waiting.removeFirst()
        line.phase = isHeir ? .fixed : .queued
        self.lines[key] = line
        return Successor(ticket: line.holder.ticket, isHeir: isHeir)
    }

    private mutating func takeTimestamp(_ key: Key) -> Int64? {
        self.recentTimestamps.removeValue(forKey: key) ?? self.olderTimestamps.removeValue(forKey: key)
    }

    private mutating func keep(_ timestamp: Int64, _ key: Key) {
        if self.recentTimestamps.count >= self.timestampLimit / 2 {
            self.olderTimestamps = self.recentTimestamps
            self.recentTimestamps = [:]
        }
        self.recentTimestamps[key] = timestamp
    }
}

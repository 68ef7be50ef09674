/// Orders the pushes that share a key: which one is sent, which ones wait, and which ones were superseded. Pure.
///
/// At most one push of each key holds the turn. Behind it wait final pushes, which are never superseded, in their
/// order. The last place may be taken by the newest push that is not final. A key without pushes is forgotten, except
/// for its last timestamp.
struct SupersedeMachine<Key: Hashable> {
    typealias Ticket = UInt64

    struct Arrival: Equatable {
        var ticket: Ticket
        /// Whether the push gets the turn immediately.
        var hasTurn: Bool
        /// The waiting push that this one superseded.
        var superseded: Ticket?
        /// At least the requested timestamp, and higher than all others of the key.
        var timestamp: Int64?
    }

    /// The state of a push when its wait ends.
    enum Standing: Equatable {
        /// It has the turn.
        case hasTurn
        /// A newer push superseded it.
        case superseded
        /// It was still waiting and has been removed.
        case withdrawn
    }

    /// The push that gets the turn after the previous one has its outcome.
    struct Successor: Equatable {
        var ticket: Ticket
        /// Whether it moves to the front of the pool's queue, because it inherits the place of a superseded push.
        var isHeir: Bool
    }

    private struct Push {
        var ticket: Ticket
        var isFinal: Bool
    }

    private enum Phase {
        /// Not written yet. If a newer push is waiting when this one is about to be written, this one is superseded.
        /// Until then it keeps the key's place in the pool's queue.
        case queued
        /// Superseded: its successor inherits its place.
        case yielded
        /// Written or certain to be written. The successor of a push that yielded (`Successor.isHeir`) begins here: it
        /// cannot be superseded, or else updates in quick succession would never be sent.
        case fixed
    }

    private struct Line {
        var holder: Push
        var phase = Phase.queued
        var waiting: [Push] = []
        /// The last timestamp of the key; nil if no push had one.
        var timestamp: Int64?

        /// - Returns: `time`, or a timestamp above all others of the key; nil if `time` is nil.
        mutating func raise(_ time: Int64?) -> Int64? {
            guard let time else { return nil }
            var result = time
            if let timestamp, timestamp >= time { result = timestamp == .max ? timestamp : timestamp + 1 }
            self.timestamp = result
            return result
        }
    }

    private var lines: [Key: Line] = [:]
    /// The last timestamps of keys without pushes, in two generations. When the younger generation is full, it replaces
    /// the older one, which is forgotten. The cost per arrival is therefore independent of the number of keys.
    private var recentTimestamps: [Key: Int64] = [:]
    private var olderTimestamps: [Key: Int64] = [:]
    private var nextTicket: Ticket = 0
    /// The maximum number of timestamps that are kept for keys without pushes. They matter only for pushes within one
    /// second, or if the wall clock is set back.
    let timestampLimit: Int

    init(timestampLimit: Int = 10_000) {
        self.timestampLimit = max(2, timestampLimit)
    }

    var keyCount: Int { self.lines.count }
    var arrivalCount: UInt64 { self.nextTicket }
    /// The number of timestamps that are kept for keys without pushes.
    var timestampCount: Int { self.recentTimestamps.count + self.olderTimestamps.count }

    /// Records a new push.
    ///
    /// - Parameters:
    ///   - isFinal: whether the push cannot be superseded.
    ///   - timestamp: the wall-clock time, if a timestamp must be filled in.
    mutating func arrive(_ key: Key, isFinal: Bool, timestamp: Int64? = nil) -> Arrival {
        self.nextTicket &+= 1
        let push = Push(ticket: self.nextTicket, isFinal: isFinal)
        var arrival = Arrival(ticket: push.ticket, hasTurn: false)
        guard var line = self.lines[key] else {
            var line = Line(holder: push, timestamp: self.takeTimestamp(key))
            arrival.timestamp = line.raise(timestamp)
            self.lines[key] = line
            arrival.hasTurn = true
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

    /// Ends the push's wait for any reason. A push that is still waiting is removed.
    mutating func claim(_ key: Key, _ ticket: Ticket) -> Standing {
        guard var line = self.lines[key] else { return .superseded }
        if line.holder.ticket == ticket { return .hasTurn }
        guard let index = line.waiting.firstIndex(where: { $0.ticket == ticket }) else { return .superseded }
        line.waiting.remove(at: index)
        self.lines[key] = line
        return .withdrawn
    }

    /// Records that the push with the turn is about to be written. Returns false if it was superseded and must not be
    /// written.
    mutating func beginWrite(_ key: Key, _ ticket: Ticket) -> Bool {
        guard var line = self.lines[key], line.holder.ticket == ticket else { return false }
        if line.phase == .queued {
            line.phase = line.holder.isFinal || line.waiting.isEmpty ? .fixed : .yielded
            self.lines[key] = line
        }
        return line.phase == .fixed
    }

    /// Records that the push with the turn has its outcome. Returns the push that gets the turn next.
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

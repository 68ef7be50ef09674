import NIOCore

/// Decides which connections of the API stay open, so that connections without a valid request do not exclude others.
///
/// A connection is *proved* by its first request with a caller's token. While a limit is reached, idle connections that
/// were not proved within ``grace`` are closed. Proved connections stay open.
struct ConnectionTable<ID: Hashable> {
    private struct Entry {
        var address: [UInt8]
        var opened: NIODeadline
        var isProved = false
    }

    /// The time limit for a connection's first request while a limit is reached.
    let grace: TimeAmount
    private let limit: Int
    private let limitOfAddress: Int
    private var entries: [ID: Entry] = [:]
    private var ofAddress: [[UInt8]: Int] = [:]

    /// - Parameters:
    ///   - limit: the maximum number of connections. At the limit, the listening socket accepts no more.
    ///   - limitOfAddress: the maximum number of connections from one address.
    ///   - grace: see ``grace``.
    init(limit: Int, limitOfAddress: Int, grace: TimeAmount) {
        self.limit = limit
        self.limitOfAddress = limitOfAddress
        self.grace = grace
    }

    /// The number of connections.
    var count: Int { self.entries.count }

    /// Adds an accepted connection.
    ///
    /// - Returns: whether it may stay. If not, its address has too many connections.
    mutating func open(_ id: ID, from address: [UInt8], at now: NIODeadline) -> Bool {
        guard self.ofAddress[address, default: 0] < self.limitOfAddress else { return false }
        self.entries[id] = Entry(address: address, opened: now)
        self.ofAddress[address, default: 0] += 1
        return true
    }

    /// Records that a connection has sent a request with a caller's token.
    mutating func prove(_ id: ID) { self.entries[id]?.isProved = true }

    /// Removes a connection that has ended. An unknown connection is ignored.
    mutating func close(_ id: ID) {
        guard let entry = self.entries.removeValue(forKey: id) else { return }
        let left = self.ofAddress[entry.address, default: 1] - 1
        self.ofAddress[entry.address] = left == 0 ? nil : left
    }

    /// Whether a limit is reached: the limit of all connections, or that of the address.
    func isFull(for address: [UInt8]) -> Bool {
        self.entries.count >= self.limit || self.ofAddress[address, default: 0] >= self.limitOfAddress
    }

    /// The connections that make room for others.
    ///
    /// - Returns: the connections to close if they are idle, and when to call this again; nil if no limit is reached,
    ///   or if the limits concern only proved connections.
    func sweep(at now: NIODeadline) -> (idle: [ID], next: NIODeadline?) {
        var idle: [ID] = []
        var next: NIODeadline?
        for (id, entry) in self.entries where !entry.isProved && self.isFull(for: entry.address) {
            var end = entry.opened + self.grace
            if end <= now {
                idle.append(id)
                end = now + self.grace
            }
            next = min(next ?? end, end)
        }
        return (idle, next)
    }
}

/// Tracks which names are being looked up, which ones wait for a thread, and which requests wait for each name. A value
/// without side effects.
///
/// All requests for one name share one look-up, even if it has already begun. A name is not looked up if no request
/// waits for it any more.
struct LookUpQueue {
    struct Name: Hashable, Sendable {
        var host: String
        var port: Int
    }

    private struct LookUp {
        var waiters: [UInt64]
        var isRunning = false
    }

    /// The maximum number of simultaneous look-ups.
    let threadLimit: Int
    private(set) var threadCount = 0
    private var lookUps: [Name: LookUp] = [:]
    /// The names that wait for a thread, in order.
    private var queue: [Name] = []

    init(threadLimit: Int) {
        self.threadLimit = threadLimit
    }

    /// Adds a request for the addresses of a name.
    ///
    /// - Returns: Whether to start another thread, which then calls `next()`.
    mutating func ask(_ name: Name, waiter: UInt64) -> Bool {
        if self.lookUps[name] != nil {
            self.lookUps[name]?.waiters.append(waiter)
            return false
        }
        self.lookUps[name] = LookUp(waiters: [waiter])
        self.queue.append(name)
        guard self.threadCount < self.threadLimit else { return false }
        self.threadCount += 1
        return true
    }

    /// Removes a request.
    mutating func withdraw(_ name: Name, waiter: UInt64) {
        guard var lookUp = self.lookUps[name] else { return }
        lookUp.waiters.removeAll { $0 == waiter }
        if lookUp.waiters.isEmpty, !lookUp.isRunning {
            self.lookUps[name] = nil
            self.queue.removeAll { $0 == name }
        } else {
            self.lookUps[name] = lookUp
        }
    }

    /// Returns the name that a thread looks up next; `nil` if the thread should end.
    mutating func next() -> Name? {
        guard !self.queue.isEmpty else {
            self.threadCount -= 1
            return nil
        }
        let name = self.queue.removeFirst()
        self.lookUps[name]?.isRunning = true
        return name
    }

    /// Removes a look-up that has ended.
    ///
    /// - Returns: The requests that get its result.
    mutating func finish(_ name: Name) -> [UInt64] {
        self.lookUps.removeValue(forKey: name)?.waiters ?? []
    }

    /// Called when the system could not start a thread.
    ///
    /// - Returns: The requests that get an error, because no other thread is left to serve them.
    mutating func threadFailed() -> [UInt64] {
        self.threadCount -= 1
        guard self.threadCount == 0 else { return [] }
        let waiters = self.queue.flatMap { self.lookUps[$0]?.waiters ?? [] }
        for name in self.queue { self.lookUps[name] = nil }
        self.queue = []
        return waiters
    }
}

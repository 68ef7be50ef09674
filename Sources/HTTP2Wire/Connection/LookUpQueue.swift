/// Which names are looked up, which wait for a thread, and who waits for each. Pure.
///
/// All who want the same name share one look-up, also one that has begun already. A name that nobody waits for any more
/// is not looked up.
struct LookUpQueue {
    struct Name: Hashable, Sendable {
        var host: String
        var port: Int
    }

    private struct LookUp {
        var waiters: [UInt64]
        var isRunning = false
    }

    /// The most look-ups at a time.
    let threadLimit: Int
    private(set) var threadCount = 0
    private var lookUps: [Name: LookUp] = [:]
    /// The names that wait for a thread, in order.
    private var queue: [Name] = []

    init(threadLimit: Int) {
        self.threadLimit = threadLimit
    }

    /// Somebody wants the addresses of a name.
    ///
    /// - Returns: whether a further thread is to be started, which calls `next()`.
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

    /// Somebody does not wait any more.
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

    /// What a thread is to look up next. Nil: the thread ends.
    mutating func next() -> Name? {
        guard !self.queue.isEmpty else {
            self.threadCount -= 1
            return nil
        }
        let name = self.queue.removeFirst()
        self.lookUps[name]?.isRunning = true
        return name
    }

    /// A look-up has ended.
    ///
    /// - Returns: those who get its result.
    mutating func finish(_ name: Name) -> [UInt64] {
        self.lookUps.removeValue(forKey: name)?.waiters ?? []
    }

    /// The system gave no thread.
    ///
    /// - Returns: those who get an error, since no other thread is there to serve them.
    mutating func threadFailed() -> [UInt64] {
        self.threadCount -= 1
        guard self.threadCount == 0 else { return [] }
        let waiters = self.queue.flatMap { self.lookUps[$0]?.waiters ?? [] }
        for name in self.queue { self.lookUps[name] = nil }
        self.queue = []
        return waiters
    }
}

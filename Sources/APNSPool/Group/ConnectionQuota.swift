import SupervisedPool

/// Decides which of a group's clients run, so that together they have no more connections than allowed. Pure; clients
/// are numbers here.
///
/// ```
///   stopped ──use, no room──▶ queued ──room──▶ starting ──▶ running ──idle──▶ stopping ──▶ stopped
///      └───────use, room───────────────────────────▲          │ others wait, and its time slice is over
///                                                             │  ▲
///                                                             │  │ nobody waits for its room any more
///                                                             └──▶ yielding ──last one leaves──▶ stopping
/// ```
/// A client keeps the connections that it was started with until it stops. If there are too few, the client that has
/// idled longest stops. If none is idle, the first client that gets new work after it has run for `timeSlice` accepts
/// no further work and queues again behind the others.
///
/// A call (a bulk call, `withClient` or a check) may last for hours, and its client cannot stop before the call ends.
/// While such a client yields, it accepts no further calls. It still accepts single pushes, because refusing them would
/// free nothing. Meanwhile, idle clients are still stopped to make room for queued ones.
struct ConnectionQuota: Sendable {
    typealias ClientID = Int

    enum State: Sendable, Equatable {
        case stopped, queued, starting, running, yielding, stopping
    }

    private struct Entry {
        /// The number of connections that the client should have.
        var wanted: Int
        var reserved = 0
        var state = State.stopped
        /// The number of current users.
        var users = 0
        /// The number of current users that are calls.
        var calls = 0
        /// The number of callers that wait until the client runs.
        var waiting = 0
        /// The number of waiting callers that are calls.
        var waitingCalls = 0
        var startedAt = MonotonicInstant(nanoseconds: 0)
        var lastUsed = MonotonicInstant(nanoseconds: 0)
        var isRemoved = false
    }

    enum Action: Sendable, Equatable {
        case start(ClientID, connections: Int)
        /// The client is unused: close its connections.
        case stop(ClientID)
        /// The client no longer yields: the waiting callers use it now.
        case resume(ClientID)
        /// The client has ended permanently.
        case forget(ClientID)
    }

    enum Admission: Sendable, Equatable {
        /// The client runs. `leave` must follow.
        case use
        /// The wait ends with `started`, the action `resume`, `ended` or `remove`, or the caller must call `giveUp`.
        case wait
        case gone
    }

    static let timeSlice = Duration.seconds(10)

    let cap: Int
    let idleTimeout: Duration
    private var entries: [ClientID: Entry] = [:]
    private var queue: [ClientID] = []
    private var lastID = 0
    private(set) var totalReserved = 0

    init(cap: Int, idleTimeout: Duration) {
        self.cap = max(cap, 1)
        self.idleTimeout = idleTimeout
    }

    func state(_ clientID: ClientID) -> State? { self.entries[clientID]?.state }
    func connections(_ clientID: ClientID) -> Int { self.entries[clientID]?.reserved ?? 0 }
    func users(_ clientID: ClientID) -> Int { self.entries[clientID]?.users ?? 0 }

    /// The number of current users that are calls.
    func calls(_ clientID: ClientID) -> Int { self.entries[clientID]?.calls ?? 0 }
    func waiting(_ clientID: ClientID) -> Int { self.entries[clientID]?.waiting ?? 0 }

    // MARK: Clients

    mutating func add(connections: Int) -> ClientID {
        self.lastID += 1
        self.entries[self.lastID] = Entry(wanted: min(max(connections, 1), self.cap))
        return self.lastID
    }

    /// Sets the number of connections that the client should have at its next start.
    mutating func want(_ clientID: ClientID, connections: Int) {
        self.entries[clientID]?.wanted = min(max(connections, 1), self.cap)
    }

    /// Removes a client. It accepts no new work, and its work in progress finishes.
    mutating func remove(_ clientID: ClientID, now: MonotonicInstant) -> [Action] {
        guard var entry = self.entries[clientID], !entry.isRemoved else { return [] }
        entry.isRemoved = true
        entry.waiting = 0
        entry.waitingCalls = 0
        self.queue.removeAll { $0 == clientID }
        if entry.state == .queued { entry.state = .stopped }
        self.entries[clientID] = entry
        var actions: [Action] = []
        if entry.state == .stopped {
            self.entries[clientID] = nil
            actions.append(.forget(clientID))
        } else {
            self.stopIfUnused(clientID, into: &actions)
        }
        self.resumeIfNobodyWaits(now: now, into: &actions)
        return actions
    }

    // MARK: Use

    /// Requests the use of a client.
    ///
    /// - Parameter asCall: Whether the user is a call, which may last much longer than a push.
    mutating func enter(_ clientID: ClientID, asCall: Bool = false, now: MonotonicInstant) -> (Admission, [Action]) {
        guard let entry = self.entries[clientID], !entry.isRemoved else { return (.gone, []) }
        var actions: [Action] = []
        if entry.state == .running, self.mustYield(clientID, now: now) { self.entries[clientID]?.state = .yielding }
        let isYielding = self.entries[clientID]?.state == .yielding
        if entry.state == .running && !isYielding || isYielding && entry.calls > 0 && !asCall {
            self.entries[clientID]?.users += 1
            if asCall { self.entries[clientID]?.calls += 1 }
            self.entries[clientID]?.lastUsed = now
            return (.use, [])
        }
        if asCall { self.entries[clientID]?.waitingCalls += 1 }
        switch entry.state {
        case .running:
            self.entries[clientID]?.waiting += 1
            self.stopIfUnused(clientID, into: &actions)
        case .stopped:
            self.entries[clientID]?.waiting += 1
            self.entries[clientID]?.state = .queued
            self.queue.append(clientID)
            self.fill(now: now, into: &actions)
        case .queued:
            self.entries[clientID]?.waiting += 1
            self.makeRoom(now: now, into: &actions)
        case .starting, .yielding, .stopping:
            self.entries[clientID]?.waiting += 1
        }
        return (.wait, actions)
    }

    /// Ends one use of a client.
    mutating func leave(_ clientID: ClientID, asCall: Bool = false, now: MonotonicInstant) -> [Action] {
        guard let entry = self.entries[clientID], entry.users > 0 else { return [] }
        self.entries[clientID]?.users -= 1
        if asCall, entry.calls > 0 { self.entries[clientID]?.calls -= 1 }
        self.entries[clientID]?.lastUsed = now
        var actions: [Action] = []
        self.stopIfUnused(clientID, into: &actions)
        if !self.queue.isEmpty { self.makeRoom(now: now, into: &actions) }
        return actions
    }

    /// Ends one caller's wait for a client.
    mutating func giveUp(_ clientID: ClientID, asCall: Bool = false, now: MonotonicInstant) -> [Action] {
        guard let entry = self.entries[clientID], entry.waiting > 0 else { return [] }
        self.entries[clientID]?.waiting -= 1
        self.entries[clientID]?.waitingCalls = min(max(entry.waitingCalls - (asCall ? 1 : 0), 0), entry.waiting - 1)
        var actions: [Action] = []
        if entry.waiting == 1, entry.state == .queued {
            self.entries[clientID]?.state = .stopped
            self.queue.removeAll { $0 == clientID }
            self.resumeIfNobodyWaits(now: now, into: &actions)
        }
        return actions
    }

    // MARK: Client events

    /// The client runs: the waiting callers use it now.
    mutating func started(_ clientID: ClientID, now: MonotonicInstant) -> [Action] {
        guard var entry = self.entries[clientID], entry.state == .starting else { return [] }
        entry.startedAt = now
        self.entries[clientID] = entry
        self.admitAll(clientID, now: now)
        var actions: [Action] = []
        if entry.isRemoved { self.stopIfUnused(clientID, into: &actions) }
        // If the callers that needed it have given up by now, it is idle and makes room for queued clients.
        self.makeRoom(now: now, into: &actions)
        return actions
    }

    /// The client has ended or could not be started; its connections are free.
    ///
    /// - Parameter keepsWaiting: Whether the waiting callers keep waiting, because the client only made room for
    ///   others.
    mutating func ended(_ clientID: ClientID, keepsWaiting: Bool, now: MonotonicInstant) -> [Action] {
        guard var entry = self.entries[clientID], entry.reserved > 0 else { return [] }
        self.totalReserved -= entry.reserved
        entry.reserved = 0
        // A client may end while it is in use. Its users call `leave` later, so they count until then.
        if !keepsWaiting {
            entry.waiting = 0
            entry.waitingCalls = 0
        }
        var actions: [Action] = []
        if entry.isRemoved {
            self.entries[clientID] = nil
            actions.append(.forget(clientID))
        } else {
            entry.state = entry.waiting > 0 ? .queued : .stopped
            self.entries[clientID] = entry
            if entry.waiting > 0 { self.queue.append(clientID) }
        }
        self.fill(now: now, into: &actions)
        return actions
    }

    /// Stops clients that were idle for too long, and makes room for queued ones.
    mutating func sweep(now: MonotonicInstant) -> [Action] {
        var actions: [Action] = []
        for (clientID, entry) in self.entries.sorted(by: { $0.key < $1.key })
        where entry.state == .running && entry.users == 0
            && entry.lastUsed.duration(to: now) >= self.idleTimeout
        {
            self.stop(clientID, into: &actions)
        }
        self.makeRoom(now: now, into: &actions)
        return actions
    }

    // MARK: Room

    private func mustYield(_ clientID: ClientID, now: MonotonicInstant) -> Bool {
        guard !self.queue.isEmpty, let entry = self.entries[clientID],
            entry.startedAt.duration(to: now) >= Self.timeSlice
        else { return false }
        // One client at a time: do not free connections twice for one need. A yielding client with a call does not
        // count, because the end of its call is unpredictable.
        return !self.entries.values.contains { $0.state == .stopping || $0.state == .yielding && $0.calls == 0 }
    }

    /// The client runs, and the waiting callers use it.
    private mutating func admitAll(_ clientID: ClientID, now: MonotonicInstant) {
        guard var entry = self.entries[clientID] else { return }
        entry.state = .running
        entry.users += entry.waiting
        entry.calls += entry.waitingCalls
        entry.waiting = 0
        entry.waitingCalls = 0
        entry.lastUsed = now
        self.entries[clientID] = entry
    }

    /// Clients that no longer need to yield keep running.
    private mutating func resumeIfNobodyWaits(now: MonotonicInstant, into actions: inout [Action]) {
        guard self.queue.isEmpty else { return }
        for (clientID, entry) in self.entries.sorted(by: { $0.key < $1.key })
        where entry.state == .yielding && !entry.isRemoved {
            self.admitAll(clientID, now: now)
            actions.append(.resume(clientID))
        }
    }

    /// Starts queued clients while there is room, and makes room for the rest. If none is queued any more, yielding
    /// clients resume.
    private mutating func fill(now: MonotonicInstant, into actions: inout [Action]) {
        while let clientID = self.queue.first, let entry = self.entries[clientID], self.totalReserved < self.cap {
            self.queue.removeFirst()
            // Leave at least one connection for each queued client.
            let room = max(1, self.cap - self.totalReserved - self.queue.count)
            let reserved = min(entry.wanted, room)
            self.totalReserved += reserved
            self.entries[clientID]?.reserved = reserved
            self.entries[clientID]?.state = .starting
            actions.append(.start(clientID, connections: reserved))
        }
        self.makeRoom(now: now, into: &actions)
        self.resumeIfNobodyWaits(now: now, into: &actions)
    }

    /// Stops the client that has idled longest, if clients are queued and none is stopping. An idle client is stopped
    /// even if another one is yielding.
    private mutating func makeRoom(now: MonotonicInstant, into actions: inout [Action]) {
        guard !self.queue.isEmpty, !self.entries.values.contains(where: { $0.state == .stopping }) else { return }
        let idle = self.entries.filter { $0.value.state == .running && $0.value.users == 0 }
        if let clientID = idle.min(by: { ($0.value.lastUsed, $0.key) < ($1.value.lastUsed, $1.key) })?.key {
            self.stop(clientID, into: &actions)
        }
    }

    private mutating func stopIfUnused(_ clientID: ClientID, into actions: inout [Action]) {
        guard let entry = self.entries[clientID], entry.users == 0 else { return }
        if entry.state == .yielding || entry.isRemoved && entry.state == .running {
            self.stop(clientID, into: &actions)
        }
    }

    private mutating func stop(_ clientID: ClientID, into actions: inout [Action]) {
        self.entries[clientID]?.state = .stopping
        actions.append(.stop(clientID))
    }
}

import SupervisedPool

/// Decides which of a group's clients run and with how many connections, so that together they have no more than
/// allowed. Pure; clients are numbers here.
///
/// ```
///   stopped ──use, no room──▶ queued ──room──▶ starting ──▶ running ──idle──▶ stopping ──▶ stopped
///      └───────use, room───────────────────────────▲          │ others wait, and its time slice is over
///                                                             │  ▲
///                                                             │  │ nobody waits for its room any more
///                                                             └──▶ yielding ──last one leaves──▶ stopping
/// ```
/// All clients should have the same number of connections, which `resize` changes. A queued client starts with as many
/// as there is room for. If there is none, the client that has idled longest stops. If none is idle, the first client
/// that gets new work after it has run for `timeSlice` accepts no further work and queues again behind the others.
///
/// While no client is queued, free connections go to the running clients that have too few. No client stops for that.
/// After a reduction, connections remain reserved until they are closed.
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
        /// The number of connections that the client may use.
        var allowed = 0
        /// The number of connections that it may no longer use and that may not be closed yet.
        var surplus = 0
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

        var reserved: Int { self.allowed + self.surplus }
    }

    enum Action: Sendable, Equatable {
        case start(ClientID, connections: Int)
        /// The client may use more connections: pass `connections(_:)` on to it.
        case grow(ClientID)
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
    /// The number of connections that each client should have.
    private var wanted: Int
    private var entries: [ClientID: Entry] = [:]
    private var queue: [ClientID] = []
    private var lastID = 0
    private(set) var totalReserved = 0

    /// - Parameters:
    ///   - cap: The limit on the connections of all clients together.
    ///   - connections: The number of connections that each client should have.
    ///   - idleTimeout: How long a client may be idle before it stops.
    init(cap: Int, connections: Int, idleTimeout: Duration) {
        self.cap = max(cap, 1)
        self.wanted = min(max(connections, 1), self.cap)
        self.idleTimeout = idleTimeout
    }

    func state(_ clientID: ClientID) -> State? { self.entries[clientID]?.state }

    /// The number of connections that the client may use.
    func connections(_ clientID: ClientID) -> Int { self.entries[clientID]?.allowed ?? 0 }
    func users(_ clientID: ClientID) -> Int { self.entries[clientID]?.users ?? 0 }

    /// The number of current users that are calls.
    func calls(_ clientID: ClientID) -> Int { self.entries[clientID]?.calls ?? 0 }
    func waiting(_ clientID: ClientID) -> Int { self.entries[clientID]?.waiting ?? 0 }

    // MARK: Clients

    mutating func add() -> ClientID {
        self.lastID += 1
        self.entries[self.lastID] = Entry()
        return self.lastID
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
        self.shareIfNobodyWaits(now: now, into: &actions)
        return actions
    }

    // MARK: Size

    /// Sets the number of connections that each client should have. The caller must then pass `connections(_:)` on to
    /// all clients that run.
    mutating func resize(to connections: Int) {
        self.wanted = min(max(connections, 1), self.cap)
        for (clientID, entry) in self.entries where entry.allowed > self.wanted {
            self.reserve(clientID, self.wanted, surplus: entry.reserved - self.wanted)
        }
        self.grow()
    }

    /// A client uses at most `connections` now, and `surplus` connections beyond that number are not closed yet. Has no
    /// effect if the client may use another number by now.
    mutating func applied(
        _ clientID: ClientID,
        connections: Int,
        surplus: Int,
        now: MonotonicInstant
    ) -> [Action] {
        guard let entry = self.entries[clientID], entry.allowed == connections, entry.surplus > surplus else {
            return []
        }
        self.reserve(clientID, connections, surplus: surplus)
        var actions: [Action] = []
        self.fill(now: now, into: &actions)
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

    /// Whether the end of a use may stop a client, so that `leave` must be called at once.
    var awaitsLeaves: Bool {
        !self.queue.isEmpty || self.entries.values.contains { $0.isRemoved || $0.state == .yielding }
    }

    /// Ends uses of a client.
    mutating func leave(
        _ clientID: ClientID,
        count: Int = 1,
        asCall: Bool = false,
        now: MonotonicInstant
    ) -> [Action] {
        guard let entry = self.entries[clientID], entry.users > 0 else { return [] }
        self.entries[clientID]?.users -= min(count, entry.users)
        if asCall, entry.calls > 0 { self.entries[clientID]?.calls -= 1 }
        self.entries[clientID]?.lastUsed = max(entry.lastUsed, now)
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
            self.shareIfNobodyWaits(now: now, into: &actions)
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
        entry.allowed = 0
        entry.surplus = 0
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

    /// If no client is queued, clients that no longer need to yield keep running, and clients with too few connections
    /// get more.
    private mutating func shareIfNobodyWaits(now: MonotonicInstant, into actions: inout [Action]) {
        guard self.queue.isEmpty else { return }
        for (clientID, entry) in self.entries.sorted(by: { $0.key < $1.key })
        where entry.state == .yielding && !entry.isRemoved {
            self.admitAll(clientID, now: now)
            actions.append(.resume(clientID))
        }
        actions += self.grow().map { .grow($0) }
    }

    /// Divides the free connections among the running clients that have too few; those with the fewest get the most. No
    /// client is queued then, because a queued client starts as soon as a connection is free.
    ///
    /// - Returns: The clients that may use more connections.
    @discardableResult
    private mutating func grow() -> [ClientID] {
        guard self.totalReserved < self.cap else { return [] }
        let clients = self.entries.filter { _, entry in
            (entry.state == .starting || entry.state == .running) && !entry.isRemoved && entry.allowed < self.wanted
        }.sorted { ($1.value.allowed, $0.key) < ($0.value.allowed, $1.key) }
        var room = self.cap - self.totalReserved + clients.reduce(0) { $0 + $1.value.allowed }
        var grown: [ClientID] = []
        for (position, (clientID, entry)) in clients.enumerated() {
            // The clients that follow have no more than this one, so an equal share leaves them what they have.
            let allowed = min(self.wanted, max(entry.allowed, room / (clients.count - position)))
            room -= allowed
            guard allowed > entry.allowed else { continue }
            self.reserve(clientID, allowed, surplus: entry.surplus)
            grown.append(clientID)
        }
        return grown
    }

    private mutating func reserve(_ clientID: ClientID, _ allowed: Int, surplus: Int = 0) {
        guard let entry = self.entries[clientID] else { return }
        self.totalReserved += allowed + surplus - entry.reserved
        self.entries[clientID]?.allowed = allowed
        self.entries[clientID]?.surplus = surplus
    }

    /// Starts queued clients while there is room, and makes room for the rest. If none is queued any more, the others
    /// share what is free.
    private mutating func fill(now: MonotonicInstant, into actions: inout [Action]) {
        while let clientID = self.queue.first, self.totalReserved < self.cap {
            self.queue.removeFirst()
            // Leave at least one connection for each queued client.
            let room = max(1, self.cap - self.totalReserved - self.queue.count)
            let allowed = min(self.wanted, room)
            self.reserve(clientID, allowed)
            self.entries[clientID]?.state = .starting
            actions.append(.start(clientID, connections: allowed))
        }
        self.makeRoom(now: now, into: &actions)
        self.shareIfNobodyWaits(now: now, into: &actions)
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

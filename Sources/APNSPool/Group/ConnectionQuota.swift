import SupervisedPool

/// Decides which of a group's clients run and with how many connections, so that together they have no more than
/// allowed. Pure; clients are numbers here.
///
/// ```
///   stopped ──use──▶ queued ──room──▶ starting ──▶ running ──▶ stopping ──▶ stopped
/// ```
/// All clients should have the same number of connections, which `resize` changes. A queued client starts with as many
/// as there is room for, and gets more when connections are free that no client is queued for. After a reduction,
/// connections remain reserved until they are closed.
///
/// One rule of fairness: while clients are queued, a client that has served for `serveTime` takes no further call, and
/// stops as soon as no call is open. An idle client stops once it has run for `idleServeTime`, the one that has idled
/// longest first. A call (a bulk call, `withClient` or a check) may last for hours, and is not interrupted; the
/// client's single pushes go on meanwhile, because refusing them would free nothing.
///
/// The clients count their pushes and calls themselves: `decide` asks for their load.
struct ConnectionQuota: Sendable {
    typealias ClientID = Int

    enum State: Sendable, Equatable {
        case stopped, queued, starting, running, stopping
    }

    /// What a client does at present.
    struct Load: Sendable, Equatable {
        /// The pushes that have no outcome.
        var pushes = 0
        /// The calls that are open.
        var calls = 0
        /// The pushes that have an outcome: shows whether the client was used since the last decision.
        var ended = 0

        var isIdle: Bool { self.pushes == 0 && self.calls == 0 }
    }

    private struct Entry {
        /// The number of connections that the client may use.
        var allowed = 0
        /// The number of connections that it may no longer use and that may not be closed yet.
        var surplus = 0
        var state = State.stopped
        /// The number of callers that wait until the client runs, or may take a call again.
        var waiting = 0
        var startedAt = MonotonicInstant(nanoseconds: 0)
        /// When it was last seen busy.
        var lastUsed = MonotonicInstant(nanoseconds: 0)
        var load = Load()
        var isRemoved = false

        var reserved: Int { self.allowed + self.surplus }
    }

    enum Action: Sendable, Equatable {
        case start(ClientID, connections: Int)
        /// The client may use more connections: pass `connections(_:)` on to it.
        case grow(ClientID)
        /// Let the client's pushes finish, and close its connections.
        case stop(ClientID)
        /// The waiting callers use the client now.
        case resume(ClientID)
        /// The client has ended permanently.
        case forget(ClientID)
    }

    enum Admission: Sendable, Equatable {
        /// The client runs.
        case use
        /// The wait ends with `started`, the action `resume`, `ended` or `remove`, or the caller must call `giveUp`.
        case wait
        case gone
    }

    /// How long a busy client serves before it makes room for others.
    static let serveTime = Duration.seconds(10)
    /// How long an idle client serves before it makes room for others: long enough that apps that each send a push now
    /// and then do not spend their time with connecting.
    static let idleServeTime = Duration.seconds(1)

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
    func waiting(_ clientID: ClientID) -> Int { self.entries[clientID]?.waiting ?? 0 }

    /// Whether a client waits for room, or a removed one still works: the next decision is due soon.
    var isPressing: Bool { !self.queue.isEmpty || self.entries.values.contains { $0.isRemoved } }

    // MARK: Clients

    mutating func add() -> ClientID {
        self.lastID += 1
        self.entries[self.lastID] = Entry()
        return self.lastID
    }

    /// Removes a client. It accepts no new work, and its work in progress finishes.
    mutating func remove(_ clientID: ClientID) -> [Action] {
        guard var entry = self.entries[clientID], !entry.isRemoved else { return [] }
        entry.isRemoved = true
        entry.waiting = 0
        self.queue.removeAll { $0 == clientID }
        if entry.state == .stopped || entry.state == .queued {
            self.entries[clientID] = nil
            return [.forget(clientID)]
        }
        self.entries[clientID] = entry
        return []
    }

    /// Sets the number of connections that each client should have. The caller must then pass `connections(_:)` on to
    /// all clients that run.
    mutating func resize(to connections: Int) {
        self.wanted = min(max(connections, 1), self.cap)
        for (clientID, entry) in self.entries where entry.allowed > self.wanted {
            self.reserve(clientID, self.wanted, surplus: entry.reserved - self.wanted)
        }
    }

    /// A client uses at most `connections` now, and `surplus` connections beyond that number are not closed yet. Has no
    /// effect if the client may use another number by now.
    mutating func applied(_ clientID: ClientID, connections: Int, surplus: Int) {
        guard let entry = self.entries[clientID], entry.allowed == connections, entry.surplus > surplus else { return }
        self.reserve(clientID, connections, surplus: surplus)
    }

    // MARK: Use

    /// Requests the use of a client.
    ///
    /// - Parameters:
    ///   - isCall: Whether the use is a call, which may last much longer than a push.
    ///   - isUrgent: Whether the client is queued before the others.
    mutating func enter(
        _ clientID: ClientID,
        asCall isCall: Bool = false,
        isUrgent: Bool = false,
        now: MonotonicInstant
    ) -> Admission {
        guard let entry = self.entries[clientID], !entry.isRemoved else { return .gone }
        if entry.state == .running, !(isCall && self.mustMakeRoom(entry, now)) { return .use }
        self.entries[clientID]?.waiting += 1
        if entry.state == .stopped {
            self.entries[clientID]?.state = .queued
            self.queue.insert(clientID, at: isUrgent ? 0 : self.queue.count)
        }
        return .wait
    }

    /// Ends one caller's wait for a client.
    mutating func giveUp(_ clientID: ClientID) {
        guard let entry = self.entries[clientID], entry.waiting > 0 else { return }
        self.entries[clientID]?.waiting -= 1
        if entry.waiting == 1, entry.state == .queued {
            self.entries[clientID]?.state = .stopped
            self.queue.removeAll { $0 == clientID }
        }
    }

    /// The client runs: the waiting callers use it now.
    mutating func started(_ clientID: ClientID, now: MonotonicInstant) {
        guard self.entries[clientID]?.state == .starting else { return }
        self.entries[clientID]?.state = .running
        self.entries[clientID]?.startedAt = now
        self.entries[clientID]?.lastUsed = now
        self.entries[clientID]?.load = Load()
        self.entries[clientID]?.waiting = 0
    }

    /// The client has ended or could not be started; its connections are free.
    ///
    /// - Parameter keepsWaiting: Whether the waiting callers keep waiting, because the client only made room for
    ///   others.
    mutating func ended(_ clientID: ClientID, keepsWaiting: Bool) -> [Action] {
        guard let entry = self.entries[clientID], entry.reserved > 0 else { return [] }
        self.reserve(clientID, 0)
        if entry.isRemoved {
            self.entries[clientID] = nil
            return [.forget(clientID)]
        }
        if !keepsWaiting { self.entries[clientID]?.waiting = 0 }
        let isWanted = keepsWaiting && entry.waiting > 0
        self.entries[clientID]?.state = isWanted ? .queued : .stopped
        if isWanted { self.queue.append(clientID) }
        return []
    }

    // MARK: Decisions

    /// Starts, stops and grows clients. Called after each change, and at intervals.
    ///
    /// - Parameter load: Returns the present load of a client that runs.
    mutating func decide(now: MonotonicInstant, load: (ClientID) -> Load) -> [Action] {
        self.note(now, load)
        var actions: [Action] = []
        self.startQueued(into: &actions)
        if self.queue.isEmpty {
            self.resume(into: &actions)
            self.grow(into: &actions)
        } else {
            self.makeRoom(now, into: &actions)
        }
        for (clientID, entry) in self.sorted(where: { $0.state == .running && $0.load.isIdle })
        where entry.lastUsed.duration(to: now) >= self.idleTimeout {
            self.stop(clientID, into: &actions)
        }
        for (clientID, _) in self.sorted(where: { $0.state == .running && $0.isRemoved && $0.load.calls == 0 }) {
            self.stop(clientID, into: &actions)
        }
        return actions
    }

    private mutating func note(_ now: MonotonicInstant, _ load: (ClientID) -> Load) {
        for (clientID, entry) in self.entries where entry.state == .running {
            let load = load(clientID)
            if !load.isIdle || load.ended != entry.load.ended { self.entries[clientID]?.lastUsed = now }
            self.entries[clientID]?.load = load
        }
    }

    private mutating func startQueued(into actions: inout [Action]) {
        while let clientID = self.queue.first, self.totalReserved < self.cap {
            self.queue.removeFirst()
            // Leave at least one connection for each queued client.
            let room = max(1, self.cap - self.totalReserved - self.queue.count)
            let allowed = min(self.wanted, room)
            self.reserve(clientID, allowed)
            self.entries[clientID]?.state = .starting
            actions.append(.start(clientID, connections: allowed))
        }
    }

    /// Whether the client has served long enough while others wait.
    private func mustMakeRoom(_ entry: Entry, _ now: MonotonicInstant) -> Bool {
        !self.queue.isEmpty && entry.startedAt.duration(to: now) >= Self.serveTime
    }

    /// Stops one client for each queued one: idle clients first, then those that have served longest.
    private mutating func makeRoom(_ now: MonotonicInstant, into actions: inout [Action]) {
        var missing = self.queue.count - self.entries.values.count { $0.state == .stopping }
        let running = self.sorted { $0.state == .running && $0.load.calls == 0 && !$0.isRemoved }
        let idle = running.filter { $0.entry.load.isIdle && $0.entry.startedAt.duration(to: now) >= Self.idleServeTime }
            .sorted { $0.entry.lastUsed < $1.entry.lastUsed }
        let busy = running.filter { !$0.entry.load.isIdle && self.mustMakeRoom($0.entry, now) }
            .sorted { $0.entry.startedAt < $1.entry.startedAt }
        for (clientID, _) in idle + busy where missing > 0 {
            missing -= 1
            self.stop(clientID, into: &actions)
        }
    }

    /// Lets callers use clients that no longer need to make room.
    private mutating func resume(into actions: inout [Action]) {
        for (clientID, _) in self.sorted(where: { $0.state == .running && $0.waiting > 0 }) {
            self.entries[clientID]?.waiting = 0
            actions.append(.resume(clientID))
        }
    }

    /// Gives the free connections to clients that have too few, first to those with the fewest.
    private mutating func grow(into actions: inout [Action]) {
        let clients = self.sorted { entry in
            (entry.state == .starting || entry.state == .running) && !entry.isRemoved && entry.allowed < self.wanted
        }
        for (clientID, entry) in clients.sorted(by: { $0.entry.allowed < $1.entry.allowed })
        where self.totalReserved < self.cap {
            let allowed = min(self.wanted, entry.allowed + self.cap - self.totalReserved)
            self.reserve(clientID, allowed, surplus: entry.surplus)
            actions.append(.grow(clientID))
        }
    }

    private mutating func stop(_ clientID: ClientID, into actions: inout [Action]) {
        guard self.entries[clientID]?.state == .running else { return }
        self.entries[clientID]?.state = .stopping
        actions.append(.stop(clientID))
    }

    private mutating func reserve(_ clientID: ClientID, _ allowed: Int, surplus: Int = 0) {
        guard let entry = self.entries[clientID] else { return }
        self.totalReserved += allowed + surplus - entry.reserved
        self.entries[clientID]?.allowed = allowed
        self.entries[clientID]?.surplus = surplus
    }

    /// The clients for which `isMeant` holds, in the order of their numbers.
    private func sorted(where isMeant: (Entry) -> Bool) -> [(clientID: ClientID, entry: Entry)] {
        self.entries.filter { isMeant($0.value) }.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }
}

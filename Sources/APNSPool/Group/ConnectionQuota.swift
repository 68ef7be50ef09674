import SupervisedPool

/// Which of a group's clients run, so that all together have no more connections than are allowed. Pure; clients are
/// lanes here.
///
/// ```
///   stopped ──use, no room──▶ queued ──room──▶ starting ──▶ running ──idle──▶ stopping ──▶ stopped
///      └───────use, room───────────────────────────▲          │ others wait, and its turn is over
///                                                             │  ▲
///                                                             │  │ nobody waits for its room any more
///                                                             └──▶ yielding ──last one leaves──▶ stopping
/// ```
/// Room is given away as a whole: a lane has the connections that it was started with until it stops. When there is too
/// little, the lane that has idled longest stops; with none idle, the one that has run longest takes no further work
/// after `turn`, and lines up again behind the others.
///
/// A call (`withClient`) may last for hours, and its lane cannot stop before it ends. Such a lane takes no further calls
/// while it yields, but single pushes go on with it: to refuse them would free nothing. Nor does it keep others from
/// room that can be had elsewhere.
struct ConnectionQuota: Sendable {
    typealias ClientID = Int

    enum State: Sendable, Equatable {
        case stopped, queued, starting, running, yielding, stopping
    }

    private struct Entry {
        /// The connections that it would like to have.
        var wanted: Int
        var granted = 0
        var state = State.stopped
        /// Those who use it now.
        var users = 0
        /// Those among them that are calls.
        var calls = 0
        /// Those who wait until it runs.
        var waiting = 0
        /// Those among them that are calls.
        var waitingCalls = 0
        var startedAt = MonotonicInstant(nanoseconds: 0)
        var lastUsed = MonotonicInstant(nanoseconds: 0)
        var isRemoved = false
    }

    enum Action: Sendable, Equatable {
        case start(ClientID, connections: Int)
        /// Nobody uses it: its connections are to be closed.
        case stop(ClientID)
        /// It yields no more: those who waited use it now.
        case resume(ClientID)
        /// It has ended for good.
        case forget(ClientID)
    }

    enum Admission: Sendable, Equatable {
        /// It runs. `leave` must follow.
        case use
        /// `started` or `failed` will come, or `giveUp` must.
        case wait
        case gone
    }

    static let timeSlice = Duration.seconds(10)

    let cap: Int
    let idleTimeout: Duration
    private var entries: [ClientID: Entry] = [:]
    private var queue: [ClientID] = []
    private var lastID = 0
    private(set) var used = 0

    init(cap: Int, idleTimeout: Duration) {
        self.cap = max(cap, 1)
        self.idleTimeout = idleTimeout
    }

    func state(_ clientID: ClientID) -> State? { self.entries[clientID]?.state }
    func connections(_ clientID: ClientID) -> Int { self.entries[clientID]?.granted ?? 0 }
    func users(_ clientID: ClientID) -> Int { self.entries[clientID]?.users ?? 0 }

    /// Those among the users that are calls.
    func calls(_ clientID: ClientID) -> Int { self.entries[clientID]?.calls ?? 0 }
    func waiting(_ clientID: ClientID) -> Int { self.entries[clientID]?.waiting ?? 0 }

    // MARK: Lanes

    mutating func add(connections: Int) -> ClientID {
        self.lastID += 1
        self.entries[self.lastID] = Entry(wanted: min(max(connections, 1), self.cap))
        return self.lastID
    }

    /// With its next start it would like to have so many.
    mutating func want(_ clientID: ClientID, connections: Int) {
        self.entries[clientID]?.wanted = min(max(connections, 1), self.cap)
    }

    /// Nothing new comes to it. What it has under way finishes.
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

    /// Somebody wants to use it.
    ///
    /// - Parameter asCall: Whether it is a call and may last long, unlike a push.
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

    /// One who used it is done.
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

    /// One who waited for it does so no more.
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

    // MARK: What the clients do

    /// It runs: those who waited use it now.
    mutating func started(_ clientID: ClientID, now: MonotonicInstant) -> [Action] {
        guard var entry = self.entries[clientID], entry.state == .starting else { return [] }
        entry.startedAt = now
        self.entries[clientID] = entry
        self.admitAll(clientID, now: now)
        var actions: [Action] = []
        if entry.isRemoved { self.stopIfUnused(clientID, into: &actions) }
        // Those who wanted it may be gone by now.
        self.makeRoom(now: now, into: &actions)
        return actions
    }

    /// It has ended, or could not be started; its connections are free.
    ///
    /// - Parameter keepsWaiting: whether those who wait go on waiting: it has made room for others.
    mutating func ended(_ clientID: ClientID, keepsWaiting: Bool, now: MonotonicInstant) -> [Action] {
        guard var entry = self.entries[clientID], entry.granted > 0 else { return [] }
        self.used -= entry.granted
        entry.granted = 0
        // A client may end while it is used. Those users still leave, so they count until then.
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

    /// Stops what has idled for too long, and moves the queue on.
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
        // One at a time: room that is on its way need not be made twice. That of a lane with a call is not: nobody knows
        // when the call ends.
        return !self.entries.values.contains { $0.state == .stopping || $0.state == .yielding && $0.calls == 0 }
    }

    /// It runs, and those who waited use it.
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

    /// What yields for nobody runs on.
    private mutating func resumeIfNobodyWaits(now: MonotonicInstant, into actions: inout [Action]) {
        guard self.queue.isEmpty else { return }
        for (clientID, entry) in self.entries.sorted(by: { $0.key < $1.key })
        where entry.state == .yielding && !entry.isRemoved {
            self.admitAll(clientID, now: now)
            actions.append(.resume(clientID))
        }
    }

    private mutating func fill(now: MonotonicInstant, into actions: inout [Action]) {
        while let clientID = self.queue.first, let entry = self.entries[clientID], self.used < self.cap {
            self.queue.removeFirst()
            // Those behind it shall have one at least.
            let room = max(1, self.cap - self.used - self.queue.count)
            let granted = min(entry.wanted, room)
            self.used += granted
            self.entries[clientID]?.granted = granted
            self.entries[clientID]?.state = .starting
            actions.append(.start(clientID, connections: granted))
        }
        self.makeRoom(now: now, into: &actions)
        self.resumeIfNobodyWaits(now: now, into: &actions)
    }

    /// Stops the lane that has idled longest, if somebody waits and no room is on its way. A lane that yields is not
    /// waited for while another one idles.
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

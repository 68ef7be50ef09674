import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The quota of a group under random events, beside a model of its clients and their connections.
struct ConnectionQuotaModelTests {
    /// For any order of events: no more connections than allowed, even while clients grow and shrink, no user counted
    /// twice, no waiting client forgotten while there is room, and no connection lost.
    @Test func anyOrderOfEventsKeepsTheCounts() async {
        let run = PropertyRun(commands: 12_000, runs: 30)
        for seed in run.seeds {
            await TestScale.letOthersRun()
            var model = QuotaModel(seed: seed, replay: run.replay(seed))
            for _ in 0..<run.commandsPerRun { model.step() }
            model.settle()
        }
    }
}

private struct QuotaModel {
    /// The connections of a client that runs: those below the limit may be open, and surplus ones close one by one.
    private struct Connections {
        var limit: Int
        var surplus: Set<Int> = []

        mutating func apply(_ limit: Int) {
            if limit < self.limit { self.surplus.formUnion(limit..<self.limit) }
            self.surplus = self.surplus.filter { $0 >= limit }
            self.limit = limit
        }
    }

    private let replay: String
    private var random: SeededRandom
    private let cap: Int
    private var wanted: Int
    private var quota: ConnectionQuota
    private var known: [Int] = []
    private var removed: Set<Int> = []
    private var users: [Int: Int] = [:]
    private var calls: [Int: Int] = [:]
    /// Pushes that have ended, which the quota does not know yet. It must know as soon as it awaits ends.
    private var late: [Int: Int] = [:]
    private var starting: [Int: Int] = [:]
    private var running: [Int: Connections] = [:]
    private var stopping: Set<Int> = []
    private var seconds: Int64 = 0

    init(seed: UInt64, replay: String) {
        self.replay = replay
        self.random = SeededRandom(seed: seed)
        self.cap = Int.random(in: 1...12, using: &self.random)
        self.wanted = Int.random(in: 1...4, using: &self.random)
        self.quota = ConnectionQuota(cap: self.cap, connections: self.wanted, idleTimeout: .seconds(30))
    }

    private var now: MonotonicInstant { MonotonicInstant(nanoseconds: self.seconds * 1_000_000_000) }

    private mutating func isOne(in count: Int) -> Bool { Int.random(in: 0..<count, using: &self.random) == 0 }

    mutating func step() {
        self.seconds += Int64.random(in: 0...3, using: &self.random)
        let clientID = self.known.randomElement(using: &self.random) ?? 0
        switch Int.random(in: 0..<16, using: &self.random) {
        case 0 where self.known.count < 8: self.known.append(self.quota.add())
        case 1 where self.isOne(in: 10):
            self.removed.insert(clientID)
            self.note(self.quota.remove(clientID, now: self.now))
        case 2...5: self.enter(clientID)
        case 6, 7: self.leave(clientID)
        case 8: self.start()
        case 9: self.end()
        case 10: self.note(self.quota.giveUp(clientID, asCall: self.isOne(in: 4), now: self.now))
        case 11 where self.isOne(in: 3): self.resize()
        case 12: self.apply(clientID)
        case 13, 14:
            if let surplus = self.running[clientID]?.surplus.sorted().randomElement(using: &self.random) {
                self.running[clientID]?.surplus.remove(surplus)
            }
            if self.isOne(in: 2) { self.report(clientID) }
        default:
            self.reportLate()
            self.note(self.quota.sweep(now: self.now))
        }
        self.reportAwaited()
        self.check()
    }

    /// Applies and closes everything. Afterwards each reserved connection is in use, and no client is kept small.
    mutating func settle() {
        // Each round may start or enlarge clients for the next one.
        for _ in 0...self.known.count + 1 {
            while !self.starting.isEmpty { self.start() }
            for clientID in self.running.keys.sorted() {
                self.apply(clientID)
                self.running[clientID]?.surplus = []
                self.report(clientID)
                self.reportAwaited()
                self.check()
            }
        }
        let used = self.running.values.reduce(0) { $0 + $1.limit }
        #expect(self.quota.totalReserved == used, "\(self.replay)")
        guard self.quota.totalReserved < self.cap else { return }
        for clientID in self.known {
            #expect(self.quota.state(clientID) != .queued, "\(self.replay)")
            guard self.quota.state(clientID) == .running, !self.removed.contains(clientID) else { continue }
            #expect(self.quota.connections(clientID) == min(self.wanted, self.cap), "\(self.replay)")
        }
    }

    // MARK: Events

    private mutating func enter(_ clientID: Int) {
        let isCall = self.isOne(in: 4)
        let (admission, actions) = self.quota.enter(clientID, asCall: isCall, now: self.now)
        if admission == .use {
            self.users[clientID, default: 0] += 1
            if isCall { self.calls[clientID, default: 0] += 1 }
        } else if admission == .wait, !isCall, self.running[clientID] != nil, !self.stopping.contains(clientID) {
            #expect(self.calls[clientID, default: 0] == 0, "a push waits for a call; \(self.replay)")
        }
        self.note(actions)
    }

    private mutating func leave(_ clientID: Int) {
        guard self.users[clientID, default: 0] > 0 else { return }
        let isCall = self.calls[clientID, default: 0] == self.users[clientID]
        self.users[clientID, default: 0] -= 1
        if isCall {
            self.calls[clientID, default: 0] -= 1
            self.note(self.quota.leave(clientID, asCall: true, now: self.now))
        } else {
            self.late[clientID, default: 0] += 1
        }
    }

    private mutating func reportLate() {
        for (clientID, count) in self.late.sorted(by: { $0.key < $1.key }) {
            self.late[clientID] = nil
            self.note(self.quota.leave(clientID, count: count, now: self.now))
        }
    }

    private mutating func reportAwaited() {
        while self.quota.awaitsLeaves, !self.late.isEmpty { self.reportLate() }
    }

    /// The users as the quota knows them, without those that have left.
    private func knownUsers(_ clientID: Int) -> Int { self.quota.users(clientID) - self.late[clientID, default: 0] }

    private mutating func start() {
        guard let (clientID, connections) = self.starting.min(by: { $0.key < $1.key }) else { return }
        self.starting[clientID] = nil
        self.running[clientID] = Connections(limit: connections)
        let actions = self.quota.started(clientID, now: self.now)
        self.users[clientID] = self.knownUsers(clientID)
        self.calls[clientID] = self.quota.calls(clientID)
        self.note(actions)
    }

    /// Sometimes a client ends by itself, even while it is in use.
    private mutating func end() {
        let isFault = self.isOne(in: 8)
        let ended = isFault ? self.running.keys.sorted().randomElement(using: &self.random) : self.stopping.min()
        guard let ended else { return }
        self.stopping.remove(ended)
        self.running[ended] = nil
        self.note(self.quota.ended(ended, keepsWaiting: true, now: self.now))
    }

    /// An update reaches the clients one after another, and other events come in between.
    private mutating func resize() {
        self.wanted = Int.random(in: 1...5, using: &self.random)
        self.quota.resize(to: self.wanted)
        for clientID in self.running.keys.sorted().shuffled(using: &self.random) {
            self.reportAwaited()
            self.check()
            self.report(self.running.keys.sorted().randomElement(using: &self.random) ?? clientID)
            self.apply(clientID)
        }
    }

    private mutating func apply(_ clientID: Int) {
        self.running[clientID]?.apply(self.quota.connections(clientID))
        self.report(clientID)
    }

    private mutating func report(_ clientID: Int) {
        guard let connections = self.running[clientID] else { return }
        self.note(
            self.quota.applied(
                clientID,
                connections: connections.limit,
                surplus: connections.surplus.count,
                now: self.now
            )
        )
    }

    private mutating func note(_ actions: [ConnectionQuota.Action]) {
        for action in actions {
            switch action {
            case .start(let clientID, let connections):
                #expect(
                    connections >= 1 && self.starting[clientID] == nil && self.running[clientID] == nil,
                    "\(self.replay)"
                )
                self.starting[clientID] = connections
            case .grow(let clientID):
                #expect(self.starting[clientID] != nil || self.running[clientID] != nil, "\(self.replay)")
                #expect(!self.stopping.contains(clientID), "\(self.replay)")
            case .stop(let clientID):
                #expect(self.running[clientID] != nil && self.users[clientID, default: 0] == 0, "\(self.replay)")
                #expect(self.stopping.insert(clientID).inserted, "\(self.replay)")
            case .resume(let clientID):
                #expect(self.running[clientID] != nil && !self.stopping.contains(clientID), "\(self.replay)")
                self.users[clientID] = self.knownUsers(clientID)
                self.calls[clientID] = self.quota.calls(clientID)
            case .forget(let clientID):
                self.late[clientID] = nil
                self.known.removeAll { $0 == clientID }
            }
        }
    }

    private func check() {
        let open =
            self.starting.values.reduce(0, +)
            + self.running.values.reduce(0) { $0 + $1.limit + $1.surplus.count }
        #expect(open <= self.quota.totalReserved && self.quota.totalReserved <= self.cap, "\(self.replay)")
        // No client waits for room while another is idle, unless room is already being made.
        let isWanted = self.known.contains { self.quota.state($0) == .queued }
        let idles = self.running.keys.contains { self.quota.state($0) == .running && self.knownUsers($0) == 0 }
        #expect(!isWanted || !idles || !self.stopping.isEmpty, "\(self.replay)")
        // No client waits while a connection is free.
        #expect(!isWanted || self.quota.totalReserved == self.cap, "\(self.replay)")
    }
}

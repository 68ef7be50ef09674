import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// More busy apps than connections, for hours: nobody starves, and no client flaps.
struct ConnectionQuotaModelTests {
    @Test("With more busy apps than connections, nobody starves, and clients do not flap")
    func fairness() async {
        let run = PropertyRun(commands: 20_000, runs: 10)
        var (starts, served) = (0, 0)
        for seed in run.seeds {
            await TestScale.letOthersRun()
            var apps = BusyApps(seed: seed)
            for _ in 0..<run.commandsPerRun { apps.step() }
            apps.finish()
            #expect(apps.faults.isEmpty, "\(apps.faults.prefix(3)) \(run.replay(seed))")
            // A client that was stopped for others had served; so each start bought at least a second of service.
            #expect(apps.starts <= apps.cap * apps.seconds + apps.count, "\(apps.starts) starts \(run.replay(seed))")
            starts += apps.starts
            served += apps.served
        }
        #expect(starts > 100 && served > 1000, "\(starts) starts, \(served) served")
    }
}

/// Apps whose pushes and calls begin and end at random, their clients, and a clock that advances by 100 ms a step.
private struct BusyApps {
    private struct App {
        var pushes = 0
        /// When each open call ends.
        var calls: [MonotonicInstant] = []
        var ended = 0
        /// When each waiting caller began to wait, and whether it is a call.
        var waiting: [(since: MonotonicInstant, isCall: Bool)] = []
        var isDraining = false
        /// Whether the app always has something to send.
        var isGreedy: Bool
    }

    let cap: Int
    let count: Int
    private(set) var starts = 0
    private(set) var served = 0
    private(set) var faults: [String] = []
    private(set) var seconds = 0
    private var random: SeededRandom
    private var quota: ConnectionQuota
    private var apps: [Int: App] = [:]
    private var starting: [Int] = []
    private var now = MonotonicInstant(nanoseconds: 0)
    private let each: Int
    /// The longest call.
    private static let callTime = Duration.seconds(20)

    init(seed: UInt64) {
        self.random = SeededRandom(seed: seed)
        self.cap = Int.random(in: 1...6, using: &self.random)
        self.each = Int.random(in: 1...3, using: &self.random)
        self.count = Int.random(in: 2...12, using: &self.random)
        self.quota = ConnectionQuota(cap: self.cap, connections: self.each, idleTimeout: .seconds(60))
        for _ in 0..<self.count {
            self.apps[self.quota.add()] = App(isGreedy: Int.random(in: 0..<3, using: &self.random) == 0)
        }
    }

    private mutating func isOne(in count: Int) -> Bool { Int.random(in: 0..<count, using: &self.random) == 0 }

    mutating func step() {
        self.now = self.now.advanced(by: .milliseconds(100))
        self.seconds = Int(self.now.nanoseconds / 1_000_000_000)
        for clientID in self.apps.keys.sorted() { self.act(clientID) }
        for clientID in self.starting where self.isOne(in: 2) {
            self.starting.removeAll { $0 == clientID }
            self.quota.started(clientID, now: self.now)
            self.serveWaiters(clientID)
        }
        self.decide()
        self.check()
    }

    /// What an app does in one step: its pushes and calls end, others begin, a drained client ends.
    private mutating func act(_ clientID: Int) {
        guard var app = self.apps[clientID] else { return }
        let open = app.calls.count
        app.calls.removeAll { $0 <= self.now }
        app.ended += open - app.calls.count
        if app.pushes > 0, !app.isGreedy || app.isDraining || self.isOne(in: 3) {
            app.pushes -= 1
            app.ended += 1
        }
        self.apps[clientID] = app
        if app.isDraining, app.pushes == 0 {
            self.apps[clientID]?.isDraining = false
            self.note(self.quota.ended(clientID, keepsWaiting: true))
        } else if app.waiting.count < 3, app.isGreedy ? app.pushes < 5 : self.isOne(in: 40) {
            self.request(clientID, asCall: self.isOne(in: 50))
        }
    }

    private mutating func request(_ clientID: Int, asCall isCall: Bool) {
        switch self.quota.enter(clientID, asCall: isCall, now: self.now) {
        case .use: self.serve(clientID, isCall)
        case .wait: self.apps[clientID]?.waiting.append((self.now, isCall))
        case .gone: self.faults.append("\(clientID) is gone")
        }
    }

    private mutating func serve(_ clientID: Int, _ isCall: Bool) {
        self.served += 1
        if isCall {
            let time = Duration.milliseconds(Int64.random(in: 0...20_000, using: &self.random))
            self.apps[clientID]?.calls.append(self.now.advanced(by: time))
        } else {
            self.apps[clientID]?.pushes += 1
        }
    }

    private mutating func serveWaiters(_ clientID: Int) {
        for waiter in self.apps[clientID]?.waiting ?? [] { self.serve(clientID, waiter.isCall) }
        self.apps[clientID]?.waiting = []
    }

    private mutating func decide() {
        let apps = self.apps
        self.note(
            self.quota.decide(now: self.now) { clientID in
                let app = apps[clientID]
                return .init(pushes: app?.pushes ?? 0, calls: app?.calls.count ?? 0, ended: app?.ended ?? 0)
            }
        )
    }

    private mutating func note(_ actions: [ConnectionQuota.Action]) {
        for action in actions {
            switch action {
            case .start(let clientID, _):
                self.starts += 1
                self.starting.append(clientID)
            case .stop(let clientID):
                if self.apps[clientID]?.calls.isEmpty == false {
                    self.faults.append("a call of \(clientID) is cut off")
                }
                self.apps[clientID]?.isDraining = true
            case .resume(let clientID): self.serveWaiters(clientID)
            case .grow: break
            case .forget(let clientID): self.faults.append("\(clientID) is forgotten")
            }
        }
    }

    private mutating func check() {
        let reserved = self.apps.keys.reduce(0) { $0 + self.quota.connections($1) }
        if reserved != self.quota.totalReserved || reserved > self.cap { self.faults.append("\(reserved) reserved") }
        // Each of the others may be served before, for its time and the rest of its calls, one at a time at worst.
        let turn = ConnectionQuota.serveTime + Self.callTime + .seconds(2)
        let longest = turn * (self.count + 1)
        for (clientID, app) in self.apps {
            if app.waiting.count != self.quota.waiting(clientID) { self.faults.append("waiters of \(clientID)") }
            if let first = app.waiting.first, first.since.duration(to: self.now) > longest {
                self.faults.append("\(clientID) waits since \(first.since)")
            }
        }
    }

    /// Lets everything end: at last nobody waits.
    mutating func finish() {
        for clientID in self.apps.keys { self.apps[clientID]?.isGreedy = false }
        for _ in 0..<100_000 where self.apps.values.contains(where: { !$0.waiting.isEmpty || $0.isDraining }) {
            self.now = self.now.advanced(by: .milliseconds(100))
            for clientID in self.apps.keys.sorted() { self.end(clientID) }
            for clientID in self.starting {
                self.quota.started(clientID, now: self.now)
                self.serveWaiters(clientID)
            }
            self.starting = []
            self.decide()
        }
        if self.apps.values.contains(where: { !$0.waiting.isEmpty }) { self.faults.append("somebody waits for ever") }
    }

    private mutating func end(_ clientID: Int) {
        self.apps[clientID]?.calls.removeAll { $0 <= self.now }
        if let pushes = self.apps[clientID]?.pushes, pushes > 0 { self.apps[clientID]?.pushes = pushes - 1 }
        guard let app = self.apps[clientID], app.isDraining, app.pushes == 0 else { return }
        self.apps[clientID]?.isDraining = false
        self.note(self.quota.ended(clientID, keepsWaiting: true))
    }
}

import TestSupport

@testable import SupervisedPool

/// Runs the pool's machine by hand: time stands still until told otherwise, and what it decides is written down.
struct PoolBench {
    var machine: PoolStateMachine
    var now = MonotonicInstant(nanoseconds: 1_000_000_000_000)
    var random: SeededRandom
    /// What was decided since the last look, in order.
    var log: [String] = []
    var grants: [WaiterID: (grant: SlotGrant, count: Int)] = [:]
    var failures: [WaiterID: PoolError] = [:]
    var reached: [WaiterID] = []
    var connects: [(slot: Int, reason: PoolWorkerConnectReason)] = []
    var disconnects: [(slot: Int, reason: PoolWorkerDisconnectReason)] = []
    /// Waiters that were answered twice.
    var answeredTwice: [WaiterID] = []

    init(_ configuration: PoolConfiguration = PoolConfiguration(), random: SeededRandom = SeededRandom()) {
        machine = PoolStateMachine(configuration)
        self.random = random
        machine.start()
    }

    /// A pool of which the given workers are ready.
    static func ready(_ configuration: PoolConfiguration, capacities: [Int]) -> PoolBench {
        var bench = PoolBench(configuration)
        for (slot, capacity) in capacities.enumerated() {
            bench.register(slot)
            bench.report(.ready(capacity: capacity), slot)
        }
        _ = bench.takeLog()
        return bench
    }

    mutating func takeLog() -> [String] {
        defer { log = [] }
        return log
    }

    mutating func register(_ slot: Int, _ generation: Int = 1) {
        _ = machine.register(WorkerID(slot: slot, generation: generation), now: now)
        settle()
    }

    mutating func report(_ report: WorkerReport, _ slot: Int, _ generation: Int = 1) {
        machine.report(report, from: WorkerID(slot: slot, generation: generation), now: now)
        settle()
    }

    mutating func checkin(_ grant: SlotGrant, _ count: Int = 1) {
        machine.checkin(grant, count: count)
        if machine.needsSettling { settle() }
    }

    mutating func cancel(_ id: WaiterID) {
        var actions: [PoolAction] = []
        machine.cancel(id, now: now, into: &actions)
        perform(actions)
        settle()
    }

    /// Moves the clock on, stopping at each deadline that the machine names on the way.
    mutating func advance(_ duration: Duration) {
        let end = now.advanced(by: duration)
        while machine.nextDeadline <= end {
            now = max(now, machine.nextDeadline)
            settle()
        }
        now = end
        settle()
    }

    mutating func settle() {
        var actions: [PoolAction] = []
        machine.settle(now: now, using: &random, into: &actions)
        perform(actions)
    }

    mutating func checkout(
        wanted: Int = 1,
        within: Duration = .seconds(30),
        bytes: Int = 0,
        block: Bool = true,
        lane: PoolLane = .interactive,
        atFront: Bool = false
    ) -> PoolStateMachine.Decision {
        var actions: [PoolAction] = []
        let request = PoolStateMachine.Request(
            wanted: wanted,
            deadline: now.advanced(by: within),
            bytes: bytes,
            mayWait: block,
            lane: lane,
            atFront: atFront
        )
        let decision = machine.checkout(request, now: now, using: &random, into: &actions)
        perform(actions)
        return decision
    }

    private mutating func noteAnswer(_ id: WaiterID) {
        if grants[id] != nil || failures[id] != nil || reached.contains(id) { answeredTwice.append(id) }
    }

    mutating func observe(ready wanted: Int, within: Duration) -> PoolStateMachine.Observation {
        var actions: [PoolAction] = []
        let observation = machine.awaitReady(
            wanted,
            deadline: now.advanced(by: within),
            now: now,
            using: &random,
            into: &actions
        )
        perform(actions)
        return observation
    }

    mutating func perform(_ actions: [PoolAction]) {
        for action in actions {
            switch action {
            case .grant(let id, let grant, let count):
                noteAnswer(id)
                grants[id] = (grant, count)
                log.append("grant \(grant.worker.slot)")
            case .reached(let id):
                noteAnswer(id)
                reached.append(id)
                log.append("reached")
            case .fail(let id, let error):
                noteAnswer(id)
                failures[id] = error
                log.append("fail \(error.code)")
            case .connect(let id, let reason):
                connects.append((id.slot, reason))
                log.append("connect \(id.slot) \(reason)")
            case .disconnect(let id, let reason):
                disconnects.append((id.slot, reason))
                log.append("disconnect \(id.slot) \(reason)")
            case .event(.unavailable):
                log.append("unavailable")
            case .event:
                break
            }
        }
    }
}

extension PoolStateMachine.Observation {
    var waiter: WaiterID? {
        if case .wait(let id) = self { id } else { nil }
    }
    var isReached: Bool {
        if case .reached = self { true } else { false }
    }
    var code: PoolError.Code? {
        if case .failed(let error) = self { error.code } else { nil }
    }
}

extension PoolStateMachine.Decision {
    var grant: SlotGrant? {
        if case .granted(let grant, _) = self { grant } else { nil }
    }
    var slot: Int? { grant?.worker.slot }
    var count: Int? {
        if case .granted(_, let count) = self { count } else { nil }
    }
    var code: PoolError.Code? {
        if case .failed(let error) = self { error.code } else { nil }
    }
    var waiter: WaiterID? {
        if case .wait(let id) = self { id } else { nil }
    }
}

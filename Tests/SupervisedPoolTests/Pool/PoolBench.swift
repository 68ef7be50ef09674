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
        atFront: Bool = false
    ) -> PoolStateMachine.Decision {
        var actions: [PoolAction] = []
        let request = PoolStateMachine.Request(
            wanted: wanted,
            deadline: now.advanced(by: within),
            bytes: bytes,
            mayWait: block,
            atFront: atFront
        )
        let decision = machine.checkout(request, now: now, using: &random, into: &actions)
        perform(actions)
        return decision
    }

    mutating func perform(_ actions: [PoolAction]) {
        for action in actions {
            switch action {
            case .grant(let id, let grant, let count):
                grants[id] = (grant, count)
                log.append("grant \(grant.worker.slot)")
            case .available:
                log.append("available")
            case .fail(let id, let error):
                failures[id] = error
                log.append("fail \(error.code)")
            case .connect(let id, let reason):
                log.append("connect \(id.slot) \(reason)")
            case .disconnect(let id, let reason):
                log.append("disconnect \(id.slot) \(reason)")
            case .event(.unavailable):
                log.append("unavailable")
            case .event:
                break
            }
        }
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

@testable import SupervisedPool

/// Runs the pool's machine by hand: time passes only in ``advance(_:)``, and the log records the machine's decisions.
struct PoolBench {
    var machine: PoolStateMachine
    var now = MonotonicInstant(nanoseconds: 1_000_000_000_000)
    /// The decisions since the last ``takeLog()``, in order.
    var log: [String] = []
    var leases: [WaiterID: (origin: LeaseOrigin, count: Int)] = [:]
    var failures: [WaiterID: PoolError] = [:]
    var reached: [WaiterID] = []
    var connects: [(index: Int, reason: PoolWorkerConnectReason)] = []
    var disconnects: [(index: Int, reason: PoolWorkerDisconnectReason)] = []
    /// Waiters that were completed twice.
    var completedTwice: [WaiterID] = []

    init(_ configuration: PoolConfiguration = PoolConfiguration(), seed: UInt64? = nil) {
        machine = PoolStateMachine(configuration, seed: seed)
        machine.start()
    }

    /// A pool whose workers are ready with the given capacities.
    static func ready(_ configuration: PoolConfiguration, capacities: [Int]) -> PoolBench {
        var bench = PoolBench(configuration)
        for (index, capacity) in capacities.enumerated() {
            bench.register(index)
            bench.report(.ready(capacity: capacity), index)
        }
        _ = bench.takeLog()
        return bench
    }

    mutating func takeLog() -> [String] {
        defer { log = [] }
        return log
    }

    mutating func register(_ index: Int, _ generation: Int = 1) {
        _ = machine.register(WorkerID(index: index, generation: generation), now: now)
        settle()
    }

    mutating func report(_ report: WorkerReport, _ index: Int, _ generation: Int = 1) {
        machine.report(report, from: WorkerID(index: index, generation: generation), now: now)
        settle()
    }

    mutating func checkin(_ origin: LeaseOrigin, _ count: Int = 1) {
        machine.checkin(origin, count: count)
        if machine.needsSettling { settle() }
    }

    mutating func cancel(_ id: WaiterID) {
        var actions: [PoolAction] = []
        machine.cancel(id, now: now, into: &actions)
        perform(actions)
        settle()
    }

    /// Advances the clock, and stops at each deadline of the machine on the way.
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
        machine.settle(now: now, into: &actions)
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
        let decision = machine.checkout(request, now: now, into: &actions)
        perform(actions)
        return decision
    }

    private mutating func noteCompletion(_ id: WaiterID) {
        if leases[id] != nil || failures[id] != nil || reached.contains(id) { completedTwice.append(id) }
    }

    mutating func observe(ready wanted: Int, within: Duration) -> PoolStateMachine.Observation {
        var actions: [PoolAction] = []
        let observation = machine.awaitReady(
            wanted,
            deadline: now.advanced(by: within),
            now: now,
            into: &actions
        )
        perform(actions)
        return observation
    }

    mutating func perform(_ actions: [PoolAction]) {
        for action in actions {
            switch action {
            case .lease(let id, let origin, let count):
                noteCompletion(id)
                leases[id] = (origin, count)
                log.append("lease \(origin.worker.index)")
            case .reached(let id):
                noteCompletion(id)
                reached.append(id)
                log.append("reached")
            case .fail(let id, let error):
                noteCompletion(id)
                failures[id] = error
                log.append("fail \(error.code)")
            case .connect(let id, let reason):
                connects.append((id.index, reason))
                log.append("connect \(id.index) \(reason)")
            case .disconnect(let id, let reason):
                disconnects.append((id.index, reason))
                log.append("disconnect \(id.index) \(reason)")
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
    var origin: LeaseOrigin? {
        if case .leased(let origin, _) = self { origin } else { nil }
    }
    var index: Int? { origin?.worker.index }
    var count: Int? {
        if case .leased(_, let count) = self { count } else { nil }
    }
    var code: PoolError.Code? {
        if case .failed(let error) = self { error.code } else { nil }
    }
    var waiter: WaiterID? {
        if case .wait(let id) = self { id } else { nil }
    }
}

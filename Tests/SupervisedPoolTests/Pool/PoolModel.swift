import TestSupport

@testable import SupervisedPool

/// A naive model of a pool, kept beside the machine. It knows the guarantees, not how the machine keeps them.
struct PoolModel {
    struct Waiting {
        let id: WaiterID
        let list: WaiterQueue.ListName
        let wanted: Int
        let bytes: Int
        let deadline: MonotonicInstant
    }

    struct Worker {
        var state = PoolStatus.Worker.State.absent
        var generation = 0
        var connection = 0
        var firstConnection = 1
        var isOpen = false
        var capacity = 0
    }

    var bench: PoolBench
    var configuration: PoolConfiguration
    var workers: [Worker]
    /// Leased streams by origin. Streams of a worker that is gone stay here until they are returned.
    var held: [LeaseOrigin: Int] = [:]
    var waiting: [Waiting] = []
    var isDraining = false
    var mistakes: [String] = []
    /// How often each event happened, so that a test can check its coverage.
    var seen: [String: Int] = [:]

    init(seed: UInt64, _ configuration: PoolConfiguration) {
        self.configuration = configuration
        bench = PoolBench(configuration, seed: seed ^ 1)
        workers = Array(repeating: Worker(), count: configuration.workerCount)
    }

    var total: Int { configuration.size + configuration.maxOverflow }

    /// Whether the worker receives no work and no request to connect.
    func isSurplus(_ index: Int) -> Bool { index >= total }

    /// Whether the status leaves the worker out if it is the last one.
    func isUnused(_ index: Int) -> Bool {
        isSurplus(index) && leasedEarlier(index) == 0
            && (workers[index].state == .idle || workers[index].state == .absent)
    }

    func reserve(_ index: Int) -> Int { workers[index].capacity * configuration.interactiveReservePercent / 100 }

    func leased(_ index: Int) -> Int {
        guard workers[index].isOpen else { return 0 }
        return held[current(index), default: 0]
    }

    func current(_ index: Int) -> LeaseOrigin {
        LeaseOrigin(
            worker: WorkerID(index: index, generation: workers[index].generation),
            connection: workers[index].connection
        )
    }

    /// Leased streams of this generation whose connection has ended.
    func leasedEarlier(_ index: Int) -> Int {
        guard workers[index].state != .absent else { return 0 }
        return held.reduce(0) { sum, entry in
            let (origin, count) = entry
            guard origin.worker == WorkerID(index: index, generation: workers[index].generation),
                origin.connection >= workers[index].firstConnection,
                !(workers[index].isOpen && origin == current(index))
            else { return sum }
            return sum + count
        }
    }

    func free(_ index: Int, bulk: Bool) -> Int {
        guard workers[index].state == .ready else { return 0 }
        return max(0, workers[index].capacity - leased(index) - (bulk ? reserve(index) : 0))
    }

    mutating func mistake(_ text: String) { mistakes.append(text) }

    mutating func saw(_ what: String) { seen[what, default: 0] += 1 }

    // MARK: Inputs

    /// - Parameter generation: used only if no worker is registered at `index`, since a new supervisor may count anew.
    ///   Otherwise the generation follows the predecessor's.
    mutating func register(_ index: Int, generation: Int) {
        // Beyond the pool's size it is surplus.
        while workers.count <= index {
            saw("registered beyond")
            workers.append(Worker())
        }
        workers[index].generation = workers[index].state == .absent ? generation : workers[index].generation + 1
        workers[index].firstConnection = workers[index].connection + 1
        workers[index].state = .idle
        workers[index].isOpen = false
        workers[index].capacity = 0
        bench.register(index, workers[index].generation)
    }

    mutating func report(_ report: WorkerReport, _ index: Int) {
        defer { bench.report(report, index, workers[index].generation) }
        guard workers[index].state != .absent else { return }
        func close() {
            workers[index].isOpen = false
            workers[index].capacity = 0
        }
        switch report {
        case .ready(let capacity):
            workers[index].state = .ready
            workers[index].connection += 1
            workers[index].isOpen = true
            workers[index].capacity = capacity
        case .capacity(let capacity):
            if workers[index].state == .ready { workers[index].capacity = capacity }
        case .draining:
            guard workers[index].state == .ready else { return }
            workers[index].state = .draining
            workers[index].capacity = 0
        case .connecting, .lost:
            close()
            workers[index].state = .connecting
        case .backingOff(let until, _):
            close()
            workers[index].state = .backingOff(until: until)
        case .idle:
            close()
            workers[index].state = .idle
        case .gone:
            close()
            workers[index].state = .absent
        case .latency:
            break
        }
    }

    mutating func checkout(_ list: WaiterQueue.ListName, wanted: Int, bytes: Int, within: Duration, block: Bool) {
        let isBulk = list.isBulk
        let isResent = list == .front || list == .bulkFront
        let before = waiting.filter { waiter in
            switch list {
            case .bulk: waiter.list != .awaitingReady
            case .bulkFront: waiter.list != .awaitingReady && waiter.list != .bulk
            default: waiter.list == .front || waiter.list == .interactive
            }
        }
        let hadFree = workers.indices.contains { free($0, bulk: isBulk) > 0 }
        let depth = waiting.count { $0.list != .awaitingReady }
        let bytesBefore = waiting.reduce(0) { $0 + $1.bytes }
        let decision = bench.checkout(
            wanted: wanted,
            within: within,
            bytes: bytes,
            block: block,
            lane: isBulk ? .bulk : .interactive,
            atFront: isResent
        )
        switch decision {
        case .leased(let origin, let count):
            if !before.isEmpty { mistake("served before earlier waiters") }
            saw("leased at once")
            recordLease(origin, count, wanted, isBulk: isBulk)
        case .wait(let id):
            if hadFree, before.isEmpty { mistake("waits beside a free stream") }
            if isDraining, !isResent { mistake("waits although the pool drains") }
            if !isResent,
                depth >= configuration.maxWaiters || bytesBefore + bytes > configuration.maxQueuedBytes
            {
                mistake("waits beyond the queue's bounds")
            }
            waiting.append(
                Waiting(
                    id: id,
                    list: list,
                    wanted: wanted,
                    bytes: bytes,
                    deadline: bench.now.advanced(by: within)
                )
            )
        case .failed(let error):
            saw("refused: \(error.code)")
            switch error.code {
            case .full:
                if block { mistake("full, but it would have waited") }
                if hadFree, before.isEmpty { mistake("full beside a free stream") }
            case .queueFull:
                if depth < configuration.maxWaiters, bytesBefore + bytes <= configuration.maxQueuedBytes {
                    mistake("the queue is not full")
                }
            case .shuttingDown:
                if !isDraining { mistake("refused as shutting down, but the pool does not drain") }
            case .unavailable, .configurationFault:
                if workers.contains(where: { $0.state == .ready }) { mistake("unavailable beside a ready worker") }
            default:
                mistake("refused with \(error.code)")
            }
        }
    }

    mutating func reconfigure(_ new: PoolConfiguration) {
        saw(new.size + new.maxOverflow > total ? "grown" : new.size + new.maxOverflow < total ? "shrunk" : "changed")
        configuration = new
        while workers.count < total {
            workers.append(Worker())
        }
        bench.machine.reconfigure(new)
        bench.settle()
    }

    mutating func awaitReady(_ wanted: Int, within: Duration) {
        let wanted = min(wanted, total)
        let ready = workers.count { $0.state == .ready }
        switch bench.observe(ready: wanted, within: within) {
        case .reached:
            if ready < wanted { mistake("\(wanted) ready workers, there are \(ready)") }
        case .wait(let id):
            if ready >= wanted { mistake("waits for \(wanted) ready workers, there are \(ready)") }
            waiting.append(
                Waiting(
                    id: id,
                    list: .awaitingReady,
                    wanted: wanted,
                    bytes: 0,
                    deadline: bench.now.advanced(by: within)
                )
            )
        case .failed(let error):
            saw("observer refused: \(error.code)")
        }
    }

    mutating func checkin(_ origin: LeaseOrigin, _ count: Int) {
        let had = held[origin, default: 0]
        held[origin] = had == count ? nil : had - count
        bench.checkin(origin, count)
    }

    private mutating func recordLease(_ origin: LeaseOrigin, _ count: Int, _ wanted: Int, isBulk: Bool) {
        let index = origin.worker.index
        held[origin, default: 0] += count
        if count < 1 || count > max(1, wanted) { mistake("\(count) streams for a checkout of \(wanted)") }
        if origin != current(index) || workers[index].state != .ready {
            mistake("not of the current connection: \(origin)")
        }
        let limit = workers[index].capacity - (isBulk ? reserve(index) : 0)
        if leased(index) > limit { mistake("\(leased(index)) leased of \(limit), bulk \(isBulk)") }
    }

    // MARK: Decisions of the machine

    /// Applies the machine's decisions, and compares.
    mutating func follow() {
        for (index, reason) in bench.disconnects {
            saw("disconnect \(reason)")
            switch reason {
            case .idle where leased(index) > 0 || index < configuration.size:
                mistake("disconnects a worker that is not an idle overflow worker")
            case .idle: break
            case .surplus where !isSurplus(index): mistake("dismisses a worker that is not surplus")
            case .surplus:
                if workers[index].state == .idle { saw("dismissed while idle") }
                guard workers[index].state == .ready else { continue }
                if leased(index) > 0 { saw("dismissed at work") }
            case .lifetime: continue
            }
            workers[index].state = .draining
            workers[index].capacity = 0
        }
        for (index, reason) in bench.connects {
            saw("connect \(reason)")
            switch workers[index].state {
            case .idle, .backingOff: break
            default: mistake("\(index) was asked to connect, it is \(workers[index].state)")
            }
            if isSurplus(index) { mistake("\(index) was asked to connect, although it is surplus") }
            if workers.contains(where: { $0.state == .connecting }) { mistake("two connect at a time") }
        }
        bench.disconnects = []
        bench.connects = []
        if !bench.completedTwice.isEmpty { mistake("completed twice") }

        followQueue()
        bench.leases = [:]
        bench.failures = [:]
        bench.reached = []
        compare()
        bench.log = []
    }

    private mutating func followQueue() {
        let isCompleted = { (waiter: Waiting, bench: PoolBench) in
            bench.leases[waiter.id] != nil || bench.failures[waiter.id] != nil || bench.reached.contains(waiter.id)
        }
        let left = waiting.filter { !isCompleted($0, bench) }
        if left.count != waiting.count {
            let line: [WaiterQueue.ListName] = [.front, .interactive, .bulkFront, .bulk]
            // A served waiter must come before every waiter that was not served: within a lane, and the lanes in order.
            for (index, list) in line.enumerated() {
                let all = waiting.filter { $0.list == list }
                let served = all.filter { bench.leases[$0.id] != nil }
                let isLeft = { (waiter: Waiting) in left.contains { $0.id == waiter.id } }
                if let firstLeft = all.firstIndex(where: isLeft),
                    all[firstLeft...].contains(where: { bench.leases[$0.id] != nil })
                {
                    mistake("not first in, first out")
                }
                if !served.isEmpty, left.contains(where: { line[..<index].contains($0.list) }) {
                    mistake("\(list) was served before a list ahead of it")
                }
                for waiter in served {
                    guard let (origin, count) = bench.leases[waiter.id] else { continue }
                    saw("leased to a waiter")
                    recordLease(origin, count, waiter.wanted, isBulk: list.isBulk)
                    if waiter.deadline <= bench.now { mistake("served after its time") }
                }
            }
            for waiter in waiting {
                guard let error = bench.failures[waiter.id] else { continue }
                saw("failed: \(error.code)")
                switch error.code {
                case .timedOut where waiter.deadline > bench.now: mistake("timed out before its deadline")
                case .unavailable, .configurationFault:
                    if workers.contains(where: { $0.state == .ready }) { mistake("failed beside a ready worker") }
                default: break
                }
            }
            waiting = left
        }
        let ready = workers.count { $0.state == .ready }
        for waiter in waiting {
            if waiter.deadline <= bench.now { mistake("waits beyond its time") }
            if waiter.list == .awaitingReady, min(waiter.wanted, total) <= ready {
                mistake("still waits for ready workers")
            }
        }
        let isInteractiveWaiting = waiting.contains { $0.list == .front || $0.list == .interactive }
        let isBulkWaiting = waiting.contains { $0.list.isBulk }
        for index in workers.indices {
            if isSurplus(index), workers[index].state == .ready { mistake("a surplus worker is ready for work") }
            if isInteractiveWaiting, free(index, bulk: false) > 0 { mistake("waiters beside a free stream") }
            if isBulkWaiting, free(index, bulk: true) > 0 { mistake("bulk waiters beside a free stream") }
        }
    }

    private mutating func compare() {
        if let broken = bench.machine.inconsistency { mistake(broken) }
        let status = bench.machine.status(bench.now)
        let depth = waiting.count { $0.list != .awaitingReady }
        if status.queueDepth != depth { mistake("\(depth) wait, the status reports \(status.queueDepth)") }
        if status.bulkQueueDepth != waiting.count(where: { $0.list.isBulk }) { mistake("bulk queue") }
        if status.queuedBytes != waiting.reduce(0, { $0 + $1.bytes }) { mistake("queued bytes") }
        if status.capacity != workers.reduce(0, { $0 + $1.capacity }) { mistake("capacity") }
        let shown = workers.indices.last { !isUnused($0) }.map { $0 + 1 } ?? 0
        if status.workers.count != shown { mistake("\(shown) workers, not \(status.workers.count)") }
        for (index, worker) in status.workers.enumerated() where index < workers.count {
            if worker.state != workers[index].state {
                mistake("\(index) is \(workers[index].state), not \(worker.state)")
            }
            if worker.capacity != workers[index].capacity { mistake("capacity of \(index)") }
            if worker.leased != leased(index) { mistake("\(leased(index)) leased, the status has \(worker.leased)") }
            if worker.leasedOfEarlierConnections != leasedEarlier(index) {
                mistake("leased streams of earlier connections of \(index)")
            }
        }
        let isReady = workers.contains { $0.state == .ready }
        if isReady, status.availability != .available { mistake("a worker is ready, but \(status.availability)") }
    }
}

extension WaiterQueue.ListName {
    fileprivate var isBulk: Bool { self == .bulk || self == .bulkFront }
}

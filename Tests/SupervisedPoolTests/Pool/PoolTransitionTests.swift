import TestSupport
import Testing

@testable import SupervisedPool

/// Every report in every state, and every short sequence of inputs.
struct PoolTransitionTests {
    private typealias State = PoolStatus.Worker.State

    private static let until = MonotonicInstant(nanoseconds: 2_000_000_000_000)
    private static let states: [State] = [
        .absent, .idle, .connecting, .ready, .draining, .backingOff(until: until),
    ]
    private static let reports: [WorkerReport] = [
        .connecting, .ready(capacity: 3), .capacity(7), .latency(.milliseconds(5)), .draining,
        .lost(), .backingOff(until: until), .idle, .gone,
    ]

    /// A pool with a worker in `state`. The pool does nothing by itself.
    private func bench(_ state: State) -> PoolBench {
        var bench = PoolBench(.init(size: 0, maxOverflow: 1, maximumLifetime: nil))
        guard state != .absent else { return bench }
        bench.register(0)
        switch state {
        case .absent, .idle: break
        case .connecting: bench.report(.connecting, 0)
        case .ready: bench.report(.ready(capacity: 5), 0)
        case .draining:
            bench.report(.ready(capacity: 5), 0)
            bench.report(.draining, 0)
        case .backingOff: bench.report(.backingOff(until: Self.until), 0)
        }
        return bench
    }

    /// The expected state and capacity after the report.
    private func expected(_ state: State, _ report: WorkerReport) -> (State, Int) {
        let capacity = state == .ready ? 5 : 0
        if state == .absent { return (.absent, 0) }
        switch report {
        case .connecting, .lost: return (.connecting, 0)
        case .ready(let capacity): return (.ready, capacity)
        case .capacity(let new): return (state, state == .ready ? new : 0)
        case .latency: return (state, capacity)
        case .draining: return (state == .ready ? .draining : state, 0)
        case .backingOff(let until, _): return (.backingOff(until: until), 0)
        case .idle: return (.idle, 0)
        case .gone: return (.absent, 0)
        }
    }

    @Test func everyReportInEveryStateLeadsToTheExpectedState() {
        for state in Self.states {
            for report in Self.reports {
                var bench = bench(state)
                #expect(bench.machine.status(bench.now).workers.first?.state == state)
                bench.report(report, 0)
                let worker = bench.machine.status(bench.now).workers.first
                let (next, capacity) = expected(state, report)
                #expect(worker?.state == next, "\(report) in \(state)")
                #expect(worker?.capacity == capacity, "\(report) in \(state)")
            }
        }
    }

    @Test func everyReportKeepsLeasedStreamsCounted() throws {
        for report in Self.reports {
            var bench = bench(.ready)
            let lease = try #require(bench.checkout().origin)
            bench.report(report, 0)
            let worker = try #require(bench.machine.status(bench.now).workers.first)
            // Leases survive only with their connection. Leases of a worker that is gone are dropped.
            switch report {
            case .capacity, .latency, .draining:
                #expect(worker.leased == 1 && worker.leasedOfEarlierConnections == 0, "\(report)")
            case .gone:
                #expect(worker.leased == 0 && worker.leasedOfEarlierConnections == 0)
            default:
                #expect(worker.leased == 0 && worker.leasedOfEarlierConnections == 1, "\(report)")
            }
            bench.checkin(lease)
            #expect(bench.machine.leasedInAll == 0 && bench.machine.inconsistency == nil, "\(report)")
        }
    }

    @Test func onlyAReadyReportServesAWaiter() throws {
        for state in Self.states where state != .ready {
            for report in Self.reports {
                var bench = bench(state)
                let waiter = try #require(bench.checkout().waiter)
                bench.report(report, 0)
                let isServed = bench.leases[waiter] != nil
                if case .ready = report, state != .absent {
                    #expect(isServed, "\(report) in \(state)")
                } else {
                    #expect(!isServed, "\(report) in \(state)")
                    #expect(bench.machine.queue.count == 1, "\(report) in \(state)")
                }
            }
        }
    }

    // MARK: All short sequences

    private enum Input: CaseIterable {
        case register0, register1
        case ready0, ready1, shrink0, grow0, drain0, connecting0, connecting1, lost0, fault0, idle0, gone0
        case interactive, bulk, front, hasty, observer
        case returnFirst, returnLast, cancelFirst, cancelLast
        case second, halfMinute
        case prewarm, drain
        case smaller, base, larger
    }

    private func apply(_ input: Input, _ model: inout PoolModel) {
        switch input {
        case .register0: model.register(0, generation: 1)
        case .register1: model.register(1, generation: 1)
        case .ready0: model.report(.ready(capacity: 5), 0)
        case .ready1: model.report(.ready(capacity: 1), 1)
        case .shrink0: model.report(.capacity(1), 0)
        case .grow0: model.report(.capacity(10), 0)
        case .drain0: model.report(.draining, 0)
        case .connecting0: model.report(.connecting, 0)
        case .connecting1: model.report(.connecting, 1)
        case .lost0: model.report(.backingOff(until: model.bench.now.advanced(by: .seconds(3))), 0)
        case .fault0:
            let fault = PoolFault(description: "x", isConfiguration: true)
            model.report(.backingOff(until: model.bench.now.advanced(by: .seconds(3)), fault: fault), 0)
        case .idle0: model.report(.idle, 0)
        case .gone0: model.report(.gone, 0)
        case .interactive: model.checkout(.interactive, wanted: 1, bytes: 1, within: .seconds(9), block: true)
        case .bulk: model.checkout(.bulk, wanted: 4, bytes: 0, within: .seconds(9), block: true)
        case .front: model.checkout(.front, wanted: 1, bytes: 1, within: .seconds(9), block: true)
        case .hasty: model.checkout(.interactive, wanted: 1, bytes: 1, within: .seconds(9), block: false)
        case .observer: model.awaitReady(2, within: .seconds(9))
        case .returnFirst:
            if let (origin, count) = model.firstHeld { model.checkin(origin, count) }
        case .returnLast:
            if let (origin, _) = model.lastHeld { model.checkin(origin, 1) }
        case .cancelFirst:
            if let waiter = model.waiting.first { model.bench.cancel(waiter.id) }
        case .cancelLast:
            if let waiter = model.waiting.last { model.bench.cancel(waiter.id) }
        case .second: model.bench.advance(.seconds(1))
        case .halfMinute: model.bench.advance(.seconds(30))
        case .prewarm:
            model.bench.machine.prewarm(2)
            model.bench.settle()
        case .drain:
            model.isDraining = true
            model.bench.machine.drain()
        case .smaller, .base, .larger:
            var configuration = model.configuration
            configuration.size = input == .base ? 2 : 1
            configuration.maxOverflow = input == .larger ? 1 : 0
            model.reconfigure(configuration)
        }
    }

    /// Searches breadth first over distinct states, so that each input is tried once in each state.
    @Test(.timeLimit(.minutes(5))) func allShortSequencesOfInputsMatchTheModel() async {
        let configuration = PoolConfiguration(
            size: 1,
            maxOverflow: 1,
            maxWaiters: 3,
            idleTimeout: .seconds(5),
            maximumLifetime: .seconds(20)
        )
        var frontier = [PoolModel(seed: 1, configuration)]
        var known: Set<String> = [frontier[0].key]
        var tried = 0
        let most = TestScale.times(12_000)
        for depth in 1...12 {
            var next: [PoolModel] = []
            for model in frontier {
                await TestScale.letOthersRun()
                for input in Input.allCases {
                    // The last level may be cut. The levels before it are complete.
                    if tried > most { break }
                    tried += 1
                    var after = model
                    apply(input, &after)
                    after.follow()
                    if !after.mistakes.isEmpty {
                        Issue.record("depth \(depth), \(input) after \(model.key): \(after.mistakes)")
                        return
                    }
                    if known.insert(after.key).inserted { next.append(after) }
                }
            }
            frontier = next
            if frontier.isEmpty || tried > most { break }
        }
        #expect(tried > most || frontier.isEmpty)
    }
}

extension PoolModel {
    var firstHeld: (LeaseOrigin, Int)? { held.min { $0.key.order < $1.key.order }.map { ($0.key, $0.value) } }
    var lastHeld: (LeaseOrigin, Int)? { held.max { $0.key.order < $1.key.order }.map { ($0.key, $0.value) } }

    /// Identifies the state. Times are relative to now.
    fileprivate var key: String {
        var key = "\(isDraining)"
        for (index, worker) in workers.enumerated() {
            let machine = bench.machine.workers[index]
            let asked = machine.askedUntil.map { bench.now.duration(to: $0) }
            let replace = machine.replaceAt.map { bench.now.duration(to: $0) }
            key +=
                "|\(PoolStatus.Worker.State.name(worker.state)) \(worker.capacity) \(leased(index)) \(leasedEarlier(index))"
            key += " \(machine.isKeepPending) \(machine.isBackoffFixed) \(asked.debugDescription)"
            key += " \(replace.debugDescription) \(machine.isSurplus)"
            key += " \(machine.isDismissed) \(machine.isOverflow)"
        }
        for waiter in waiting { key += "|\(waiter.list) \(bench.now.duration(to: waiter.deadline))" }
        let unknown = held.reduce(0) { $0 + $1.value }
        return key + "|\(unknown) \(bench.machine.isConnectWanted) \(bench.machine.isUnavailable)"
    }
}

extension LeaseOrigin {
    fileprivate var order: (Int, Int, Int) { (worker.index, worker.generation, connection) }
}

extension PoolStatus.Worker.State {
    fileprivate static func name(_ state: Self) -> String {
        if case .backingOff = state { "backingOff" } else { "\(state)" }
    }
}

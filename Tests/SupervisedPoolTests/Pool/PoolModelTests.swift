import TestSupport
import Testing

@testable import SupervisedPool

/// Random commands against the machine, and naive books beside it.
@Suite struct PoolModelTests {
    private struct Waiting {
        let id: WaiterID
        let deadline: MonotonicInstant
        let isFront: Bool
    }

    private struct Model {
        var bench: PoolBench
        var capacity: [Int]
        var generation: [Int]
        /// Slots out, by where they came from.
        var held: [SlotGrant: Int] = [:]
        var waiting: [Waiting] = []
        var mistakes: [String] = []

        init(_ random: SeededRandom, _ configuration: PoolConfiguration) {
            bench = PoolBench(configuration, random: SeededRandom(seed: random.seed ^ 1))
            capacity = Array(repeating: 0, count: configuration.workerCount)
            generation = Array(repeating: 0, count: configuration.workerCount)
        }

        mutating func granted(_ grant: SlotGrant, _ count: Int) {
            held[grant, default: 0] += count
            let slot = grant.worker.slot
            if held[grant, default: 0] > capacity[slot] { mistakes.append("beyond capacity: \(grant)") }
            if grant.worker.generation != generation[slot] { mistakes.append("of an old generation: \(grant)") }
            if count < 1 { mistakes.append("an empty grant") }
        }

        /// Takes over what the machine decided.
        mutating func follow() {
            // Whoever was served must have stood before all those who were not.
            let served = waiting.filter { bench.grants[$0.id] != nil }
            let left = waiting.filter { bench.grants[$0.id] == nil && bench.failures[$0.id] == nil }
            let order = { (waiter: Waiting, all: [Waiting]) in
                all.firstIndex { $0.id == waiter.id } ?? 0
            }
            let line = waiting.filter(\.isFront) + waiting.filter { !$0.isFront }
            if let last = served.map({ order($0, line) }).max(), let first = left.map({ order($0, line) }).min(),
                first < last
            {
                mistakes.append("not first in, first out")
            }
            for waiter in served {
                if let (grant, count) = bench.grants[waiter.id] { granted(grant, count) }
                if waiter.deadline <= bench.now { mistakes.append("served after its deadline") }
            }
            waiting = left
            if left.contains(where: { $0.deadline <= bench.now }) { mistakes.append("waits beyond its deadline") }
            bench.grants = [:]
            bench.failures = [:]
            if bench.machine.queue.count != left.count {
                mistakes.append("\(left.count) wait, the machine has \(bench.machine.queue.count)")
            }
            if let broken = bench.machine.broken { mistakes.append(broken) }
            // Nobody waits while a slot is free; and the books agree.
            let status = bench.machine.status(bench.now)
            for worker in status.workers {
                let current = SlotGrant(worker: worker.id, session: bench.machine.slots[worker.id.slot].session)
                if bench.machine.slots[worker.id.slot].isSessionOpen, worker.leased != held[current, default: 0] {
                    mistakes.append("leased \(worker.leased), held \(held[current, default: 0])")
                }
                if worker.state == .ready, worker.leased < worker.capacity, !left.isEmpty {
                    mistakes.append("waiters beside a free slot")
                }
            }
        }
    }

    @Test(.timeLimit(.minutes(1)), arguments: [PoolConfiguration.Strategy.leastLoaded, .lifo, .fifo])
    func noSlotIsLostOrHandedOutTwice(_ strategy: PoolConfiguration.Strategy) {
        var random = SeededRandom()
        let configuration = PoolConfiguration(
            size: 2,
            maxOverflow: 2,
            strategy: strategy,
            maxWaiters: 30,
            maximumLifetime: .seconds(60)
        )
        var model = Model(random, configuration)
        for step in 0..<7000 {
            command(&model, &random)
            model.follow()
            if !model.mistakes.isEmpty {
                Issue.record("\(random), step \(step): \(model.mistakes)")
                return
            }
        }
        // In the end all come back, and all who wait are answered.
        while let (grant, count) = model.held.popFirst() {
            model.bench.checkin(grant, count)
            model.follow()
        }
        model.bench.advance(.seconds(100))
        model.follow()
        #expect(model.mistakes.isEmpty, "\(random)")
        #expect(model.waiting.isEmpty, "\(random)")
        let status = model.bench.machine.status(model.bench.now)
        #expect(status.leased == 0, "\(random)")
        #expect(status.workers.allSatisfy { $0.leasedOfEarlierSessions == 0 }, "\(random)")
    }

    private func command(_ model: inout Model, _ random: inout SeededRandom) {
        let slot = Int.random(in: 0..<model.capacity.count, using: &random)
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<40:
            let isFront = Int.random(in: 0..<10, using: &random) == 0
            let within = Duration.milliseconds(Int.random(in: 1...20_000, using: &random))
            let decision = model.bench.checkout(
                wanted: Bool.random(using: &random) ? 1 : Int.random(in: 2...20, using: &random),
                within: within,
                block: Int.random(in: 0..<10, using: &random) > 0,
                atFront: isFront
            )
            switch decision {
            case .granted(let grant, let count):
                if !model.waiting.isEmpty { model.mistakes.append("served before those who wait") }
                model.granted(grant, count)
            case .wait(let id):
                let deadline = model.bench.now.advanced(by: within)
                model.waiting.append(Waiting(id: id, deadline: deadline, isFront: isFront))
            case .failed:
                break
            }
        case 40..<70:
            guard let (grant, count) = model.held.randomElement(using: &random) else { return }
            let returned = Int.random(in: 1...count, using: &random)
            model.held[grant] = count == returned ? nil : count - returned
            model.bench.checkin(grant, returned)
        case 70..<76:
            guard let waiter = model.waiting.randomElement(using: &random) else { return }
            model.bench.cancel(waiter.id)
        case 76..<82:
            model.bench.advance(.milliseconds(Int.random(in: 0...5000, using: &random)))
        case 82..<88:
            let capacity = Int.random(in: 0...12, using: &random)
            // The model's bound is the greatest of the moment: a smaller one holds for new leases only.
            let isReady = model.bench.machine.slots[slot].state == .ready
            if isReady { model.capacity[slot] = capacity }
            model.bench.report(.capacity(capacity), slot, model.generation[slot])
        case 88..<93:
            guard model.generation[slot] > 0 else { return }
            model.capacity[slot] = Int.random(in: 0...12, using: &random)
            model.bench.report(.ready(capacity: model.capacity[slot]), slot, model.generation[slot])
        case 93..<95:
            model.bench.report(.draining, slot, model.generation[slot])
        case 95..<97:
            model.bench.report(Bool.random(using: &random) ? .connecting : .idle, slot, model.generation[slot])
        case 97:
            let until = model.bench.now.advanced(by: .milliseconds(Int.random(in: 0...9000, using: &random)))
            let fault = Bool.random(using: &random) ? PoolFault(description: "x", isConfiguration: true) : nil
            model.bench.report(.backingOff(until: until, fault: fault), slot, model.generation[slot])
        case 98:
            model.bench.report(.gone, slot, model.generation[slot])
        default:
            model.generation[slot] += 1
            model.bench.register(slot, model.generation[slot])
        }
    }
}

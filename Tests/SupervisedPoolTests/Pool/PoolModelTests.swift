import TestSupport
import Testing

@testable import SupervisedPool

/// Random commands against the machine, compared with a naive model.
struct PoolModelTests {
    private static let run = PropertyRun(commands: 15_000, runs: 3)

    @Test(.timeLimit(.minutes(5)))
    func noStreamIsLostOrLeasedTwiceAndTheStatusMatchesTheModel() async {
        var seen: [String: Int] = [:]
        for (number, seed) in Self.run.seeds.enumerated() {
            await TestScale.letOthersRun()
            var random = SeededRandom(seed: seed)
            var model = PoolModel(seed: seed, configuration(&random))
            for step in 0..<Self.run.commandsPerRun {
                command(&model, &random)
                model.follow()
                if !model.mistakes.isEmpty {
                    Issue.record("run \(number), step \(step): \(model.mistakes). \(Self.run.replay(seed))")
                    return
                }
            }
            self.finish(&model, Self.run.replay(seed))
            seen.merge(model.seen, uniquingKeysWith: +)
        }
        guard Self.run.seeds.count > 1, Self.run.commandsPerRun >= 1000 else { return }
        // A model that never sees the rare events proves nothing about them.
        for event in [
            "leased at once", "leased to a waiter", "failed: timedOut", "failed: cancelled", "failed: unavailable",
            "failed: configurationFault",
            "refused: full", "refused: queueFull", "refused: shuttingDown", "registered beyond", "connect keep",
            "connect demand", "connect use",
            "connect shortenBackoff",
            "connect prewarm", "disconnect idle", "disconnect lifetime", "disconnect surplus", "grown", "shrunk",
            "changed", "dismissed at work", "dismissed while idle",
        ] {
            #expect(seen[event, default: 0] > 0, "\(event) never happened in \(seen)")
        }
    }

    @Test("No command that a fuzzer chooses breaks the pool") func fuzzPoolMachine() throws {
        try Fuzz.run("pool-machine") { bytes in
            var random = SeededRandom(bytes: bytes)
            var model = PoolModel(seed: 0, self.configuration(&random))
            while !random.isUsedUp, model.mistakes.isEmpty {
                self.command(&model, &random)
                model.follow()
            }
            self.finish(&model, "\(bytes.count) bytes")
        }
    }

    /// At the end all streams are returned, and every waiter gets a result.
    private func finish(_ model: inout PoolModel, _ comment: String) {
        while let (origin, count) = model.held.first {
            model.checkin(origin, count)
            model.follow()
        }
        model.bench.advance(.seconds(100))
        model.follow()
        let status = model.bench.machine.status(model.bench.now)
        #expect(model.mistakes.isEmpty, "\(model.mistakes). \(comment)")
        #expect(model.waiting.isEmpty && status.queueDepth == 0, "\(comment)")
        #expect(status.leased == 0 && model.bench.machine.leasedInAll == 0, "\(comment)")
    }

    private func configuration(_ random: inout SeededRandom) -> PoolConfiguration {
        PoolConfiguration(
            size: Int.random(in: 0...3, using: &random),
            maxOverflow: Int.random(in: 1...3, using: &random),
            strategy: [.leastLoaded, .lifo, .fifo].randomElement(using: &random) ?? .fifo,
            maxWaiters: Int.random(in: 1...30, using: &random),
            maxQueuedBytes: 100,
            interactiveReservePercent: [0, 20, 90].randomElement(using: &random) ?? 20,
            connectSpacing: Bool.random(using: &random) ? .seconds(1) : .zero,
            idleTimeout: .seconds(Int.random(in: 5...60, using: &random)),
            whenUnavailable: Bool.random(using: &random) ? .fail : .wait,
            maximumLifetime: Bool.random(using: &random) ? .seconds(30) : nil
        )
    }

    private func command(_ model: inout PoolModel, _ random: inout SeededRandom) {
        let index = Int.random(in: 0..<model.workers.count, using: &random)
        switch Int.random(in: 0..<204, using: &random) {
        case 0..<80:
            let list: WaiterQueue.ListName =
                switch Int.random(in: 0..<10, using: &random) {
                case 0: Bool.random(using: &random) ? .front : .bulkFront
                case 1..<6: .interactive
                default: .bulk
                }
            model.checkout(
                list,
                wanted: Bool.random(using: &random) ? 1 : Int.random(in: 2...20, using: &random),
                bytes: Int.random(in: 0...10, using: &random),
                within: .milliseconds(Int.random(in: 1...20_000, using: &random)),
                block: Int.random(in: 0..<10, using: &random) > 0
            )
        case 80..<136:
            guard let (origin, count) = model.held.sortedElement(using: &random) else { return }
            model.checkin(origin, Int.random(in: 1...count, using: &random))
        case 136..<146:
            guard let waiter = model.waiting.randomElement(using: &random) else { return }
            model.bench.cancel(waiter.id)
        case 146..<160:
            model.bench.advance(.milliseconds(Int.random(in: 0...5000, using: &random)))
        case 160..<170:
            model.report(.capacity(Int.random(in: 0...12, using: &random)), index)
        case 170..<180:
            model.report(.ready(capacity: Int.random(in: 0...12, using: &random)), index)
        case 180..<183:
            model.report(.draining, index)
        case 183..<187:
            let reports: [WorkerReport] = [.connecting, .idle, .lost()]
            model.report(reports[Int.random(in: 0..<3, using: &random)], index)
        case 187..<189:
            let until = model.bench.now.advanced(by: .milliseconds(Int.random(in: 0...20_000, using: &random)))
            let fault = Bool.random(using: &random) ? PoolFault(description: "x", isConfiguration: true) : nil
            // Often all workers at once, or an outage would hardly happen.
            let targets = Int.random(in: 0..<3, using: &random) == 0 ? Array(model.workers.indices) : [index]
            for index in targets {
                model.report(.backingOff(until: until, fault: fault), index)
                model.follow()
            }
        case 189:
            model.report(.gone, index)
        case 190..<193:
            // Sometimes beyond the pool's size.
            let isBeyond = Int.random(in: 0..<20, using: &random) == 0 && model.workers.count < 10
            let index = isBeyond ? model.workers.count + 1 : index
            model.register(index, generation: Int.random(in: 1...3, using: &random))
        case 193:
            model.awaitReady(
                Int.random(in: 1...model.workers.count, using: &random),
                within: .milliseconds(Int.random(in: 1...20_000, using: &random))
            )
        case 194:
            model.bench.machine.prewarm(Int.random(in: 0...model.workers.count, using: &random))
            model.bench.settle()
        case 195..<197:
            model.report(.latency(.milliseconds(Int.random(in: 0...500, using: &random))), index)
        case 197:
            // Reports of an earlier generation, or of a worker that does not exist.
            model.bench.report(.ready(capacity: 5), index, model.workers[index].generation - 1)
            model.bench.report(.ready(capacity: 5), model.workers.count + index, 1)
        case 198 where Int.random(in: 0..<25, using: &random) == 0:
            model.isDraining = true
            model.bench.machine.drain()
        case 199 where Bool.random(using: &random):
            model.reconfigure(self.configuration(&random))
        case 200..<204:
            // A dismissed surplus worker becomes idle.
            guard model.isSurplus(index) else { return }
            switch model.workers[index].state {
            case .draining, .connecting, .backingOff: model.report(.idle, index)
            case .absent, .idle, .ready: break
            }
        default:
            // Long enough without work for overflow workers to idle and connections to grow old.
            guard Int.random(in: 0..<5, using: &random) == 0 else { return }
            model.bench.advance(.seconds(70))
        }
    }
}

extension [LeaseOrigin: Int] {
    /// The order of a dictionary differs from run to run, so that a seed would not repeat it.
    func sortedElement(using random: inout SeededRandom) -> (LeaseOrigin, Int)? {
        guard !isEmpty else { return nil }
        let keys = keys.sorted {
            ($0.worker.index, $0.worker.generation, $0.connection) < (
                $1.worker.index, $1.worker.generation, $1.connection
            )
        }
        return keys.randomElement(using: &random).flatMap { key in self[key].map { (key, $0) } }
    }
}

import APNSBasics
import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The machines of a pool against an overloaded APNs, in simulated time: few connections open, and pushes succeed.
struct OverloadSimulationTests {
    /// The simulated workers and server, in steps of one millisecond.
    private struct World {
        static let roundTrip = 50
        static let connectTime = 100

        struct Worker {
            var machine: ConnectionStateMachine
            var capacity = 0
            /// Open streams of the connection that takes new ones.
            var open = 0
            var timers: [MonotonicInstant] = []
            var connectedAt: [(millisecond: Int, connection: Int)] = []
        }

        var workers: [Worker]
        var random: SeededRandom
        let replacements: SharedTokenBucket
        /// Pushes are retried at most as often as a fifth of the responses, or a hundred times.
        var retries = 0
        var responseCount = 0
        let errorPercent: Int
        var now = MonotonicInstant(nanoseconds: 0)
        var responses: [[(worker: Int, connection: Int)]] = Array(repeating: [], count: World.roundTrip + 1)
        var waiting = 0
        var opened = 0
        var accepted = 0
        var failed = 0
        var wasDegraded = false

        init(size: Int, errorPercent: Int, seed: UInt64) {
            self.replacements = SharedTokenBucket.replacements(burst: size)
            self.random = SeededRandom(seed: seed)
            self.errorPercent = errorPercent
            let replacements = self.replacements
            self.workers = (0..<size).map { _ in
                Worker(
                    machine: ConnectionStateMachine(
                        isBase: true,
                        streamCap: 1000,
                        backoff: ConnectionStateMachine.delays,
                        generator: SplitMix64(seed: seed),
                        takeReplacement: { replacements.take(now: $0) }
                    )
                )
            }
        }

        mutating func apply(_ actions: [ConnectionStateMachine.Action], _ index: Int, _ millisecond: Int) {
            for action in actions {
                switch action {
                case .open(let connection):
                    self.opened += 1
                    self.workers[index].connectedAt.append((millisecond + Self.connectTime, connection))
                case .wakeAt(let instant): self.workers[index].timers.append(instant)
                case .report(.ready(let capacity)):
                    self.workers[index].capacity = capacity
                    self.workers[index].open = 0
                case .report(.capacity(let capacity)): self.workers[index].capacity = capacity
                case .report: self.workers[index].capacity = 0
                case .drain, .close, .checkForStall, .refuseCredential: break
                }
            }
        }

        mutating func step(_ millisecond: Int) {
            self.now = MonotonicInstant(nanoseconds: Int64(millisecond) * 1_000_000)
            for index in self.workers.indices {
                let due = self.workers[index].connectedAt.filter { $0.millisecond <= millisecond }
                self.workers[index].connectedAt.removeAll { $0.millisecond <= millisecond }
                for (_, connection) in due {
                    self.apply(
                        self.workers[index].machine.ready(connection: connection, limit: 1000),
                        index,
                        millisecond
                    )
                }
                if self.workers[index].timers.contains(where: { $0 <= self.now }) {
                    self.workers[index].timers.removeAll { $0 <= self.now }
                    self.apply(self.workers[index].machine.wake(now: self.now), index, millisecond)
                }
                if self.workers[index].machine.isDegraded { self.wasDegraded = true }
            }
            self.respond(millisecond)
            self.waiting += 1
            self.send(millisecond)
        }

        private mutating func respond(_ millisecond: Int) {
            let bucket = millisecond % self.responses.count
            let due = self.responses[bucket]
            self.responses[bucket].removeAll(keepingCapacity: true)
            self.responseCount += due.count
            for (index, connection) in due {
                if self.workers[index].machine.readyConnection == connection { self.workers[index].open -= 1 }
                if Int.random(in: 0..<100, using: &self.random) < self.errorPercent {
                    self.apply(
                        self.workers[index].machine.receivedServerError(503, connection: connection, now: self.now),
                        index,
                        millisecond
                    )
                    if self.retries < max(100, self.responseCount / 5) {
                        self.retries += 1
                        self.waiting += 1
                    } else {
                        self.failed += 1
                    }
                } else {
                    self.accepted += 1
                    self.apply(self.workers[index].machine.receivedProof(connection: connection), index, millisecond)
                }
            }
        }

        private mutating func send(_ millisecond: Int) {
            while self.waiting > 0 {
                let free = self.workers.indices.filter { self.workers[$0].open < self.workers[$0].capacity }
                guard let index = free.min(by: { self.workers[$0].open < self.workers[$1].open }),
                    let connection = self.workers[index].machine.readyConnection
                else { return }
                self.waiting -= 1
                self.workers[index].open += 1
                self.responses[(millisecond + Self.roundTrip) % self.responses.count].append((index, connection))
            }
        }
    }

    private static let sizes: [(Int, UInt64)] =
        [(1, 1), (4, 3)] + (TestScale.isThorough ? [(2, 2), (8, 4)] : [])

    @Test(arguments: Self.sizes)
    func tenPercentOf503OpenFewConnections(_ size: Int, _ seed: UInt64) async {
        var world = World(size: size, errorPercent: 10, seed: seed)
        for index in world.workers.indices { world.apply(world.workers[index].machine.connect(), index, 0) }
        let minutes = TestScale.size(2, thorough: 5)
        let milliseconds = minutes * 60 * 1000
        for millisecond in 1...milliseconds {
            if millisecond.isMultiple(of: 1000) { await TestScale.letOthersRun() }
            world.step(millisecond)
        }
        #expect(world.opened <= 2 * size + 12 * minutes, "seed \(seed)")
        #expect(world.wasDegraded)
        // Ten percent of the responses are 503 and the budget covers them, so nearly all pushes are accepted.
        #expect(world.accepted > milliseconds * 9 / 10, "\(world.accepted) accepted, \(world.waiting) wait")
        #expect(world.failed < milliseconds / 100, "\(world.failed)")
    }

    @Test func only503ResponsesOpenFewConnections() {
        var world = World(size: 2, errorPercent: 100, seed: 5)
        for index in world.workers.indices { world.apply(world.workers[index].machine.connect(), index, 0) }
        for millisecond in 1...60_000 { world.step(millisecond) }
        #expect(world.accepted == 0)
        #expect(world.opened <= 2 * 2 + 12)
    }
}

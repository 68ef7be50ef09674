import TestSupport
import Testing

@testable import SupervisedPool

struct Broken: Error {}

/// Runs the machine with children that obey at once, unless they are listed as slow or deaf.
struct SupervisorBench {
    var machine: SupervisorStateMachine
    var now = MonotonicInstant(nanoseconds: 0)
    /// Starts, stops and results, in order.
    var log: [String] = []
    var running: [ChildSpec.ID: Int] = [:]
    /// Children that do not report their start.
    var slowToStart: Set<ChildSpec.ID> = []
    /// Children that ignore a request to stop.
    var slowToStop: Set<ChildSpec.ID> = []
    /// Children that ignore cancellation.
    var deaf: Set<ChildSpec.ID> = []
    /// Children whose next starts fail.
    var failingStarts: [ChildSpec.ID: Int] = [:]
    var finished: SupervisorError??

    init(
        _ strategy: SupervisionStrategy,
        _ children: [ChildSpec],
        intensity: RestartIntensity = RestartIntensity()
    ) {
        machine = SupervisorStateMachine(name: "test", strategy: strategy, intensity: intensity, children: children)
    }

    static func spec(
        _ name: String,
        _ restart: ChildSpec.Restart = .permanent,
        _ shutdown: ChildSpec.Shutdown = .within(.seconds(5))
    ) -> ChildSpec {
        ChildSpec(id: ChildSpec.ID(name), restart: restart, shutdown: shutdown) { _ in }
    }

    static func abc(_ restart: ChildSpec.Restart = .permanent) -> [ChildSpec] {
        ["a", "b", "c"].map { spec($0, restart) }
    }

    mutating func begin() { run(machine.begin(now: now)) }
    mutating func shutdown() { run(machine.shutdown(now: now)) }
    mutating func cancel() { run(machine.cancel(now: now)) }
    mutating func command(_ command: SupervisorStateMachine.Command, _ number: Int = 1) {
        run(machine.command(command, number: number, now: now))
    }

    mutating func fail(_ id: ChildSpec.ID) { exit(id, .failed(Broken())) }

    mutating func exit(_ id: ChildSpec.ID, _ exit: ChildExit) {
        guard let generation = running.removeValue(forKey: id) else { return }
        run(machine.exited(id, generation: generation, exit, now: now))
    }

    mutating func started(_ id: ChildSpec.ID) {
        run(machine.started(id, generation: running[id] ?? 0, now: now))
    }

    mutating func advance(_ duration: Duration) {
        now = now.advanced(by: duration)
        run(machine.timer(now: now))
    }

    mutating func takeLog() -> [String] {
        defer { log = [] }
        return log
    }

    mutating func run(_ actions: [SupervisorStateMachine.Action]) {
        for action in actions {
            switch action {
            case .start(let spec, let generation):
                if running.updateValue(generation, forKey: spec.id) != nil { log.append("TWICE \(spec.id)") }
                log.append("start \(spec.id)\(generation)")
                if let left = failingStarts[spec.id], left > 0 {
                    failingStarts[spec.id] = left - 1
                    exit(spec.id, .failed(Broken()))
                } else if !slowToStart.contains(spec.id) {
                    started(spec.id)
                }
            case .requestShutdown(let id):
                log.append("stop \(id)")
                if !slowToStop.contains(id) { exit(id, .returned) }
            case .cancel(let id):
                log.append("cancel \(id)")
                if !deaf.contains(id) { exit(id, .cancelled) }
            case .reply(let number, .success):
                log.append("ok \(number)")
            case .reply(let number, .failure(let error)):
                log.append("no \(number) \(error.code)")
            case .ready:
                log.append("ready")
            case .event(.childDeaf(let id, _)):
                log.append("deaf \(id)")
            case .event:
                break
            case .finish(let error):
                finished = .some(error)
                log.append("finish" + (error.map { " \($0.code)" } ?? ""))
            }
        }
    }
}

struct SupervisorStateMachineTests {
    private typealias Bench = SupervisorBench

    @Test func childrenStartInOrderEachAfterThePreviousOne() {
        var bench = Bench(.oneForOne, Bench.abc())
        bench.slowToStart = ["b"]
        bench.begin()
        #expect(bench.takeLog() == ["start a1", "start b1"])
        bench.started("b")
        #expect(bench.takeLog() == ["start c1", "ready"])
    }

    @Test func childrenStopInReverseOrderBeforeTheFinish() {
        var bench = Bench(.oneForOne, Bench.abc())
        bench.begin()
        _ = bench.takeLog()
        bench.slowToStop = ["b"]
        bench.shutdown()
        #expect(bench.takeLog() == ["stop c", "stop b"])
        #expect(bench.machine.nextDeadline == bench.now.advanced(by: .seconds(5)))
        bench.exit("b", .returned)
        #expect(bench.takeLog() == ["stop a", "finish"])
    }

    @Test func aChildThatExceedsItsShutdownTimeIsCancelledThenDeaf() {
        var bench = Bench(.oneForOne, [Bench.spec("a"), Bench.spec("b", .permanent, .within(.seconds(2)))])
        bench.begin()
        _ = bench.takeLog()
        bench.slowToStop = ["b"]
        bench.deaf = ["b"]
        bench.shutdown()
        bench.advance(.seconds(1))
        #expect(bench.takeLog() == ["stop b"])
        bench.advance(.seconds(1))
        #expect(bench.takeLog() == ["cancel b"])
        bench.advance(.seconds(5))
        #expect(bench.takeLog() == ["deaf b"])
        #expect(bench.machine.statuses.map(\.isDeaf) == [false, true])
        #expect(bench.machine.nextDeadline == nil)
        bench.exit("b", .cancelled)
        #expect(bench.takeLog() == ["stop a", "finish"])
    }

    @Test func brutalKillCancelsAtOnceAndInfinityNeverCancels() {
        var bench = Bench(
            .oneForOne,
            [Bench.spec("a", .permanent, .infinity), Bench.spec("b", .permanent, .brutalKill)]
        )
        bench.begin()
        _ = bench.takeLog()
        bench.slowToStop = ["a"]
        bench.shutdown()
        #expect(bench.takeLog() == ["cancel b", "stop a"])
        bench.advance(.seconds(1_000_000))
        #expect(bench.takeLog() == [])
    }

    @Test func cancellationCancelsChildrenInReverseOrderAtOnce() {
        var bench = Bench(.oneForOne, Bench.abc())
        bench.begin()
        _ = bench.takeLog()
        bench.deaf = ["b"]
        bench.cancel()
        #expect(bench.takeLog() == ["cancel c", "cancel b"])
        bench.exit("b", .cancelled)
        #expect(bench.takeLog() == ["cancel a", "finish"])
    }

    @Test func cancellationEndsAGracefulStop() {
        var bench = Bench(.oneForOne, Bench.abc())
        bench.begin()
        bench.slowToStop = ["a", "b", "c"]
        bench.shutdown()
        _ = bench.takeLog()
        bench.cancel()
        #expect(bench.takeLog() == ["cancel c", "cancel b", "cancel a", "finish"])
    }

    @Test func oneForOneRestartsOnlyTheChild() {
        var bench = Bench(.oneForOne, Bench.abc())
        bench.begin()
        _ = bench.takeLog()
        bench.fail("b")
        #expect(bench.takeLog() == ["start b2"])
    }

    @Test func restForOneRestartsTheChildAndLaterOnes() {
        var bench = Bench(.restForOne, Bench.abc())
        bench.begin()
        _ = bench.takeLog()
        bench.fail("b")
        #expect(bench.takeLog() == ["stop c", "start b2", "start c2"])
    }

    @Test func oneForAllRestartsAllChildren() {
        var bench = Bench(.oneForAll, Bench.abc())
        bench.begin()
        _ = bench.takeLog()
        bench.fail("b")
        #expect(bench.takeLog() == ["stop c", "stop a", "start a2", "start b2", "start c2"])
    }

    @Test func temporarySiblingsAreNotRestarted() {
        var bench = Bench(.oneForAll, [Bench.spec("a"), Bench.spec("t", .temporary), Bench.spec("c")])
        bench.begin()
        _ = bench.takeLog()
        bench.fail("a")
        #expect(bench.takeLog() == ["stop c", "stop t", "start a2", "start c2"])
        #expect(bench.machine.statuses.map(\.id) == ["a", "c"])
    }

    @Test func eachRestartKindDecidesWhichExitsRestartAChild() {
        var bench = Bench(
            .oneForOne,
            [Bench.spec("p"), Bench.spec("t", .transient), Bench.spec("x", .temporary)]
        )
        bench.begin()
        _ = bench.takeLog()
        bench.exit("p", .returned)
        #expect(bench.takeLog() == ["start p2"])
        bench.fail("t")
        #expect(bench.takeLog() == ["start t2"])
        bench.exit("t", .returned)
        bench.fail("x")
        #expect(bench.takeLog() == [])
        #expect(bench.machine.statuses.map(\.id) == ["p", "t"])
        #expect(bench.machine.counts == ChildCounts(specified: 2, active: 1, supervisors: 0, workers: 2))
    }

    @Test func theFourthRestartWithinThePeriodEscalates() throws {
        var bench = Bench(.oneForOne, Bench.abc())
        bench.begin()
        for _ in 0..<3 { bench.fail("b") }
        _ = bench.takeLog()
        bench.fail("b")
        #expect(bench.takeLog() == ["stop c", "stop a", "finish intensityExceeded"])
        let error = try #require(bench.finished ?? nil)
        #expect(error.child == "b")
        #expect(error.failures.map(\.generation) == [1, 2, 3, 4])
        #expect(error.description.contains("b (start 4): Broken()"))
    }

    @Test func onlyRestartsWithinThePeriodCount() {
        var bench = Bench(.oneForOne, Bench.abc())
        bench.begin()
        for _ in 0..<20 {
            bench.fail("b")
            bench.advance(.milliseconds(1700))
        }
        #expect(bench.finished == nil)
        bench.fail("b")
        bench.fail("a")
        #expect(bench.finished != nil)
    }

    @Test func aFailedFirstStartStopsStartedChildrenInReverse() throws {
        var bench = Bench(.oneForOne, Bench.abc())
        bench.failingStarts = ["c": 1]
        bench.begin()
        #expect(
            bench.takeLog() == ["start a1", "start b1", "start c1", "stop b", "stop a", "finish startFailed"]
        )
        #expect((bench.finished ?? nil)?.child == "c")
    }

    @Test func aFailedRestartCountsAndIsRetried() {
        var bench = Bench(.restForOne, Bench.abc())
        bench.begin()
        _ = bench.takeLog()
        bench.failingStarts = ["b": 2]
        bench.fail("a")
        #expect(bench.takeLog() == ["stop c", "stop b", "start a2", "start b2", "start b3", "start b4", "start c2"])
        bench.failingStarts = ["a": 1]
        bench.fail("a")
        #expect(bench.finished != nil)
    }

    @Test(
        "Siblings start again when the child whose restart failed is terminated",
        arguments: [
            (SupervisionStrategy.restForOne, "b", ["a", "c"]),
            (SupervisionStrategy.oneForAll, "b", ["a", "c"]),
            (SupervisionStrategy.oneForAll, "a", ["b", "c"]),
        ]
    )
    func terminatedWhileRestarting(_ strategy: SupervisionStrategy, _ name: String, _ siblings: [String]) {
        var bench = Bench(strategy, Bench.abc())
        bench.begin()
        // The command arrives while the last child stops for the restart, and the restart then fails.
        bench.slowToStop = ["c"]
        bench.failingStarts = [ChildSpec.ID(name): 1]
        bench.fail(ChildSpec.ID(name))
        bench.command(.terminate(ChildSpec.ID(name)))
        bench.exit("c", .returned)
        #expect(bench.takeLog().contains("ok 1"))
        #expect(bench.machine.statuses.filter { $0.state == .running }.map(\.id.name) == siblings)
        bench.advance(.seconds(60))
        #expect(bench.machine.statuses.filter { $0.state == .running }.map(\.id.name) == siblings)
    }

    @Test func aRestartWaitsForTheRestartBeforeIt() {
        var bench = Bench(.oneForOne, Bench.abc())
        bench.begin()
        _ = bench.takeLog()
        bench.slowToStart = ["b"]
        bench.fail("b")
        bench.fail("c")
        #expect(bench.takeLog() == ["start b2"])
        #expect(bench.machine.statuses.map(\.state) == [.running, .starting, .restarting])
        bench.started("b")
        #expect(bench.takeLog() == ["start c2"])
    }

    @Test func lateReportsOfAnOldGenerationAreIgnored() {
        var bench = Bench(.oneForOne, Bench.abc())
        bench.begin()
        bench.fail("b")
        _ = bench.takeLog()
        bench.run(bench.machine.exited("b", generation: 1, .failed(Broken()), now: bench.now))
        bench.run(bench.machine.started("b", generation: 1, now: bench.now))
        bench.run(bench.machine.exited("nobody", generation: 1, .returned, now: bench.now))
        #expect(bench.takeLog() == [])
        #expect(bench.machine.statuses[1].generation == 2)
    }

    @Test func aShutdownInterruptsAStart() {
        var bench = Bench(.oneForOne, Bench.abc())
        bench.slowToStart = ["b"]
        bench.begin()
        _ = bench.takeLog()
        bench.shutdown()
        #expect(bench.takeLog() == ["stop b", "stop a", "finish"])
    }

    @Test func aShutdownBeforeTheStartStartsNoChild() {
        var bench = Bench(.oneForOne, Bench.abc())
        bench.shutdown()
        bench.begin()
        #expect(bench.takeLog() == ["finish"])
    }

    @Test func twoChildrenWithTheSameNameAreRejected() {
        var bench = Bench(.oneForOne, [Bench.spec("a"), Bench.spec("a")])
        bench.begin()
        #expect(bench.takeLog() == ["finish childExists"])
    }

    @Test func dynamicChildrenFollowTheirCommands() {
        var bench = Bench(.oneForOne, [Bench.spec("a")])
        bench.command(.start(Bench.spec("b")))
        #expect(bench.takeLog() == ["no 1 notRunning"])
        bench.begin()
        _ = bench.takeLog()
        bench.command(.start(Bench.spec("b")), 2)
        bench.command(.start(Bench.spec("b")), 3)
        #expect(bench.takeLog() == ["start b1", "ok 2", "no 3 childExists"])
        bench.command(.delete("b"), 4)
        bench.command(.restart("b"), 5)
        #expect(bench.takeLog() == ["no 4 childRunning", "no 5 childRunning"])
        bench.command(.terminate("b"), 6)
        bench.command(.restart("b"), 7)
        #expect(bench.takeLog() == ["stop b", "ok 6", "start b2", "ok 7"])
        bench.command(.terminate("b"), 8)
        bench.command(.delete("b"), 9)
        bench.command(.delete("b"), 10)
        #expect(bench.takeLog() == ["stop b", "ok 8", "ok 9", "no 10 childNotFound"])
        bench.failingStarts = ["c": 1]
        bench.command(.start(Bench.spec("c")), 11)
        #expect(bench.takeLog() == ["start c1", "no 11 startFailed"])
        #expect(bench.machine.counts.specified == 1)
        bench.shutdown()
        bench.command(.terminate("a"), 12)
        #expect(bench.takeLog() == ["stop a", "finish", "no 12 notRunning"])
    }

    @Test func aStartThatNeverCompletesCanBeTerminated() {
        var bench = Bench(.oneForOne, [Bench.spec("a")])
        bench.slowToStart = ["b"]
        bench.begin()
        bench.command(.start(Bench.spec("b")), 1)
        _ = bench.takeLog()
        bench.command(.terminate("b"), 2)
        #expect(bench.takeLog() == ["stop b", "no 1 childTerminated", "no 2 childNotFound"])
    }

    @Test func waitingCommandsFailAtTheEnd() {
        var bench = Bench(.oneForOne, [Bench.spec("a")])
        bench.slowToStart = ["b"]
        bench.begin()
        bench.command(.start(Bench.spec("b")), 1)
        bench.command(.start(Bench.spec("c")), 2)
        _ = bench.takeLog()
        bench.cancel()
        #expect(
            bench.takeLog() == ["no 1 shuttingDown", "no 2 shuttingDown", "cancel b", "cancel a", "finish"]
        )
    }

    @Test(arguments: [SupervisionStrategy.oneForOne, .oneForAll, .restForOne])
    func restartIntensityMatchesAModel(_ strategy: SupervisionStrategy) {
        var random = SeededRandom()
        for _ in 0..<200 {
            let intensity = RestartIntensity(
                restarts: Int.random(in: 0...5, using: &random),
                period: .milliseconds(Int.random(in: 1...5000, using: &random))
            )
            var bench = Bench(strategy, Bench.abc(), intensity: intensity)
            bench.begin()
            var restarts: [MonotonicInstant] = []
            while bench.finished == nil, restarts.count < 100 {
                bench.advance(.milliseconds(Int.random(in: 0...2000, using: &random)))
                let id = ["a", "b", "c"].randomElement(using: &random) ?? "a"
                let failsToStart = Int.random(in: 0...3, using: &random) == 0
                if failsToStart { bench.failingStarts = [ChildSpec.ID(id): 1] }
                bench.fail(ChildSpec.ID(id))
                // The model counts naively: are there too many restarts within the last period?
                for _ in 0...(failsToStart ? 1 : 0) {
                    restarts.append(bench.now)
                    let recent = restarts.filter { $0.duration(to: bench.now) <= intensity.period }.count
                    if recent > intensity.restarts {
                        #expect(bench.finished != nil, "\(random) \(intensity)")
                        restarts = []
                        break
                    }
                }
                if restarts.isEmpty { break }
                #expect(bench.finished == nil, "\(random) \(intensity)")
                #expect(!bench.log.contains { $0.hasPrefix("TWICE") }, "\(random)")
                if bench.finished == nil { #expect(bench.running.count == 3, "\(random)") }
            }
            if bench.finished != nil { #expect(bench.running.isEmpty, "\(random)") }
        }
    }
}

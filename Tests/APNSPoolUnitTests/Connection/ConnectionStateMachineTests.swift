import APNSTransport
import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The transitions of the diagram, one after another.
struct ConnectionStateMachineTests {
    private typealias Machine = ConnectionStateMachine
    private let start = MonotonicInstant(nanoseconds: 1_000_000_000_000)

    private func machine(isBase: Bool = true, cap: Int = 1000) -> Machine {
        Machine(isBase: isBase, streamCap: cap, backoff: Backoff(minimum: .milliseconds(100), maximum: .seconds(30)))
    }

    /// A machine whose connection 1 is ready.
    private func ready(isBase: Bool = true, isProven: Bool = true) -> Machine {
        var machine = self.machine(isBase: isBase)
        _ = machine.connect()
        _ = machine.ready(connection: 1, limit: 100)
        if isProven { _ = machine.receivedProof(connection: 1) }
        return machine
    }

    private func fault(_ isConfiguration: Bool) -> ConnectionFault {
        isConfiguration ? .configuration(holdOff: .zero) : .network
    }

    private func lose(_ machine: inout Machine, _ connection: Int, isConfiguration: Bool = false) -> [Machine.Action] {
        machine.closed(connection: connection, fault: fault(isConfiguration), now: self.start)
    }

    @Test("A connection whose path is lost is replaced at once, but only if it was proven")
    func lostPath() throws {
        func lose(_ machine: inout Machine, _ connection: Int) -> [Machine.Action] {
            machine.closed(connection: connection, fault: .lostPath, now: self.start)
        }
        var machine = self.ready()
        #expect(lose(&machine, 1) == [.report(.lost()), .report(.connecting), .open(connection: 2)])
        _ = machine.ready(connection: 2, limit: 100)
        _ = lose(&machine, 2)
        #expect(try self.backOffEnd(machine) > self.start)
    }

    private let error = WireError(.goAway, "a test")

    private func goAway(_ machine: inout Machine, _ connection: Int, isConfiguration: Bool = false) -> [Machine.Action]
    {
        machine.goingAway(connection: connection, fault: fault(isConfiguration), error: self.error, now: self.start)
    }

    private func receive503(_ machine: inout Machine, _ connection: Int, budget: Bool = true) -> [Machine.Action] {
        machine.takeReplacement = { _ in budget }
        return machine.receivedServerError(503, connection: connection, now: self.start)
    }

    private func backOffEnd(_ machine: Machine) throws -> MonotonicInstant {
        guard case .backingOff(let until, _) = machine.state else {
            throw Unexpected(state: "\(machine.state)")
        }
        return until
    }

    private struct Unexpected: Error { var state: String }

    @Test("A connection that ends before its first response lets the worker wait only until that response arrives")
    func lateProof() throws {
        var machine = self.machine()
        _ = machine.connect()
        var waits: [Duration] = []
        for connection in 1...20 {
            _ = machine.ready(connection: connection, limit: 100)
            _ = self.goAway(&machine, connection)
            waits.append(self.start.duration(to: try self.backOffEnd(machine)))
            #expect(
                machine.receivedProof(connection: connection) == [
                    .report(.connecting), .open(connection: connection + 1),
                ]
            )
        }
        #expect(waits.allSatisfy { $0 <= .milliseconds(300) })
    }

    // MARK: connect

    @Test func connectOpensTheFirstConnection() {
        var machine = self.machine()
        #expect(machine.connect() == [.report(.connecting), .open(connection: 1)])
        #expect(machine.state == .connecting(connection: 1))
        #expect(machine.readyConnection == nil)
        #expect(machine.connect() == [])
    }

    @Test func settingsMakeTheConnectionReadyWithTheSmallerLimit() {
        var machine = self.machine(cap: 50)
        _ = machine.connect()
        #expect(machine.ready(connection: 1, limit: 1) == [.report(.ready(capacity: 1))])
        #expect(machine.readyConnection == 1)
        #expect(machine.limitChanged(connection: 1, to: 1000) == [.report(.capacity(50))])
        #expect(machine.limitChanged(connection: 1, to: 0) == [.report(.capacity(0))])
        #expect(machine.connect() == [])
    }

    @Test func aFailedConnectBacksOffAndABaseWorkerReconnects() throws {
        var machine = self.machine()
        _ = machine.connect()
        let actions = lose(&machine, 1)
        let until = try backOffEnd(machine)
        #expect(actions == [.report(.backingOff(until: until)), .wakeAt(until)])
        #expect(machine.wake(now: until.advanced(by: .nanoseconds(-1))) == [])
        #expect(machine.wake(now: until) == [.report(.connecting), .open(connection: 2)])
    }

    @Test func anOverflowWorkerGoesIdleAfterItsBackOff() throws {
        var machine = self.machine(isBase: false)
        _ = machine.connect()
        _ = lose(&machine, 1)
        #expect(machine.wake(now: try backOffEnd(machine)) == [.report(.idle)])
        #expect(machine.state == .idle)
        #expect(machine.connect() == [.report(.connecting), .open(connection: 2)])
    }

    @Test func connectShortensABackOff() {
        var machine = self.machine()
        _ = machine.connect()
        _ = lose(&machine, 1)
        #expect(machine.connect() == [.report(.connecting), .open(connection: 2)])
    }

    @Test func connectDoesNotShortenTheHoldOffOfAConfigurationFault() throws {
        var machine = self.machine()
        _ = machine.connect()
        _ = lose(&machine, 1, isConfiguration: true)
        #expect(try backOffEnd(machine) >= start.advanced(by: .seconds(5)))
        #expect(machine.connect() == [])
        #expect(machine.wake(now: try backOffEnd(machine)) == [.report(.connecting), .open(connection: 2)])
    }

    @Test func theBackOffGrowsUntilAConnectionIsProven() throws {
        var machine = self.machine()
        var waits: [Duration] = []
        for connection in 1...30 {
            _ = machine.connect()
            _ = machine.ready(connection: connection, limit: 1)
            _ = lose(&machine, connection)
            waits.append(start.duration(to: try backOffEnd(machine)))
        }
        #expect(waits.allSatisfy { $0 >= .milliseconds(100) && $0 <= .seconds(30) })
        #expect(waits.max() ?? .zero > .seconds(1))
        _ = machine.connect()
        _ = machine.ready(connection: 31, limit: 1)
        _ = machine.receivedProof(connection: 31)
        _ = lose(&machine, 31)
        #expect(start.duration(to: try backOffEnd(machine)) <= .milliseconds(300))
    }

    // MARK: 503

    @Test func a503OnAProvenConnectionReplacesIt() {
        var machine = ready()
        #expect(
            receive503(&machine, 1) == [
                .report(.draining), .drain(connection: 1), .report(.connecting), .open(connection: 2),
            ]
        )
        #expect(machine.draining == [1])
        // Further responses of the old connection change nothing.
        #expect(receive503(&machine, 1) == [])
        #expect(machine.ready(connection: 2, limit: 7) == [.report(.ready(capacity: 7))])
        #expect(receive503(&machine, 1) == [])
        #expect(machine.providerTokenRefused(connection: 1, now: self.start) == [])
        #expect(machine.readyConnection == 2)
    }

    @Test func a503WithoutABudgetKeepsTheConnection() {
        var machine = ready()
        #expect(receive503(&machine, 1, budget: false) == [.report(.capacity(50))])
        #expect(machine.readyConnection == 1)
        #expect(machine.isDegraded)
    }

    @Test func a503AsTheFirstResponseHoldsTheConnection() {
        var machine = ready(isProven: false)
        let actions = receive503(&machine, 1)
        guard case .holding(1, let until) = machine.state else {
            Issue.record("\(machine.state)")
            return
        }
        #expect(actions == [.report(.capacity(0)), .wakeAt(until)])
        #expect(machine.readyConnection == 1)
        // A limit change is not reported meanwhile.
        #expect(machine.limitChanged(connection: 1, to: 5) == [])
        #expect(receive503(&machine, 1) == [])
        #expect(machine.wake(now: start) == [])
        #expect(machine.wake(now: until) == [.report(.capacity(5))])
        #expect(machine.state == .ready(connection: 1))
    }

    // MARK: Provider token

    @Test func aRefusedTokenReplacesTheConnectionThatRefusedIt() {
        var machine = ready()
        #expect(
            machine.providerTokenRefused(connection: 1, now: self.start)
                == [.report(.draining), .drain(connection: 1), .report(.connecting), .open(connection: 2)]
        )
        _ = machine.ready(connection: 2, limit: 1)
        #expect(machine.providerTokenRefused(connection: 1, now: self.start) == [])
        machine.takeReplacement = { _ in false }
        #expect(machine.providerTokenRefused(connection: 2, now: self.start) == [])
        #expect(machine.readyConnection == 2)
        machine.takeReplacement = { _ in true }
        #expect(!machine.providerTokenRefused(connection: 2, now: self.start).isEmpty)
    }

    // MARK: GOAWAY and loss

    @Test func aGoAwayOfAProvenConnectionReplacesIt() {
        var machine = ready()
        #expect(
            goAway(&machine, 1) == [
                .report(.draining), .drain(connection: 1), .report(.connecting), .open(connection: 2),
            ]
        )
        #expect(lose(&machine, 1) == [])
        #expect(machine.draining == [])
        #expect(machine.state == .connecting(connection: 2))
    }

    @Test(arguments: [(false, false), (true, true)])
    func aGoAwayBeforeAnyResponseOrForACertificateBacksOff(_ isProven: Bool, _ isConfiguration: Bool) throws {
        var machine = ready(isProven: isProven)
        let actions = goAway(&machine, 1, isConfiguration: isConfiguration)
        let until = try backOffEnd(machine)
        let fault = PoolFault(description: self.error.description, isConfiguration: isConfiguration)
        #expect(
            actions == [.drain(connection: 1), .report(.backingOff(until: until, fault: fault)), .wakeAt(until)]
        )
        #expect(machine.draining == [1])
    }

    @Test func aLostConnectionBacksOff() throws {
        for isHolding in [false, true] {
            var machine = ready(isProven: !isHolding)
            if isHolding { _ = receive503(&machine, 1) }
            let actions = lose(&machine, 1)
            let until = try backOffEnd(machine)
            #expect(actions == [.report(.backingOff(until: until)), .wakeAt(until)])
        }
    }

    @Test func aThirdDrainingConnectionClosesTheOldest() {
        var machine = ready()
        for connection in 1...2 {
            _ = machine.replace()
            _ = machine.ready(connection: connection + 1, limit: 1)
        }
        #expect(machine.draining == [1, 2])
        #expect(
            machine.replace() == [
                .report(.draining), .drain(connection: 3), .close(connection: 1), .report(.connecting),
                .open(connection: 4),
            ]
        )
        #expect(machine.draining == [2, 3])
    }

    @Test("A connection with few stream ids left is replaced, but only while it accepts streams")
    func exhaustion() {
        var machine = ready()
        let replaced: [Machine.Action] = [
            .report(.draining), .drain(connection: 1), .report(.connecting), .open(connection: 2),
        ]
        #expect(machine.submitted(connection: 1, open: 1, isNearlyExhausted: true, now: start) == replaced)
        #expect(machine.submitted(connection: 1, open: 1, isNearlyExhausted: true, now: start) == [])
        #expect(machine.readyConnection == nil)
    }

    // MARK: disconnect, replace, stop

    @Test func disconnectDrainsAReadyConnectionAndClosesAConnectingOne() throws {
        var machine = ready(isBase: false)
        #expect(machine.disconnect() == [.drain(connection: 1), .report(.idle)])
        #expect(machine.disconnect() == [])
        _ = machine.connect()
        #expect(machine.disconnect() == [.close(connection: 2), .report(.idle)])
        #expect(lose(&machine, 2) == [])
        _ = machine.connect()
        _ = lose(&machine, 3)
        let until = try backOffEnd(machine)
        #expect(machine.disconnect() == [.report(.idle)])
        #expect(machine.wake(now: until) == [])
        #expect(machine.state == .idle)
    }

    @Test func replaceDoesNothingWithoutAReadyConnection() {
        var machine = self.machine()
        #expect(machine.replace() == [])
        _ = machine.connect()
        #expect(machine.replace() == [])
    }

    @Test func stopClosesAllConnectionsAndNothingHappensAfterwards() {
        var machine = ready()
        _ = machine.replace()
        #expect(machine.stop() == [.close(connection: 1), .close(connection: 2)])
        #expect(machine.state == .stopped)
        #expect(machine.stop() == [])
        #expect(machine.connect() == [])
        #expect(machine.disconnect() == [])
        #expect(machine.replace() == [])
        #expect(lose(&machine, 2) == [])
        #expect(goAway(&machine, 2) == [])
        #expect(receive503(&machine, 2) == [])
        #expect(machine.limitChanged(connection: 2, to: 3) == [])
        #expect(machine.wake(now: .distantFuture) == [])
        // A connection that becomes ready after the stop is closed.
        #expect(machine.ready(connection: 2, limit: 1) == [.close(connection: 2)])
    }

    @Test func staleConnectionsAreIgnored() {
        var machine = ready()
        _ = machine.replace()
        let state = machine.state
        #expect(machine.ready(connection: 1, limit: 1) == [.close(connection: 1)])
        #expect(machine.limitChanged(connection: 1, to: 1) == [])
        #expect(goAway(&machine, 1) == [])
        #expect(lose(&machine, 99) == [])
        _ = machine.receivedProof(connection: 1)
        #expect(machine.state == state)
    }
}

/// Checks the invariants of the machine with random inputs.
struct ConnectionStateModelTests {
    /// The connections as the actor sees them: open, draining or closed.
    private struct World {
        var open: Set<Int> = []
        var draining: Set<Int> = []
        var settled: Set<Int> = []
        var newest = 0
        var report: WorkerReport?
        var wakeUps: [MonotonicInstant] = []
        var checks: [(at: MonotonicInstant, connection: Int)] = []

        mutating func apply(_ actions: [ConnectionStateMachine.Action]) {
            for action in actions {
                switch action {
                case .open(let connection):
                    #expect(connection > self.newest)
                    self.newest = connection
                    self.open.insert(connection)
                case .drain(let connection):
                    #expect(self.open.contains(connection))
                    #expect(self.draining.insert(connection).inserted)
                case .close(let connection):
                    self.open.remove(connection)
                    self.draining.remove(connection)
                case .wakeAt(let instant):
                    self.wakeUps.append(instant)
                case .checkForStall(let instant, let connection):
                    self.checks.append((instant, connection))
                case .report(let report):
                    self.report = report
                case .refuseCredential:
                    Issue.record("\(action)")
                }
            }
        }
    }

    @Test(arguments: 0..<UInt64(TestScale.times(80)))
    func connectionsAreNeverLostAndReportsMatchTheState(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        self.run(&random, isOver: { steps, _ in steps == 400 })
    }

    @Test("No input that a fuzzer chooses breaks the machine") func fuzzConnectionMachine() throws {
        try Fuzz.run("connection-machine") { bytes in
            var random = SeededRandom(bytes: bytes)
            self.run(&random, isOver: { _, random in random.isUsedUp })
        }
    }

    /// - Parameter isOver: is called with the number of steps so far.
    private func run(_ random: inout SeededRandom, isOver: (Int, SeededRandom) -> Bool) {
        let seed = random.seed
        let isBase = Bool.random(using: &random)
        var machine = ConnectionStateMachine(isBase: isBase, streamCap: 100, backoff: Backoff())
        var world = World()
        var now = MonotonicInstant(nanoseconds: 0)
        var steps = 0
        while !isOver(steps, random) {
            steps += 1
            // Mostly an open connection, sometimes one that is closed or never existed.
            let connection = (world.open.sorted() + [world.newest, 999]).randomElement(using: &random) ?? 0
            let flag = Bool.random(using: &random)
            machine.takeReplacement = { _ in flag }
            let faults: [ConnectionFault] = [.network, .lostPath, .configuration(holdOff: .seconds(20))]
            let fault = faults.randomElement(using: &random) ?? .network
            switch Int.random(in: 0..<15, using: &random) {
            case 0: world.apply(machine.connect())
            case 1: world.apply(machine.disconnect())
            case 2: world.apply(machine.replace())
            case 3 where world.open.contains(connection) && world.settled.insert(connection).inserted:
                // Each connection becomes ready once.
                world.apply(machine.ready(connection: connection, limit: Int.random(in: 0...200, using: &random)))
            case 4:
                world.apply(machine.limitChanged(connection: connection, to: Int.random(in: 0...200, using: &random)))
            case 5 where world.open.contains(connection):
                world.apply(machine.goingAway(connection: connection, fault: fault, now: now))
            case 6 where world.open.contains(connection):
                world.open.remove(connection)
                world.draining.remove(connection)
                world.apply(machine.closed(connection: connection, fault: fault, now: now))
            case 7:
                world.apply(
                    machine.receivedProof(connection: connection, count: Int.random(in: 1...30, using: &random))
                )
            case 8:
                world.apply(
                    machine.receivedServerError(503, connection: connection, now: now)
                )
            case 9: world.apply(machine.providerTokenRefused(connection: connection, now: now))
            case 10:
                world.apply(
                    machine.receivedServerError(500, connection: connection, now: now)
                )
            case 11:
                let quiet = now.advanced(by: .milliseconds(-Int64.random(in: 0...20_000, using: &random)))
                world.apply(machine.timedOut(connection: connection, quietSince: quiet, now: now))
            case 12 where world.open.contains(connection):
                let open = Int.random(in: 0...20, using: &random)
                world.apply(machine.submitted(connection: connection, open: open, now: now))
            case 13 where !world.checks.isEmpty:
                let check = world.checks.removeFirst()
                now = max(now, check.at)
                let last = MonotonicInstant(nanoseconds: Int64.random(in: 0...now.nanoseconds, using: &random))
                world.apply(
                    machine.checkForStall(
                        connection: check.connection,
                        open: Int.random(in: 0...20, using: &random),
                        lastResponse: flag ? last : MonotonicInstant(nanoseconds: 0),
                        now: now
                    )
                )
            default:
                now = now.advanced(by: .milliseconds(Int64.random(in: 0...3000, using: &random)))
                let due = world.wakeUps.filter { $0 <= now }
                world.wakeUps.removeAll { $0 <= now }
                for instant in due { world.apply(machine.wake(now: max(now, instant))) }
            }
            check(machine, world, now, seed)
        }
        world.apply(machine.stop())
        #expect(world.open.isEmpty, "seed \(seed)")
        world.apply(machine.connect())
        #expect(world.open.isEmpty, "seed \(seed)")
    }

    private func check(_ machine: ConnectionStateMachine, _ world: World, _ now: MonotonicInstant, _ seed: UInt64) {
        #expect(world.open.subtracting(world.draining).count <= 1, "seed \(seed)")
        #expect(machine.isDegraded == false || machine.readyConnection != nil, "seed \(seed)")
        #expect(world.draining.count <= ConnectionStateMachine.drainingLimit, "seed \(seed)")
        #expect(Set(machine.draining) == world.draining, "seed \(seed)")
        switch (machine.state, world.report) {
        case (.idle, nil), (.idle, .idle), (.connecting, .connecting): break
        case (.ready, .ready(let capacity)), (.ready, .capacity(let capacity)): #expect(capacity <= 100)
        case (.holding, .capacity(0)): break
        case (.backingOff(let until, _), .backingOff(let reported, _)) where until == reported:
            // A wake-up is armed.
            #expect(world.wakeUps.contains(until), "seed \(seed)")
        default:
            Issue.record("seed \(seed): \(machine.state) was reported as \(String(describing: world.report))")
        }
        if case .holding(_, let until) = machine.state { #expect(world.wakeUps.contains(until), "seed \(seed)") }
    }
}

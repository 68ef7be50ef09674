import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

struct SupersedeMachineTests {
    /// Wraps the machine in a class, because `#expect` cannot call mutating methods.
    private final class Machine {
        typealias Successor = SupersedeMachine<Int>.Successor
        var machine: SupersedeMachine<Int>

        init(timestampLimit: Int = 10_000) {
            self.machine = SupersedeMachine(timestampLimit: timestampLimit)
        }

        var keyCount: Int { self.machine.keyCount }
        var timestampCount: Int { self.machine.timestampCount }

        func arrive(_ key: Int, isFinal: Bool, timestamp: Int64? = nil) -> SupersedeMachine<Int>.Arrival {
            self.machine.arrive(key, isFinal: isFinal, timestamp: timestamp)
        }
        func claim(_ key: Int, _ ticket: UInt64) -> SupersedeMachine<Int>.Standing { self.machine.claim(key, ticket) }
        func beginWrite(_ key: Int, _ ticket: UInt64) -> Bool { self.machine.beginWrite(key, ticket) }
        func end(_ key: Int, _ ticket: UInt64) -> Successor? { self.machine.end(key, ticket) }
    }

    @Test func theNewestWaitingPushIsSentNext() {
        let machine = Machine()
        let first = machine.arrive(0, isFinal: false)
        #expect(first.hasTurn && first.superseded == nil)
        #expect(machine.beginWrite(0, first.ticket))
        let second = machine.arrive(0, isFinal: false)
        let third = machine.arrive(0, isFinal: false)
        #expect(!second.hasTurn && !third.hasTurn && third.superseded == second.ticket)
        #expect(machine.claim(0, second.ticket) == .superseded)
        #expect(machine.arrive(1, isFinal: false).hasTurn)
        #expect(machine.end(0, first.ticket) == .init(ticket: third.ticket, isHeir: false))
        #expect(machine.claim(0, third.ticket) == .hasTurn)
        #expect(machine.end(0, third.ticket) == nil)
        #expect(machine.keyCount == 1)
    }

    @Test func anUnwrittenPushIsReplacedByANewerOne() {
        let machine = Machine()
        let first = machine.arrive(0, isFinal: false)
        let second = machine.arrive(0, isFinal: false)
        #expect(!machine.beginWrite(0, first.ticket))
        #expect(machine.end(0, first.ticket) == .init(ticket: second.ticket, isHeir: true))
        // The heir is sent even if newer pushes arrive.
        let third = machine.arrive(0, isFinal: false)
        #expect(third.superseded == nil)
        #expect(machine.beginWrite(0, second.ticket))
        #expect(machine.end(0, second.ticket) == .init(ticket: third.ticket, isHeir: false))
        // A push is sent after all if its successor left before its turn.
        let fourth = machine.arrive(0, isFinal: false)
        #expect(machine.claim(0, fourth.ticket) == .withdrawn)
        #expect(machine.beginWrite(0, third.ticket))
    }

    @Test func finalPushesAreNeverReplaced() {
        let machine = Machine()
        let end = machine.arrive(0, isFinal: true)
        let update = machine.arrive(0, isFinal: false)
        let other = machine.arrive(0, isFinal: true)
        #expect(other.superseded == update.ticket)
        let third = machine.arrive(0, isFinal: true)
        #expect(third.superseded == nil)
        #expect(machine.beginWrite(0, end.ticket))
        #expect(machine.end(0, end.ticket)?.ticket == other.ticket)
        #expect(machine.claim(0, third.ticket) == .withdrawn)
        #expect(machine.beginWrite(0, other.ticket))
        #expect(machine.end(0, other.ticket) == nil)
    }

    @Test func timestampsIncrease() {
        let machine = Machine(timestampLimit: 4)
        func stamp(_ key: Int, _ now: Int64) -> Int64? {
            let arrival = machine.arrive(key, isFinal: true, timestamp: now)
            #expect(machine.end(key, arrival.ticket) == nil)
            return arrival.timestamp
        }
        #expect([stamp(0, 10), stamp(0, 10), stamp(0, 9), stamp(0, 20), stamp(1, 9)] == [10, 11, 12, 20, 9])
        #expect(stamp(2, .max) == .max && stamp(2, 1) == .max)
        for key in 3..<100 { #expect(stamp(key, Int64(key) + 100) == Int64(key) + 100) }
        #expect(machine.timestampCount <= 4)
        #expect(machine.keyCount == 0)
        // The newest timestamps are kept.
        #expect(stamp(99, 1) == 200)
    }

    @Test("An arrival costs the same however many keys are in use", .timeLimit(.minutes(5)))
    func manyKeysInUse() {
        let machine = Machine(timestampLimit: 100)
        let count = 60_000
        for key in 0..<count { #expect(machine.arrive(key, isFinal: false, timestamp: 10).timestamp == 10) }
        // The timestamp of a key in use is not forgotten.
        for key in 0..<count { #expect(machine.arrive(key, isFinal: false, timestamp: 10).timestamp == 11) }
        #expect(machine.keyCount == count && machine.timestampCount == 0)
    }

    /// A naive model of the machine: all pushes with their states.
    private struct Model {
        enum State { case waiting, holding, refused, written, gone }
        var pushes: [(ticket: UInt64, key: Int, isFinal: Bool, state: State, isHeir: Bool)] = []

        func index(_ ticket: UInt64) -> Int? { pushes.firstIndex { $0.ticket == ticket } }
        func holder(_ key: Int) -> Int? {
            pushes.firstIndex { $0.key == key && [.holding, .refused, .written].contains($0.state) }
        }
        func isReplaced(_ index: Int) -> Bool {
            let push = pushes[index]
            return !push.isFinal && !push.isHeir && pushes[(index + 1)...].contains { $0.key == push.key }
        }
    }

    @Test func theMachineAgreesWithAModel() async {
        let run = PropertyRun(commands: 8_000, runs: 8)
        for seed in run.seeds {
            await TestScale.letOthersRun()
            var random = SeededRandom(seed: seed)
            let machine = Machine(timestampLimit: 1000)
            var model = Model()
            var newest: [Int: Int64] = [:]
            var clock: Int64 = 1000
            let comment: Comment = "\(run.replay(seed))"
            // Removes the pushes that were replaced while they waited; they end without a call.
            func forgetReplaced(_ key: Int) -> [UInt64] {
                let replaced = model.pushes.indices.dropLast().filter {
                    model.pushes[$0].key == key && model.pushes[$0].state == .waiting && !model.pushes[$0].isFinal
                }.map { model.pushes[$0].ticket }
                model.pushes.removeAll { replaced.contains($0.ticket) }
                return replaced
            }
            for _ in 0..<run.commandsPerRun {
                clock += Int64.random(in: -2...3, using: &random)
                let key = Int.random(in: 0..<3, using: &random)
                let holder = model.holder(key)
                switch Int.random(in: 0..<4, using: &random) {
                case 0:
                    let isFinal = Int.random(in: 0..<5, using: &random) == 0
                    let arrival = machine.arrive(key, isFinal: isFinal, timestamp: clock)
                    #expect(arrival.hasTurn == (holder == nil), comment)
                    model.pushes.append(
                        (arrival.ticket, key, isFinal, holder == nil ? .holding : .waiting, false)
                    )
                    #expect(forgetReplaced(key) == (arrival.superseded.map { [$0] } ?? []), comment)
                    let stamp = arrival.timestamp ?? .min
                    #expect(stamp == max(clock, (newest[key] ?? Int64.min / 2) + 1), comment)
                    newest[key] = stamp
                    if let superseded = arrival.superseded {
                        #expect(machine.claim(key, superseded) == .superseded, comment)
                    }
                case 1:
                    guard let holder, model.pushes[holder].state != .refused else { continue }
                    let isReplaced = model.pushes[holder].state == .holding && model.isReplaced(holder)
                    #expect(machine.beginWrite(key, model.pushes[holder].ticket) == !isReplaced, comment)
                    model.pushes[holder].state = isReplaced ? .refused : .written
                case 2:
                    guard let holder else { continue }
                    let wasRefused = model.pushes[holder].state == .refused
                    let ticket = model.pushes[holder].ticket
                    model.pushes.remove(at: holder)
                    let next = model.pushes.firstIndex { $0.key == key }
                    let expected = next.map {
                        Machine.Successor(ticket: model.pushes[$0].ticket, isHeir: wasRefused)
                    }
                    #expect(machine.end(key, ticket) == expected, comment)
                    if let next {
                        model.pushes[next].state = .holding
                        model.pushes[next].isHeir = wasRefused
                    }
                default:
                    guard let push = model.pushes.filter({ $0.key == key }).randomElement(using: &random) else {
                        continue
                    }
                    let isWaiting = push.state == .waiting
                    #expect(machine.claim(key, push.ticket) == (isWaiting ? .withdrawn : .hasTurn), comment)
                    if isWaiting { model.pushes.removeAll { $0.ticket == push.ticket } }
                }
                #expect(machine.keyCount == Set(model.pushes.map(\.key)).count, comment)
            }
        }
    }
}

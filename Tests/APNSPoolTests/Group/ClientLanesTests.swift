import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool

/// Who of many gets connections, and when.
struct ClientLanesTests {
    private func at(_ seconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: seconds * 1_000_000_000) }

    private func running(_ count: Int, cap: Int, each: Int) -> ClientLanes {
        var lanes = ClientLanes(cap: cap, idleTimeout: .seconds(600))
        for _ in 0..<count {
            let lane = lanes.add(connections: each)
            _ = lanes.enter(lane, now: at(0))
            _ = lanes.started(lane, now: at(0))
            _ = lanes.leave(lane, now: at(0))
        }
        return lanes
    }

    @Test func aLaneStartsWithItsFirstUseAndStopsWhenItIdles() {
        var lanes = ClientLanes(cap: 10, idleTimeout: .seconds(600))
        let lane = lanes.add(connections: 4)
        #expect(lanes.used == 0)
        let (admission, actions) = lanes.enter(lane, now: at(0))
        #expect(admission == .wait && actions == [.start(lane, connections: 4)])
        #expect(lanes.started(lane, now: at(1)) == [])
        #expect(lanes.users(lane) == 1)
        #expect(lanes.enter(lane, now: at(2)).0 == .use)
        #expect(lanes.sweep(now: at(5000)) == [])
        _ = lanes.leave(lane, now: at(10))
        _ = lanes.leave(lane, now: at(20))
        #expect(lanes.sweep(now: at(619)) == [])
        #expect(lanes.sweep(now: at(620)) == [.stop(lane)])
        #expect(lanes.ended(lane, keepsWaiting: true, now: at(621)) == [])
        #expect(lanes.used == 0 && lanes.state(lane) == .stopped)
    }

    @Test func theOneThatIdledLongestMakesRoom() {
        var lanes = running(2, cap: 8, each: 4)
        _ = lanes.enter(1, now: at(1))
        _ = lanes.leave(1, now: at(5))
        let third = lanes.add(connections: 4)
        let (admission, actions) = lanes.enter(third, now: at(6))
        #expect(admission == .wait && actions == [.stop(2)])
        // Room that is on its way is not made twice.
        #expect(lanes.enter(third, now: at(6)).1 == [])
        #expect(lanes.ended(2, keepsWaiting: true, now: at(7)) == [.start(third, connections: 4)])
    }

    @Test func aBusyOneYieldsWhenItsTurnIsOver() {
        var lanes = running(1, cap: 4, each: 4)
        _ = lanes.enter(1, now: at(1))
        let second = lanes.add(connections: 4)
        let (admission, actions) = lanes.enter(second, now: at(2))
        #expect(admission == .wait && actions == [])
        #expect(lanes.enter(1, now: at(9)).0 == .use)
        #expect(lanes.enter(1, now: at(10)).0 == .wait)
        #expect(lanes.state(1) == .yielding)
        #expect(lanes.leave(1, now: at(11)) == [])
        #expect(lanes.leave(1, now: at(12)) == [.stop(1)])
        // It lines up behind, and gets what is left.
        #expect(
            lanes.ended(1, keepsWaiting: true, now: at(13))
                == [.start(second, connections: 3), .start(1, connections: 1)]
        )
    }

    @Test func scarceRoomIsShared() {
        var lanes = ClientLanes(cap: 5, idleTimeout: .seconds(600))
        let all = (0..<7).map { _ in lanes.add(connections: 4) }
        var started: [Int] = []
        for lane in all {
            for case .start(_, let connections) in lanes.enter(lane, now: at(0)).1 { started.append(connections) }
        }
        #expect(started == [4, 1])
        #expect(lanes.used == 5)
    }

    @Test func whoWaitsAndGivesUpIsForgotten() {
        var lanes = running(1, cap: 4, each: 4)
        _ = lanes.enter(1, now: at(0))
        let second = lanes.add(connections: 4)
        _ = lanes.enter(second, now: at(0))
        #expect(lanes.giveUp(second, now: at(1)) == [])
        #expect(lanes.state(second) == .stopped)
        #expect(lanes.leave(1, now: at(1)) == [])
        #expect(lanes.state(1) == .running)
    }

    @Test("While a call keeps a lane from yielding, its pushes go on, and further calls wait")
    func callsAndPushesWhileYielding() {
        var lanes = running(1, cap: 4, each: 4)
        _ = lanes.enter(1, asCall: true, now: at(0))
        let second = lanes.add(connections: 4)
        _ = lanes.enter(second, now: at(1))
        #expect(lanes.enter(1, now: at(11)).0 == .use)
        #expect(lanes.state(1) == .yielding)
        #expect(lanes.enter(1, asCall: true, now: at(12)).0 == .wait)
        #expect(lanes.enter(1, now: at(13)).0 == .use)
        #expect(lanes.leave(1, asCall: true, now: at(14)) == [])
        // Without the call it can stop soon: pushes wait, too.
        #expect(lanes.enter(1, now: at(15)).0 == .wait)
        #expect(lanes.leave(1, now: at(16)) == [])
        #expect(lanes.leave(1, now: at(17)) == [.stop(1)])
        #expect(
            lanes.ended(1, keepsWaiting: true, now: at(18))
                == [.start(second, connections: 3), .start(1, connections: 1)]
        )
        _ = lanes.started(1, now: at(19))
        #expect(lanes.users(1) == 2)
    }

    @Test("A lane that idles makes room although another one yields, and that one goes on")
    func idleLaneInsteadOfAYieldingOne() {
        var lanes = running(2, cap: 2, each: 1)
        _ = lanes.enter(1, now: at(1))
        _ = lanes.enter(2, now: at(1))
        let third = lanes.add(connections: 1)
        _ = lanes.enter(third, now: at(2))
        #expect(lanes.enter(1, now: at(11)).0 == .wait)
        #expect(lanes.state(1) == .yielding)
        #expect(lanes.leave(2, now: at(12)) == [.stop(2)])
        #expect(
            lanes.ended(2, keepsWaiting: true, now: at(13)) == [.start(third, connections: 1), .resume(1)]
        )
        #expect(lanes.state(1) == .running && lanes.users(1) == 2)
    }

    @Test("A lane yields no more when those who waited for its room have given up")
    func resumedAfterGivingUp() {
        var lanes = running(1, cap: 1, each: 1)
        _ = lanes.enter(1, now: at(1))
        let second = lanes.add(connections: 1)
        _ = lanes.enter(second, now: at(2))
        #expect(lanes.enter(1, now: at(11)).0 == .wait)
        #expect(lanes.giveUp(second, now: at(12)) == [.resume(1)])
        #expect(lanes.state(1) == .running && lanes.users(1) == 2)
    }

    @Test("Who used a client that ended by itself counts until they leave, and as nobody else")
    func usersOfAnEarlierLife() {
        var lanes = running(1, cap: 1, each: 1)
        #expect(lanes.enter(1, asCall: true, now: at(0)).0 == .use)
        #expect(lanes.ended(1, keepsWaiting: true, now: at(1)) == [])
        #expect(lanes.enter(1, now: at(2)) == (.wait, [.start(1, connections: 1)]))
        #expect(lanes.started(1, now: at(3)) == [])
        let second = lanes.add(connections: 1)
        #expect(lanes.enter(second, now: at(4)) == (.wait, []))
        // The call of the earlier life ends while a push of this one is under way.
        #expect(lanes.leave(1, asCall: true, now: at(5)) == [])
        #expect(lanes.users(1) == 1)
        #expect(lanes.leave(1, now: at(6)) == [.stop(1)])
    }

    @Test func aRemovedOneEndsWithItsLastUser() {
        var lanes = running(1, cap: 4, each: 4)
        _ = lanes.enter(1, now: at(0))
        #expect(lanes.remove(1, now: at(1)) == [])
        #expect(lanes.enter(1, now: at(1)).0 == .gone)
        #expect(lanes.leave(1, now: at(2)) == [.stop(1)])
        #expect(lanes.ended(1, keepsWaiting: false, now: at(3)) == [.forget(1)])
        let idle = lanes.add(connections: 1)
        #expect(lanes.remove(idle, now: at(4)) == [.forget(idle)])
    }

    /// Whatever happens in whatever order: no more connections than allowed, nobody counted twice, and with room for one
    /// nobody who waits is forgotten.
    @Test func anyOrderOfEventsKeepsTheBooks() async {
        let run = PropertyRun(commands: 8_000, runs: 20)
        for seed in run.seeds {
            await TestScale.letOthersRun()
            var random = SeededRandom(seed: seed)
            let cap = Int.random(in: 1...12, using: &random)
            var lanes = ClientLanes(cap: cap, idleTimeout: .seconds(30))
            var known: [Int] = []
            var users: [Int: Int] = [:]
            var calls: [Int: Int] = [:]
            var starting: [Int: Int] = [:]
            var running: [Int: Int] = [:]
            var stopping: Set<Int> = []
            var now: Int64 = 0
            func note(_ actions: [ClientLanes.Action]) {
                for action in actions {
                    switch action {
                    case .start(let lane, let connections):
                        #expect(
                            connections >= 1 && starting[lane] == nil && running[lane] == nil,
                            "\(run.replay(seed))"
                        )
                        starting[lane] = connections
                    case .stop(let lane):
                        #expect(running[lane] != nil && users[lane, default: 0] == 0, "\(run.replay(seed))")
                        #expect(stopping.insert(lane).inserted, "\(run.replay(seed))")
                    case .resume(let lane):
                        #expect(running[lane] != nil && !stopping.contains(lane), "\(run.replay(seed))")
                        users[lane] = lanes.users(lane)
                        calls[lane] = lanes.calls(lane)
                    case .forget(let lane):
                        known.removeAll { $0 == lane }
                    }
                }
            }
            for _ in 0..<run.commandsPerRun {
                now += Int64.random(in: 0...3, using: &random)
                let lane = known.randomElement(using: &random) ?? 0
                switch Int.random(in: 0..<12, using: &random) {
                case 0 where known.count < 8:
                    known.append(lanes.add(connections: Int.random(in: 1...4, using: &random)))
                case 1 where Int.random(in: 0..<10, using: &random) == 0: note(lanes.remove(lane, now: at(now)))
                case 2...5:
                    let isCall = Int.random(in: 0..<4, using: &random) == 0
                    let (admission, actions) = lanes.enter(lane, asCall: isCall, now: at(now))
                    if admission == .use {
                        users[lane, default: 0] += 1
                        if isCall { calls[lane, default: 0] += 1 }
                    } else if admission == .wait, !isCall, running[lane] != nil, !stopping.contains(lane) {
                        #expect(calls[lane, default: 0] == 0, "a push waits for a call; \(run.replay(seed))")
                    }
                    note(actions)
                case 6, 7:
                    if users[lane, default: 0] > 0 {
                        let isCall = calls[lane, default: 0] == users[lane]
                        users[lane, default: 0] -= 1
                        if isCall { calls[lane, default: 0] -= 1 }
                        note(lanes.leave(lane, asCall: isCall, now: at(now)))
                    }
                case 8:
                    if let (lane, connections) = starting.first {
                        starting[lane] = nil
                        running[lane] = connections
                        let actions = lanes.started(lane, now: at(now))
                        users[lane] = lanes.users(lane)
                        calls[lane] = lanes.calls(lane)
                        note(actions)
                    }
                case 9:
                    // Now and then a client ends by itself, whoever uses it.
                    let isFault = Int.random(in: 0..<8, using: &random) == 0
                    if let lane = isFault ? running.keys.randomElement(using: &random) : stopping.first {
                        stopping.remove(lane)
                        running[lane] = nil
                        note(lanes.ended(lane, keepsWaiting: true, now: at(now)))
                    }
                case 10: note(lanes.giveUp(lane, asCall: Int.random(in: 0..<4, using: &random) == 0, now: at(now)))
                default: note(lanes.sweep(now: at(now)))
                }
                let reserved = starting.values.reduce(0, +) + running.values.reduce(0, +)
                #expect(lanes.used == reserved && reserved <= cap, "\(run.replay(seed))")
                // Nobody waits for room while a lane idles, unless room is on its way.
                let isWanted = known.contains { lanes.state($0) == .queued }
                let idles = running.keys.contains { lanes.state($0) == .running && lanes.users($0) == 0 }
                #expect(!isWanted || !idles || !stopping.isEmpty, "\(run.replay(seed))")
            }
        }
    }
}

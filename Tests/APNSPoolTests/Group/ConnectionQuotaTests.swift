import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool

/// Which of many clients get connections, and when.
struct ConnectionQuotaTests {
    private func at(_ seconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: seconds * 1_000_000_000) }

    private func running(_ count: Int, cap: Int, each: Int) -> ConnectionQuota {
        var quota = ConnectionQuota(cap: cap, idleTimeout: .seconds(600))
        for _ in 0..<count {
            let clientID = quota.add(connections: each)
            _ = quota.enter(clientID, now: at(0))
            _ = quota.started(clientID, now: at(0))
            _ = quota.leave(clientID, now: at(0))
        }
        return quota
    }

    @Test func aClientStartsWithItsFirstUseAndStopsWhenIdle() {
        var quota = ConnectionQuota(cap: 10, idleTimeout: .seconds(600))
        let clientID = quota.add(connections: 4)
        #expect(quota.totalReserved == 0)
        let (admission, actions) = quota.enter(clientID, now: at(0))
        #expect(admission == .wait && actions == [.start(clientID, connections: 4)])
        #expect(quota.started(clientID, now: at(1)) == [])
        #expect(quota.users(clientID) == 1)
        #expect(quota.enter(clientID, now: at(2)).0 == .use)
        #expect(quota.sweep(now: at(5000)) == [])
        _ = quota.leave(clientID, now: at(10))
        _ = quota.leave(clientID, now: at(20))
        #expect(quota.sweep(now: at(619)) == [])
        #expect(quota.sweep(now: at(620)) == [.stop(clientID)])
        #expect(quota.ended(clientID, keepsWaiting: true, now: at(621)) == [])
        #expect(quota.totalReserved == 0 && quota.state(clientID) == .stopped)
    }

    @Test func theLongestIdleClientMakesRoom() {
        var quota = running(2, cap: 8, each: 4)
        _ = quota.enter(1, now: at(1))
        _ = quota.leave(1, now: at(5))
        let third = quota.add(connections: 4)
        let (admission, actions) = quota.enter(third, now: at(6))
        #expect(admission == .wait && actions == [.stop(2)])
        // Room that is already being made is not made twice.
        #expect(quota.enter(third, now: at(6)).1 == [])
        #expect(quota.ended(2, keepsWaiting: true, now: at(7)) == [.start(third, connections: 4)])
    }

    @Test func aBusyClientYieldsWhenItsTurnIsOver() {
        var quota = running(1, cap: 4, each: 4)
        _ = quota.enter(1, now: at(1))
        let second = quota.add(connections: 4)
        let (admission, actions) = quota.enter(second, now: at(2))
        #expect(admission == .wait && actions == [])
        #expect(quota.enter(1, now: at(9)).0 == .use)
        #expect(quota.enter(1, now: at(10)).0 == .wait)
        #expect(quota.state(1) == .yielding)
        #expect(quota.leave(1, now: at(11)) == [])
        #expect(quota.leave(1, now: at(12)) == [.stop(1)])
        // The client queues behind the second one, and gets the remaining connections.
        #expect(
            quota.ended(1, keepsWaiting: true, now: at(13))
                == [.start(second, connections: 3), .start(1, connections: 1)]
        )
    }

    @Test func connectionsAreHandedOutUpToTheCap() {
        var quota = ConnectionQuota(cap: 5, idleTimeout: .seconds(600))
        let all = (0..<7).map { _ in quota.add(connections: 4) }
        var started: [Int] = []
        for clientID in all {
            for case .start(_, let connections) in quota.enter(clientID, now: at(0)).1 {
                started.append(connections)
            }
        }
        #expect(started == [4, 1])
        #expect(quota.totalReserved == 5)
    }

    @Test func aWaiterThatGivesUpIsForgotten() {
        var quota = running(1, cap: 4, each: 4)
        _ = quota.enter(1, now: at(0))
        let second = quota.add(connections: 4)
        _ = quota.enter(second, now: at(0))
        #expect(quota.giveUp(second, now: at(1)) == [])
        #expect(quota.state(second) == .stopped)
        #expect(quota.leave(1, now: at(1)) == [])
        #expect(quota.state(1) == .running)
    }

    @Test("While a call keeps a client from yielding, its pushes continue, and further calls wait")
    func callsAndPushesWhileYielding() {
        var quota = running(1, cap: 4, each: 4)
        _ = quota.enter(1, asCall: true, now: at(0))
        let second = quota.add(connections: 4)
        _ = quota.enter(second, now: at(1))
        #expect(quota.enter(1, now: at(11)).0 == .use)
        #expect(quota.state(1) == .yielding)
        #expect(quota.enter(1, asCall: true, now: at(12)).0 == .wait)
        #expect(quota.enter(1, now: at(13)).0 == .use)
        #expect(quota.leave(1, asCall: true, now: at(14)) == [])
        // Without the call the client can stop soon, so its pushes wait too.
        #expect(quota.enter(1, now: at(15)).0 == .wait)
        #expect(quota.leave(1, now: at(16)) == [])
        #expect(quota.leave(1, now: at(17)) == [.stop(1)])
        #expect(
            quota.ended(1, keepsWaiting: true, now: at(18))
                == [.start(second, connections: 3), .start(1, connections: 1)]
        )
        _ = quota.started(1, now: at(19))
        #expect(quota.users(1) == 2)
    }

    @Test("An idle client makes room although another one is yielding, and the yielding one resumes")
    func idleClientInsteadOfAYieldingOne() {
        var quota = running(2, cap: 2, each: 1)
        _ = quota.enter(1, now: at(1))
        _ = quota.enter(2, now: at(1))
        let third = quota.add(connections: 1)
        _ = quota.enter(third, now: at(2))
        #expect(quota.enter(1, now: at(11)).0 == .wait)
        #expect(quota.state(1) == .yielding)
        #expect(quota.leave(2, now: at(12)) == [.stop(2)])
        #expect(
            quota.ended(2, keepsWaiting: true, now: at(13)) == [.start(third, connections: 1), .resume(1)]
        )
        #expect(quota.state(1) == .running && quota.users(1) == 2)
    }

    @Test("A client stops yielding when all clients that waited for its room have given up")
    func resumedAfterGivingUp() {
        var quota = running(1, cap: 1, each: 1)
        _ = quota.enter(1, now: at(1))
        let second = quota.add(connections: 1)
        _ = quota.enter(second, now: at(2))
        #expect(quota.enter(1, now: at(11)).0 == .wait)
        #expect(quota.giveUp(second, now: at(12)) == [.resume(1)])
        #expect(quota.state(1) == .running && quota.users(1) == 2)
    }

    @Test("Users of a client that ended by itself count until they leave, separately from the users of its next run")
    func usersOfAnEarlierRun() {
        var quota = running(1, cap: 1, each: 1)
        #expect(quota.enter(1, asCall: true, now: at(0)).0 == .use)
        #expect(quota.ended(1, keepsWaiting: true, now: at(1)) == [])
        #expect(quota.enter(1, now: at(2)) == (.wait, [.start(1, connections: 1)]))
        #expect(quota.started(1, now: at(3)) == [])
        let second = quota.add(connections: 1)
        #expect(quota.enter(second, now: at(4)) == (.wait, []))
        // The call of the earlier run ends while a push of this run is in flight.
        #expect(quota.leave(1, asCall: true, now: at(5)) == [])
        #expect(quota.users(1) == 1)
        #expect(quota.leave(1, now: at(6)) == [.stop(1)])
    }

    @Test func aRemovedClientStopsWithItsLastUser() {
        var quota = running(1, cap: 4, each: 4)
        _ = quota.enter(1, now: at(0))
        #expect(quota.remove(1, now: at(1)) == [])
        #expect(quota.enter(1, now: at(1)).0 == .gone)
        #expect(quota.leave(1, now: at(2)) == [.stop(1)])
        #expect(quota.ended(1, keepsWaiting: false, now: at(3)) == [.forget(1)])
        let idle = quota.add(connections: 1)
        #expect(quota.remove(idle, now: at(4)) == [.forget(idle)])
    }

    /// For any order of events: no more connections than allowed, no user counted twice, and no waiting client
    /// forgotten while there is room.
    @Test func anyOrderOfEventsKeepsTheCounts() async {
        let run = PropertyRun(commands: 8_000, runs: 20)
        for seed in run.seeds {
            await TestScale.letOthersRun()
            var random = SeededRandom(seed: seed)
            let cap = Int.random(in: 1...12, using: &random)
            var quota = ConnectionQuota(cap: cap, idleTimeout: .seconds(30))
            var known: [Int] = []
            var users: [Int: Int] = [:]
            var calls: [Int: Int] = [:]
            var starting: [Int: Int] = [:]
            var running: [Int: Int] = [:]
            var stopping: Set<Int> = []
            var now: Int64 = 0
            func note(_ actions: [ConnectionQuota.Action]) {
                for action in actions {
                    switch action {
                    case .start(let clientID, let connections):
                        #expect(
                            connections >= 1 && starting[clientID] == nil && running[clientID] == nil,
                            "\(run.replay(seed))"
                        )
                        starting[clientID] = connections
                    case .stop(let clientID):
                        #expect(running[clientID] != nil && users[clientID, default: 0] == 0, "\(run.replay(seed))")
                        #expect(stopping.insert(clientID).inserted, "\(run.replay(seed))")
                    case .resume(let clientID):
                        #expect(running[clientID] != nil && !stopping.contains(clientID), "\(run.replay(seed))")
                        users[clientID] = quota.users(clientID)
                        calls[clientID] = quota.calls(clientID)
                    case .forget(let clientID):
                        known.removeAll { $0 == clientID }
                    }
                }
            }
            for _ in 0..<run.commandsPerRun {
                now += Int64.random(in: 0...3, using: &random)
                let clientID = known.randomElement(using: &random) ?? 0
                switch Int.random(in: 0..<12, using: &random) {
                case 0 where known.count < 8:
                    known.append(quota.add(connections: Int.random(in: 1...4, using: &random)))
                case 1 where Int.random(in: 0..<10, using: &random) == 0: note(quota.remove(clientID, now: at(now)))
                case 2...5:
                    let isCall = Int.random(in: 0..<4, using: &random) == 0
                    let (admission, actions) = quota.enter(clientID, asCall: isCall, now: at(now))
                    if admission == .use {
                        users[clientID, default: 0] += 1
                        if isCall { calls[clientID, default: 0] += 1 }
                    } else if admission == .wait, !isCall, running[clientID] != nil, !stopping.contains(clientID) {
                        #expect(calls[clientID, default: 0] == 0, "a push waits for a call; \(run.replay(seed))")
                    }
                    note(actions)
                case 6, 7:
                    if users[clientID, default: 0] > 0 {
                        let isCall = calls[clientID, default: 0] == users[clientID]
                        users[clientID, default: 0] -= 1
                        if isCall { calls[clientID, default: 0] -= 1 }
                        note(quota.leave(clientID, asCall: isCall, now: at(now)))
                    }
                case 8:
                    if let (clientID, connections) = starting.first {
                        starting[clientID] = nil
                        running[clientID] = connections
                        let actions = quota.started(clientID, now: at(now))
                        users[clientID] = quota.users(clientID)
                        calls[clientID] = quota.calls(clientID)
                        note(actions)
                    }
                case 9:
                    // Sometimes a client ends by itself, even while it is in use.
                    let isFault = Int.random(in: 0..<8, using: &random) == 0
                    if let clientID = isFault ? running.keys.randomElement(using: &random) : stopping.first {
                        stopping.remove(clientID)
                        running[clientID] = nil
                        note(quota.ended(clientID, keepsWaiting: true, now: at(now)))
                    }
                case 10:
                    note(quota.giveUp(clientID, asCall: Int.random(in: 0..<4, using: &random) == 0, now: at(now)))
                default: note(quota.sweep(now: at(now)))
                }
                let reserved = starting.values.reduce(0, +) + running.values.reduce(0, +)
                #expect(quota.totalReserved == reserved && reserved <= cap, "\(run.replay(seed))")
                // No client waits for room while another is idle, unless room is already being made.
                let isWanted = known.contains { quota.state($0) == .queued }
                let idles = running.keys.contains { quota.state($0) == .running && quota.users($0) == 0 }
                #expect(!isWanted || !idles || !stopping.isEmpty, "\(run.replay(seed))")
            }
        }
    }
}

import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Which of many clients get connections, and when.
struct ConnectionQuotaTests {
    private func at(_ seconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: seconds * 1_000_000_000) }

    private func running(_ count: Int, cap: Int, each: Int) -> ConnectionQuota {
        var quota = ConnectionQuota(cap: cap, connections: each, idleTimeout: .seconds(600))
        for _ in 0..<count {
            let clientID = quota.add()
            _ = quota.enter(clientID, now: at(0))
            _ = quota.started(clientID, now: at(0))
            _ = quota.leave(clientID, now: at(0))
        }
        return quota
    }

    @Test func aClientStartsWithItsFirstUseAndStopsWhenIdle() {
        var quota = ConnectionQuota(cap: 10, connections: 4, idleTimeout: .seconds(600))
        let clientID = quota.add()
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
        let third = quota.add()
        let (admission, actions) = quota.enter(third, now: at(6))
        #expect(admission == .wait && actions == [.stop(2)])
        // Room that is already being made is not made twice.
        #expect(quota.enter(third, now: at(6)).1 == [])
        #expect(quota.ended(2, keepsWaiting: true, now: at(7)) == [.start(third, connections: 4)])
    }

    @Test func aBusyClientYieldsWhenItsTurnIsOver() {
        var quota = running(1, cap: 4, each: 4)
        _ = quota.enter(1, now: at(1))
        let second = quota.add()
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
        var quota = ConnectionQuota(cap: 5, connections: 4, idleTimeout: .seconds(600))
        let all = (0..<7).map { _ in quota.add() }
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
        let second = quota.add()
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
        let second = quota.add()
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
        let third = quota.add()
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
        let second = quota.add()
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
        let second = quota.add()
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
        let idle = quota.add()
        #expect(quota.remove(idle, now: at(4)) == [.forget(idle)])
    }

    @Test("A removed client that still works gets no further connections")
    func aRemovedClientDoesNotGrow() {
        var quota = running(2, cap: 8, each: 2)
        for clientID in 1...2 { _ = quota.enter(clientID, now: at(0)) }
        #expect(quota.remove(1, now: at(1)) == [])
        quota.resize(to: 5)
        #expect([1, 2].map { quota.connections($0) } == [2, 5])
        quota.resize(to: 1)
        #expect([1, 2].map { quota.connections($0) } == [1, 1])
    }

    @Test("A larger number of connections is shared by the running clients, as far as there is room")
    func grows() {
        var quota = running(2, cap: 7, each: 2)
        let idle = quota.add()
        quota.resize(to: 5)
        #expect([1, 2, idle].map { quota.connections($0) } == [3, 4, 0])
        #expect(quota.totalReserved == 7)
        // What becomes free goes to the clients that have too few.
        #expect(quota.ended(2, keepsWaiting: true, now: at(1)) == [.grow(1)])
        #expect(quota.connections(1) == 5 && quota.totalReserved == 5)
    }

    @Test("The clients with the fewest connections get the most")
    func growsFairly() {
        var quota = ConnectionQuota(cap: 12, connections: 6, idleTimeout: .seconds(600))
        for room in [6, 6, 0] {
            let clientID = quota.add()
            let expected: [ConnectionQuota.Action] = room > 0 ? [.start(clientID, connections: room)] : []
            #expect(quota.enter(clientID, now: at(0)).1 == expected)
        }
        // The first client ends by itself, and the third one takes its connections.
        #expect(quota.ended(1, keepsWaiting: false, now: at(1)) == [.start(3, connections: 6)])
        quota.resize(to: 1)
        for clientID in 2...3 { #expect(quota.applied(clientID, connections: 1, surplus: 0, now: at(2)) == []) }
        #expect(quota.totalReserved == 2)
        for _ in 4...6 {
            let clientID = quota.add()
            #expect(quota.enter(clientID, now: at(3)).1 == [.start(clientID, connections: 1)])
        }
        quota.resize(to: 4)
        #expect((2...6).map { quota.connections($0) } == [2, 2, 2, 3, 3])
        quota.resize(to: 2)
        for clientID in 5...6 { _ = quota.applied(clientID, connections: 2, surplus: 0, now: at(4)) }
        #expect(quota.ended(2, keepsWaiting: false, now: at(5)) == [])
        quota.resize(to: 3)
        #expect((3...6).map { quota.connections($0) } == [3, 3, 3, 3])
        #expect(quota.totalReserved == 12)
    }

    @Test("A surplus connection stays reserved until it is closed, and then goes to a client that waits")
    func shrinks() {
        var quota = running(1, cap: 4, each: 4)
        _ = quota.enter(1, now: at(1))
        let second = quota.add()
        #expect(quota.enter(second, now: at(2)) == (.wait, []))
        quota.resize(to: 2)
        #expect(quota.connections(1) == 2 && quota.totalReserved == 4)
        // What the client reports of its earlier number has no effect.
        #expect(quota.applied(1, connections: 4, surplus: 0, now: at(3)) == [])
        #expect(quota.applied(1, connections: 2, surplus: 2, now: at(3)) == [])
        #expect(quota.totalReserved == 4)
        #expect(quota.applied(1, connections: 2, surplus: 1, now: at(4)) == [.start(second, connections: 1)])
        #expect(quota.applied(1, connections: 2, surplus: 0, now: at(5)) == [.grow(second)])
        #expect(quota.connections(second) == 2 && quota.totalReserved == 4)
    }

    @Test("A client that grows while its surplus connections close gets no connection twice")
    func growsWhileShrinking() {
        var quota = running(1, cap: 4, each: 4)
        quota.resize(to: 1)
        quota.resize(to: 3)
        // No room: three connections may still be open.
        #expect(quota.connections(1) == 1 && quota.totalReserved == 4)
        #expect(quota.applied(1, connections: 1, surplus: 2, now: at(1)) == [.grow(1)])
        #expect(quota.connections(1) == 2 && quota.totalReserved == 4)
        #expect(quota.applied(1, connections: 1, surplus: 1, now: at(2)) == [])
        #expect(quota.applied(1, connections: 2, surplus: 1, now: at(2)) == [.grow(1)])
        #expect(quota.connections(1) == 3 && quota.totalReserved == 4)
        #expect(quota.applied(1, connections: 3, surplus: 0, now: at(3)) == [])
        #expect(quota.connections(1) == 3 && quota.totalReserved == 3)
    }

    @Test("A client that shrinks while it starts or stops gives its connections back")
    func shrinksInOtherStates() {
        var quota = ConnectionQuota(cap: 8, connections: 4, idleTimeout: .seconds(600))
        let clients = (0..<2).map { _ in quota.add() }
        for clientID in clients { _ = quota.enter(clientID, now: at(0)) }
        _ = quota.started(clients[1], now: at(0))
        _ = quota.leave(clients[1], now: at(0))
        #expect(quota.sweep(now: at(600)) == [.stop(clients[1])])
        quota.resize(to: 1)
        #expect(quota.state(clients[0]) == .starting && quota.state(clients[1]) == .stopping)
        #expect(quota.applied(clients[0], connections: 1, surplus: 0, now: at(601)) == [])
        #expect(quota.totalReserved == 5)
        // A client that stops does not grow.
        quota.resize(to: 2)
        #expect(clients.map { quota.connections($0) } == [2, 1])
        #expect(quota.ended(clients[1], keepsWaiting: true, now: at(602)) == [])
        #expect(quota.totalReserved == 2)
    }

    @Test("While a client is queued, no other one grows")
    func queuedBeforeGrowing() {
        var quota = running(1, cap: 4, each: 3)
        _ = quota.enter(1, now: at(0))
        let second = quota.add()
        #expect(quota.enter(second, now: at(1)).1 == [.start(second, connections: 1)])
        _ = quota.started(second, now: at(1))
        let third = quota.add()
        _ = quota.enter(third, now: at(1))
        quota.resize(to: 2)
        #expect([1, second, third].map { quota.connections($0) } == [2, 1, 0])
        #expect(quota.applied(1, connections: 2, surplus: 0, now: at(2)) == [.start(third, connections: 1)])
        #expect(quota.giveUp(third, now: at(3)) == [])
        #expect(quota.started(third, now: at(4)) == [])
        #expect(quota.ended(third, keepsWaiting: false, now: at(5)) == [.grow(second)])
        #expect([1, second, third].map { quota.connections($0) } == [2, 2, 0])
    }
}

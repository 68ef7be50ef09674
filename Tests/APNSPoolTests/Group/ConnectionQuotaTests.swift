import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

struct ConnectionQuotaTests {
    private typealias Load = ConnectionQuota.Load

    private func at(_ seconds: Double) -> MonotonicInstant { MonotonicInstant(nanoseconds: Int64(seconds * 1e9)) }

    /// A quota with this number of clients that run since 0 s.
    private func running(_ count: Int, cap: Int, each: Int) -> ConnectionQuota {
        var quota = ConnectionQuota(cap: cap, connections: each, idleTimeout: .seconds(600))
        for _ in 0..<count {
            let clientID = quota.add()
            #expect(quota.enter(clientID, now: self.at(0)) == .wait)
            _ = quota.decide(now: self.at(0)) { _ in Load() }
            quota.started(clientID, now: self.at(0))
        }
        return quota
    }

    /// The decision at an instant; clients that are not in `loads` are idle.
    private func decide(
        _ quota: inout ConnectionQuota,
        at seconds: Double,
        _ loads: [Int: Load] = [:]
    ) -> [ConnectionQuota.Action] {
        quota.decide(now: self.at(seconds)) { loads[$0] ?? Load() }
    }

    @Test func aClientStartsWithItsFirstUseAndStopsWhenIdle() {
        var quota = ConnectionQuota(cap: 4, connections: 2, idleTimeout: .seconds(60))
        let one = quota.add()
        #expect(quota.enter(one, now: self.at(0)) == .wait)
        #expect(self.decide(&quota, at: 0) == [.start(one, connections: 2)])
        quota.started(one, now: self.at(1))
        #expect(quota.enter(one, now: self.at(2)) == .use)
        #expect(self.decide(&quota, at: 30, [one: Load(pushes: 1)]) == [])
        // A push that came and went between two decisions counts as use.
        #expect(self.decide(&quota, at: 60, [one: Load(ended: 2)]) == [])
        #expect(self.decide(&quota, at: 119, [one: Load(ended: 2)]) == [])
        #expect(self.decide(&quota, at: 120, [one: Load(ended: 2)]) == [.stop(one)])
        #expect(quota.enter(one, now: self.at(120)) == .wait)
        #expect(quota.ended(one, keepsWaiting: true) == [])
        #expect(self.decide(&quota, at: 121) == [.start(one, connections: 2)])
    }

    @Test func theLongestIdleClientMakesRoom() {
        var quota = self.running(3, cap: 3, each: 1)
        _ = self.decide(&quota, at: 2, [1: Load(ended: 1)])
        _ = self.decide(&quota, at: 3, [1: Load(ended: 1), 3: Load(ended: 1)])
        let new = quota.add()
        #expect(quota.enter(new, now: self.at(4)) == .wait)
        // The second client was never used.
        #expect(self.decide(&quota, at: 4, [1: Load(ended: 1), 3: Load(ended: 1)]) == [.stop(2)])
        _ = quota.ended(2, keepsWaiting: true)
        #expect(self.decide(&quota, at: 4, [1: Load(ended: 1), 3: Load(ended: 1)]) == [.start(new, connections: 1)])
    }

    @Test("A client that has just started does not make room, even if it is idle")
    func newClientStays() {
        var quota = self.running(1, cap: 1, each: 1)
        let new = quota.add()
        _ = quota.enter(new, now: self.at(0.2))
        #expect(self.decide(&quota, at: 0.9) == [])
        #expect(self.decide(&quota, at: 1) == [.stop(1)])
    }

    @Test("While others wait, a busy client stops after its time; one for each that waits")
    func busyClientsTakeTurns() {
        var quota = self.running(3, cap: 3, each: 1)
        let busy = [1: Load(pushes: 9), 2: Load(pushes: 9), 3: Load(pushes: 9)]
        let new = [quota.add(), quota.add()]
        for clientID in new { _ = quota.enter(clientID, now: self.at(5)) }
        #expect(self.decide(&quota, at: 9, busy) == [])
        #expect(quota.enter(1, now: self.at(9)) == .use)
        #expect(self.decide(&quota, at: 10, busy) == [.stop(1), .stop(2)])
        #expect(self.decide(&quota, at: 11, busy) == [])
        // The client that had its turn waits behind the others.
        #expect(quota.enter(1, now: self.at(11)) == .wait)
        _ = quota.ended(1, keepsWaiting: true)
        #expect(self.decide(&quota, at: 12, busy) == [.start(new[0], connections: 1), .stop(3)])
    }

    @Test("A call is not interrupted; pushes go on beside it, further calls wait, and then the client makes room")
    func calls() {
        var quota = self.running(1, cap: 1, each: 1)
        let new = quota.add()
        _ = quota.enter(new, now: self.at(11))
        let load = [1: Load(pushes: 3, calls: 1)]
        #expect(self.decide(&quota, at: 11, load) == [])
        #expect(quota.enter(1, now: self.at(11)) == .use)
        #expect(quota.enter(1, asCall: true, now: self.at(11)) == .wait)
        #expect(self.decide(&quota, at: 3600, load) == [])
        #expect(self.decide(&quota, at: 3601, [1: Load(pushes: 3)]) == [.stop(1)])
        _ = quota.ended(1, keepsWaiting: true)
        #expect(self.decide(&quota, at: 3602) == [.start(new, connections: 1)])
        #expect(quota.state(1) == .queued && quota.waiting(1) == 1)
    }

    @Test("A call that waits for its running client goes on when nobody else waits any more")
    func resumedCall() {
        var quota = self.running(1, cap: 1, each: 1)
        let new = quota.add()
        _ = quota.enter(new, now: self.at(11))
        let load = [1: Load(calls: 1)]
        #expect(quota.enter(1, asCall: true, now: self.at(11)) == .wait)
        quota.giveUp(new)
        #expect(self.decide(&quota, at: 12, load) == [.resume(1)])
        #expect(quota.enter(1, asCall: true, now: self.at(12)) == .use)
    }

    @Test("A waiter that gives up is forgotten, and an urgent one comes first")
    func givingUpAndUrgency() {
        var quota = self.running(1, cap: 1, each: 1)
        let (first, second, urgent) = (quota.add(), quota.add(), quota.add())
        _ = quota.enter(first, now: self.at(0))
        _ = quota.enter(second, now: self.at(0))
        _ = quota.enter(urgent, isUrgent: true, now: self.at(0))
        quota.giveUp(first)
        #expect(quota.state(first) == .stopped)
        #expect(self.decide(&quota, at: 1) == [.stop(1)])
        _ = quota.ended(1, keepsWaiting: true)
        #expect(self.decide(&quota, at: 1) == [.start(urgent, connections: 1)])
        #expect(quota.state(second) == .queued)
    }

    @Test("A removed client stops when its calls have ended, and is forgotten")
    func removal() {
        var quota = self.running(1, cap: 2, each: 1)
        #expect(quota.remove(1) == [] && quota.isPressing)
        #expect(quota.enter(1, now: self.at(1)) == .gone)
        #expect(self.decide(&quota, at: 1, [1: Load(pushes: 2, calls: 1)]) == [])
        #expect(self.decide(&quota, at: 2, [1: Load(pushes: 2)]) == [.stop(1)])
        #expect(quota.ended(1, keepsWaiting: true) == [.forget(1)])
        #expect(quota.totalReserved == 0 && !quota.isPressing)
        let idle = quota.add()
        #expect(quota.remove(idle) == [.forget(idle)])
    }

    @Test("Connections are given out up to the limit; free ones go to the clients with the fewest")
    func grows() {
        var quota = self.running(2, cap: 5, each: 3)
        #expect(quota.connections(1) == 3 && quota.connections(2) == 2 && quota.totalReserved == 5)
        let third = quota.add()
        _ = quota.enter(third, now: self.at(1))
        let busy = [2: Load(pushes: 1)]
        #expect(self.decide(&quota, at: 1, busy) == [.stop(1)])
        _ = quota.ended(1, keepsWaiting: true)
        #expect(self.decide(&quota, at: 2, busy) == [.start(third, connections: 3)])
        quota.started(third, now: self.at(2))
        quota.resize(to: 1)
        quota.applied(third, connections: 1, surplus: 0)
        quota.applied(2, connections: 1, surplus: 0)
        #expect(quota.totalReserved == 2)
        quota.resize(to: 4)
        #expect(self.decide(&quota, at: 3, busy) == [.grow(2)])
        #expect(quota.connections(2) == 4 && quota.connections(third) == 1 && quota.totalReserved == 5)
    }

    @Test("A surplus connection stays reserved until it is closed, and then goes to a client that waits")
    func shrinks() {
        var quota = self.running(1, cap: 3, each: 3)
        let busy = [1: Load(pushes: 1)]
        quota.resize(to: 1)
        #expect(quota.connections(1) == 1 && quota.totalReserved == 3)
        let new = quota.add()
        _ = quota.enter(new, now: self.at(1))
        #expect(self.decide(&quota, at: 1, busy) == [])
        // A report of an earlier size has no effect.
        quota.applied(1, connections: 3, surplus: 0)
        #expect(quota.totalReserved == 3)
        quota.applied(1, connections: 1, surplus: 1)
        #expect(self.decide(&quota, at: 1, busy) == [.start(new, connections: 1)])
        quota.applied(1, connections: 1, surplus: 0)
        #expect(quota.totalReserved == 2)
    }
}

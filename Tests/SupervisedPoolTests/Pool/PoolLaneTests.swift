import TestSupport
import Testing

@testable import SupervisedPool

struct PoolLaneTests {
    @Test func bulkLeavesAFifthOfAWorkersStreamsFree() throws {
        var bench = PoolBench.ready(.init(maxOverflow: 0), capacities: [100])
        #expect(bench.checkout(wanted: 500, lane: .bulk).count == 80)
        #expect(bench.checkout(wanted: 1, lane: .bulk).waiter != nil)
        for _ in 0..<20 { #expect(bench.checkout().origin != nil) }
        #expect(bench.checkout().waiter != nil)
    }

    @Test(arguments: [(1, 1), (4, 4), (5, 4), (9, 8), (10, 8)])
    func theInteractiveReserveIsRoundedDown(_ capacity: Int, _ forBulk: Int) {
        var bench = PoolBench.ready(.init(maxOverflow: 0), capacities: [capacity])
        #expect(bench.checkout(wanted: 500, lane: .bulk).count == forBulk)
    }

    @Test func interactiveLeasesReduceTheCapacityForBulk() {
        var bench = PoolBench.ready(.init(maxOverflow: 0), capacities: [10])
        for _ in 0..<7 { _ = bench.checkout() }
        #expect(bench.checkout(wanted: 5, lane: .bulk).count == 1)
        #expect(bench.checkout(wanted: 5, lane: .bulk).waiter != nil)
        #expect(bench.checkout().origin != nil)
    }

    @Test func waitingBulkWorkDoesNotBlockInteractiveCheckouts() throws {
        var bench = PoolBench.ready(.init(maxOverflow: 0), capacities: [10])
        _ = bench.checkout(wanted: 8, lane: .bulk)
        let bulk = try #require(bench.checkout(wanted: 8, lane: .bulk).waiter)
        #expect(bench.checkout().origin != nil)
        #expect(bench.leases[bulk] == nil)
    }

    @Test func aWaitingInteractiveCheckoutIsServedBeforeBulkWork() throws {
        var bench = PoolBench.ready(.init(maxOverflow: 0, interactiveReservePercent: 0), capacities: [4])
        let lease = try #require(bench.checkout(wanted: 4, lane: .bulk).origin)
        let batch = try #require(bench.checkout(wanted: 4, lane: .bulk).waiter)
        let code = try #require(bench.checkout().waiter)
        let resent = try #require(bench.checkout(atFront: true).waiter)
        bench.checkin(lease)
        #expect(bench.leases[resent] != nil && bench.leases[code] == nil && bench.leases[batch] == nil)
        bench.checkin(lease)
        #expect(bench.leases[code] != nil && bench.leases[batch] == nil)
        bench.checkin(lease)
        #expect(bench.leases[batch]?.count == 1)
    }

    @Test("Resent bulk work is served before other bulk work and after interactive work")
    func resentBulkWork() throws {
        var bench = PoolBench.ready(.init(maxOverflow: 0, interactiveReservePercent: 50), capacities: [4])
        let lease = try #require(bench.checkout(wanted: 2, lane: .bulk).origin)
        #expect(bench.checkout(wanted: 2).count == 2)
        let bulk = try #require(bench.checkout(lane: .bulk).waiter)
        let resent = try #require(bench.checkout(lane: .bulk, atFront: true).waiter)
        let code = try #require(bench.checkout().waiter)
        #expect(bench.machine.status(bench.now).bulkQueueDepth == 2)
        bench.checkin(lease)
        #expect(bench.leases[code] != nil && bench.leases[resent] == nil)
        bench.checkin(lease, 2)
        #expect(bench.leases[resent] == nil, "resent bulk work uses the interactive reserve")
        bench.checkin(lease)
        #expect(bench.leases[resent] != nil && bench.leases[bulk] == nil)
        bench.checkin(lease)
        #expect(bench.leases[bulk] != nil)
    }

    @Test func bulkCallersShareTheCapacityEqually() throws {
        var bench = PoolBench.ready(.init(maxOverflow: 0), capacities: [100])
        // The first caller holds all streams. Each return is shared with the second caller, which has waited.
        let all = try #require(bench.checkout(wanted: 500, lane: .bulk).origin)
        var held = [80, 0]
        var waiters = [WaiterID?](repeating: nil, count: 2)
        for round in 0..<40 {
            for caller in [1, 0] where waiters[caller] == nil {
                waiters[caller] = bench.checkout(wanted: 64, lane: .bulk).waiter
                #expect(waiters[caller] != nil, "round \(round)")
            }
            // A tenth of each caller's streams ends.
            let ended = held.map { ($0 + 9) / 10 }
            for caller in 0..<2 { held[caller] -= ended[caller] }
            bench.checkin(all, ended.reduce(0, +))
            for caller in 0..<2 {
                guard let waiter = waiters[caller], let origin = bench.leases[waiter] else { continue }
                held[caller] += origin.count
                waiters[caller] = nil
            }
            #expect(held.reduce(0, +) <= 80)
        }
        #expect(abs(held[0] - held[1]) <= 10, "\(held)")
    }
}

struct PoolPrewarmTests {
    @Test func prewarmConnectsOneAtATimeAndReportsWhenAllAreReady() throws {
        var bench = PoolBench(.init(size: 1, maxOverflow: 3))
        for index in 0..<4 { bench.register(index) }
        bench.report(.connecting, 0)
        bench.report(.ready(capacity: 100), 0)
        _ = bench.takeLog()
        bench.machine.prewarm(3)
        bench.settle()
        let observer = try #require(bench.observe(ready: 3, within: .seconds(30)).waiter)
        bench.advance(.seconds(2))
        #expect(bench.takeLog() == ["connect 1 prewarm"])
        bench.report(.connecting, 1)
        bench.advance(.seconds(2))
        #expect(bench.takeLog().isEmpty)
        bench.report(.ready(capacity: 100), 1)
        bench.advance(.seconds(2))
        #expect(bench.takeLog() == ["connect 2 prewarm"])
        bench.report(.ready(capacity: 100), 2)
        #expect(bench.reached == [observer])
        bench.advance(.seconds(10))
        #expect(!bench.takeLog().contains { $0.hasPrefix("connect") })
    }

    @Test func prewarmReachesWorkersThatRegisterLater() throws {
        var bench = PoolBench(.init(size: 0, maxOverflow: 2))
        bench.machine.prewarm(2)
        let observer = try #require(bench.observe(ready: 2, within: .seconds(5)).waiter)
        for index in 0..<2 { bench.register(index) }
        // A caller waits for it already.
        #expect(bench.takeLog() == ["connect 0 use"])
        bench.report(.ready(capacity: 1), 0)
        bench.advance(.seconds(2))
        #expect(bench.takeLog() == ["connect 1 prewarm"])
        bench.advance(.seconds(3))
        #expect(bench.failures[observer]?.code == .notReady)
        #expect(bench.failures[observer]?.description.contains("fewer workers than wanted") == true)
    }

    @Test func theFasterOfEquallyLoadedWorkersServes() {
        var bench = PoolBench.ready(.init(size: 3, maxOverflow: 0), capacities: [10, 10, 10])
        bench.report(.latency(.milliseconds(40)), 0)
        bench.report(.latency(.milliseconds(20)), 1)
        bench.report(.latency(.milliseconds(30)), 2)
        #expect((0..<3).map { _ in bench.checkout().index } == [1, 2, 0])
        #expect(bench.machine.status(bench.now).workers[1].latency == .milliseconds(20))
        bench.report(.ready(capacity: 10), 1)
        #expect(bench.machine.status(bench.now).workers[1].latency == nil)
    }

    @Test func theStatusDescriptionFitsOneLine() {
        var bench = PoolBench.ready(.init(size: 1, maxOverflow: 1), capacities: [10, 5])
        bench.report(.latency(.milliseconds(42)), 0)
        bench.advance(.seconds(90))
        _ = bench.checkout()
        #expect(
            bench.machine.status(bench.now).description == """
                overflow, 1/15 streams leased, 0 waiting (0 bytes), workers [0.1 ready 1/10, 90 s old, \
                responds in 42 ms, 1.1 ready 0/5, 90 s old, overflow]
                """
        )
    }
}

import TestSupport
import Testing

@testable import SupervisedPool

struct PoolCheckoutTests {
    @Test func freeStreamsAreLeasedAtOnce() {
        var bench = PoolBench.ready(.init(maxOverflow: 0, maximumLifetime: nil), capacities: [2])
        #expect(bench.checkout().index == 0)
        #expect(bench.checkout().index == 0)
        #expect(bench.checkout().waiter != nil)
        #expect(bench.machine.status(bench.now).leased == 2)
    }

    @Test func aReturnedStreamGoesToTheFirstWaiter() throws {
        var bench = PoolBench.ready(.init(maxOverflow: 0), capacities: [2])
        let lease = try #require(bench.checkout().origin)
        _ = bench.checkout()
        let first = try #require(bench.checkout().waiter)
        let second = try #require(bench.checkout().waiter)
        bench.checkin(lease)
        #expect(bench.leases[first] != nil && bench.leases[second] == nil)
    }

    @Test func resentWorkIsServedFirst() throws {
        var bench = PoolBench.ready(.init(maxOverflow: 0, maxWaiters: 1), capacities: [2])
        let lease = try #require(bench.checkout(wanted: 2).origin)
        let normal = try #require(bench.checkout().waiter)
        let resent = try #require(bench.checkout(atFront: true).waiter)
        let resentLater = try #require(bench.checkout(atFront: true).waiter)
        bench.checkin(lease, 2)
        #expect(bench.leases.keys.contains(resent) && bench.leases.keys.contains(resentLater))
        #expect(bench.leases[normal] == nil)
    }

    @Test func theQueueIsLimitedByCountAndBytes() {
        var bench = PoolBench.ready(.init(maxOverflow: 0, maxWaiters: 2, maxQueuedBytes: 100), capacities: [0])
        #expect(bench.checkout(bytes: 60).waiter != nil)
        #expect(bench.checkout(bytes: 60).code == .queueFull)
        #expect(bench.checkout(bytes: 40).waiter != nil)
        #expect(bench.checkout().code == .queueFull)
        #expect(bench.checkout(bytes: .max, atFront: true).waiter != nil)
        bench.advance(.seconds(30))
        #expect(bench.machine.queue.bytes == 0 && bench.machine.queue.count == 0)
    }

    @Test func aNonBlockingCheckoutFailsIfThePoolIsFull() {
        var bench = PoolBench.ready(.init(maxOverflow: 0), capacities: [1])
        _ = bench.checkout()
        guard case .failed(let error) = bench.checkout(block: false) else {
            Issue.record("not refused")
            return
        }
        #expect(error.code == .full)
        #expect(error.status.state == .full)
        #expect(error.description.contains("raise size or maxOverflow"))
    }

    @Test func anExpiredDeadlineFailsEvenWithAFreeStream() {
        var bench = PoolBench.ready(.init(), capacities: [1])
        #expect(bench.checkout(within: .zero).code == .timedOut)
    }

    @Test func aWaiterFailsAtItsDeadlineAndReportsItsWait() throws {
        var bench = PoolBench.ready(.init(maxOverflow: 0), capacities: [0])
        let late = try #require(bench.checkout(within: .seconds(20)).waiter)
        let soon = try #require(bench.checkout(within: .seconds(5)).waiter)
        bench.advance(.seconds(5))
        #expect(bench.failures[soon]?.code == .timedOut)
        #expect(bench.failures[soon]?.waited == .seconds(5))
        #expect(bench.failures[late] == nil)
        bench.advance(.seconds(15))
        #expect(bench.failures[late]?.waited == .seconds(20))
    }

    @Test func onlyAWaiterWithoutALeaseCanBeCancelled() throws {
        var bench = PoolBench.ready(.init(maxOverflow: 0), capacities: [1])
        let lease = try #require(bench.checkout().origin)
        let first = try #require(bench.checkout().waiter)
        let second = try #require(bench.checkout().waiter)
        bench.cancel(first)
        bench.checkin(lease)
        #expect(bench.failures[first]?.code == .cancelled)
        #expect(bench.leases[second] != nil)
        bench.cancel(second)
        #expect(bench.failures[second] == nil)
    }

    @Test func leastLoadedSpreadsLeases() {
        var bench = PoolBench.ready(.init(size: 2, maxOverflow: 0), capacities: [10, 20])
        var counts = [0, 0]
        for _ in 0..<15 { counts[bench.checkout().index ?? 0] += 1 }
        #expect(counts == [5, 10])
    }

    @Test func lifoFillsOneWorkerBeforeTheNext() {
        var bench = PoolBench.ready(.init(size: 1, maxOverflow: 1, strategy: .lifo), capacities: [2, 2])
        let leases = (0..<4).map { _ in bench.checkout() }
        #expect(leases.map(\.index) == [0, 0, 1, 1])
        if let origin = leases[0].origin { bench.checkin(origin) }
        if let origin = leases[2].origin { bench.checkin(origin) }
        #expect(bench.checkout().index == 0)
    }

    @Test func fifoRotatesThroughTheWorkers() {
        var bench = PoolBench.ready(.init(size: 3, maxOverflow: 0, strategy: .fifo), capacities: [5, 5, 5])
        #expect((0..<6).map { _ in bench.checkout().index } == [0, 1, 2, 0, 1, 2])
    }

    @Test func aBulkCallerLeavesOtherCallersTheirShare() throws {
        var bench = PoolBench.ready(.init(size: 2, maxOverflow: 0), capacities: [100, 100])
        #expect(bench.checkout(wanted: 64).count == 64)
        // 136 streams are free on two workers: 68 for each worker.
        #expect(bench.checkout(wanted: 500).count == 68)
        let all = PoolBench.ready(.init(maxOverflow: 0), capacities: [9])
        var alone = all
        let origin = try #require(alone.checkout(wanted: 9).origin)
        let first = try #require(alone.checkout(wanted: 64).waiter)
        let second = try #require(alone.checkout(wanted: 64).waiter)
        alone.checkin(origin, 9)
        #expect(alone.leases[first]?.count == 5)
        #expect(alone.leases[second]?.count == 4)
    }

    @Test func aDrainRefusesOnlyNewWork() throws {
        var bench = PoolBench.ready(.init(maxOverflow: 0), capacities: [1])
        let lease = try #require(bench.checkout().origin)
        let waiter = try #require(bench.checkout().waiter)
        bench.machine.drain()
        #expect(bench.checkout().code == .shuttingDown)
        bench.checkin(lease)
        #expect(bench.leases[waiter] != nil)
        #expect(bench.checkout(atFront: true).waiter != nil)
    }

    @Test func stopFailsAllWaiters() throws {
        var bench = PoolBench.ready(.init(maxOverflow: 0), capacities: [0])
        let waiter = try #require(bench.checkout().waiter)
        var actions: [PoolAction] = []
        bench.machine.stop(now: bench.now, into: &actions)
        bench.perform(actions)
        #expect(bench.failures[waiter]?.code == .poolStopped)
        #expect(bench.checkout().code == .poolStopped)
    }

    @Test func deadlinesOfManyShortWaitsDoNotAccumulate() {
        var queue = WaiterQueue()
        let now = MonotonicInstant(nanoseconds: 0)
        for step in 0..<100_000 {
            let id = queue.append(
                .init(wanted: 1, bytes: 1, deadline: now.advanced(by: .seconds(step)), since: now, list: .bulk)
            )
            if step > 0 { #expect(queue.remove(id) != nil) }
        }
        #expect(queue.earliestDeadline == now)
        #expect(queue.count == 1 && queue.bytes == 1)
    }
}

struct PoolConnectionTests {
    @Test func aLateReturnDoesNotCountForTheNewConnection() throws {
        var bench = PoolBench.ready(.init(maxOverflow: 0), capacities: [2])
        let old = try #require(bench.checkout(wanted: 2).origin)
        bench.report(.draining, 0)
        #expect(bench.checkout(block: false).code == .full)
        bench.report(.ready(capacity: 2), 0)
        let new = try #require(bench.checkout().origin)
        #expect(new.connection == old.connection + 1)
        bench.checkin(old, 2)
        let worker = bench.machine.status(bench.now).workers[0]
        #expect(worker.leased == 1 && worker.leasedOfEarlierConnections == 0)
        #expect(bench.machine.inconsistency == nil)
    }

    @Test func returnsAreCountedWhileDrainingAndAfterALoss() throws {
        var bench = PoolBench.ready(.init(maxOverflow: 0), capacities: [4])
        let lease = try #require(bench.checkout(wanted: 4).origin)
        bench.report(.draining, 0)
        bench.checkin(lease)
        #expect(bench.machine.status(bench.now).workers[0].leased == 3)
        bench.report(.connecting, 0)
        bench.checkin(lease)
        #expect(bench.machine.status(bench.now).workers[0].leasedOfEarlierConnections == 2)
        bench.checkin(lease, 2)
        #expect(bench.machine.inconsistency == nil)
    }

    @Test func aStreamReturnedTwiceBreaksThePool() throws {
        var bench = PoolBench.ready(.init(), capacities: [2])
        let lease = try #require(bench.checkout().origin)
        bench.checkin(lease)
        bench.checkin(lease)
        #expect(bench.machine.inconsistency != nil)
    }

    @Test func leasesOfAnEarlierGenerationAreIgnored() throws {
        var bench = PoolBench.ready(.init(maxOverflow: 0), capacities: [2])
        let lease = try #require(bench.checkout().origin)
        bench.register(0, 2)
        bench.report(.ready(capacity: 9), 0, 1)
        #expect(bench.machine.status(bench.now).workers[0].state == .idle)
        bench.report(.ready(capacity: 2), 0, 2)
        bench.checkin(lease)
        #expect(bench.machine.inconsistency == nil)
        #expect(bench.machine.status(bench.now).leased == 0)
        bench.register(0, 1)
        #expect(bench.machine.status(bench.now).workers[0].id.generation == 2)
    }

    @Test func leasesOfAGoneWorkerAreIgnored() throws {
        var bench = PoolBench.ready(.init(maxOverflow: 0), capacities: [2])
        let lease = try #require(bench.checkout().origin)
        bench.report(.gone, 0)
        bench.checkin(lease)
        #expect(bench.machine.inconsistency == nil)
        #expect(bench.machine.status(bench.now).workers[0].state == .absent)
        bench.register(0, 1)
        bench.report(.ready(capacity: 2), 0, 1)
        bench.checkin(lease)
        #expect(bench.machine.inconsistency == nil && bench.machine.status(bench.now).leased == 0)
    }

    @Test func capacityBelowTheLeasesStopsLeasingUntilTheyFit() throws {
        var bench = PoolBench.ready(.init(maxOverflow: 0), capacities: [4])
        let lease = try #require(bench.checkout(wanted: 4).origin)
        bench.report(.capacity(2), 0)
        let waiter = try #require(bench.checkout().waiter)
        bench.checkin(lease, 2)
        #expect(bench.leases[waiter] == nil)
        bench.checkin(lease)
        #expect(bench.leases[waiter] != nil)
        bench.report(.capacity(-7), 0)
        #expect(bench.checkout(block: false).code == .full)
    }

    @Test func growingCapacityServesWaiters() throws {
        var bench = PoolBench.ready(.init(maxOverflow: 0), capacities: [1])
        _ = bench.checkout()
        let waiters = (0..<5).compactMap { _ in bench.checkout().waiter }
        bench.report(.capacity(1000), 0)
        #expect(waiters.allSatisfy { bench.leases[$0] != nil })
    }

    @Test func invalidInputsAreIgnored() {
        var bench = PoolBench.ready(.init(maxOverflow: 0), capacities: [1])
        bench.register(1000)
        bench.register(-1)
        bench.report(.ready(capacity: 5), 7)
        #expect(bench.machine.workers.count == 1)
        bench.checkin(LeaseOrigin(worker: WorkerID(index: 99, generation: 1), connection: 1))
        bench.checkin(LeaseOrigin(worker: WorkerID(index: 0, generation: 1), connection: 1), -3)
        #expect(bench.machine.inconsistency == nil)
        let empty = PoolStateMachine(PoolConfiguration(size: -4, maxOverflow: .max))
        #expect(empty.workers.count == 1000)
    }
}

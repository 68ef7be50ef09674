import TestSupport
import Testing

@testable import SupervisedPool

/// A pool whose configuration changes while it runs.
struct PoolReconfigureTests {
    private func configuration(_ size: Int, _ overflow: Int = 0) -> PoolConfiguration {
        PoolConfiguration(size: size, maxOverflow: overflow, interactiveReservePercent: 0, connectSpacing: .zero)
    }

    private func change(_ bench: inout PoolBench, _ configuration: PoolConfiguration) {
        bench.machine.reconfigure(configuration)
        bench.settle()
    }

    @Test func growingConnectsTheNewWorkersOneAtATime() {
        var bench = PoolBench.ready(configuration(1), capacities: [10])
        change(&bench, configuration(3))
        #expect(bench.takeLog().isEmpty)
        bench.register(1)
        bench.register(2)
        #expect(bench.takeLog() == ["connect 1 keep"])
        bench.report(.connecting, 1)
        bench.report(.ready(capacity: 10), 1)
        #expect(bench.takeLog() == ["connect 2 keep"])
        #expect(bench.machine.status(bench.now).workers.map(\.isOverflow) == [false, false, false])
    }

    @Test func anOverflowWorkerThatBecomesABaseWorkerStaysConnected() {
        var bench = PoolBench(configuration(1, 1))
        bench.register(0)
        bench.report(.ready(capacity: 10), 0)
        bench.register(1)
        _ = bench.takeLog()
        change(&bench, configuration(2))
        #expect(bench.takeLog() == ["connect 1 keep"])
        bench.report(.ready(capacity: 10), 1)
        bench.advance(.seconds(3600))
        #expect(bench.takeLog().isEmpty)
        // It was started as an overflow worker, so it waits for a request to connect after a loss.
        bench.report(.backingOff(until: bench.now.advanced(by: .seconds(1))), 1)
        bench.report(.idle, 1)
        #expect(bench.takeLog() == ["connect 1 keep"])
    }

    @Test func aBaseWorkerThatBecomesOverflowClosesWhenItIdles() {
        var bench = PoolBench.ready(configuration(2), capacities: [10, 10])
        change(&bench, configuration(1, 1))
        #expect(bench.takeLog().isEmpty)
        bench.advance(.seconds(301))
        #expect(bench.takeLog() == ["disconnect 1 idle"])
    }

    @Test func shrinkingKeepsLeasesAndLeasesNoMoreFromSurplusWorkers() throws {
        var bench = PoolBench.ready(configuration(2), capacities: [1, 2])
        let first = try #require(bench.checkout().origin)
        let second = try #require(bench.checkout().origin)
        #expect(first.worker.index == 0 && second.worker.index == 1)
        change(&bench, configuration(1))
        #expect(bench.takeLog() == ["disconnect 1 surplus"])
        let waiter = try #require(bench.checkout().waiter)
        #expect(bench.machine.awaitRetirable(now: bench.now).waiter != nil)
        #expect(bench.machine.handOverRetirable().isEmpty)
        bench.report(.idle, 1)
        #expect(bench.machine.handOverRetirable().isEmpty, "a worker with a leased stream is handed over")
        #expect(bench.machine.leasedInAll == 2)
        _ = bench.takeLog()
        bench.checkin(second)
        #expect(bench.takeLog() == ["reached"])
        #expect(bench.machine.handOverRetirable() == [1])
        #expect(bench.machine.handOverRetirable().isEmpty)
        bench.report(.gone, 1)
        bench.machine.ended([1], now: bench.now)
        #expect(bench.machine.status(bench.now).workers.count == 1)
        bench.checkin(first)
        #expect(bench.leases[waiter]?.origin.worker.index == 0)
    }

    /// The owner ends a worker that was handed over, even if the pool grows meanwhile.
    @Test func aHandedOverWorkerIsUnusedUntilItsNextGeneration() throws {
        var bench = PoolBench.ready(configuration(2), capacities: [1, 1])
        change(&bench, configuration(1))
        bench.report(.idle, 1)
        #expect(bench.machine.handOverRetirable() == [1])
        _ = bench.takeLog()
        change(&bench, configuration(2))
        _ = try #require(bench.checkout().origin)
        let waiter = try #require(bench.checkout().waiter)
        #expect(bench.takeLog().isEmpty)
        // It becomes ready by itself.
        bench.report(.ready(capacity: 1), 1)
        #expect(bench.takeLog() == ["disconnect 1 surplus"])
        #expect(bench.leases[waiter] == nil)
        bench.report(.gone, 1)
        // Its supervisor restarts it before its owner reports the end.
        bench.register(1, 2)
        #expect(bench.takeLog().isEmpty)
        bench.report(.gone, 1, 2)
        bench.machine.ended([1], now: bench.now)
        bench.settle()
        bench.register(1, 1)
        #expect(bench.takeLog() == ["connect 1 keep"])
        bench.report(.ready(capacity: 1), 1)
        #expect(bench.leases[waiter]?.origin.worker.index == 1)
    }

    @Test("A worker that registers before its owner reports the end of its predecessor stays registered")
    func registeredBeforeTheEndIsReported() throws {
        var bench = PoolBench.ready(configuration(2), capacities: [1])
        change(&bench, configuration(1))
        #expect(bench.machine.handOverRetirable() == [1], "an absent surplus worker is not handed over")
        change(&bench, configuration(2))
        // The owner found no worker, starts one, and only then reports that there was none.
        bench.register(1)
        bench.machine.ended([1], now: bench.now)
        bench.settle()
        #expect(bench.machine.status(bench.now).workers.map(\.state) == [.ready, .idle])
        #expect(bench.takeLog() == ["connect 1 keep"])
        bench.report(.ready(capacity: 1), 1)
        #expect(bench.machine.status(bench.now).capacity == 2)
    }

    @Test("A worker that registers beyond the pool's size is surplus, and is used when the pool grows")
    func registeredBeyondTheSize() {
        var bench = PoolBench.ready(configuration(1), capacities: [1])
        // Its owner started it before the pool became smaller.
        bench.register(3)
        #expect(bench.machine.status(bench.now).workers.map(\.state) == [.ready, .absent, .absent, .idle])
        bench.advance(.seconds(10))
        #expect(bench.takeLog().isEmpty, "a surplus worker is asked to connect")
        change(&bench, configuration(4))
        #expect(bench.takeLog() == ["connect 3 keep"])
        change(&bench, configuration(1))
        bench.report(.idle, 3)
        #expect(bench.machine.handOverRetirable() == [1, 2, 3])
        bench.report(.gone, 3)
        bench.machine.ended([1, 2, 3], now: bench.now)
        #expect(bench.machine.workers.count == 1)
    }

    /// A reused worker index continues its session numbers, so that late returns of earlier streams change nothing.
    @Test func lateReturnsToARemovedWorkerAreIgnored() throws {
        var bench = PoolBench.ready(configuration(2), capacities: [1, 1])
        _ = try #require(bench.checkout().origin)
        let old = try #require(bench.checkout().origin)
        bench.report(.gone, 1)
        change(&bench, configuration(1))
        #expect(bench.machine.handOverRetirable() == [1])
        bench.machine.ended([1], now: bench.now)
        #expect(bench.machine.workers.count == 1)
        change(&bench, configuration(2))
        bench.register(1, 1)
        bench.report(.ready(capacity: 1), 1)
        let new = try #require(bench.checkout().origin)
        #expect(new.worker == old.worker && new.session > old.session)
        bench.checkin(old)
        #expect(bench.machine.inconsistency == nil)
        #expect(bench.machine.status(bench.now).workers[1].leased == 1)
    }

    @Test func observersOfMoreWorkersThanTheNewSizeAreReleased() {
        var bench = PoolBench.ready(configuration(3), capacities: [1])
        #expect(bench.observe(ready: 3, within: .seconds(30)).waiter != nil)
        change(&bench, configuration(1))
        #expect(bench.takeLog() == ["reached"])
    }

    @Test func aSmallerQueueKeepsItsWaiters() throws {
        var bench = PoolBench.ready(configuration(1), capacities: [1])
        let origin = try #require(bench.checkout().origin)
        let waiters = (0..<3).compactMap { _ in bench.checkout().waiter }
        var smaller = configuration(1)
        smaller.maxWaiters = 1
        change(&bench, smaller)
        #expect(bench.failures.isEmpty)
        #expect(bench.checkout().code == .queueFull)
        bench.checkin(origin)
        #expect(bench.leases[waiters[0]] != nil)
    }

    @Test func aNewLifetimeCountsFromTheStartOfTheSession() {
        var bench = PoolBench.ready(configuration(1), capacities: [1])
        bench.advance(.seconds(600))
        var shorter = configuration(1)
        shorter.maximumLifetime = .seconds(60)
        change(&bench, shorter)
        #expect(bench.takeLog() == ["disconnect 0 lifetime"])
        bench.report(.ready(capacity: 1), 0)
        shorter.maximumLifetime = nil
        change(&bench, shorter)
        bench.advance(.seconds(3600))
        #expect(bench.takeLog().isEmpty)
    }

    @Test func anInvalidConfigurationIsRejectedWithItsSetting() async {
        let pool = Pool<IdleWorker>(configuration: configuration(1))
        let error = #expect(throws: PoolConfigurationError.self) { try pool.reconfigure(self.configuration(0)) }
        #expect(error?.setting == "size")
        #expect(await pool.status().workers.count == 1)
    }

    /// With the real actor: the owner's loop, from four workers to one and back.
    @Test(.timeLimit(.minutes(5))) func theOwnerReceivesTheWorkersItMayEnd() async throws {
        let pool = Pool<IdleWorker>(configuration: configuration(4), clock: ManualClock())
        let tree = Supervisor(
            name: "tree",
            strategy: .oneForOne,
            children: [ChildSpec(id: "pool") { try await pool.run($0) }]
        )
        async let run: Void = tree.run()
        let workers = (0..<4).map { _ in IdleWorker() }
        for (index, worker) in workers.enumerated() {
            pool.register(worker, id: WorkerID(index: index, generation: 1))
            pool.report(.ready(capacity: 1), from: WorkerID(index: index, generation: 1))
        }
        var origins: [LeaseOrigin] = []
        for _ in 0..<4 {
            var lease = try await pool.checkout(deadline: .distantFuture)
            #expect(lease.take(1) == 1)
            origins.append(lease.origin)
        }
        try pool.reconfigure(self.configuration(1))
        #expect(await pool.status().workers.map(\.state) == [.ready, .draining, .draining, .draining])
        for index in 1..<4 { pool.report(.idle, from: WorkerID(index: index, generation: 1)) }
        let retired = Task {
            var all: Set<Int> = []
            while true {
                let some = try await pool.retireSurplus()
                if some.isEmpty { return all }
                for index in some { pool.report(.gone, from: WorkerID(index: index, generation: 1)) }
                pool.ended(some)
                all.formUnion(some)
            }
        }
        for origin in origins { pool.checkin(origin, count: 1) }
        #expect(try await retired.value == [1, 2, 3])
        #expect(await pool.status().workers.count == 1)
        try pool.reconfigure(self.configuration(2))
        #expect(await pool.status().workers.map(\.state) == [.ready, .absent])
        #expect(try await pool.retireSurplus().isEmpty)
        tree.shutdown()
        try await run
    }
}

private final class IdleWorker: PoolWorker {
    func connect(_ reason: PoolWorkerConnectReason) {}
    func disconnect(_ reason: PoolWorkerDisconnectReason) {}
}

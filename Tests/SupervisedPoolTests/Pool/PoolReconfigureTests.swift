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
        bench.report(.idle, 1)
        #expect(bench.takeLog().isEmpty, "a worker is dismissed once")
        #expect(bench.machine.leasedInAll == 2)
        #expect(bench.machine.status(bench.now).workers.count == 2, "a worker with a leased stream is shown")
        bench.checkin(second)
        #expect(bench.machine.status(bench.now).workers.count == 1)
        bench.checkin(first)
        #expect(bench.leases[waiter]?.origin.worker.index == 0)
    }

    @Test("A surplus worker is dismissed while it is idle, too, and serves again when the pool grows")
    func idleWorker() throws {
        var bench = PoolBench.ready(configuration(2), capacities: [1])
        bench.register(1)
        // It has been asked to connect, and has not reported yet.
        #expect(bench.takeLog() == ["connect 1 keep"])
        change(&bench, configuration(1))
        #expect(bench.takeLog() == ["disconnect 1 surplus"])
        // It had begun before it was asked to stop.
        bench.report(.connecting, 1)
        #expect(bench.takeLog() == ["disconnect 1 surplus"])
        bench.report(.idle, 1)
        bench.advance(.seconds(10))
        #expect(bench.takeLog().isEmpty)
        change(&bench, configuration(2))
        #expect(bench.takeLog() == ["connect 1 keep"])
        bench.report(.ready(capacity: 1), 1)
        #expect(bench.machine.status(bench.now).capacity == 2)
    }

    @Test("A worker that registers beyond the pool's size is surplus, and is used when the pool grows")
    func registeredBeyondTheSize() {
        var bench = PoolBench.ready(configuration(1), capacities: [1])
        // Its owner started it before the pool became smaller.
        bench.register(3)
        #expect(bench.machine.status(bench.now).workers.map(\.state) == [.ready])
        #expect(bench.takeLog() == ["disconnect 3 surplus"])
        bench.advance(.seconds(10))
        #expect(bench.takeLog().isEmpty, "a surplus worker is asked to connect")
        change(&bench, configuration(4))
        #expect(bench.machine.status(bench.now).workers.map(\.state) == [.ready, .absent, .absent, .idle])
        #expect(bench.takeLog() == ["connect 3 keep"])
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

    @Test func aNewLifetimeCountsFromTheStartOfTheConnection() {
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
}

private final class IdleWorker: PoolWorker {
    func connect(_ reason: PoolWorkerConnectReason) {}
    func disconnect(_ reason: PoolWorkerDisconnectReason) {}
}

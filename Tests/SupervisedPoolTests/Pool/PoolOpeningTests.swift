import TestSupport
import Testing

@testable import SupervisedPool

struct PoolOpeningTests {
    @Test func baseWorkersConnectOneAtATimeWithSpacing() {
        var bench = PoolBench(.init(size: 3, maxOverflow: 1))
        for index in 0..<4 { bench.register(index) }
        #expect(bench.takeLog() == ["connect 0 keep"])
        bench.report(.connecting, 0)
        bench.advance(.seconds(3))
        #expect(bench.takeLog() == [])
        bench.report(.ready(capacity: 100), 0)
        #expect(bench.takeLog() == ["connect 1 keep"])
        bench.report(.ready(capacity: 100), 1)
        bench.advance(.milliseconds(999))
        #expect(bench.takeLog() == [])
        bench.advance(.milliseconds(201))
        #expect(bench.takeLog() == ["connect 2 keep"])
        bench.report(.ready(capacity: 100), 2)
        bench.advance(.seconds(60))
        #expect(bench.takeLog() == [])
    }

    @Test func aWorkerThatDoesNotRespondDoesNotBlockTheOthers() {
        var bench = PoolBench(.init(size: 2, maxOverflow: 0))
        bench.register(0)
        bench.register(1)
        bench.advance(.seconds(4))
        #expect(bench.takeLog() == ["connect 0 keep"])
        bench.advance(.seconds(1))
        #expect(bench.takeLog() == ["connect 1 keep"])
    }

    @Test func overflowConnectsOnlyForWaitersBeyondTheCapacity() {
        var bench = PoolBench(.init(connectSpacing: .zero))
        for index in 0..<4 { bench.register(index) }
        bench.report(.connecting, 0)
        for _ in 0..<1000 { _ = bench.checkout() }
        #expect(bench.takeLog() == ["connect 0 keep"])
        // The peer's first limit is one stream; it will raise it soon.
        bench.report(.ready(capacity: 1), 0)
        #expect(bench.takeLog() == ["lease 0", "connect 1 demand"])
        bench.report(.connecting, 1)
        bench.report(.capacity(1000), 0)
        #expect(bench.machine.queue.count == 0)
        bench.report(.ready(capacity: 1), 1)
        _ = bench.takeLog()
        bench.advance(.seconds(10))
        #expect(bench.takeLog() == [])
    }

    @Test func fewWaitersOpenNoOverflowWhileTheFirstLimitMayGrow() {
        var bench = PoolBench(.init(connectSpacing: .zero))
        for index in 0..<4 { bench.register(index) }
        bench.report(.ready(capacity: 1), 0)
        _ = bench.takeLog()
        for _ in 0..<50 { _ = bench.checkout() }
        #expect(bench.takeLog() == [])
        // The limit did not grow, so it is the real one.
        bench.advance(.seconds(5))
        #expect(bench.takeLog() == ["connect 1 demand"])
    }

    @Test func overflowWorkersConnectOneAfterAnother() {
        var bench = PoolBench.ready(.init(), capacities: [2])
        for index in 1..<4 { bench.register(index) }
        bench.advance(.seconds(2))
        for _ in 0..<10 { _ = bench.checkout() }
        #expect(bench.takeLog() == ["connect 1 demand"])
        bench.report(.connecting, 1)
        bench.advance(.seconds(2))
        #expect(bench.takeLog() == [])
        bench.report(.ready(capacity: 2), 1)
        #expect(bench.takeLog() == ["lease 1", "lease 1", "connect 2 demand"])
        bench.report(.ready(capacity: 2), 2)
        bench.advance(.milliseconds(999))
        #expect(bench.takeLog() == ["lease 2", "lease 2"])
        bench.advance(.milliseconds(201))
        #expect(bench.takeLog() == ["connect 3 demand"])
    }

    @Test func aLazyPoolConnectsAtTheFirstCheckoutWithoutSpacing() {
        var bench = PoolBench(.init(size: 0, maxOverflow: 2))
        bench.register(0)
        bench.register(1)
        bench.advance(.seconds(100))
        #expect(bench.takeLog() == [])
        _ = bench.checkout()
        #expect(bench.takeLog() == ["connect 0 use"])
        bench.report(.ready(capacity: 5), 0)
        bench.report(.idle, 0)
        _ = bench.takeLog()
        #expect(bench.checkout(block: false).code == .full)
        #expect(bench.takeLog() == ["connect 1 use"])
    }

    @Test("New demand shortens the earliest backoff, once")
    func newDemand() {
        var bench = PoolBench(.init(size: 2, maxOverflow: 0, maximumLifetime: nil))
        bench.register(0)
        bench.register(1)
        bench.report(.backingOff(until: bench.now.advanced(by: .seconds(9))), 0)
        bench.advance(.seconds(2))
        bench.report(.backingOff(until: bench.now.advanced(by: .seconds(3))), 1)
        bench.advance(.seconds(2))
        _ = bench.takeLog()
        _ = bench.checkout()
        #expect(bench.takeLog() == ["connect 1 shortenBackoff"])
        bench.report(.connecting, 1)
        bench.report(.backingOff(until: bench.now.advanced(by: .seconds(3))), 1)
        _ = bench.checkout()
        bench.advance(.milliseconds(1200))
        _ = bench.checkout()
        bench.advance(.seconds(5))
        #expect(!bench.takeLog().contains { $0.contains("shortenBackoff") })
    }

    @Test("While a worker replaces a lost connection, waiting pushes open no other connection")
    func lostConnection() {
        let configuration = PoolConfiguration(maxOverflow: 1, connectSpacing: .zero, maximumLifetime: nil)
        var bench = PoolBench.ready(configuration, capacities: [5])
        bench.register(1)
        bench.report(.lost(fault: PoolFault(description: "no response")), 0)
        for _ in 0..<3 { _ = bench.checkout() }
        #expect(bench.takeLog() == [])
        bench.report(.ready(capacity: 5), 0)
        #expect(bench.takeLog() == ["lease 0", "lease 0", "lease 0"])
    }

    /// Runs two workers whose connects fail, with backoffs of 1, 2, 4 … 30 s, and a checkout every 100 ms.
    ///
    /// - Parameter connectionEvery: one in this many attempts succeeds, and its connection is lost at once.
    /// - Returns: the number of attempts in ten minutes.
    private func attempts(_ whenUnavailable: PoolConfiguration.WhenUnavailable, connectionEvery: Int = .max) -> Int {
        var bench = PoolBench(
            .init(size: 2, maxOverflow: 0, whenUnavailable: whenUnavailable, maximumLifetime: nil)
        )
        var count = [0, 0]
        var until = [MonotonicInstant?](repeating: nil, count: 2)
        for index in 0..<2 { bench.register(index) }
        for _ in 0..<6000 {
            _ = bench.checkout(within: .seconds(20))
            bench.advance(.milliseconds(100))
            for index in 0..<2 {
                let isAsked = bench.connects.contains { $0.index == index }
                guard isAsked || until[index].map({ $0 <= bench.now }) ?? false else { continue }
                count[index] += 1
                bench.report(.connecting, index)
                if count[index].isMultiple(of: connectionEvery) { bench.report(.ready(capacity: 1), index) }
                let pause = Duration.seconds(min(30, 1 << min(count[index] - 1, 5)))
                until[index] = bench.now.advanced(by: pause)
                bench.report(.backingOff(until: bench.now.advanced(by: pause)), index)
            }
            bench.connects = []
        }
        return count.reduce(0, +)
    }

    @Test(
        "A pool whose connects fail backs off despite lasting demand",
        arguments: [
            PoolConfiguration.WhenUnavailable.fail, .wait,
        ]
    )
    func lastingDemand(_ whenUnavailable: PoolConfiguration.WhenUnavailable) {
        // Without demand there are 24 attempts for each worker.
        #expect(attempts(whenUnavailable) <= 52)
    }

    @Test("Connections that are lost at once do not shorten a backoff")
    func shortConnections() {
        #expect(attempts(.wait, connectionEvery: 2) <= 52)
    }

    @Test("New demand during a long outage shortens the backoff again")
    func demandAnew() {
        var bench = PoolBench(.init(maxOverflow: 0, maximumLifetime: nil))
        bench.register(0)
        for _ in 0..<2 {
            bench.report(.connecting, 0)
            bench.report(.backingOff(until: bench.now.advanced(by: .seconds(30))), 0)
            bench.advance(.seconds(10))
            _ = bench.takeLog()
            _ = bench.checkout(block: false)
            #expect(bench.takeLog().contains("connect 0 shortenBackoff"))
            // Demand causes this attempt, but not the next two.
            for _ in 0..<2 {
                bench.report(.connecting, 0)
                bench.report(.backingOff(until: bench.now.advanced(by: .seconds(30))), 0)
                bench.advance(.seconds(31))
            }
        }
    }

    @Test func onlyIdleOverflowWorkersAreDisconnectedAndOnlyOnce() throws {
        var bench = PoolBench.ready(.init(maximumLifetime: nil), capacities: [1, 1])
        _ = bench.checkout()
        let lease = try #require(bench.checkout().origin)
        bench.advance(.seconds(299))
        bench.checkin(lease)
        #expect(bench.takeLog() == [])
        bench.advance(.seconds(1))
        #expect(bench.takeLog() == ["disconnect 1 idle"])
        #expect(bench.checkout(block: false).code == .full)
        bench.report(.idle, 1)
        bench.advance(.seconds(10_000))
        #expect(!bench.takeLog().contains { $0.hasPrefix("disconnect") })
    }

    @Test func anOverflowWorkerDisconnectsAfterALongLease() throws {
        var bench = PoolBench.ready(.init(size: 0, maxOverflow: 1, maximumLifetime: nil), capacities: [1])
        let lease = try #require(bench.checkout().origin)
        bench.advance(.seconds(400))
        #expect(bench.takeLog() == [])
        bench.checkin(lease)
        bench.advance(.milliseconds(37_500))
        #expect(bench.takeLog() == ["disconnect 0 idle"])
    }

    @Test func oldConnectionsAreReplacedOneAtATime() {
        var bench = PoolBench.ready(
            .init(size: 2, maxOverflow: 0, maximumLifetime: .seconds(100)),
            capacities: [1, 1]
        )
        bench.advance(.milliseconds(89_900))
        #expect(bench.takeLog() == [])
        bench.machine.workers[0].replaceAt = bench.now
        bench.machine.workers[1].replaceAt = bench.now
        bench.settle()
        #expect(bench.takeLog() == ["disconnect 0 lifetime"])
        bench.report(.connecting, 0)
        bench.advance(.seconds(5))
        #expect(bench.takeLog() == [])
        bench.report(.ready(capacity: 1), 0)
        #expect(bench.takeLog() == ["disconnect 1 lifetime"])
    }

    @Test func checkoutsFailAfterTenSecondsWithoutAReadyWorker() throws {
        var bench = PoolBench.ready(.init(maxOverflow: 0), capacities: [1])
        bench.report(.backingOff(until: bench.now.advanced(by: .seconds(60))), 0)
        let waiter = try #require(bench.checkout(within: .seconds(60)).waiter)
        bench.advance(.milliseconds(9999))
        #expect(bench.failures.isEmpty)
        bench.advance(.milliseconds(1))
        #expect(bench.failures[waiter]?.code == .unavailable)
        #expect(bench.failures[waiter]?.retryAfter == .seconds(50))
        #expect(bench.checkout().code == .unavailable)
        guard case .unavailable = bench.machine.status(bench.now).availability else {
            Issue.record("not unavailable")
            return
        }
        bench.report(.ready(capacity: 1), 0)
        #expect(bench.checkout().index == 0)
        #expect(bench.machine.status(bench.now).availability == .available)
    }

    @Test func checkoutsMayWaitForTheEndOfAnOutage() throws {
        var bench = PoolBench.ready(.init(maxOverflow: 0, whenUnavailable: .wait), capacities: [1])
        bench.report(.backingOff(until: bench.now.advanced(by: .seconds(60))), 0)
        bench.advance(.seconds(11))
        #expect(bench.takeLog().contains("unavailable"))
        let waiter = try #require(bench.checkout(within: .seconds(60)).waiter)
        bench.report(.ready(capacity: 1), 0)
        #expect(bench.leases[waiter] != nil)
    }

    @Test func anIdlePoolIsNotAnOutage() {
        var bench = PoolBench.ready(.init(size: 0, maxOverflow: 1), capacities: [1])
        bench.report(.draining, 0)
        bench.report(.idle, 0)
        bench.advance(.seconds(3600))
        #expect(bench.checkout().waiter != nil)
        bench.report(.connecting, 0)
        bench.report(.backingOff(until: bench.now.advanced(by: .seconds(1))), 0)
        #expect(bench.failures.isEmpty)
        bench.advance(.seconds(9))
        #expect(bench.failures.isEmpty)
        bench.advance(.seconds(1))
        #expect(bench.failures.count == 1)
    }

    @Test func aConfigurationFaultFailsCheckoutsUntilItsBackoffEnds() throws {
        var bench = PoolBench(.init(maxOverflow: 0))
        bench.register(0)
        let waiter = try #require(bench.checkout().waiter)
        let fault = PoolFault(description: "certificate not trusted", isConfiguration: true)
        bench.report(.backingOff(until: bench.now.advanced(by: .seconds(5)), fault: fault), 0)
        #expect(bench.failures[waiter]?.code == .configurationFault)
        #expect(bench.failures[waiter]?.fault?.description == "certificate not trusted")
        guard case .failed(let error) = bench.checkout() else {
            Issue.record("not refused")
            return
        }
        #expect(error.code == .configurationFault && error.retryAfter == .seconds(5))
        _ = bench.takeLog()
        bench.advance(.seconds(2))
        #expect(!bench.takeLog().contains { $0.hasPrefix("connect") })
        bench.advance(.seconds(3))
        #expect(bench.checkout().waiter != nil)
    }

    @Test func aFaultBesideAReadyWorkerFailsNoCheckout() {
        var bench = PoolBench.ready(.init(size: 2, maxOverflow: 0), capacities: [1])
        bench.register(1)
        let fault = PoolFault(description: "x", isConfiguration: true)
        bench.report(.backingOff(until: bench.now.advanced(by: .seconds(5)), fault: fault), 1)
        #expect(bench.checkout().index == 0)
        #expect(bench.checkout().waiter != nil)
    }

    @Test func configurationErrorsNameTheSetting() {
        func setting(_ configuration: PoolConfiguration) -> String? {
            do {
                try configuration.validate()
                return nil
            } catch {
                return error.setting
            }
        }
        #expect(setting(.init()) == nil)
        #expect(setting(.init(size: 0)) == nil)
        #expect(setting(.init(size: 0, maxOverflow: 0)) == "size")
        #expect(setting(.init(size: -1)) == "size")
        #expect(setting(.init(size: .max, maxOverflow: .max)) == "size")
        #expect(setting(.init(size: 999, maxOverflow: 2)) == "maxOverflow")
        #expect(setting(.init(maxOverflow: -1)) == "maxOverflow")
        #expect(setting(.init(maxWaiters: -1)) == "maxWaiters")
        #expect(setting(.init(maxQueuedBytes: -1)) == "maxQueuedBytes")
        #expect(setting(.init(interactiveReservePercent: 91)) == "interactiveReservePercent")
        #expect(setting(.init(interactiveReservePercent: -1)) == "interactiveReservePercent")
        #expect(setting(.init(connectSpacing: .seconds(-1))) == "connectSpacing")
        #expect(setting(.init(idleTimeout: .zero)) == "idleTimeout")
        #expect(setting(.init(unavailableAfter: .seconds(-1))) == "unavailableAfter")
        #expect(setting(.init(maximumLifetime: .zero)) == "maximumLifetime")
    }
}

import TestSupport
import Testing

@testable import SupervisedPool

private final class Worker: PoolWorker {
    let journal: Journal<String>
    init(_ journal: Journal<String>) { self.journal = journal }
    func connect(_ reason: PoolWorkerConnectReason) { journal.write("connect \(reason)") }
    func disconnect(_ reason: PoolWorkerDisconnectReason) { journal.write("disconnect \(reason)") }
}

/// The shell: real tasks and continuations, and a manual clock.
struct PoolTests {
    private let clock = ManualClock()
    private let journal = Journal<String>()
    private let first = WorkerID(index: 0, generation: 1)

    private var soon: MonotonicInstant { clock.now.advanced(by: .seconds(30)) }

    /// Runs a pool with one ready worker.
    private func withPool(
        capacity: Int,
        _ body: (Pool<Worker>, ChildContext) async throws -> Void
    ) async throws {
        let pool = Pool<Worker>(configuration: .init(maxOverflow: 0, maximumLifetime: nil), clock: clock)
        let started = Journal<String>()
        let context = ChildContext(id: "pool") { started.write("started") }
        let run = Task { try await pool.run(context) }
        await started.wait(count: 1)
        pool.register(Worker(journal), id: first)
        pool.report(.ready(capacity: capacity), from: first)
        try await body(pool, context)
        context.requestShutdown()
        try? await run.value
    }

    /// Returns when `depth` checkouts wait.
    private func waitForDepth(_ depth: Int, _ pool: Pool<Worker>) async throws {
        #expect(await eventually { await pool.status().queueDepth == depth })
    }

    @Test func aLeaseReturnsItsStreamsWhenItGoesOutOfScope() async throws {
        try await withPool(capacity: 4) { pool, _ in
            do {
                let lease = try await pool.checkout(deadline: soon)
                #expect(lease.count == 1 && lease.origin.worker == first)
                #expect(await pool.status().leased == 1)
            }
            #expect(await pool.status().leased == 0)
            let bulk = try await pool.checkout(wanted: 4, deadline: soon)
            bulk.release()
            #expect(await pool.status().leased == 0)
        }
    }

    @Test("withLease uses its lane, and does not wait if it may not block")
    func withLeaseOptions() async throws {
        try await withPool(capacity: 5) { pool, _ in
            let bulk = try await pool.checkout(wanted: 4, deadline: soon, lane: .bulk)
            #expect(bulk.count == 4)
            let error = await #expect(throws: PoolError.self) {
                try await pool.withLease(deadline: soon, block: false, lane: .bulk) { _ in }
            }
            #expect(error?.code == .full, "bulk work uses the interactive reserve")
            try await pool.withLease(deadline: soon, block: false) { _ in }
        }
    }

    @Test func streamsTakenFromALeaseAreReturnedByHand() async throws {
        try await withPool(capacity: 4) { pool, _ in
            var lease = try await pool.checkout(wanted: 4, deadline: soon)
            let origin = lease.origin
            #expect(lease.take(3) == 3)
            #expect(lease.take(7) == 1)
            #expect(lease.take(1) == 0)
            lease.release()
            #expect(await pool.status().leased == 4)
            pool.checkin(origin, count: 4)
            #expect(await pool.status().leased == 0)
        }
    }

    @Test func aReturnedStreamWakesTheWaiterWithoutAnotherCall() async throws {
        try await withPool(capacity: 1) { pool, _ in
            let lease = try await pool.checkout(deadline: soon)
            let deadline = soon
            let waiter = Task { try await pool.checkout(deadline: deadline).origin }
            try await waitForDepth(1, pool)
            lease.release()
            #expect(try await waiter.value.worker == first)
        }
    }

    @Test func aCancelledWaiterPassesItsStreamOn() async throws {
        try await withPool(capacity: 1) { pool, _ in
            for _ in 0..<300 {
                let lease = try await pool.checkout(deadline: soon)
                let deadline = soon
                let cancelled = Task { try await pool.checkout(deadline: deadline).count }
                let patient = Task { try await pool.checkout(deadline: deadline).count }
                try await waitForDepth(2, pool)
                let canceller = Task { cancelled.cancel() }
                lease.release()
                await canceller.value
                _ = await cancelled.result
                #expect(try await patient.value == 1)
            }
            #expect(await pool.status().leased == 0)
        }
    }

    @Test func aWaiterThatTimedOutTakesNoStream() async throws {
        try await withPool(capacity: 1) { pool, _ in
            let lease = try await pool.checkout(deadline: soon)
            let deadline = clock.now.advanced(by: .seconds(5))
            let waiter = Task { try await pool.checkout(deadline: deadline).count }
            await clock.waitForSleepers(1)
            clock.advance(by: .seconds(5))
            lease.release()
            await #expect(throws: PoolError.self) { try await waiter.value }
            #expect(await pool.status().leased == 0)
            _ = try await pool.checkout(deadline: soon)
        }
    }

    @Test func anEarlierDeadlineRearmsTheTimer() async throws {
        try await withPool(capacity: 0) { pool, _ in
            let late = clock.now.advanced(by: .seconds(30))
            let early = clock.now.advanced(by: .seconds(3))
            let patient = Task { try await pool.checkout(deadline: late).count }
            try await waitForDepth(1, pool)
            let hasty = Task { try await pool.checkout(deadline: early).count }
            try await waitForDepth(2, pool)
            try await clock.advance(toWakeUpAt: early)
            await #expect(throws: PoolError.self) { try await hasty.value }
            try await waitForDepth(1, pool)
            patient.cancel()
            do {
                _ = try await patient.value
                Issue.record("not cancelled")
            } catch let error as PoolError {
                #expect(error.code == .cancelled)
            }
        }
    }

    @Test func aCancelledCallerLeavesNoLease() async throws {
        try await withPool(capacity: 1) { pool, _ in
            let deadline = soon
            let callers = (0..<20).map { _ in
                Task {
                    while true { _ = try await pool.checkout(deadline: deadline).count }
                }
            }
            for caller in callers { caller.cancel() }
            for caller in callers { _ = await caller.result }
            let status = await pool.status()
            #expect(status.leased == 0 && status.queueDepth == 0)
        }
    }

    @Test func theEndOfThePoolFailsAllWaiters() async throws {
        try await withPool(capacity: 0) { pool, context in
            let deadline = soon
            let waiters = (0..<50).map { _ in Task { try await pool.checkout(deadline: deadline).count } }
            try await waitForDepth(50, pool)
            context.requestShutdown()
            for waiter in waiters {
                do {
                    _ = try await waiter.value
                    Issue.record("the waiter was served")
                } catch let error as PoolError {
                    #expect(error.code == .poolStopped)
                }
            }
            await #expect(throws: PoolError.self) { _ = try await pool.checkout(deadline: deadline).count }
        }
    }

    @Test func cancellingRunFailsAllWaiters() async throws {
        let pool = Pool<Worker>(configuration: .init(), clock: clock)
        let run = Task { try await pool.run(ChildContext(id: "pool")) }
        let deadline = soon
        let waiter = Task { try await pool.checkout(deadline: deadline).count }
        try await waitForDepth(1, pool)
        run.cancel()
        await #expect(throws: (any Error).self) { try await waiter.value }
        await #expect(throws: CancellationError.self) { try await run.value }
    }

    @Test func checkoutsBeforeRunWaitWithinTheirDeadline() async throws {
        let pool = Pool<Worker>(configuration: .init(), clock: clock)
        let early = clock.now.advanced(by: .seconds(1))
        let waiter = Task { try await pool.checkout(deadline: early).count }
        await clock.waitForSleepers(1)
        clock.advance(by: .seconds(1))
        do {
            _ = try await waiter.value
            Issue.record("the waiter was served")
        } catch let error as PoolError {
            #expect(error.code == .notRunning)
        }
        let late = soon
        let cancelled = Task { try await pool.checkout(deadline: late).count }
        let served = Task { try await pool.checkout(deadline: late).count }
        try await waitForDepth(2, pool)
        cancelled.cancel()
        await #expect(throws: PoolError.self) { try await cancelled.value }
        let context = ChildContext(id: "pool")
        let run = Task { try await pool.run(context) }
        pool.register(Worker(journal), id: first)
        pool.report(.ready(capacity: 5), from: first)
        #expect(try await served.value == 1)
        context.requestShutdown()
        try await run.value
        await #expect(throws: PoolError.self) { try await pool.run(context) }
    }

    @Test func thePoolConnectsItsWorkerAndReportsItsAvailability() async throws {
        let pool = Pool<Worker>(configuration: .init(), clock: clock)
        let context = ChildContext(id: "pool")
        let run = Task { try await pool.run(context) }
        pool.register(Worker(journal), id: first)
        await journal.wait(count: 1)
        #expect(journal.entries == ["connect keep"])
        let deadline = soon
        let available = Task { try await pool.waitUntilReady(deadline: deadline) }
        pool.report(.ready(capacity: 1), from: first)
        try await available.value
        try await pool.waitUntilReady(deadline: deadline)
        context.requestShutdown()
        try await run.value
    }

    @Test func aStreamReturnedTwiceEndsRunWithAnError() async throws {
        let pool = Pool<Worker>(configuration: .init(), clock: clock)
        let run = Task { try await pool.run(ChildContext(id: "pool")) }
        pool.register(Worker(journal), id: first)
        pool.report(.ready(capacity: 2), from: first)
        let origin = try await pool.checkout(deadline: soon).origin
        pool.checkin(origin, count: 1)
        _ = await pool.status()
        do {
            try await run.value
            Issue.record("the pool did not end")
        } catch let error as PoolError {
            #expect(error.code == .invariantBroken)
        }
    }

    @Test func anInvalidConfigurationEndsRunAndFailsAllWaiters() async throws {
        let pool = Pool<Worker>(configuration: .init(size: 0, maxOverflow: 0), clock: clock)
        let deadline = soon
        let waiter = Task { try await pool.checkout(deadline: deadline).count }
        try await waitForDepth(1, pool)
        await #expect(throws: PoolConfigurationError.self) { try await pool.run(ChildContext(id: "pool")) }
        await #expect(throws: PoolError.self) { try await waiter.value }
    }

    @Test func aDrainRefusesCheckoutsAndFailWaitersFailsWaiters() async throws {
        try await withPool(capacity: 0) { pool, _ in
            let deadline = soon
            let waiter = Task { try await pool.checkout(deadline: deadline).count }
            try await waitForDepth(1, pool)
            await pool.drain()
            await #expect(throws: PoolError.self) { _ = try await pool.checkout(deadline: deadline).count }
            await pool.failWaiters()
            do {
                _ = try await waiter.value
                Issue.record("the waiter was served")
            } catch let error as PoolError {
                #expect(error.code == .shuttingDown)
            }
        }
    }

    @Test func manyCallersShareFewStreams() async throws {
        try await withPool(capacity: 3) { pool, _ in
            let deadline = soon
            let total = try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<16 {
                    group.addTask {
                        var served = 0
                        for _ in 0..<200 {
                            let lease = try await pool.checkout(deadline: deadline)
                            served += lease.count
                            await Task.yield()
                        }
                        return served
                    }
                }
                return try await group.reduce(0, +)
            }
            #expect(total == 3200)
            #expect(await pool.status().leased == 0)
        }
    }
}

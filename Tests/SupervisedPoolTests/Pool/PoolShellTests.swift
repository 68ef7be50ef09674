import TestSupport
import Testing

@testable import SupervisedPool

private final class Worker: PoolWorker {
    func connect(_ reason: PoolWorkerConnectReason) {}
    func disconnect(_ reason: PoolWorkerDisconnectReason) {}
}

/// The pool's shell: leases, drains, connections and events. `PoolModelTests` has the orders of events. A pool processes
/// its messages in the order of arrival, so a status shows that it has processed all earlier messages.
struct PoolShellTests {
    private let clock = ManualClock()
    private var soon: MonotonicInstant { clock.now.advanced(by: .seconds(30)) }

    private func id(_ index: Int, _ generation: Int = 1) -> WorkerID { WorkerID(index: index, generation: generation) }

    private func withPool(
        _ configuration: PoolConfiguration,
        capacities: [Int],
        _ body: (Pool<Worker>) async throws -> Void
    ) async throws {
        let pool = Pool<Worker>(configuration: configuration, clock: clock)
        let context = ChildContext(id: "pool")
        let run = Task { try await pool.run(context) }
        for (index, capacity) in capacities.enumerated() {
            pool.register(Worker(), id: id(index))
            pool.report(.ready(capacity: capacity), from: id(index))
        }
        try await pool.waitUntilReady(capacities.count, deadline: soon)
        try await body(pool)
        context.requestShutdown()
        try await run.value
    }

    private func waitForDepth(_ depth: Int, _ pool: Pool<Worker>) async throws {
        #expect(await eventually { await pool.status().queueDepth == depth })
    }

    private func code(_ task: Task<WorkerID, any Error>) async -> PoolError.Code? {
        do {
            _ = try await task.value
            return nil
        } catch {
            return (error as? PoolError)?.code
        }
    }

    private func waiter(_ pool: Pool<Worker>, lane: PoolLane = .interactive) -> Task<WorkerID, any Error> {
        let deadline = soon
        return Task {
            let lease = try await pool.checkout(deadline: deadline, lane: lane)
            return lease.origin.worker
        }
    }

    @Test func withLeaseReturnsItsStreamHoweverItEnds() async throws {
        struct Failure: Error {}
        try await withPool(.init(maxOverflow: 0), capacities: [1]) { pool in
            let value = try await pool.withLease(wanted: 3, deadline: soon) { lease in lease.count * 42 }
            #expect(value == 42)
            await #expect(throws: Failure.self) {
                try await pool.withLease(deadline: soon) { _ in throw Failure() }
            }
            #expect(await pool.status().leased == 0)
        }
    }

    @Test func aDrainReturnsWhenTheLastStreamIsReturned() async throws {
        try await withPool(.init(maxOverflow: 0), capacities: [1]) { pool in
            let lease = try await pool.checkout(deadline: soon)
            let waiting = waiter(pool)
            try await waitForDepth(1, pool)
            let drain = Task { await pool.drain(within: .seconds(20)) }
            while true {
                // Refused once the drain has begun.
                let refused = try? await pool.checkout(deadline: soon, block: false)
                guard refused == nil else { continue }
                if await code(Task { try await pool.checkout(deadline: soon).origin.worker }) == .shuttingDown { break }
            }
            lease.release()
            #expect(try await waiting.value == id(0))
            #expect(await drain.value)
        }
    }

    @Test func aDrainThatTimesOutFailsWaiters() async throws {
        try await withPool(.init(maxOverflow: 0), capacities: [2]) { pool in
            let lease = try await pool.checkout(wanted: 2, deadline: soon)
            let waiting = waiter(pool)
            try await waitForDepth(1, pool)
            let drain = Task { await pool.drain(within: .seconds(20)) }
            let end = clock.now.advanced(by: .seconds(20))
            try await clock.advance(toWakeUpAt: end)
            #expect(await !drain.value)
            #expect(await pool.status().leased == 2)
            #expect(await code(waiting) == .shuttingDown)
            lease.release()
        }
    }

    @Test func prewarmReachesTheWorkers() async throws {
        final class Recorder: PoolWorker {
            let journal = Journal<String>()
            func connect(_ reason: PoolWorkerConnectReason) { journal.write("connect \(reason)") }
            func disconnect(_ reason: PoolWorkerDisconnectReason) {}
        }
        let pool = Pool<Recorder>(configuration: .init(size: 0, maxOverflow: 1), clock: clock)
        let context = ChildContext(id: "pool")
        let run = Task { try await pool.run(context) }
        let worker = Recorder()
        pool.register(worker, id: id(0))
        let deadline = soon
        let prewarm = Task { try await pool.prewarm(1, deadline: deadline) }
        await worker.journal.wait(count: 1)
        pool.report(.ready(capacity: 1), from: id(0))
        try await prewarm.value
        #expect(worker.journal.entries == ["connect prewarm"])
        context.requestShutdown()
        try await run.value
    }

    @Test func eventsDescribeThePool() async throws {
        let texts = Journal<String>()
        let pool = Pool<Worker>(configuration: .init(maxOverflow: 0), clock: clock) { event in
            switch event {
            case .registered(let id): texts.write("registered \(id)")
            case .reported(let id, .ready(let capacity)): texts.write("ready \(id) \(capacity)")
            case .askedToConnect: break
            default: texts.write("\(event)")
            }
        }
        let context = ChildContext(id: "pool")
        let run = Task { try await pool.run(context) }
        pool.register(Worker(), id: id(0))
        pool.report(.ready(capacity: 1), from: id(0))
        try await pool.waitUntilReady(deadline: soon)
        context.requestShutdown()
        try await run.value
        #expect(texts.entries == ["registered 0.1", "ready 0.1 1"])
    }
}

import TestSupport
import Testing

@testable import SupervisedPool

private final class Worker: PoolWorker {
    func connect(_ reason: PoolWorkerConnectReason) {}
    func disconnect(_ reason: PoolWorkerDisconnectReason) {}
}

/// A pool detects that a worker has ended, whether the worker reports it or not.
struct PoolMonitorTests {
    private let clock = ManualClock()

    enum End: CaseIterable {
        case returns, fails, isTerminated, reportsGone
    }

    @Test("A pool detects each way in which a worker can end", arguments: End.allCases)
    func everyEnd(_ end: End) async throws {
        let pool = Pool<Worker>(configuration: .init(maxOverflow: 0, maximumLifetime: nil), clock: clock)
        let (orders, order) = AsyncStream<Void>.makeStream()
        let worker = ChildSpec(id: "worker", restart: .temporary) { context in
            context.onShutdown { order.finish() }
            let id = WorkerID(index: 0, generation: context.generation)
            pool.register(Worker(), id: id, for: context)
            pool.report(.ready(capacity: 3), from: id)
            context.started()
            for await _ in orders { break }
            if end == .reportsGone { pool.report(.gone, from: id) }
            if end == .fails { throw Broken() }
        }
        let (events, event) = AsyncStream<SupervisorEvent>.makeStream()
        let tree = Supervisor(
            name: "tree",
            strategy: .oneForOne,
            children: [ChildSpec(id: "pool") { try await pool.run($0) }, worker],
            clock: clock,
            onEvent: { event.yield($0) }
        )
        let run = Task { try await tree.run() }
        let lease = try await pool.checkout(deadline: .distantFuture)
        #expect(lease.origin.worker.index == 0)
        if end == .isTerminated { try await tree.terminateChild("worker") } else { order.yield() }
        for await event in events {
            switch event {
            case .childEnded("worker", _), .childStopped("worker", _, _), .childFailed: break
            default: continue
            }
            break
        }
        #expect(await pool.status().workers.map(\.state) == [.absent])
        #expect(await pool.status().leased == 0, "streams of the ended worker still count as leased")
        lease.release()
        let error = await #expect(throws: PoolError.self) {
            _ = try await pool.checkout(deadline: .distantFuture, block: false)
        }
        #expect(error?.code == .full, "a late return of the ended worker's stream is counted again")
        tree.shutdown()
        try await run.value
    }
}

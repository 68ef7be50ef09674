import Foundation
import SupervisedPool
import TestSupport
import Testing

// The examples of Docs/SupervisedPool.md. `make format` copies what stands between `// example` and `// end of
// example` from the page.
// swift-format-ignore-file

// example Docs/SupervisedPool.md 1
actor Counter {
    private(set) var count = 0

    func increment() { count += 1 }

    func run(_ context: ChildContext) async throws {
        let (requests, end) = AsyncStream<Void>.makeStream()
        context.onShutdown { end.finish() }
        context.started()
        for await _ in requests {}
    }
}

func counterTree(
    _ counter: ChildRef<Counter>,
    onEvent: @escaping @Sendable (SupervisorEvent) -> Void
) -> Supervisor {
    Supervisor(
        name: "counters",
        strategy: .oneForOne,
        intensity: RestartIntensity(restarts: 3, period: .seconds(5)),
        children: [
            ChildSpec(id: "counter", restart: .permanent, shutdown: .within(.seconds(5))) { context in
                let actor = Counter()
                counter.set(actor)
                try await actor.run(context)
            }
        ],
        onEvent: onEvent
    )
}
// end of example

// example Docs/SupervisedPool.md 2
func useCounter() async throws {
    let counter = ChildRef<Counter>()
    let (starts, started) = AsyncStream<Void>.makeStream()
    let supervisor = counterTree(counter) { event in
        if case .childStarted = event { started.yield() }
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await supervisor.run() }
        for await _ in starts { break }
        await counter.current?.increment()
        supervisor.shutdown()
        try await group.waitForAll()
    }
}
// end of example

// example Docs/Examples/SupervisedPool/Lines.swift
/// A worker: a connection that carries one thing at a time.
final class Line: PoolWorker {
    let id: WorkerID
    let pool: Pool<Line>

    init(id: WorkerID, pool: Pool<Line>) {
        self.id = id
        self.pool = pool
    }

    func connect(_ reason: PoolWorkerConnectReason) {
        // A real one opens a connection now and reports when its peer has answered.
        pool.report(.connecting, from: id)
        pool.report(.ready(capacity: 100), from: id)
    }

    func disconnect(_ reason: PoolWorkerDisconnectReason) {
        pool.report(.idle, from: id)
    }

    func say(_ words: String) async -> String { "said \(words)" }

    func run(_ context: ChildContext) async throws {
        let (requests, end) = AsyncStream<Void>.makeStream()
        context.onShutdown { end.finish() }
        context.started()
        for await _ in requests {}
    }
}

struct NoPool: Error {}

func lines(
    _ current: ChildRef<Pool<Line>>,
    size: Int,
    onEvent: @escaping @Sendable (SupervisorEvent) -> Void
) -> Supervisor {
    let pool = ChildSpec(id: "pool") { context in
        let pool = Pool<Line>(configuration: PoolConfiguration(size: size, maxOverflow: 0))
        current.set(pool)
        try await pool.run(context)
    }
    let workers = (0..<size).map { index in
        ChildSpec(id: ChildSpec.ID("line-\(index)")) { context in
            guard let pool = current.current else { throw NoPool() }
            let id = WorkerID(index: index, generation: context.generation)
            let line = Line(id: id, pool: pool)
            pool.register(line, id: id, for: context)
            try await line.run(context)
        }
    }
    return Supervisor(
        name: "lines",
        strategy: .restForOne,
        children: [
            pool,
            .supervisor(id: "workers") { Supervisor(name: "workers", strategy: .oneForOne, children: workers) },
        ],
        onEvent: onEvent
    )
}
// end of example

// example Docs/SupervisedPool.md 3
func talk(_ reference: ChildRef<Pool<Line>>) async throws -> [String] {
    guard let pool = reference.current else { return [] }
    let clock = SystemMonotonicClock()
    let deadline = clock.now.advanced(by: .seconds(5))
    let lease = try await pool.checkout(deadline: deadline)
    let first = await lease.worker.say("hello")
    lease.release()
    let second = try await pool.withLease(deadline: deadline) { await $0.worker.say("goodbye") }
    return [first, second]
}
// end of example

struct DocumentationTests {
    @Test func theDocumentedCounterCounts() async throws {
        try await useCounter()
        let counter = ChildRef<Counter>()
        let supervisor = counterTree(counter) { _ in }
        let run = Task { try await supervisor.run() }
        #expect(await eventually { await supervisor.countChildren().active > 0 && counter.current != nil })
        await counter.current?.increment()
        #expect(await counter.current?.count == 1)
        supervisor.shutdown()
        try await run.value
    }

    @Test("The documented lines work, and work again after their pool has failed")
    func linesTalk() async throws {
        let pool = ChildRef<Pool<Line>>()
        let (events, event) = AsyncStream<SupervisorEvent>.makeStream()
        let supervisor = lines(pool, size: 2) { event.yield($0) }
        let run = Task { try await supervisor.run() }
        var starts = 0
        for await event in events {
            guard case .childStarted("workers", _) = event, let current = pool.current else { continue }
            try await current.waitUntilReady(deadline: .distantFuture)
            #expect(try await talk(pool) == ["said hello", "said goodbye"])
            starts += 1
            if starts == 2 { break }
            // Returning streams that were never leased is a defect that ends the pool.
            current.checkin(LeaseOrigin(worker: WorkerID(index: 0, generation: 1), connection: 1), count: 99)
        }
        #expect(await pool.current?.drain(within: .seconds(5)) == true)
        supervisor.shutdown()
        try await run.value
    }
}

import SupervisedPool

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

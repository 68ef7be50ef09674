extension Pool {
    /// The child specifications of a pool and its workers: first the pool, then a supervisor of its workers
    /// (`oneForOne`). Each start creates a new pool.
    ///
    /// Put both, in this order, below a supervisor whose strategy is ``SupervisionStrategy/restForOne``. If the pool
    /// fails, its workers are then restarted with the new pool.
    ///
    /// The number of workers is fixed by the configuration: ``reconfigure(_:)`` must not change `size` + `maxOverflow`.
    ///
    /// - Parameters:
    ///   - current: A reference to the current pool. A restart replaces the pool, so read the reference each time.
    ///   - configuration: The pool's configuration.
    ///   - clock: The clock.
    ///   - onEvent: Receives the pool's events. It is called inside the pool's actor, so it must return immediately.
    ///   - makeWorker: Creates a worker, a new one at each start.
    ///   - run: The worker's lifetime after its registration. It calls ``ChildContext/started(_:)``, and ends when it
    ///     is asked to stop or has failed. The pool detects its end without a report.
    public static func children(
        current: ChildRef<Pool>,
        configuration: PoolConfiguration,
        clock: any MonotonicClock = SystemMonotonicClock(),
        onEvent: @escaping @Sendable (PoolEvent) -> Void = { _ in },
        makeWorker: @escaping @Sendable (WorkerID, Pool) -> Worker,
        run: @escaping @Sendable (Worker, ChildContext) async throws -> Void
    ) -> [ChildSpec] {
        let pool = ChildSpec(id: "pool") { context in
            let pool = Pool(configuration: configuration, clock: clock, onEvent: onEvent)
            current.set(pool)
            try await pool.run(context)
        }
        let workers = (0..<configuration.workerCount).map { index in
            ChildSpec(id: ChildSpec.ID("worker-\(index)")) { context in
                guard let pool = current.current else {
                    throw PoolStateMachine(configuration).error(.notRunning, clock.now)
                }
                let id = WorkerID(index: index, generation: context.generation)
                let worker = makeWorker(id, pool)
                pool.register(worker, id: id, for: context)
                try await run(worker, context)
            }
        }
        return [
            pool,
            .supervisor(id: "workers") {
                Supervisor(name: "workers", strategy: .oneForOne, children: workers, clock: clock)
            },
        ]
    }
}

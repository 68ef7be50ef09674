extension Pool {
    /// The child specifications of a pool and its workers: a pool that is made anew at each start, then a supervisor of
    /// its workers (`oneForOne`). Put both, in this order, below a supervisor whose strategy is
    /// ``SupervisionStrategy/restForOne``: when the pool fails, its workers start again with the new one.
    ///
    /// There are as many workers as the configuration says, for good: ``reconfigure(_:)`` must not change `size` +
    /// `maxOverflow`.
    ///
    /// - Parameters:
    ///   - current: Where everybody finds the pool. It is another one after a restart, so ask each time.
    ///   - configuration: The pool's configuration.
    ///   - clock: The time.
    ///   - onEvent: Receives the pool's events, on the pool's thread; it must return at once.
    ///   - makeWorker: Makes a worker, a new one at each start.
    ///   - run: The worker's life, from its registration on. It calls ``ChildContext/started(_:)`` and ends when it is asked
    ///     to or has failed. The pool sees its end by itself.
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

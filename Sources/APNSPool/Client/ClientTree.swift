import Logging
import NIOCore
import SupervisedPool

/// The supervision tree of one credential session.
///
/// ```
/// Supervisor (rest_for_one, in this order)
/// ├─ pool                                   hands out streams; the connections report to it
/// ├─ connections: Supervisor (one_for_one)
/// │   ├─ connection-0                       a pool worker; owns one HTTP/2 session that takes streams
/// │   └─ connection-n  (size + maxOverflow)
/// ├─ management: Supervisor (rest_for_one)  where channels are managed
/// │   ├─ pool
/// │   └─ connection-0                       connects with the first call
/// └─ provider-token                         signs one token for all connections
/// ```
///
/// There is one tree for each credential session: one normally, and during rotations also one for the candidate and one
/// for each replaced credential that still drains. If the pool fails, the connections are restarted too, because their
/// leases belong to that pool. `provider-token` is the last child: its token is cached outside the tree, so its restart
/// affects no other child.
enum ClientTree {
    static func make(_ runtime: ClientRuntime, _ session: CredentialSession) -> Supervisor {
        let monitor = runtime.monitor
        let onEvent: @Sendable (SupervisorEvent) -> Void = { monitor.report($0) }
        var children = [
            ChildSpec(id: "pool", shutdown: .within(.seconds(5))) { context in
                let pool = session.currentPool.forChild()
                runtime.lifecycle.serving.open()
                try await pool.run(context)
            },
            .supervisor(id: "connections") {
                let supervisor = Supervisor(
                    name: "connections",
                    strategy: .oneForOne,
                    children: Self.connections(runtime, session, pool: session.pool),
                    clock: runtime.clock,
                    onEvent: { event in
                        onEvent(event)
                        // The settings may require another number of workers than when the supervisor was made.
                        if case .childStarted = event { session.resizer.signal() }
                    }
                )
                session.resizer.supervisor.set(supervisor)
                return supervisor
            },
            .supervisor(id: "management") {
                let endpoint = session.management
                let pool = ChildSpec(id: "pool", shutdown: .within(.seconds(5))) { context in
                    try await endpoint.currentPool.forChild().run(context)
                }
                let connection = Self.connection(runtime, 0, isBase: { false }, settings: endpoint.settings) {
                    endpoint.pool
                }
                return Supervisor(
                    name: "management",
                    strategy: .restForOne,
                    children: [pool, connection],
                    clock: runtime.clock,
                    onEvent: onEvent
                )
            },
        ]
        if let signer = session.resolved.signer {
            children.append(
                ChildSpec(id: "provider-token", shutdown: .within(.seconds(5))) { context in
                    let actor = TokenActor(
                        signer: signer,
                        source: session.resolved.authentication.tokenSource,
                        cache: session.tokens,
                        clock: runtime.clock,
                        user: ProviderTokenCache.User(version: session.version) { [name = session.resolved.name] in
                            monitor.reportSigning($0, credential: name)
                        }
                    )
                    try await actor.run(context)
                }
            )
        }
        return Supervisor(
            name: "apns",
            strategy: .restForOne,
            children: children,
            clock: runtime.clock,
            onEvent: onEvent
        )
    }

    private static func connections(
        _ runtime: ClientRuntime,
        _ session: CredentialSession,
        pool: Pool<ConnectionActor>
    ) -> [ChildSpec] {
        (0..<runtime.live.settings.pool.workerCount).map { Self.worker(runtime, session, $0, pool: pool) }
    }

    static func workerID(_ index: Int) -> ChildSpec.ID { ChildSpec.ID("connection-\(index)") }

    /// The child specification of the worker with this index in the pool.
    static func worker(
        _ runtime: ClientRuntime,
        _ session: CredentialSession,
        _ index: Int,
        pool: Pool<ConnectionActor>
    ) -> ChildSpec {
        Self.connection(
            runtime,
            index,
            isBase: { index < runtime.live.settings.pool.size },
            settings: session.settings,
            // A candidate credential has a single connection until it is adopted.
            after: index > 0 ? session.adopted : nil,
            tally: runtime.workers
        ) { pool }
    }

    /// - Parameters:
    ///   - latch: opens when the worker may begin; nil: immediately.
    ///   - tally: counts the worker; nil: it is not counted.
    ///   - pool: returns the pool that the worker belongs to. Called at each start.
    private static func connection(
        _ runtime: ClientRuntime,
        _ index: Int,
        isBase: @escaping @Sendable () -> Bool,
        settings: ConnectionSettings,
        after latch: Latch? = nil,
        tally: WorkerTally? = nil,
        pool: @escaping @Sendable () -> Pool<ConnectionActor>
    ) -> ChildSpec {
        // Every generation of a worker uses the same event loop.
        let loop = runtime.group.next()
        return ChildSpec(id: Self.workerID(index), shutdown: .within(.seconds(1))) { context in
            if let latch {
                context.started()
                await latch.wait()
            }
            let member = tally?.began(index)
            defer { member?.ended() }
            let worker = ConnectionActor(
                id: WorkerID(index: index, generation: context.generation),
                isBase: isBase(),
                pool: pool(),
                settings: settings,
                tally: member,
                clock: runtime.clock,
                loop: loop
            )
            try await worker.run(context)
        }
    }
}

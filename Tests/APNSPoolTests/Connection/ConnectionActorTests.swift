import NIOCore
import NIOPosix
import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import HTTP2Wire

/// The shell around the machine.
struct ConnectionActorTests {
    private final class WeakActor: Sendable {
        // Written once, before it is read.
        nonisolated(unsafe) weak var actor: ConnectionActor?
        init(_ actor: ConnectionActor) { self.actor = actor }
    }

    /// Runs a worker whose connect fails and that would try again in an hour, and stops it.
    private func stopInABackOff(port: Int) async throws -> WeakActor {
        let settings = ConnectionSettings(
            connection: Connection.Configuration(
                host: "127.0.0.1",
                port: port,
                tls: try TLSContext(.client, configuration: TLSConfiguration()),
                variableNames: RequestEncoder.variableNames
            ),
            streamCap: 1000,
            backoffMinimum: .seconds(3600),
            backoffMaximum: .seconds(7200),
            replacements: ReplacementBudget(burst: 1),
            retries: RetryBudget(percent: 20)
        )
        let events = Journal<PoolEvent>()
        let clock = SystemMonotonicClock()
        let pool = Pool<ConnectionActor>(
            configuration: PoolConfiguration(),
            clock: clock,
            onEvent: { events.write($0) }
        )
        let worker = ConnectionActor(
            id: WorkerID(slot: 0, generation: 1),
            isBase: true,
            pool: pool,
            settings: settings,
            clock: clock,
            loop: MultiThreadedEventLoopGroup.singleton.next()
        )
        let (poolContext, context) = (ChildContext(id: "pool"), ChildContext(id: "connection"))
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await pool.run(poolContext) }
            group.addTask { try await worker.run(context) }
            await events.wait {
                $0.contains { if case .reported(_, .backingOff) = $0 { true } else { false } }
            }
            context.requestShutdown()
            try await group.next()
            poolContext.requestShutdown()
            try await group.waitForAll()
        }
        return WeakActor(worker)
    }

    @Test func aStoppedActorIsNotHeldByItsTimer() async throws {
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(listener.localAddress?.port)
        try await listener.close()
        let box = try await stopInABackOff(port: port)
        await until { box.actor == nil }
        #expect(box.actor == nil)
    }
}

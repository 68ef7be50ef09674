import APNSModel
import NIOCore
import NIOPosix
import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport
@testable import APNSTransport

/// The actor that runs the connection state machine.
struct ConnectionActorTests {
    private final class WeakActor: Sendable {
        // Written once, before it is read.
        nonisolated(unsafe) weak var actor: ConnectionActor?
        init(_ actor: ConnectionActor) { self.actor = actor }
    }

    /// Runs a worker until `body` returns.
    private func withWorker(
        port: Int,
        clock: any MonotonicClock,
        _ body: (Journal<PoolEvent>, ConnectionActor) async throws -> Void
    ) async throws -> WeakActor {
        let settings = ConnectionSettings(
            connection: Connection.Configuration(
                host: "127.0.0.1",
                port: port,
                tls: try TLSContext(.client, configuration: TLSConfiguration()),
                variableNames: RequestEncoder.variableNames
            ),
            streamCap: 1000,
            backoff: Backoff(minimum: .seconds(3600), maximum: .seconds(7200)),
            replacements: .replacements(burst: 1)
        )
        let events = Journal<PoolEvent>()
        let pool = Pool<ConnectionActor>(
            configuration: PoolConfiguration(),
            clock: clock,
            onEvent: { events.write($0) }
        )
        let worker = ConnectionActor(
            id: WorkerID(index: 0, generation: 1),
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
            try await body(events, worker)
            context.requestShutdown()
            try await group.next()
            poolContext.requestShutdown()
            try await group.waitForAll()
        }
        return WeakActor(worker)
    }

    private static func backOffs(_ events: [PoolEvent]) -> [(until: MonotonicInstant, fault: PoolFault?)] {
        events.compactMap {
            if case .reported(_, .backingOff(let until, let fault)) = $0 { (until, fault) } else { nil }
        }
    }

    @Test("A push that reaches its connection after its deadline is not written")
    func lateOnTheLoop() async throws {
        let clock = ManualClock()
        try await withOwnLoop(configure: { $0.use(clock) }) { client, server, loop in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let blocked = await BlockedLoop(loop)
            let options = DeliveryOptions(deadline: .seconds(1))
            let push = Task { await client.deliver(samplePush(), to: deviceToken, options: options) }
            // It has its stream, so the pool ends it no more.
            await until { await client.status.pool.leased == 1 }
            clock.advance(by: .milliseconds(1100))
            blocked.release()
            let outcome = await push.value
            #expect(outcome.certainty == .notSent && outcome.error?.code == .deadlineExceeded)
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            #expect(server.record.pushes.count == 2)
        }
    }

    @Test("A push whose task is cancelled before its connection takes it is not written")
    func cancelledBeforeTheLoop() async throws {
        try await withOwnLoop { client, server, loop in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let blocked = await BlockedLoop(loop)
            let push = Task { await client.deliver(samplePush(), to: deviceToken) }
            await until { await client.status.pool.leased == 1 }
            push.cancel()
            blocked.release()
            let outcome = await push.value
            #expect(outcome.certainty == .notSent && outcome.error?.code == .cancelled)
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            #expect(server.record.pushes.count == 2)
        }
    }

    @Test("A push that no connection has reported ends as unknown when the worker stops")
    func leftovers() async throws {
        let (results, result) = AsyncStream<StreamResult>.makeStream()
        _ = try await self.withWorker(port: 1, clock: ManualClock()) { _, worker in
            // As if a connection had lost count of it.
            Task { result.yield(await worker.sendForgotten()) }
            await until { await worker.pendingCount == 1 }
        }
        var iterator = results.makeAsyncIterator()
        #expect(await iterator.next()?.ending == .unknown)
    }

    @Test("The resets of pushes that are cancelled at once leave in a few TLS records")
    func cancellationsAtOnce() async throws {
        let server = try await ScriptedServer.start { $0.number == 1 ? [.respond(200)] : [.hold] }
        let relay = try await TCPRelay.start(to: server.port)
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        var configuration = APNSClientConfiguration.local(port: relay.port, caPEM: server.caPEM)
        configuration.eventLoopGroup = group
        try await withAPNSClient(configuration: configuration) { client in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let pushes = (0..<500).map { number in
                Task { await client.deliver(samplePush(), to: DeviceToken.sample(number)) }
            }
            await server.wait { $0.held == 500 }
            let blocked = await BlockedLoop(group.next())
            let before = relay.clientRecords
            for push in pushes { push.cancel() }
            blocked.release()
            await server.wait { $0.cancelled == 500 }
            #expect(relay.clientRecords - before <= 3)
            for push in pushes { #expect(await push.value.certainty == .unknown) }
        }
        await relay.stop()
        await server.stop()
        try await group.shutdownGracefully()
    }

    @Test("The timer for the next connect does not retain a stopped worker")
    func stoppedWorkerIsReleased() async throws {
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(listener.localAddress?.port)
        try await listener.close()
        let box = try await self.withWorker(port: port, clock: SystemMonotonicClock()) { events, _ in
            await events.wait { !Self.backOffs($0).isEmpty }
        }
        await until { box.actor == nil }
        #expect(box.actor == nil)
    }

    @Test("The connect timeout and the wait before the next connect use the worker's clock")
    func oneClock() async throws {
        // Accepts connections and sends nothing. The timeout of an accepted connection is armed.
        let taken = Journal<Void>()
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelOption(.autoRead, value: false)
            .childChannelInitializer { channel in
                taken.write(())
                return channel.eventLoop.makeSucceededVoidFuture()
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(listener.localAddress?.port)
        let clock = ManualClock()
        let box = try await self.withWorker(port: port, clock: clock) { events, _ in
            let timeout = clock.now.advanced(by: .seconds(10))
            await taken.wait { $0.count == 1 }
            try await clock.advance(toWakeUpAt: timeout)
            await events.wait { Self.backOffs($0).count == 1 }
            let first = try #require(Self.backOffs(events.entries).first)
            #expect(first.fault?.description.contains("connect-timeout") == true)
            #expect(first.until >= timeout.advanced(by: .seconds(3600)))
            try await clock.advance(toWakeUpAt: first.until)
            await taken.wait { $0.count == 2 }
            try await clock.advance(toWakeUpAt: first.until.advanced(by: .seconds(10)))
            await events.wait { Self.backOffs($0).count == 2 }
        }
        await until { box.actor == nil }
        #expect(box.actor == nil)
        await until { clock.sleepers == 0 }
        #expect(clock.sleepers == 0)
        try await listener.close()
    }
}

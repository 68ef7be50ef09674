import Logging
import ServiceLifecycle
import Synchronization
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// A bulk loop in a service group, as on SIGTERM: it stops pulling, pushes in flight finish, and the loop ends.
struct BulkServiceTests {
    private struct LoopService: Service {
        let body: @Sendable () async throws -> Void

        func run() async throws { try await self.body() }
    }

    /// Runs the client and a loop as services of one group until `body` has returned and both have ended.
    private func withGroup(
        script: @escaping ScriptedServer.Script = { _ in [.respond(200)] },
        loop: @escaping @Sendable (APNSClient) async throws -> Void,
        _ body: (ServiceGroup, ScriptedServer) async throws -> Void
    ) async throws {
        let server = try await ScriptedServer.start(script: script)
        let client = try APNSClient(configuration: .local(server))
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: [
                    .init(service: client),
                    .init(
                        service: LoopService { try await loop(client) },
                        successTerminationBehavior: .gracefullyShutdownGroup
                    ),
                ],
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            )
        )
        let run = Task { try await group.run() }
        try await body(group, server)
        try await run.value
        await server.stop()
    }

    @Test("A loop over endless rows ends, and every row that was pulled has its outcome")
    func endlessRows() async throws {
        let control = BulkControl()
        let count = Mutex(0)
        try await self.withGroup { client in
            let options = BulkOptions(maxInFlight: 100, control: control)
            for await delivery in client.deliveries(
                of: samplePush(),
                to: 0...,
                token: { DeviceToken.sample($0) },
                options: options
            ) {
                #expect(delivery.outcome.certainty == .accepted)
                count.withLock { $0 += 1 }
            }
        } _: { group, server in
            await server.wait { $0.accepted.count >= 500 }
            await group.triggerGracefulShutdown()
        }
        let progress = control.progress
        #expect(progress.pulled == count.withLock { $0 } && progress.unfinished == 0)
        #expect(progress.completedPrefix == progress.pulled)
    }

    @Test("Pushes in flight have their outcomes before the loop ends")
    func inFlight() async throws {
        let summary = Mutex(BulkSummary())
        let (shutdowns, shutdown) = AsyncStream<Void>.makeStream()
        try await self.withGroup(script: { _ in [.hold] }) { client in
            async let sawShutdown: Void = {
                await until { Task.isShuttingDownGracefully }
                shutdown.finish()
            }()
            let all = await client.sendAll(
                samplePush(),
                to: (0..<1000).lazy.map { DeviceToken.sample($0) },
                options: BulkOptions(maxInFlight: 10)
            )
            summary.withLock { $0 = all }
            await sawShutdown
        } _: { group, server in
            await server.wait { $0.held == 10 }
            await group.triggerGracefulShutdown()
            for await _ in shutdowns {}
            #expect(summary.withLock { $0.total } == 0)
            server.release()
        }
        #expect(summary.withLock { $0.accepted == 10 && $0.total == 10 })
    }

    @Test("A loop that waits ends", arguments: ["for a resume", "for its rate", "for its input"])
    func waiting(_ reason: String) async throws {
        let hasEnded = Atomic(false)
        let (rows, row) = AsyncStream<Int>.makeStream()
        row.yield(0)
        try await self.withGroup { client in
            let control = BulkControl()
            switch reason {
            case "for a resume":
                for await _ in client.deliveries(
                    of: samplePush(),
                    to: 0...,
                    token: { DeviceToken.sample($0) },
                    options: BulkOptions(control: control)
                ) { control.pause() }
            case "for its rate":
                let options = BulkOptions(rate: .perSecond(0.001))
                for await _ in client.deliveries(
                    of: samplePush(),
                    to: 0...,
                    token: { DeviceToken.sample($0) },
                    options: options
                ) {}
            default:
                for await _ in client.deliveries(of: samplePush(), to: rows, token: { DeviceToken.sample($0) }) {}
            }
            hasEnded.store(true, ordering: .sequentiallyConsistent)
        } _: { group, server in
            await server.wait { $0.accepted.count >= 1 }
            await group.triggerGracefulShutdown()
        }
        let isOver = hasEnded.load(ordering: .sequentiallyConsistent)
        #expect(isOver)
    }

    @Test("A loop that begins during the shutdown pulls nothing")
    func afterShutdown() async throws {
        let total = Atomic(-1)
        try await self.withGroup { client in
            await until { Task.isShuttingDownGracefully }
            let summary = await client.sendAll(samplePush(), to: (0..<100).map { DeviceToken.sample($0) })
            total.store(summary.total, ordering: .sequentiallyConsistent)
        } _: { group, _ in
            await group.triggerGracefulShutdown()
        }
        let count = total.load(ordering: .sequentiallyConsistent)
        #expect(count == 0)
    }
}

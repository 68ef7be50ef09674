import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// A drain reaches every bulk call, wherever it waits, and ends its loop.
struct BulkShutdownTests {
    /// Shuts the client down with a time limit that is longer than the test may last. A call that misses the drain would
    /// use it up.
    private func shutDown(_ client: APNSClient) async {
        #expect(await ends { await client.shutdown(within: .seconds(3600)) })
    }

    @Test("A paused call ends")
    func paused() async throws {
        try await withServer { client, _ in
            let control = BulkControl()
            control.pause()
            let run = Task {
                await client.sendAll(
                    samplePush(),
                    to: (0..<100).map { DeviceToken.sample($0) },
                    options: BulkOptions(control: control)
                )
            }
            await until { client.runtime.lifecycle.pushesInFlight == 1 }
            await shutDown(client)
            #expect(await run.value.total == 0)
        }
    }

    @Test("A call with a low rate ends")
    func lowRate() async throws {
        try await withServer { client, server in
            let run = Task {
                await client.sendAll(
                    samplePush(),
                    to: (0..<100).map { DeviceToken.sample($0) },
                    options: BulkOptions(rate: .perSecond(0.01))
                )
            }
            await server.wait { $0.accepted.count == 1 }
            await shutDown(client)
            #expect(await run.value.accepted == 1)
        }
    }

    @Test("A call whose asynchronous input gives nothing ends")
    func silentInput() async throws {
        try await withServer { client, server in
            let (rows, row) = AsyncStream<Int>.makeStream()
            row.yield(0)
            let run = Task {
                var count = 0
                for await _ in client.deliveries(of: samplePush(), to: rows, token: { DeviceToken.sample($0) }) {
                    count += 1
                }
                return count
            }
            await server.wait { $0.accepted.count == 1 }
            await shutDown(client)
            #expect(await run.value == 1)
        }
    }

    /// An input that ignores the cancellation of its task.
    private struct DeafInput: AsyncSequence, Sendable {
        typealias Element = Int
        let latch: Latch

        struct AsyncIterator: AsyncIteratorProtocol {
            let latch: Latch
            mutating func next() async -> Int? {
                // An unstructured task is not cancelled with the task that waits for it.
                await Task { [latch] in _ = await latch.wait() }.value
                return nil
            }
        }

        func makeAsyncIterator() -> AsyncIterator { AsyncIterator(latch: self.latch) }
    }

    @Test("A call whose input ignores cancellation ends with the client")
    func deafInput() async throws {
        try await withServer { client, _ in
            let latch = Latch()
            let run = Task {
                var count = 0
                let rows = DeafInput(latch: latch)
                for await _ in client.deliveries(of: samplePush(), to: rows, token: { DeviceToken.sample($0) }) {
                    count += 1
                }
                return count
            }
            await until { client.runtime.lifecycle.pushesInFlight == 1 }
            await client.shutdown(within: .milliseconds(100))
            #expect(await run.value == 0)
            latch.open()
        }
    }

    @Test("A call that is held back ends")
    func heldBack() async throws {
        let closed = try #require(ClosedPort())
        defer { withExtendedLifetime(closed) {} }
        var configuration = APNSClientConfiguration.local(port: closed.number, caPEM: nil)
        configuration.pool.unavailableAfter = .milliseconds(100)
        let client = try APNSClient(configuration: configuration)
        try await client.start()
        let control = BulkControl()
        let run = Task {
            await client.sendAll(
                samplePush(),
                to: (0..<1000).map { DeviceToken.sample($0) },
                options: BulkOptions(control: control)
            )
        }
        await until { control.progress.pulled > 0 }
        await shutDown(client)
        #expect(await run.value.total == control.progress.pulled)
    }
}

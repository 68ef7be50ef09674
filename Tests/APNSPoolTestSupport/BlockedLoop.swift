import Dispatch
import NIOCore
import NIOPosix
import TestSupport

@testable import APNSPool

/// Blocks an event loop, like user code that computes on it or a process that is suspended.
struct BlockedLoop: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)

    /// Returns when the loop is blocked.
    init(_ loop: any EventLoop) async {
        let (semaphore, isBlocked) = (self.semaphore, Latch())
        loop.execute {
            isBlocked.open()
            // The limit only ends a test that has failed.
            _ = semaphore.wait(timeout: .now() + .seconds(Patience.seconds))
        }
        await isBlocked.wait()
    }

    func release() { self.semaphore.signal() }
}

/// Runs `body` with a server and a client whose connections have an event loop of their own.
func withOwnLoop(
    script: @escaping ScriptedServer.Script = { _ in [.respond(200)] },
    configure: (inout APNSClientConfiguration) -> Void = { _ in },
    _ body: (APNSClient, ScriptedServer, any EventLoop) async throws -> Void
) async throws {
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    try await withServer(
        script: script,
        configure: {
            $0.eventLoopGroup = group
            configure(&$0)
        }
    ) { client, server in
        try await body(client, server, group.next())
    }
    try await group.shutdownGracefully()
}

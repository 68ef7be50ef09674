import NIOCore
import NIOPosix
import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Shutdowns of a client while its supervision tree is starting.
struct ShutdownTests {
    @Test("A shutdown ends although the event loop group was shut down first, and each push has an outcome")
    func loopGroupEndedFirst() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        let server = try await ScriptedServer.start { $0.number == 1 ? [.respond(200)] : [.hold] }
        var configuration = APNSClientConfiguration.local(server)
        configuration.pool = .init(size: 1, maxOverflow: 1, connectSpacing: .zero)
        configuration.eventLoopGroup = group
        let client = try APNSClient(configuration: configuration)
        try await client.start()
        #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
        let held = Task { await client.deliver(samplePush(), to: deviceToken) }
        await server.wait { $0.held == 1 }
        try await group.shutdownGracefully()
        #expect(await ends { _ = await held.value })
        #expect(await held.value.certainty == .unknown)
        let late = Task { await client.deliver(samplePush(), to: deviceToken, options: .init(deadline: .seconds(5))) }
        #expect(await ends { await client.shutdown(within: .seconds(1)) })
        #expect(client.runtime.lifecycle.current == .stopped)
        #expect(await late.value.certainty == .notSent)
        await server.stop()
    }

    @Test("A client whose event loop group was shut down before its start can be shut down")
    func loopGroupEndedBeforeTheStart() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        var configuration = APNSClientConfiguration.local(port: 1, caPEM: nil)
        configuration.eventLoopGroup = group
        let client = try APNSClient(configuration: configuration)
        try await group.shutdownGracefully()
        try await client.start()
        let push = Task { await client.deliver(samplePush(), to: deviceToken, options: .init(deadline: .seconds(1))) }
        #expect(await ends { _ = await push.value })
        #expect(await push.value.certainty == .notSent)
        #expect(await ends { await client.shutdown(within: .seconds(1)) })
    }

    @Test("A credential session that is stopped before its tree has started never starts it")
    func stoppedBeforeItsTree() async throws {
        let client = try APNSClient.unstarted()
        let session = client.runtime.credentials.latest
        session.stop()
        let run = Task { try? await client.run() }
        #expect(await ends { await session.ended.wait() })
        #expect(await ends { await client.shutdown(within: .zero) })
        #expect(await ends { await run.value })
    }

    @Test("A revocation does not wait for a client that has ended without ever running")
    func revokedAfterTheEnd() async throws {
        let client = try APNSClient.unstarted()
        await client.shutdown(within: .zero)
        #expect(await ends { await client.revokeAuthentication() })
        #expect(await client.status.authentication.isRevoked)
    }

    @Test("A shutdown without time right after the start ends, even with unfinished pushes")
    func shutdownRightAfterStart() async throws {
        let server = try await ScriptedServer.start { _ in [.hold] }
        var configuration = APNSClientConfiguration.local(server)
        configuration.pool = .init(size: 2, maxOverflow: 0, connectSpacing: .zero)
        for round in 0..<TestScale.times(60) {
            let client = try APNSClient(configuration: configuration)
            let pushes = Task { await deliver(8, with: client) }
            let run = Task { @concurrent in try? await client.run() }
            for _ in 0..<(round % 20) { await Task.yield() }
            let hasEnded = await ends {
                await client.shutdown(within: .zero)
                await run.value
                _ = await pushes.value
            }
            #expect(hasEnded, "round \(round)")
            if !hasEnded { break }
        }
        await server.stop()
    }

    @Test("A shutdown while the authentication is replaced or revoked ends")
    func shutdownDuringReplacement() async throws {
        let server = try await ScriptedServer.start { _ in [.hold] }
        for round in 0..<TestScale.times(20) {
            let client = try APNSClient(configuration: .local(server))
            try await client.start()
            let pushes = Task { await deliver(4, with: client) }
            let change = Task { @concurrent in
                if round.isMultiple(of: 2) { await client.revokeAuthentication() }
                try? await client.replaceAuthentication(.withoutToken, within: nil)
            }
            for _ in 0..<(round % 20) { await Task.yield() }
            let hasEnded = await ends {
                await client.shutdown(within: .zero)
                await change.value
                _ = await pushes.value
            }
            #expect(hasEnded, "round \(round)")
            if !hasEnded { break }
        }
        await server.stop()
    }
}

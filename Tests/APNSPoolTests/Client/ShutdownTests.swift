import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool

/// Shutdowns of a client while its supervision tree is starting.
struct ShutdownTests {
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
            let pushes = Task { await ClientOutcomeTests.deliver(8, with: client) }
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
            let pushes = Task { await ClientOutcomeTests.deliver(4, with: client) }
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

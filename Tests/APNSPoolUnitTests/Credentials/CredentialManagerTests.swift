import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The credential sessions of a client whose supervision trees do not run.
struct CredentialManagerTests {
    /// Begins a rotation, and returns the client, its active session and the candidate.
    private func beginRotation() async throws -> (APNSClient, active: CredentialSession, candidate: CredentialSession) {
        let client = try APNSClient.unstarted()
        let credentials = client.runtime.credentials
        let active = credentials.latest
        credentials.start()
        return (client, active, try await client.beginCandidate())
    }

    /// Starts a checkout that waits in the session's pool. The task returns its error.
    private func waitForStream(of session: CredentialSession, _ client: APNSClient) async -> Task<PoolError?, Never> {
        let deadline = client.runtime.clock.now.advanced(by: .seconds(3600))
        let waiter = Task { () -> PoolError? in
            do throws(PoolError) {
                try await session.pool.checkout(deadline: deadline).release()
                return nil
            } catch {
                return error
            }
        }
        await until { await session.pool.status().queueDepth == 1 }
        return waiter
    }

    enum Change: CaseIterable {
        case replacement, revocation
    }

    @Test(
        "Replacing or revoking the credential before the start releases the pushes that wait in its pool",
        arguments: Change.allCases
    )
    func changeBeforeTheStart(_ change: Change) async throws {
        let client = try APNSClient.unstarted()
        let session = client.runtime.credentials.latest
        let waiter = await self.waitForStream(of: session, client)
        switch change {
        case .replacement: try await client.replaceAuthentication(.withoutToken)
        case .revocation: await client.revokeAuthentication()
        }
        #expect(await ends { _ = await waiter.value })
        waiter.cancel()
        let error = try #require(await waiter.value)
        guard case .notSent(_, _, _, isFinal: false) = SendRoute(session, .pushes, version: 0).end(error) else {
            Issue.record("the push is not resent with the next credential: \(error)")
            return
        }
        await client.shutdown()
    }

    @Test("Stopping a session before its tree runs fails the checkouts that wait in its pool")
    func stoppedBeforeItsTree() async throws {
        let client = try APNSClient.unstarted()
        let session = client.runtime.credentials.latest
        let waiter = await self.waitForStream(of: session, client)
        session.stop()
        let run = Task { try? await client.run() }
        #expect(await ends { _ = await waiter.value })
        waiter.cancel()
        #expect(await waiter.value?.code == .shuttingDown)
        await client.shutdown()
        await run.value
    }

    @Test("A key that was found in a file supersedes no candidate of the user's own")
    func candidateOfTheUser() async throws {
        let (client, _, candidate) = try await self.beginRotation()
        let credentials = client.runtime.credentials
        let found = try credentials.makeSession(try await client.runtime.resolve(.withoutToken))
        #expect(credentials.begin(found, supersedes: false) == .busy)
        #expect(credentials.candidate === candidate && !candidate.isRetired)
        await client.shutdown()
    }

    @Test("After the tree of a candidate has ended, pushes use the active credential")
    func forgottenCandidate() async throws {
        let (client, active, candidate) = try await self.beginRotation()
        let credentials = client.runtime.credentials
        #expect(credentials.candidate === candidate)
        credentials.forget(candidate)
        #expect(credentials.current === active)
        #expect(!credentials.isRevoked && credentials.candidate == nil && candidate.isRetired)
        await client.shutdown()
    }
}

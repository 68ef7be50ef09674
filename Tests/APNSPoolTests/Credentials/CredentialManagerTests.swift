import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool

extension CredentialManager {
    /// Whether the next push tries a candidate.
    var isArmed: Bool { self.onTrial.map { self.phase(of: $0) == .armed } ?? false }

    /// Begins the rotation to a candidate that needs no provider token.
    func beginCandidate() async throws -> CredentialSession {
        let candidate = try self.makeSession(try await self.resolve(.withoutToken))
        #expect(self.begin(candidate))
        return candidate
    }
}

/// Runs each job immediately on the caller's thread: waking a task of this executor returns when the task suspends again.
private final class InlineExecutor: TaskExecutor {
    func enqueue(_ job: consuming ExecutorJob) {
        UnownedJob(job).runSynchronously(on: self.asUnownedTaskExecutor())
    }
}

/// The credential sessions of a client whose supervision trees do not run.
struct CredentialManagerTests {
    /// Begins a rotation, and returns the client, its active session and the candidate.
    private func beginRotation() async throws -> (APNSClient, active: CredentialSession, candidate: CredentialSession) {
        let client = try APNSClient.unstarted()
        let credentials = client.runtime.credentials
        let active = credentials.latest
        credentials.start()
        return (client, active, try await credentials.beginCandidate())
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

    @Test("After the tree of a candidate has ended, pushes use the active credential")
    func forgottenCandidate() async throws {
        let (client, active, candidate) = try await self.beginRotation()
        let credentials = client.runtime.credentials
        #expect(credentials.arm(candidate))
        credentials.forget(candidate)
        let route = try #require(credentials.route())
        #expect(route.session === active && route.probe == nil)
        #expect(!credentials.isRevoked && credentials.onTrial == nil && candidate.isRetired)
        await client.shutdown()
    }

    @Test("A replacement that is cancelled before its connection is ready sends no push with the candidate")
    func cancelledBeforeTheConnection() async throws {
        let configuration = APNSClientConfiguration.local(port: 1, caPEM: nil)
        let version = SendRouteVersion()
        let manager = try CredentialManager(
            CredentialSessionFactory(
                configuration,
                monitor: ClientMonitor(configuration),
                replacements: ReplacementBudget(burst: 1),
                retries: RetryBudget(percent: 20),
                version: version
            ),
            live: LiveSettings(configuration),
            lifecycle: ClientLifecycle(version: version),
            version: version
        )
        manager.start()
        let before = version.current
        let replacement = Task { () -> APNSAuthenticationError? in
            do throws(APNSAuthenticationError) {
                try await manager.replace(with: try await manager.resolve(.withoutToken), within: nil)
                return nil
            } catch {
                return error
            }
        }
        await until { manager.onTrial != nil }
        replacement.cancel()
        #expect(await replacement.value?.code == .cancelled)
        #expect(manager.onTrial == nil)
        // The start and the end of the trial and the retirement of its session outdate the routes. Arming the candidate
        // would outdate them once more.
        #expect(version.current == before + 3)
    }

    @Test("A settings update reaches a candidate that becomes the active credential during the update")
    func updateDuringTheRotation() async throws {
        let (client, active, candidate) = try await self.beginRotation()
        let credentials = client.runtime.credentials
        // The update wakes this task as soon as the active session has the new settings.
        let rotation = Task(executorPreference: InlineExecutor()) {
            for await _ in active.resizer.starts {
                credentials.accepted(candidate)
                return
            }
        }
        try client.update { $0.pool.maxConcurrentStreams = 7 }
        #expect(credentials.latest === candidate, "the rotation did not happen during the update")
        #expect(active.settings.streamCap == 7)
        #expect(candidate.settings.streamCap == 7)
        await rotation.value
        await client.shutdown()
    }
}

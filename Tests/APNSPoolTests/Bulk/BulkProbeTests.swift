import HTTP2Wire
import NIOPosix
import SupervisedPool
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// A bulk call releases its right to probe a candidate credential, even while its consumer takes no outcomes.
struct BulkProbeTests {
    /// Sets up an unstarted client, a candidate, and a batch of one push that probes the candidate.
    private func withProbe(
        _ body: (CredentialManager, CredentialSession, PushBatch) async throws -> Void
    ) async throws {
        let client = try APNSClient.unstarted()
        let credentials = client.runtime.credentials
        credentials.start()
        let candidate = try await credentials.beginCandidate()
        #expect(credentials.arm(candidate))
        let probe = try #require(credentials.route()?.probe)
        let batch = PushBatch(
            requests: RequestBatch(shared: HeaderBlock([]), credential: nil, body: [], isBulk: true),
            indices: [0],
            collector: BulkCollector(),
            origin: LeaseOrigin(worker: WorkerID(index: 0, generation: 1), session: 1),
            probe: probe
        )
        #expect(!self.mayProbe(candidate, credentials))
        try await body(credentials, candidate, batch)
        withExtendedLifetime(probe) {}
        await client.shutdown()
    }

    /// Whether another push may probe the candidate once it is armed.
    private func mayProbe(_ candidate: CredentialSession, _ credentials: CredentialManager) -> Bool {
        credentials.arm(candidate) && credentials.phase(of: candidate) == .armed
    }

    @Test("The last response of a batch releases its probe")
    func lastResponse() async throws {
        try await self.withProbe { credentials, candidate, batch in
            var pending = PendingPushes()
            var results = TickResults(pool: candidate.pool)
            let tag = pending.insert(batch)
            #expect(!self.mayProbe(candidate, credentials))
            results.add(.notSent(.noCapacity, tag: tag), of: &pending)
            results.deliver(&pending)
            #expect(self.mayProbe(candidate, credentials))
        }
    }

    @Test("A batch sent to a closed connection releases its probe")
    func closedConnection() async throws {
        try await self.withProbe { credentials, candidate, batch in
            let worker = ConnectionActor(
                id: WorkerID(index: 0, generation: 1),
                isBase: true,
                pool: candidate.pool,
                settings: candidate.settings,
                clock: credentials.configuration.clock,
                loop: MultiThreadedEventLoopGroup.singleton.next()
            )
            // The cancelled run closes the mailbox at once.
            let run = Task { try await worker.run(ChildContext(id: "connection")) }
            run.cancel()
            _ = await run.result
            worker.send(batch)
            #expect(self.mayProbe(candidate, credentials))
            // Until the pool runs, its mailbox retains the worker, which retains the pool.
            let pool = Task { try await candidate.pool.run(ChildContext(id: "pool")) }
            pool.cancel()
            _ = await pool.result
        }
    }

    @Test("A bulk call that waits for a stream releases its probe before its consumer receives an outcome")
    func waitingCall() async throws {
        try await withServer(limit: 1) { client, server in
            let credentials = client.runtime.credentials
            let deadline = client.runtime.sending.deadline(.seconds(3600))
            let candidate = try await credentials.beginCandidate()
            // The candidate's only stream is in use.
            let lease = try await candidate.pool.checkout(deadline: deadline)
            let deliveries = client.deliveries(
                of: samplePush(),
                to: 0..<2,
                token: { row in
                    if row == 1 { #expect(credentials.arm(candidate)) }
                    return DeviceToken.sample(row)
                },
                options: BulkOptions(maxInFlight: 1)
            )
            var iterator = deliveries.makeAsyncIterator()
            #expect(await iterator.next()?.outcome.certainty == .accepted)
            // The second push waits for a stream of the candidate.
            await until { await candidate.pool.status().bulkQueueDepth == 1 }
            #expect(self.mayProbe(candidate, credentials))
            credentials.giveUp(candidate, .superseded)
            lease.release()
            #expect(await iterator.next()?.outcome.certainty == .accepted)
            #expect(await iterator.next() == nil)
        }
    }
}

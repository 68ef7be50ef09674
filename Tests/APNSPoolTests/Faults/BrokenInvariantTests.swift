import APNSTransport
import NIOCore
import SupervisedPool
import Synchronization
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// A defect in the library ends an actor: its supervisor restarts it, and the affected pushes have the right outcome.
struct BrokenInvariantTests {
    /// A request with more fields than a session accepts.
    private func invalidRequest() -> HTTP2Request {
        HTTP2Request(
            shared: HeaderBlock((0..<70).map { HeaderBlock.Field("x-\($0)", "y") }),
            credential: nil,
            values: Array("/3/device/00".utf8),
            valueLengths: SIMD8<UInt16>(12, 0, 0, 0, 0, 0, 0, 0),
            body: []
        )
    }

    @Test func theActorRestartsAndOtherPushesAreServed() async throws {
        let script: ScriptedServer.Script = { $0.connection == 1 && $0.number > 1 ? [.hold] : [.respond(200)] }
        try await withServer(limit: 20, script: script) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let pushes = Task { await deliver(50, with: client) }
            await server.wait { $0.held == 20 }
            await until { await client.status.pool.queueDepth >= 30 }
            let crash = Task { await client.crashWorker() }
            await until { await client.status.pool.queueDepth >= 31 }
            // Release streams until the crash gets one.
            await until {
                server.release()
                return client.runtime.monitor.restarts.load(ordering: .relaxed) > 0
            }
            #expect(await crash.value)
            let outcomes = await pushes.value
            #expect(outcomes.allSatisfy { $0.certainty == .accepted || $0.certainty == .unknown })
            for outcome in outcomes where outcome.certainty == .unknown {
                #expect(outcome.error?.code == .connectionLost)
            }
            #expect(await client.status.restarts == 1)
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
        }
    }

    @Test("An invalid request fails alone: it is not resent, and its neighbours on the connection get their responses")
    func invalidRequestFailsAlone() async throws {
        let script: ScriptedServer.Script = { $0.number > 1 ? [.hold] : [.respond(200)] }
        try await withServer(script: script) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let neighbours = Task { await deliver(10, with: client) }
            await server.wait { $0.held == 10 }
            let core = client.runtime
            var lease = try await core.pool.checkout(deadline: core.sending.deadline(nil))
            let worker = lease.worker
            let deadline = core.sending.deadline(nil)
            let result = await worker.send(self.invalidRequest(), with: &lease, deadline: deadline)
            var history = PushHistory(id: APNSID.random(), deadline: core.sending.deadline(nil))
            let end = core.sending.evaluate(result, of: nil, &history)
            guard case .finish(let outcome) = core.sending.decide(end, &history) else {
                Issue.record("the push would be resent")
                return
            }
            #expect(outcome.error?.code == .connectionFault)
            #expect(outcome.certainty == .notSent)
            server.release()
            #expect(await neighbours.value.allSatisfy { $0.certainty == .accepted })
            #expect(await client.status.restarts == 0)
            #expect(server.record.connections == 1)
        }
    }

    @Test func anInvalidBulkBatchReturnsAllLeases() async throws {
        try await withServer { client, _ in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let collector = BulkCollector()
            let core = client.runtime
            do {
                var lease = try await core.pool.checkout(wanted: 10, deadline: core.sending.deadline(nil))
                let worker = lease.worker
                let origin = lease.origin
                let count = lease.take(10)
                let invalid = self.invalidRequest()
                var requests = RequestBatch(shared: invalid.shared, credential: nil, body: invalid.body, isBulk: true)
                let deadline = NIODeadline(core.clock.now.advanced(by: .seconds(10)))
                for _ in 0..<count {
                    requests.values += invalid.values
                    requests.entries.append(
                        .init(valueLengths: invalid.valueLengths, body: [], deadline: deadline)
                    )
                }
                worker.send(
                    PushBatch(
                        requests: requests,
                        indices: (0..<count).map { Int32($0) },
                        collector: collector,
                        origin: origin
                    )
                )
                var seen: [Int] = []
                while seen.count < count {
                    await collector.wait()
                    let items = collector.take().joined()
                    seen += items.map(\.index)
                    #expect(items.allSatisfy { $0.result.ending == .notSent && $0.result.cause == .faulty })
                }
                #expect(seen.sorted() == Array(0..<count))
            }
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            #expect(await client.status.pool.leased == 0)
            #expect(await client.status.restarts == 0)
        }
    }

    @Test func tooManyRestartsCauseAPauseAndThenARecovery() async throws {
        let clock = ManualClock()
        try await withServer(configure: { $0.use(clock) }) { client, _ in
            // The time stands still, so all crashes fall into one window: 4 end the connections' supervisor, and
            // 4 ends of that supervisor end the tree.
            var crashes = 0
            await until {
                if await client.crashWorker() { crashes += 1 }
                return client.runtime.monitor.escalations.load(ordering: .relaxed) > 0
            }
            // On a busy machine a connection that is already ending can be crashed once more.
            #expect((16...20).contains(crashes))
            await until { client.runtime.sending.router.isPaused }
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.certainty == .notSent)
            #expect(outcome.error?.code == .unavailable)
            #expect(outcome.retryAfter == .seconds(30))
            // A bulk call waits for the recovery.
            let control = BulkControl()
            let bulk = Task {
                let options = BulkOptions(control: control)
                return await client.sendAll(
                    samplePush(),
                    to: (0..<100).map { DeviceToken.sample($0) },
                    options: options
                )
            }
            await until { control.progress.hold?.code == .unavailable }
            clock.advance(by: .seconds(30))
            await until { !client.runtime.sending.router.isPaused }
            // A push that was routed to the old pool is resent after a short delay, so the clock must advance.
            let push = Task { await client.deliver(samplePush(), to: deviceToken) }
            #expect(await ends(advancing: clock, for: [client]) { _ = await push.value })
            #expect(await push.value.certainty == .accepted)
            #expect(await ends(advancing: clock, for: [client]) { _ = await bulk.value })
            #expect(await bulk.value.accepted == 100)
        }
    }

    @Test func aShutdownDoesNotWaitForThePause() async throws {
        let clock = ManualClock()
        try await withServer(configure: { $0.use(clock) }) { client, _ in
            await until {
                _ = await client.crashWorker()
                return client.runtime.sending.router.isPaused
            }
            await client.shutdown()
            #expect(client.runtime.lifecycle.current == .stopped)
        }
    }

    @Test("A revocation does not wait for the pause after an escalation")
    func revocationDuringThePause() async throws {
        let clock = ManualClock()
        try await withServer(configure: { $0.use(clock) }) { client, _ in
            await until {
                _ = await client.crashWorker()
                return client.runtime.sending.router.isPaused
            }
            await client.revokeAuthentication()
            #expect(!client.runtime.sending.router.isPaused)
            #expect(await client.deliver(samplePush(), to: deviceToken).error?.code == .credential)
        }
    }

    @Test("A credential that is given during the pause after an escalation is probed, and ends the pause")
    func replacementDuringThePause() async throws {
        let clock = ManualClock()
        try await withServer(configure: { $0.use(clock) }) { client, _ in
            await until {
                _ = await client.crashWorker()
                return client.runtime.sending.router.isPaused
            }
            try await client.replaceAuthentication(.withoutToken, within: .seconds(10))
            #expect(!client.runtime.sending.router.isPaused)
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
        }
    }
}

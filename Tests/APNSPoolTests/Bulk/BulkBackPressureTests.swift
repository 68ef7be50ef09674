import APNSTransport
import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// A bulk call does not pull its whole input while pushes cannot succeed.
struct BulkBackPressureTests {
    /// Signs with ``ScriptedSigner``.
    private struct Signer: APNSTokenSigner {
        var script = ScriptedSigner()

        func signature(for bytes: [UInt8]) async throws -> [UInt8] { try await script.sign() }
    }

    /// The most elements that a call pulls before it notices that pushes cannot succeed.
    private static let mostPulled = 64

    /// Far more rows than a call may pull meanwhile.
    private static let rows = 1500

    /// Sends `count` rows in a separate task.
    ///
    /// - Returns: the control that shows the progress, and the task.
    private func send(
        _ client: APNSClient,
        options: BulkOptions = BulkOptions(),
        count: Int = Self.rows
    ) -> (control: BulkControl, run: Task<BulkSummary, Never>) {
        var options = options
        let control = BulkControl()
        options.control = control
        let run = Task { [options] in
            var summary = BulkSummary()
            for await delivery in client.deliveries(
                of: samplePush(),
                to: 0..<count,
                token: { DeviceToken.sample($0) },
                options: options
            ) {
                summary.count(delivery.outcome.certainty)
                // Keep one error for the failure message.
                if let error = delivery.outcome.error { summary.stopped = error }
            }
            return summary
        }
        return (control, run)
    }

    @Test("An outage holds the input back; its rows are sent once APNs is reachable again")
    func outage() async throws {
        let server = try await ScriptedServer.start()
        let closed = try #require(ClosedPort())
        let network = AddressSwitch(closed.number)
        var configuration = APNSClientConfiguration.local(server)
        configuration.pool.unavailableAfter = .milliseconds(200)
        network.apply(to: &configuration)
        let client = try APNSClient(configuration: configuration)
        try await client.start()
        let (control, run) = send(client)
        await until { control.progress.hold?.code == .unavailable || control.progress.pulled > Self.mostPulled }
        #expect(control.progress.pulled <= Self.mostPulled)
        // Single pushes fail meanwhile.
        #expect(await client.deliver(samplePush(), to: deviceToken).error?.code == .unavailable)
        network.point(to: server.port)
        let summary = await run.value
        #expect(summary.accepted == Self.rows, "\(summary)")
        #expect(control.progress.hold == nil)
        await client.shutdown()
        await server.stop()
    }

    @Test("A full queue holds the input back")
    func fullQueue() async throws {
        let script: ScriptedServer.Script = {
            [.sample(90_000), .sample(90_001)].contains($0.deviceToken) ? [.hold] : [.respond(200)]
        }
        try await withServer(limit: 1, script: script, configure: { $0.pool.maxQueued = 1 }) { client, server in
            let inFlight = Task { await client.deliver(samplePush(), to: DeviceToken.sample(90_000)) }
            await server.wait { $0.held == 1 }
            let waiting = Task { await client.deliver(samplePush(), to: DeviceToken.sample(90_001)) }
            await until { await client.status.pool.queueDepth == 1 }
            let (control, run) = send(client)
            await until { control.progress.hold?.code == .queueFull || control.progress.pulled > Self.mostPulled }
            #expect(control.progress.pulled <= Self.mostPulled)
            server.release()
            await server.wait { $0.held == 1 && $0.accepted.count >= 1 }
            server.release()
            #expect(await inFlight.value.certainty == .accepted)
            #expect(await waiting.value.certainty == .accepted)
            let summary = await run.value
            #expect(summary.accepted == Self.rows, "\(summary)")
        }
    }

    @Test("A refused credential holds the input back until it is accepted again")
    func refusedCredential() async throws {
        let clock = ManualClock()
        try await withServer(
            script: { _ in [.respond(403, reason: "InvalidProviderToken")] },
            configure: {
                $0.use(clock)
                $0.authentication = .token(
                    signer: Signer(),
                    keyID: "9UC9ZLQ8YW",
                    teamID: "ABBM6U9RM5"
                )
            }
        ) { client, server in
            for _ in 1...2 { _ = await client.deliver(samplePush(), to: deviceToken) }
            let (control, run) = send(client)
            await until { control.progress.hold?.code == .credential || control.progress.pulled > Self.mostPulled }
            #expect(control.progress.pulled <= Self.mostPulled)
            #expect(control.progress.outcomes.total == 0)
            server.follow { _ in [.respond(200)] }
            clock.advance(by: .seconds(5))
            let summary = await run.value
            #expect(summary.accepted == Self.rows, "\(summary)")
        }
    }

    @Test("A signer that fails holds the input back until it signs again")
    func failingSigner() async throws {
        let signer = ScriptedSigner()
        signer.setFailing(true)
        try await withServer(
            configure: {
                $0.authentication = .token(signer: Signer(script: signer), keyID: "9UC9ZLQ8YW", teamID: "ABBM6U9RM5")
            }
        ) { client, _ in
            let (control, run) = send(client)
            await until { control.progress.hold?.code == .credential || control.progress.pulled > Self.mostPulled }
            #expect(control.progress.pulled <= Self.mostPulled)
            signer.setFailing(false)
            let summary = await run.value
            #expect(summary.accepted == Self.rows, "\(summary)")
        }
    }

    @Test("Unread outcomes and pushes in flight are at most `maxInFlight`", arguments: [1, 7, 300])
    func unread(limit: Int) async throws {
        try await withServer { client, _ in
            var random = SeededRandom(seed: UInt64(limit))
            var (pulled, received, most) = (0, 0, 0)
            let rows = (0..<Self.rows).lazy.map { row in
                pulled += 1
                most = max(most, pulled - received)
                return row
            }
            let options = BulkOptions(maxInFlight: limit)
            for await _ in client.deliveries(
                of: samplePush(),
                to: rows,
                // One row in four is refused before it is sent.
                token: { $0 % 4 == 0 ? "no token" : DeviceToken.sample($0).hexadecimal },
                options: options
            ) {
                received += 1
                // Responses arrive meanwhile.
                if Int.random(in: 0..<8, using: &random) == 0 { await TestScale.letOthersRun() }
            }
            #expect(received == Self.rows)
            #expect(most <= limit && most > limit / 2)
        }
    }

    @Test("While connections give no response, the call risks one push at a time")
    func silence() async throws {
        try await withServer(
            script: { _ in [.hold] },
            configure: { $0.timeouts.response = .milliseconds(1100) }
        ) { client, server in
            let (control, run) = send(client, options: BulkOptions(maxInFlight: 20))
            await until { control.progress.outcomes.unknown >= 23 }
            // First the pushes in flight, then one after another.
            #expect(control.progress.pulled <= control.progress.outcomes.unknown + Self.mostPulled)
            #expect(control.progress.hold != nil)
            server.follow { _ in [.respond(200)] }
            // From here on a busy machine may respond slowly.
            try client.update { $0.timeouts.response = .seconds(600) }
            let summary = await run.value
            #expect(summary.accepted >= Self.rows - 100, "\(summary)")
            #expect(summary.total == Self.rows)
        }
    }

    @Test("Held rows end at their own deadlines, and one row at a time is tried")
    func heldRowsExpire() async throws {
        let closed = try #require(ClosedPort())
        defer { withExtendedLifetime(closed) {} }
        var configuration = APNSClientConfiguration.local(port: closed.number, caPEM: nil)
        configuration.pool.unavailableAfter = .milliseconds(100)
        let client = try APNSClient(configuration: configuration)
        try await client.start()
        let (control, run) = send(client, options: BulkOptions(deadline: .milliseconds(300)))
        await until { control.progress.outcomes.notSent >= Self.mostPulled + 2 }
        // One row may have ended without being taken yet, and the next one is pulled.
        #expect(control.progress.pulled <= control.progress.outcomes.notSent + 2)
        control.stop()
        let summary = await run.value
        #expect(summary.notSent == control.progress.pulled)
        await client.shutdown(within: .zero)
    }

    @Test("A stop during a hold ends the pulled rows at once")
    func stopDuringHold() async throws {
        let closed = try #require(ClosedPort())
        defer { withExtendedLifetime(closed) {} }
        var configuration = APNSClientConfiguration.local(port: closed.number, caPEM: nil)
        configuration.pool.unavailableAfter = .milliseconds(100)
        let client = try APNSClient(configuration: configuration)
        try await client.start()
        let (control, run) = send(client)
        await until { control.progress.hold != nil }
        control.stop()
        let summary = await run.value
        #expect(summary.notSent == control.progress.pulled)
        #expect(summary.total <= Self.mostPulled)
        await client.shutdown(within: .zero)
    }

    @Test("The loop's body can send with the only stream, although the call waits for it")
    func singlePushInsideTheLoop() async throws {
        let script: ScriptedServer.Script = { $0.deviceToken == .sample(90_000) ? [.hold] : [.respond(200)] }
        try await withServer(limit: 1, script: script) { client, server in
            // Holds the only stream, so the call's own checkout waits.
            let single = Task { await client.deliver(samplePush(), to: DeviceToken.sample(90_000)) }
            await server.wait { $0.held == 1 }
            let invalid = (0..<5).map { "no token \($0)" } + (0..<5).map { DeviceToken.sample($0).hexadecimal }
            var accepted = 0
            for await delivery in client.deliveries(of: samplePush(), to: invalid, token: { $0 }) {
                if delivery.outcome.certainty == .accepted { accepted += 1 }
                if server.record.held == 1 {
                    await until { await client.status.pool.bulkQueueDepth == 1 }
                    server.release()
                    #expect(await single.value.certainty == .accepted)
                }
                let outcome = await client.deliver(samplePush(), to: deviceToken)
                #expect(outcome.certainty == .accepted, "\(outcome)")
            }
            #expect(accepted == 5)
        }
    }
}

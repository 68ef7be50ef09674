import Logging
import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// How the client handles a credential that APNs refuses.
struct CredentialFaultTests {
    private static let invalid: ScriptedServer.Script = { _ in [.respond(403, reason: "InvalidProviderToken")] }

    private func authentication() -> APNSAuthentication {
        .token(privateKeyPEM: KeyTexts.p256, keyID: "9UC9ZLQ8YW", teamID: "ABBM6U9RM5")
    }

    @Test func twoRefusalsAreAFaultAndAnAcceptedPushEndsIt() async throws {
        let clock = ManualClock()
        let (logger, lines) = RecordingLog.make()
        try await withServer(
            script: Self.invalid,
            configure: {
                $0.use(clock)
                $0.authentication = authentication()
                $0.logger = logger
            }
        ) { client, server in
            for attempt in 1...2 {
                let outcome = await client.deliver(samplePush(), to: deviceToken)
                #expect(outcome.status == 403 && outcome.attempts == 1, "\(attempt)")
            }
            #expect(Set(server.record.pushes.map(\.connection)).count == 2)
            // From now on nothing reaches the wire.
            for outcome in await deliver(100, with: client) {
                #expect(outcome.error?.code == .credential && outcome.certainty == .notSent)
                #expect(outcome.retryAfter ?? .zero > .zero && outcome.retryAfter ?? .zero <= .seconds(5))
                #expect(outcome.error?.message.contains("InvalidProviderToken") == true)
                #expect(outcome.error?.message.contains("9UC9ZLQ8YW") == true)
            }
            let control = BulkControl()
            let bulk = Task {
                let options = BulkOptions(control: control)
                return await client.sendAll(
                    samplePush(),
                    to: (0..<500).map { DeviceToken.sample($0) },
                    options: options
                )
            }
            await until { control.progress.hold?.code == .credential }
            control.stop()
            let summary = await bulk.value
            #expect(summary.notSent == summary.total && summary.total <= 64)
            #expect(server.record.pushes.count == 2)
            #expect(await client.status.hasCredentialFault)

            // One push is tried; it is refused, and the hold-off is twice as long.
            clock.advance(by: .seconds(5))
            let second = await deliver(50, with: client)
            #expect(second.count { $0.status == 403 } == 1)
            #expect(second.count { $0.error?.code == .credential } == 49)
            #expect(server.record.pushes.count == 3)
            let refused = await client.deliver(samplePush(), to: deviceToken)
            #expect(refused.retryAfter ?? .zero > .seconds(5) && refused.retryAfter ?? .zero <= .seconds(10))

            server.follow { _ in [.respond(200)] }
            // The reconnect after the refusal uses the same clock.
            await until { await client.status.pool.capacity > 0 }
            clock.advance(by: .seconds(10))
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            #expect(await deliver(100, with: client).allSatisfy { $0.certainty == .accepted })
            #expect(await !client.status.hasCredentialFault)
            await lines.wait { $0.contains { $0.message.contains("accepts the credential again") } }
        }
        #expect(lines.count(.critical, containing: "refuses the credential") == 1)
        #expect(lines.count(.notice, containing: "accepts the credential again") == 1)
    }

    @Test func aBulkCallTriesOnePush() async throws {
        let clock = ManualClock()
        try await withServer(
            script: Self.invalid,
            configure: {
                $0.use(clock)
                $0.authentication = authentication()
            }
        ) { client, server in
            for _ in 1...2 { _ = await client.deliver(samplePush(), to: deviceToken) }
            clock.advance(by: .seconds(5))
            server.follow { _ in [.respond(200)] }
            let summary = await client.sendAll(samplePush(), to: (0..<300).map { DeviceToken.sample($0) })
            // The first push is the trial; the others wait for its outcome.
            #expect(summary.accepted == 300)
        }
    }

    @Test func refusalsOnOneConnectionAreNotAFault() async throws {
        let script: ScriptedServer.Script = { push in
            push.connection == 1 ? [.respond(403, reason: "InvalidProviderToken")] : [.respond(200)]
        }
        try await withServer(script: script, configure: { $0.authentication = authentication() }) { client, server in
            let first = await deliver(50, with: client)
            #expect(first.contains { $0.status == 403 })
            #expect(await deliver(50, with: client).allSatisfy { $0.certainty == .accepted })
            #expect(await !client.status.hasCredentialFault)
            #expect(server.record.connections == 2)
        }
    }

    @Test func aThousandExpiryResponsesCauseOneSignature() async throws {
        // The clock stands still while the pushes arrive, because the client replaces a connection that has not
        // responded for ten seconds.
        let clock = ManualClock()
        try await withServer(
            script: { _ in [.respond(200)] },
            configure: {
                $0.use(clock)
                $0.authentication = authentication()
                $0.pool = .init(size: 2, maxOverflow: 0, connectSpacing: .zero)
            }
        ) { client, server in
            #expect(await deliver(10, with: client).allSatisfy { $0.certainty == .accepted })
            await server.wait { $0.openConnections == 2 }
            let old = server.record.pushes.first?.field("authorization")
            // The token is now old enough for the client to act on the refusal.
            clock.advance(by: .seconds(600))
            server.follow { push in push.field("authorization") == old ? [.hold] : [.respond(200)] }
            let pushes = Task { await deliver(1000, with: client) }
            await server.wait { $0.held == 1000 }
            server.release(status: 403, reason: "ExpiredProviderToken")
            // A resend that finds no connection waits for this clock.
            await until {
                clock.advance(by: .milliseconds(1))
                return client.runtime.lifecycle.pushesInFlight == 0
            }
            // Ends them if that wait was in vain.
            pushes.cancel()
            let failed = await pushes.value.filter { $0.certainty != .accepted }
            #expect(failed.isEmpty, "\(failed)")
            let record = server.record
            #expect(Set(record.pushes.map { $0.field("authorization") }).count == 2)
            #expect(record.connections <= 4, "\(record.connections)")
        }
    }

    @Test func tooManyTokenUpdatesAreLoggedOnceAndTheTokenIsKept() async throws {
        let (logger, lines) = RecordingLog.make()
        try await withServer(
            script: { _ in [.hold] },
            configure: {
                $0.authentication = authentication()
                $0.logger = logger
            }
        ) { client, server in
            // All of them are under way before the first response, because a push that begins later is held back.
            let pushes = Task { await deliver(100, with: client) }
            await server.wait { $0.held == 100 }
            server.release(status: 429, reason: "TooManyProviderTokenUpdates")
            for outcome in await pushes.value {
                #expect(outcome.status == 429 && outcome.attempts == 1)
                #expect(outcome.retryAfter ?? .zero > .seconds(19 * 60))
            }
            #expect(Set(server.record.pushes.map { $0.field("authorization") }).count == 1)
            #expect(server.record.connections == 1)
        }
        #expect(lines.count(.error, containing: "too many provider tokens") == 1)
    }
}

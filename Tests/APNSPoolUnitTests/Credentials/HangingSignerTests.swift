import APNSSimulator
import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// A signer that hangs does not stop the client.
struct HangingSignerTests {
    @Test("A push fails if no token is signed in time, and a later push uses the token of a later signer call")
    func laterCallServes() async throws {
        let clock = ManualClock()
        let signer = HangingSigner(hangingCalls: 1)
        try await withServer(
            configure: {
                $0.authentication = signer.authentication
                $0.use(clock)
                $0.timeouts.deadline = .seconds(60)
            }
        ) { client, _ in
            let outcome = Task { await client.deliver(samplePush(), to: deviceToken) }
            await until { signer.count == 1 }
            clock.advance(by: .seconds(11))
            #expect(await ends { _ = await outcome.value })
            #expect(await outcome.value.error?.code == .credential)
            // The request and the actor notice at the same time that the call is late.
            await until { await client.health.name == "failing" }
            #expect(await client.health.cause?.code == .credential)
            let refused = await client.deliver(samplePush(), to: deviceToken)
            #expect(refused.error?.code == .credential && refused.error?.retryAfter != nil)
            #expect(signer.count == 1)
            // The next signer call happens without a push.
            clock.advance(by: .seconds(20))
            await until { await client.health == .serving }
            #expect(await client.deliver(samplePush(), to: deviceToken).status == 200)
            #expect(signer.count == 2)
            signer.release()
        }
    }

    @Test("A client without its first provider token is not ready, even before its first push")
    func notReadyWithoutAToken() async throws {
        let signer = HangingSigner(hangingCalls: 1)
        try await withServer(configure: { $0.authentication = signer.authentication }) { client, _ in
            try await client.prewarm(1, within: Patience.limit)
            await until { signer.count == 1 }
            #expect(await client.health == .starting)
            #expect(await !client.health.isReady)
            signer.release()
            await until { await client.health == .serving }
            #expect(await client.deliver(samplePush(), to: deviceToken).status == 200)
            #expect(signer.count == 1)
        }
    }

    @Test("A shutdown does not wait for a signer that hangs")
    func shutdownDoesNotWait() async throws {
        let server = try await ScriptedServer.start { _ in [.respond(200)] }
        let signer = HangingSigner()
        var configuration = APNSClientConfiguration.local(server)
        configuration.authentication = signer.authentication
        let client = try APNSClient(configuration: configuration)
        try await client.start()
        let outcome = Task { await client.deliver(samplePush(), to: deviceToken) }
        await until { signer.count == 1 }
        #expect(await ends { await client.shutdown(within: .milliseconds(50)) })
        #expect(await ends { _ = await outcome.value })
        signer.release()
        #expect(await outcome.value.certainty == .notSent)
        await client.shutdown()
        await server.stop()
    }

    @Test("A replacement whose signer hangs ends within its time limit, and the client can be shut down afterwards")
    func failedReplacement() async throws {
        let server = try await ScriptedServer.start { _ in [.respond(200)] }
        let clock = ManualClock()
        let signer = HangingSigner()
        var configuration = APNSClientConfiguration.local(server)
        configuration.use(clock)
        let client = try APNSClient(configuration: configuration)
        try await client.start()
        #expect(await client.deliver(samplePush(), to: deviceToken).status == 200)
        let result = Task {
            do throws(APNSAuthenticationError) {
                try await client.replaceAuthentication(signer.authentication, within: .seconds(5))
                return APNSAuthenticationError?.none
            } catch {
                return error
            }
        }
        await until { signer.count == 1 }
        clock.advance(by: .seconds(6))
        let hasFailed = await ends { _ = await result.value }
        let hasEnded = await ends(advancing: clock) { await client.shutdown(within: .milliseconds(50)) }
        signer.release()
        #expect(hasFailed && hasEnded)
        #expect(await result.value?.code == .noVerdict)
        await client.shutdown()
        await server.stop()
    }
}

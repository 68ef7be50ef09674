import APNSTransport
import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// One push, one outcome, over a real socket with TLS.
struct ClientOutcomeTests {
    // MARK: Responses

    @Test func anAcceptedPushHasItsReceipt() async throws {
        try await withServer { client, server in
            let id = APNSID.random()
            let outcome = await client.deliver(samplePush(), to: deviceToken, options: DeliveryOptions(apnsID: id))
            #expect(outcome.receipt == Receipt(apnsID: id, attempts: 1))
            let push = try #require(server.record.pushes.first)
            #expect(push.id == id.description)
            #expect(push.token == deviceToken.hexadecimal)
            #expect(push.body == Array(#"{"aps":{"alert":"Hello"}}"#.utf8))
        }
    }

    @Test func theReceiptHasTheUniqueIDOfTheResponse() async throws {
        try await withServer(script: { _ in [.respond(200, fields: [("apns-unique-id", "u-1")])] }) { client, _ in
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.receipt?.apnsUniqueID == "u-1")
        }
    }

    @Test(arguments: [
        (400, "BadDeviceToken"), (403, "InvalidProviderToken"), (404, "BadPath"), (410, "Unregistered"),
        (413, "PayloadTooLarge"), (429, "TooManyRequests"), (418, "SomethingNew"),
    ])
    func aRejectionIsFinal(_ status: Int, _ reason: String) async throws {
        try await withServer(script: { _ in [.respond(status, reason: reason)] }) { client, server in
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.certainty == .rejected)
            #expect(outcome.status == status)
            #expect(outcome.error?.rejection?.reason?.rawValue == reason)
            #expect(outcome.attempts == 1)
            #expect(server.record.pushes.count == 1)
        }
    }

    @Test func anUnregisteredTokenHasItsTimestamp() async throws {
        let body = Array(#"{"reason":"Unregistered","timestamp":1700000000000}"#.utf8)
        try await withServer(script: { _ in [.responseBytes(410, body)] }) { client, _ in
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.invalidation?.millisecondsSince1970 == 1_700_000_000_000)
        }
    }

    @Test(arguments: [
        [], Array("<html>no</html>".utf8), Array("{\"reason\":".utf8), [0xFF, 0xFE, 0x00], Array("[1,2]".utf8),
        [UInt8](repeating: 0x41, count: 60_000),
    ])
    func aRejectionWithAGarbageBodyKeepsItsStatus(_ body: [UInt8]) async throws {
        try await withServer(script: { _ in [.responseBytes(400, body)] }) { client, _ in
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.status == 400)
            #expect(outcome.error?.rejection?.reason == nil)
            #expect(outcome.error?.rejection?.rawBody == Array(body.prefix(4096)))
            // The connection remains usable.
            #expect(await client.deliver(samplePush(), to: deviceToken).status == 400)
            #expect(await client.status.pool.workers.allSatisfy { $0.leased == 0 })
        }
    }

    @Test func anEarlyResponseCountsAndFreesTheStream() async throws {
        let script: ScriptedServer.Script = { _ in [.respond(413, reason: "PayloadTooLarge")] }
        try await withServer(limit: 1, early: true, script: script) { client, server in
            for _ in 0..<50 {
                let push = samplePush(payload: String(repeating: " ", count: 4000) + "{}")
                #expect(await client.deliver(push, to: deviceToken).status == 413)
            }
            #expect(server.record.connections == 1)
        }
    }

    @Test func anInternalServerErrorIsResentUnlessDisabled() async throws {
        let script: ScriptedServer.Script = {
            $0.number == 1 ? [.respond(500, reason: "InternalServerError")] : [.respond(200)]
        }
        try await withServer(script: script) { client, _ in
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.certainty == .accepted)
            #expect(outcome.attempts == 2)
        }
        try await withServer(script: script) {
            $0.retry.retriesInternalServerError = false
        } _: { client, _ in
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.status == 500)
            #expect(outcome.attempts == 1)
        }
    }

    @Test("A push that got 502, 503 or 504 from a gateway is unknown and not resent", arguments: [502, 503, 504])
    func gateway(_ status: Int) async throws {
        try await withServer(script: { $0.number == 1 ? [.respond(status)] : [.respond(200)] }) { client, server in
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.certainty == .unknown && outcome.status == status && outcome.attempts == 1)
            #expect(server.record.pushes.count == 1)
        }
    }

    // MARK: Not processed

    @Test func aRefusedStreamIsResentWithItsID() async throws {
        let script: ScriptedServer.Script = { $0.number == 1 ? [.reset(.refusedStream)] : [.respond(200)] }
        try await withServer(script: script) { client, server in
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.certainty == .accepted)
            #expect(outcome.attempts == 2)
            let ids = server.record.pushes.map(\.id)
            #expect(ids.count == 2 && Set(ids).count == 1)
            #expect(server.record.processed == [ids[0]: 1])
        }
    }

    @Test func aStreamRefusedEveryTimeEndsAsNotProcessed() async throws {
        let clock = ManualClock()
        let script: ScriptedServer.Script = { $0.number == 1 ? [.respond(200)] : [.reset(.refusedStream)] }
        try await withServer(script: script, configure: { $0.use(clock) }) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let options = DeliveryOptions(deadline: .seconds(1))
            let push = Task { await client.deliver(samplePush(), to: deviceToken, options: options) }
            #expect(await ends(advancing: clock, for: [client]) { _ = await push.value })
            let outcome = await push.value
            #expect(outcome.certainty == .notProcessed)
            #expect(outcome.error?.code == .refused)
            #expect(outcome.attempts >= 2 && outcome.attempts == server.record.pushes.count - 1)
            #expect(outcome.canResend)
        }
    }

    @Test func pushesAboveTheGoAwayIDAreResentOnce() async throws {
        // The first connection does not process its tenth push and later ones.
        let script: ScriptedServer.Script = { push in
            push.connection == 1 && push.numberOnConnection == 10 ? [.goAway(includingThis: false)] : [.respond(200)]
        }
        try await withServer(script: script) { client, server in
            let outcomes = await deliver(40, with: client)
            #expect(outcomes.allSatisfy { $0.certainty == .accepted })
            #expect(outcomes.contains { $0.attempts == 2 })
            let record = server.record
            #expect(record.processed.count == 40)
            #expect(record.processed.values.allSatisfy { $0 == 1 })
            #expect(record.connections == 2)
        }
    }

    @Test func aGoAwayOnAnIdleConnectionClosesIt() async throws {
        try await withServer { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            server.goAwayAll()
            await server.wait { $0.connections == 2 && $0.openConnections == 1 }
            #expect(await client.deliver(samplePush(), to: deviceToken).attempts == 1)
        }
    }

    // MARK: Unknown

    @Test func aWrittenPushOfALostConnectionIsUnknownAndNotResent() async throws {
        let script: ScriptedServer.Script = { $0.connection == 1 ? [.hold] : [.respond(200)] }
        try await withServer(script: script) { client, server in
            async let lost = deliver(20, with: client)
            await server.wait { $0.held == 20 }
            server.dropAll()
            for outcome in await lost {
                #expect(outcome.certainty == .unknown)
                #expect(outcome.error?.code == .connectionLost)
                #expect(!outcome.canResend)
                #expect(outcome.attempts == 1)
            }
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            #expect(server.record.pushes.count == 21)
        }
    }

    @Test(arguments: [HTTP2ErrorCode.internalError, .cancel, .noError, .enhanceYourCalm])
    func anyOtherStreamResetIsUnknown(_ code: HTTP2ErrorCode) async throws {
        try await withServer(script: { _ in [.reset(code)] }) { client, server in
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.certainty == .unknown)
            #expect(server.record.pushes.count == 1)
        }
    }

    @Test func aDroppedIdleConnectionIsReopenedForTheNextPush() async throws {
        try await withServer { client, server in
            for round in 1...5 {
                #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
                server.dropAll()
                // Until the client notices the loss, a push could still be written to the old connection.
                await until { await client.status.pool.capacity == 0 || server.record.connections > round }
            }
        }
    }

    // MARK: 503

    @Test func a503IsResentOnAnotherConnection() async throws {
        let script: ScriptedServer.Script = { push in
            push.number == 2 ? [.respond(503, reason: "Shutdown")] : [.respond(200)]
        }
        try await withServer(script: script) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).attempts == 1)
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.certainty == .accepted)
            #expect(outcome.attempts == 2)
            #expect(server.record.pushes.map(\.connection) == [1, 1, 2])
        }
    }

    @Test func repeated503EndsWithinTheLimits() async throws {
        let clock = ManualClock()
        try await withServer(
            script: { _ in [.respond(503, reason: "ServiceUnavailable")] },
            configure: { $0.use(clock) }
        ) { client, server in
            let options = DeliveryOptions(deadline: .seconds(30))
            let push = Task { await client.deliver(samplePush(), to: deviceToken, options: options) }
            #expect(await ends(advancing: clock, for: [client]) { _ = await push.value })
            let outcome = await push.value
            #expect(outcome.certainty == .rejected)
            #expect(outcome.status == 503)
            #expect(outcome.attempts >= 2 && outcome.attempts == server.record.pushes.count)
            #expect(server.record.connections <= 2)
        }
    }

    @Test func aHundredPushesDoNotStormAServerThatReturns503() async throws {
        let script: ScriptedServer.Script = {
            $0.number == 1 ? [.respond(200)] : [.respond(503, reason: "ServiceUnavailable")]
        }
        let clock = ManualClock()
        try await withServer(script: script) {
            $0.use(clock)
            $0.timeouts.deadline = .seconds(30)
        } _: { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let pushes = Task { await deliver(100, with: client) }
            #expect(await ends(advancing: clock, for: [client]) { _ = await pushes.value })
            let outcomes = await pushes.value
            #expect(outcomes.allSatisfy { $0.status == 503 || $0.certainty == .notSent })
            #expect(server.record.pushes.count <= 1 + 100 + 100)
            #expect(server.record.connections <= 4)
        }
    }

    // MARK: Deadline and cancellation

    @Test func aDeadlineInTheQueueLeavesThePushNotSent() async throws {
        try await withServer(limit: 1, script: { _ in [.hold] }) { client, server in
            async let first = client.deliver(samplePush(), to: deviceToken)
            await server.wait { $0.held == 1 }
            let queued = await client.deliver(
                samplePush(),
                to: deviceToken,
                options: DeliveryOptions(deadline: .milliseconds(100))
            )
            #expect(queued.certainty == .notSent)
            #expect(queued.error?.code == .deadlineExceeded)
            #expect(queued.attempts == 0)
            #expect(await client.status.pool.leased == 1)
            server.release()
            #expect(await first.certainty == .accepted)
            #expect(server.record.pushes.count == 1)
        }
    }

    @Test func aDeadlineOnTheWireResetsTheStreamAndReturnsItsLease() async throws {
        let script: ScriptedServer.Script = { $0.number == 2 ? [.hold] : [.respond(200)] }
        let clock = ManualClock()
        try await withServer(limit: 1, script: script, configure: { $0.use(clock) }) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let push = Task {
                await client.deliver(samplePush(), to: deviceToken, options: DeliveryOptions(deadline: .seconds(1)))
            }
            await server.wait { $0.held == 1 }
            clock.advance(by: .seconds(1))
            let outcome = await push.value
            #expect(outcome.certainty == .unknown)
            #expect(outcome.error?.code == .deadlineExceeded)
            let outcomes = await deliver(100, with: client)
            #expect(outcomes.allSatisfy { $0.certainty == .accepted })
            let record = server.record
            #expect(record.cancelled == 1)
            #expect(record.connections == 1)
        }
    }

    @Test func theResponseTimeoutEndsAnAttempt() async throws {
        try await withServer(script: { _ in [.hold] }) {
            $0.timeouts.response = .milliseconds(100)
        } _: { client, _ in
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.certainty == .unknown)
            #expect(outcome.error?.message.contains("no response came within") == true)
        }
    }

    @Test func aDeadlineThatHasPassedSendsNothing() async throws {
        try await withServer { client, server in
            for deadline in [Duration.zero, .seconds(-5), .nanoseconds(Int64.min)] {
                let outcome = await client.deliver(
                    samplePush(),
                    to: deviceToken,
                    options: DeliveryOptions(deadline: deadline)
                )
                #expect(outcome.certainty == .notSent)
                #expect(outcome.error?.code == .deadlineExceeded)
            }
            let outcome = await client.deliver(
                samplePush(),
                to: deviceToken,
                options: DeliveryOptions(deadline: .seconds(Int64.max))
            )
            #expect(outcome.certainty == .accepted)
            #expect(server.record.pushes.count == 1)
        }
    }

    @Test func cancellationOnTheWireResetsTheStream() async throws {
        let script: ScriptedServer.Script = { $0.number == 1 ? [.hold] : [.respond(200)] }
        try await withServer(limit: 1, script: script) { client, server in
            let task = Task { await client.deliver(samplePush(), to: deviceToken) }
            await server.wait { $0.held == 1 }
            task.cancel()
            let outcome = await task.value
            #expect(outcome.certainty == .unknown)
            #expect(outcome.error?.code == .cancelled)
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            // If the server reads the reset and the second push at once, it responds before it records the reset.
            await server.wait { $0.cancelled == 1 }
        }
    }

    @Test func cancellationInTheQueueSendsNothing() async throws {
        try await withServer(limit: 1, script: { _ in [.hold] }) { client, server in
            async let first = client.deliver(samplePush(), to: deviceToken)
            await server.wait { $0.held == 1 }
            let task = Task { await client.deliver(samplePush(), to: deviceToken) }
            await until { await client.status.pool.queueDepth > 0 }
            task.cancel()
            let outcome = await task.value
            #expect(outcome.certainty == .notSent)
            #expect(outcome.error?.code == .cancelled)
            server.release()
            #expect(await first.certainty == .accepted)
        }
    }

    @Test func aTaskThatIsCancelledAlreadySendsNothing() async throws {
        try await withServer { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            for _ in 0..<50 {
                let task = Task {
                    withUnsafeCurrentTask { $0?.cancel() }
                    return await client.deliver(samplePush(), to: deviceToken)
                }
                #expect(await task.value.certainty == .notSent)
            }
            #expect(server.record.pushes.count == 1)
        }
    }

    // MARK: Never on the network

    @Test func invalidOrExpiredPushesOpenNoConnection() async throws {
        try await withServer(configure: {
            $0.pool.size = 0; $0.pool.maxOverflow = 1
        }) { client, server in
            let large = PushNotification(
                topic: "com.example.app",
                rawPayload: Array("{\"a\":\"".utf8)
                    + [UInt8](repeating: 0x61, count: 4096) + Array("\"}".utf8)
            )
            #expect(await client.deliver(large, to: deviceToken).error?.validation?.code == .payloadTooLarge)
            #expect(await client.deliver(samplePush(), to: "xyz").error?.code == .validation)
            let noTopic = PushNotification(topic: "", alert: "x")
            #expect(await client.deliver(noTopic, to: deviceToken).error?.code == .validation)
            let old = try PreparedPush(
                topic: "a",
                pushType: .alert,
                payload: Array("{}".utf8),
                expiration: .at(secondsSince1970: 1_000_000_000),
                skippingValidation: true
            )
            #expect(await client.deliver(old, to: deviceToken).error?.code == .expired)
            #expect(server.record.connections == 0)
        }
    }
}

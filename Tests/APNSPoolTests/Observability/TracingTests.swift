import APNSSimulator
import APNSTransport
import InMemoryTracing
import Logging
import TestSupport
import Testing
import Tracing

@testable import APNSPool
@testable import APNSPoolTestSupport

extension FinishedInMemorySpan {
    fileprivate func text(_ name: String) -> String? {
        guard case .string(let text) = self.attributes.get(name) else { return nil }
        return text
    }

    fileprivate func number(_ name: String) -> Int64? {
        guard case .int64(let number) = self.attributes.get(name) else { return nil }
        return number
    }

    fileprivate var isError: Bool { self.status?.code == .error }

    /// All texts of the span, to search for secrets.
    fileprivate var allText: String {
        var text = "\(self.operationName) \(String(describing: self.status)) \(self.errors)"
        self.attributes.forEach { text += " \($0)=\($1)" }
        for event in self.events {
            text += " \(event.name)"
            event.attributes.forEach { text += " \($0)=\($1)" }
        }
        return text
    }
}

struct TracingTests {
    private let tracer = InMemoryTracer()

    private func withTraced(
        script: @escaping ScriptedServer.Script = { _ in [.respond(200)] },
        configure: (inout APNSClientConfiguration) -> Void = { _ in },
        _ body: (APNSClient, ScriptedServer) async throws -> Void
    ) async throws -> [FinishedInMemorySpan] {
        try await withServer(
            script: script,
            configure: {
                $0.tracer = self.tracer
                configure(&$0)
            },
            body
        )
        #expect(self.tracer.activeSpans.isEmpty, "a span is left open")
        return self.tracer.finishedSpans
    }

    // MARK: Single pushes

    @Test func anAcceptedPushIsASpanWithTheDocumentedAttributes() async throws {
        let id = APNSID.random()
        let push = samplePush()
        let spans = try await self.withTraced { client, _ in
            let outcome = await client.deliver(push, to: deviceToken, options: DeliveryOptions(apnsID: id))
            #expect(outcome.certainty == .accepted)
        }
        let span = try #require(spans.first)
        #expect(spans.count == 1)
        #expect(span.operationName == "send com.example.app")
        #expect(span.kind == .client)
        #expect(span.status == nil)
        #expect(span.events.isEmpty)
        let expected: [String: SpanAttribute] = [
            "messaging.system": "apns",
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": "com.example.app",
            "messaging.message.id": .string(id.description),
            "messaging.message.body.size": .int64(Int64(push.payload.count)),
            "server.address": "localhost",
            "apns.environment": "custom",
            "apns.push_type": "alert",
            "apns.outcome": "accepted",
            "apns.attempts": 1,
            "http.response.status_code": 200,
        ]
        for (name, value) in expected { #expect(span.attributes.get(name) == value, "\(name)") }
        #expect(span.number("server.port") ?? 0 > 0)
        #expect(span.attributes.count == expected.count + 1)
    }

    @Test func theCallersContextIsTheParent() async throws {
        let spans = try await self.withTraced { client, _ in
            await self.tracer.withSpan("request") { _ in
                _ = await client.deliver(samplePush(), to: deviceToken)
                _ = await client.sendAll(samplePush(), to: [deviceToken])
            }
        }
        let request = try #require(spans.first { $0.operationName == "request" })
        let own = spans.filter { $0.operationName != "request" }
        #expect(own.count == 2)
        #expect(own.allSatisfy { $0.traceID == request.traceID && $0.parentSpanID == request.spanID })
    }

    @Test func aRejectedPushIsAnErrorWithItsReason() async throws {
        let script: ScriptedServer.Script = { _ in [.respond(410, reason: "Unregistered")] }
        let spans = try await self.withTraced(script: script) { client, _ in
            await #expect(throws: PushError.self) { try await client.send(samplePush(), to: deviceToken) }
        }
        let span = try #require(spans.first)
        #expect(span.isError)
        #expect(span.number("http.response.status_code") == 410)
        #expect(span.text("apns.outcome") == "rejected")
        #expect(span.text("apns.reason") == "Unregistered")
        #expect(span.text("error.type") == "Unregistered")
    }

    @Test func anInvalidNotificationHasASpan() async throws {
        let spans = try await self.withTraced { client, _ in
            let push = PushNotification(topic: "com.example.app", alert: String(repeating: "x", count: 5000))
            #expect(await client.deliver(push, to: deviceToken).error?.code == .validation)
        }
        let span = try #require(spans.first)
        #expect(spans.count == 1 && span.isError)
        #expect(span.text("apns.outcome") == "not-sent")
        #expect(span.text("error.type") == "validation")
    }

    /// APNs proves that it did not process two attempts, and rejects one with 503: three events.
    @Test func resendsAreEvents() async throws {
        let script: ScriptedServer.Script = { push in
            switch push.number {
            case 1: [.goAway(includingThis: false)]
            case 2: [.reset(.refusedStream)]
            case 3: [.respond(503, reason: "ServiceUnavailable")]
            default: [.respond(200)]
            }
        }
        let spans = try await self.withTraced(
            script: script,
            configure: { $0.pool.connectSpacing = .zero }
        ) { client, _ in
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.certainty == .accepted && outcome.attempts == 4)
        }
        let span = try #require(spans.first)
        #expect(spans.count == 1 && !span.isError)
        #expect(span.number("apns.attempts") == 4)
        let retries = span.events.filter { $0.name == "apns.retry" }
        #expect(retries.count == 3 && span.events.count == 3)
        #expect(retries.map { $0.attributes.get("apns.reason") } == ["goAway", "refused", "ServiceUnavailable"])
        #expect(retries.map { $0.attributes.get("apns.attempts") } == [1, 2, 3])
        #expect(
            retries.map { $0.attributes.get("apns.outcome") } == ["not-processed", "not-processed", "rejected"]
        )
        #expect(retries.last?.attributes.get("http.response.status_code") == 503)
    }

    @Test func aCancelledPushEndsItsSpan() async throws {
        let spans = try await self.withTraced(script: { _ in [.hold] }) { client, server in
            let task = Task { await client.deliver(samplePush(), to: deviceToken) }
            await server.wait { $0.held == 1 }
            #expect(self.tracer.activeSpans.count == 1)
            task.cancel()
            #expect(await task.value.error?.code == .cancelled)
            #expect(self.tracer.activeSpans.isEmpty)
        }
        let span = try #require(spans.first)
        #expect(span.isError)
        #expect(span.text("apns.outcome") == "unknown")
        #expect(span.text("error.type") == "cancelled")
    }

    @Test func aPushAfterShutdownHasASpan() async throws {
        let spans = try await self.withTraced { client, _ in
            await client.shutdown()
            #expect(await client.deliver(samplePush(), to: deviceToken).error?.code == .shuttingDown)
        }
        #expect(spans.map { $0.text("apns.reason") } == ["shuttingDown"])
    }

    // MARK: The tracer in use

    @Test func theTracerAroundTheClientIsUsed() async throws {
        try await withTracer(self.tracer) {
            try await withServer { client, _ in _ = await client.deliver(samplePush(), to: deviceToken) }
        }
        #expect(self.tracer.finishedSpans.map(\.operationName) == ["send com.example.app"])
    }

    @Test func theTracerAroundTheStartIsUsed() async throws {
        let server = try await ScriptedServer.start { _ in [.respond(200)] }
        let client = try APNSClient(configuration: .local(server))
        try await withTracer(self.tracer) { try await client.start() }
        // The client runs in another task, and reads the tracer before it opens the first connection.
        try await client.prewarm(1, within: Patience.limit)
        #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
        await client.shutdown()
        await server.stop()
        #expect(self.tracer.finishedSpans.count == 1)
    }

    @Test func noSpansAreMadeWithoutATracer() async throws {
        try await withServer { client, _ in
            let core = client.runtime
            #expect(core.monitor.tracing.push(samplePush(), to: deviceToken, id: .random()) == nil)
            #expect(core.monitor.tracing.bulk() == nil)
            // A tracer of the sending task alone is not the client's tracer, so it gets no spans.
            await withTracer(self.tracer) {
                #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
                #expect(await client.sendAll(samplePush(), to: [deviceToken]).accepted == 1)
            }
        }
        #expect(self.tracer.finishedSpans.isEmpty && self.tracer.activeSpans.isEmpty)
    }

    // MARK: Bulk

    @Test func aBulkCallIsOneSpanWithItsCounts() async throws {
        let script: ScriptedServer.Script = { push in
            push.deviceToken == .sample(7)
                ? [.respond(410, reason: "Unregistered")]
                : push.number == 20 ? [.respond(503, reason: "ServiceUnavailable")] : [.respond(200)]
        }
        let spans = try await self.withTraced(script: script) { client, _ in
            let summary = await client.sendAll(samplePush(), to: (0..<3000).map { DeviceToken.sample($0) })
            #expect(summary.accepted == 2999 && summary.rejected == 1)
        }
        let span = try #require(spans.first)
        #expect(spans.count == 1)
        #expect(span.operationName == "send_bulk com.example.app")
        #expect(span.kind == .client)
        #expect(!span.isError)
        #expect(span.text("messaging.destination.name") == "com.example.app")
        #expect(span.text("apns.bulk.end") == "finished")
        let counts: [String: Int64] = [
            "messaging.batch.message_count": 3000,
            "apns.bulk.accepted": 2999,
            "apns.bulk.rejected": 1,
            "apns.bulk.not_processed": 0,
            "apns.bulk.not_sent": 0,
            "apns.bulk.unknown": 0,
            "apns.bulk.unfinished": 0,
        ]
        for (name, count) in counts { #expect(span.number(name) == count, "\(name)") }
        // The push that got a 503, and the pushes in flight on the connection that was closed for it.
        #expect(try #require(span.number("apns.bulk.resends")) >= 1)
    }

    @Test func aBulkCallOverSeveralTopicsNamesNone() async throws {
        let spans = try await self.withTraced { client, _ in
            let deliveries = client.deliveries(0..<10) { row in
                (samplePush(topic: row % 2 == 0 ? "com.example.a" : "com.example.b"), DeviceToken.sample(row))
            }
            for await delivery in deliveries { #expect(delivery.outcome.certainty == .accepted) }
        }
        #expect(spans.map(\.operationName) == ["send_bulk"])
        #expect(spans.first?.text("messaging.destination.name") == nil)
    }

    @Test func aLoopThatIsLeftEarlyEndsItsSpanOnce() async throws {
        let spans = try await self.withTraced { client, _ in
            for await _ in client.deliveries(of: samplePush(), to: 0..<1000, token: { DeviceToken.sample($0) }) {
                break
            }
            await until { client.runtime.lifecycle.pushesInFlight == 0 }
        }
        #expect(spans.count == 1)
        #expect(spans.first?.text("apns.bulk.end") == "left")
        #expect(spans.first?.number("apns.bulk.accepted") == 1)
    }

    @Test func aCancelledBulkCallEndsItsSpanOnce() async throws {
        let spans = try await self.withTraced(script: { _ in [.hold] }) { client, server in
            let task = Task { await client.sendAll(samplePush(), to: (0..<50).map { DeviceToken.sample($0) }) }
            await server.wait { $0.held == 50 }
            task.cancel()
            server.release()
            _ = await task.value
        }
        #expect(spans.map { $0.text("apns.bulk.end") } == ["cancelled"])
    }

    @Test func aStoppedBulkCallRecordsItsEnd() async throws {
        let spans = try await self.withTraced { client, _ in
            let deliveries = client.deliveries(of: samplePush(), to: 0..., token: { DeviceToken.sample($0 % 100) })
            var count = 0
            for await _ in deliveries {
                count += 1
                if count == 1000 { deliveries.control.stop() }
            }
        }
        #expect(spans.map { $0.text("apns.bulk.end") } == ["stopped"])
    }

    @Test func suspectedMisconfigurationIsAnError() async throws {
        let script: ScriptedServer.Script = { _ in [.respond(400, reason: "BadDeviceToken")] }
        let spans = try await self.withTraced(script: script) { client, _ in
            let summary = await client.sendAll(samplePush(), to: (0..<5000).map { DeviceToken.sample($0) })
            #expect(summary.stopped != nil)
        }
        #expect(spans.count == 1)
        #expect(spans.first?.isError == true)
        #expect(spans.first?.text("apns.bulk.end") == "suspected-misconfiguration")
    }

    @Test func aDrainThatCutsOffTheInputIsNoFinishedCall() async throws {
        let spans = try await self.withTraced { client, _ in
            var iterator = client.deliveries(of: samplePush(), to: 0..<1_000_000, token: { DeviceToken.sample($0) })
                .makeAsyncIterator()
            #expect(await iterator.next()?.outcome.certainty == .accepted)
            let shutdown = Task { await client.shutdown(within: .seconds(600)) }
            while await iterator.next() != nil {}
            await shutdown.value
        }
        #expect(spans.map { $0.text("apns.bulk.end") } == ["client-stopped"])
    }

    /// If the consumer keeps an iterator without reading, the client's shutdown ends the span.
    @Test func shutdownEndsTheSpanOfAnUnreadBulkCall() async throws {
        let server = try await ScriptedServer.start { _ in [.respond(200)] }
        var configuration = APNSClientConfiguration.local(server)
        configuration.tracer = self.tracer
        let client = try APNSClient(configuration: configuration)
        try await client.start()
        var iterator = client.deliveries(of: samplePush(), to: 0..<1000, token: { DeviceToken.sample($0) })
            .makeAsyncIterator()
        #expect(await iterator.next()?.outcome.certainty == .accepted)
        await client.shutdown(within: .zero)
        #expect(self.tracer.activeSpans.isEmpty)
        while await iterator.next() != nil {}
        #expect(self.tracer.finishedSpans.map { $0.text("apns.bulk.end") } == ["client-stopped"])
        // A bulk call that begins after the shutdown.
        var late = client.deliveries(of: samplePush(), to: 0..<1, token: { DeviceToken.sample($0) }).makeAsyncIterator()
        #expect(await late.next() == nil)
        #expect(self.tracer.activeSpans.isEmpty && self.tracer.finishedSpans.count == 1)
        await server.stop()
    }

    // MARK: Broadcasts and channels

    @Test func broadcastsAndChannelCallsHaveSpans() async throws {
        try await withPatientSimulator(configure: {
            $0.tracer = self.tracer
            $0.pool.connectSpacing = .zero
        }) { client, _ in
            let made = try await client.channels.create(for: "com.example.app")
            let payload =
                #"{"aps":{"timestamp":1,"event":"update","content-state":{"score":1}}}"#
            let push = PushNotification(
                topic: "com.example.app",
                pushType: .liveactivity,
                rawPayload: Array(payload.utf8)
            )
            #expect(await client.broadcast(push, to: made.id).certainty == .accepted)
            _ = try await client.channels.list(for: "com.example.app")
            try await client.channels.delete(made.id, for: "com.example.app")
            let missing = try ChannelID("dHN0LXNyY2gtY2hubA==")
            await #expect(throws: PushError.self) { try await client.channels.read(missing, for: "com.example.app") }
        }
        #expect(self.tracer.activeSpans.isEmpty)
        let spans = self.tracer.finishedSpans
        #expect(
            spans.map(\.operationName) == [
                "create_channel com.example.app", "broadcast com.example.app", "list_channels com.example.app",
                "delete_channel com.example.app", "read_channel com.example.app",
            ]
        )
        #expect(spans.map { $0.text("messaging.operation.type") } == [nil, "send", nil, nil, nil])
        #expect(spans.map(\.isError) == [false, false, false, false, true])
        #expect(spans.first?.number("http.response.status_code") == 201)
        #expect(spans.last?.text("apns.reason") == "BadChannelId")
    }

    // MARK: Secrets and device tokens

    @Test(arguments: [APNSClientConfiguration.Logging.DeviceTokens.never, .shortened])
    func spansAndLogsContainNoSecretsOrWholeTokens(
        _ setting: APNSClientConfiguration.Logging.DeviceTokens
    ) async throws {
        let digits = "c0ffee11" + String(repeating: "5a", count: 24) + "2233beef"
        let token = try DeviceToken(digits)
        let (logger, lines) = RecordingLog.make()
        var traceLogger = logger
        traceLogger.logLevel = .trace
        let script: ScriptedServer.Script = { push in
            push.number == 1 ? [.respond(200)] : [.respond(410, reason: "Unregistered")]
        }
        var jwt = ""
        let spans = try await self.withTraced(
            script: script,
            configure: {
                $0.authentication = .token(
                    privateKeyPEM: KeyTexts.p256,
                    keyID: "9UC9ZLQ8YW",
                    teamID: "ABBM6U9RM5"
                )
                $0.logger = traceLogger
                $0.logging.deviceTokens = setting
            }
        ) { client, server in
            for _ in 1...2 { _ = await client.deliver(samplePush(), to: token) }
            _ = await client.sendAll(samplePush(), to: [token])
            jwt = String((server.record.pushes.first?.field("authorization") ?? "").dropFirst("bearer ".count))
        }
        #expect(jwt.count > 100 && spans.count == 3)
        let logged = lines.entries.map { line in
            line.message + line.metadata.map { " \($0.key)=\($0.value)" }.joined()
        }
        #expect(logged.count { $0.contains("a push was not accepted") } == 2)
        let texts = logged + spans.map(\.allText)
        for text in texts {
            #expect(!text.contains(digits) && !text.contains(jwt))
            // No form of the token shows its middle. Random ids can have fewer of these digits.
            #expect(!text.contains("5a5a5a5a"))
        }
        let shown = texts.count { $0.contains("c0ff…beef") }
        #expect(shown == (setting == .shortened ? 4 : 0), "not two spans and two lines show the token")
        if setting == .never { #expect(!texts.contains { $0.contains("c0ff…") || $0.contains("c0ff5a5a") }) }
    }

    @Test func shortDeviceTokensAreNotShownWhole() throws {
        let logging = APNSClientConfiguration.Logging(deviceTokens: .shortened)
        #expect(logging.text(of: try DeviceToken("0123456789abcdef")) == "01…")
        #expect(logging.text(of: try DeviceToken("0123456789abcdef01")) == "0123…ef01")
        #expect(APNSClientConfiguration.Logging().text(of: deviceToken) == nil)
    }
}

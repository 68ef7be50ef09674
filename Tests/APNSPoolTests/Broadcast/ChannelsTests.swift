import APNSSimulator
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

private let app = "com.example.app"

/// Channel calls against the simulator.
struct ChannelsTests {
    /// The error that the call throws, or nil.
    private func error<Value>(_ call: () async throws(PushError) -> Value) async -> PushError? {
        do throws(PushError) {
            _ = try await call()
            return nil
        } catch {
            return error
        }
    }

    private func withClient(
        simulation: Simulator.Configuration = Simulator.Configuration(),
        configure: (inout APNSClientConfiguration) -> Void = { _ in },
        _ body: (APNSClient, Simulator) async throws -> Void
    ) async throws {
        try await withPatientSimulator(
            simulation: simulation,
            configure: {
                $0.pool.connectSpacing = .zero
                configure(&$0)
            },
            body
        )
    }

    @Test func aChannelIsCreatedReadListedAndDeleted() async throws {
        try await self.withClient { client, simulator in
            let requestID = APNSID.random()
            let created = try await client.channels.create(
                for: app,
                storage: .mostRecentMessage,
                options: .init(requestID: requestID)
            )
            #expect(created.requestID == requestID)
            #expect(created.attempts == 1)
            let other = try await client.channels.create(for: app)
            #expect(simulator.channels(of: app) == [created.id.rawValue, other.id.rawValue])
            // The ids of APNs are base64, and keep their text form.
            #expect(try ChannelID(created.id.rawValue) == created.id)

            #expect(try await client.channels.read(created.id, for: app).storage == .mostRecentMessage)
            let read = try await client.channels.read(other.id, for: app)
            #expect(read.storage == .noMessage)
            #expect(read.pushType == "LiveActivity")
            #expect(try await client.channels.list(for: app).ids == [created.id, other.id])
            #expect(try await client.channels.list(for: "com.example.other").ids.isEmpty)

            #expect(try await client.channels.delete(created.id, for: app).existed)
            #expect(try await !client.channels.delete(created.id, for: app).existed)
            #expect(try await client.channels.list(for: app).ids == [other.id])

            let calls = simulator.record.channelCalls
            #expect(
                calls.map(\.operation) == [
                    .create, .create, .read, .read, .list, .list, .delete, .delete, .list,
                ]
            )
            #expect(calls.first?.requestID == requestID)
            #expect(
                calls.first.map { String(decoding: $0.payload, as: UTF8.self) }
                    == #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#
            )
            #expect(Set(calls.map(\.connection)).count == 1)
        }
    }

    @Test func channelCallsOpenTheirOwnConnectionOnDemand() async throws {
        try await self.withClient { client, simulator in
            try await client.send(PushNotification(topic: app, alert: "Hello"), to: DeviceToken.sample(1))
            #expect(simulator.record.connectionsOpened == 1)
            let made = try await client.channels.create(for: app)
            #expect(await client.broadcast(Self.update, to: made.id).certainty == .accepted)
            let ledger = simulator.record
            #expect(ledger.connectionsOpened == 2)
            #expect(ledger.pushes.map(\.connection) == [1])
            #expect(ledger.channelCalls.map(\.connection) == [2])
            #expect(ledger.broadcasts.map(\.connection) == [1])
        }
    }

    private static let update = PushNotification(
        topic: app,
        pushType: .liveactivity,
        rawPayload: Array(#"{"aps":{"event":"update"}}"#.utf8)
    )

    @Test func manyCallsShareTheConnection() async throws {
        try await self.withClient { client, simulator in
            try await withThrowingTaskGroup(of: ChannelID.self) { group in
                for _ in 0..<200 { group.addTask { try await client.channels.create(for: app).id } }
                var ids: Set<ChannelID> = []
                for try await id in group { ids.insert(id) }
                #expect(ids.count == 200)
            }
            #expect(simulator.channels(of: app).count == 200)
            #expect(Set(simulator.record.channelCalls.map(\.connection)).count == 1)
        }
    }

    @Test func tenThousandChannelsAreListedAndNoMoreAreCreated() async throws {
        try await self.withClient { client, simulator in
            let ids = (0..<10_000).map { number in
                let digits = String(number, radix: 16)
                return "dHN0LXNyY2gtY2" + String(repeating: "A", count: 8 - digits.count) + digits + "=="
            }
            for id in ids { simulator.addChannel(id, to: app) }
            let all = try await client.channels.list(for: app)
            #expect(all.ids.map(\.rawValue) == ids)
            let error = await self.error { () async throws(PushError) in try await client.channels.create(for: app) }
            #expect(error?.rejection?.reason == .cannotCreateChannelConfig)
            #expect(error?.advice == .fixRequest)
        }
    }

    // MARK: Refusals

    @Test func refusalsKeepTheirReasons() async throws {
        try await self.withClient { client, simulator in
            simulator.setTopics([app, "com.example.off"])
            simulator.setBroadcastEnabled(false, for: "com.example.off")
            let unknown = try ChannelID("AAAA")
            let off = await self.error { () async throws(PushError) in
                try await client.channels.create(for: "com.example.off")
            }
            #expect(off?.rejection?.reason == .broadcastFeatureNotEnabled)
            let other = await self.error { () async throws(PushError) in
                try await client.channels.list(for: "com.example.other")
            }
            #expect(other?.rejection?.reason == .topicDisallowed)
            let read = await self.error { () async throws(PushError) in
                try await client.channels.read(unknown, for: app)
            }
            #expect(read?.rejection?.reason == .badChannelID)
            #expect(read?.certainty == .rejected)
            #expect(read?.apnsID != nil)
            let made = try await client.channels.create(for: app).id
            try await client.channels.delete(made, for: app)
            let deleted = await self.error { () async throws(PushError) in
                try await client.channels.read(made, for: app)
            }
            #expect(deleted?.rejection?.reason == .channelNotRegistered)
        }
    }

    @Test func anInvalidBundleIDIsRefusedWithoutARequest() async throws {
        try await self.withClient { client, simulator in
            for text in ["", "a/../b", "com.example.app.push-type.liveactivity"] {
                let error = await self.error { () async throws(PushError) in try await client.channels.list(for: text) }
                #expect(error?.code == .validation)
                #expect(error?.certainty == .notSent)
            }
            #expect(simulator.record.requestsReceived == 0)
        }
    }

    @Test func anUnreadableResponseHasItsOwnErrorCode() async throws {
        try await self.withClient { client, simulator in
            let created = ScriptedResponse(status: 201).with { $0.isProcessed = false }
            simulator.inject(Fault(.respond(created), when: .next))
            let create = await self.error { () async throws(PushError) in try await client.channels.create(for: app) }
            #expect(create?.code == .unreadableResponse)
            #expect(create?.certainty == .unknown)
            #expect(create?.canResend == false)
            for body in ["", "no", #"{"channels":[7]}"#, #"{"channels":["a b"]}"#] {
                simulator.inject(Fault(.respond(status: 200, body: Array(body.utf8)), when: .next))
                let list = await self.error { () async throws(PushError) in try await client.channels.list(for: app) }
                #expect(list?.code == .unreadableResponse, "\(body)")
            }
            simulator.addChannel("AAAA", to: app)
            simulator.inject(Fault(.respond(status: 200, body: Array("{}".utf8)), when: .next))
            let id = try ChannelID("AAAA")
            let read = await self.error { () async throws(PushError) in try await client.channels.read(id, for: app) }
            #expect(read?.code == .unreadableResponse)
        }
    }

    // MARK: Failures

    @Test func aCreateWithALostResponseIsUnknownAndNotResent() async throws {
        try await self.withClient(configure: { $0.retry.resendsUnknown = true }) { client, simulator in
            simulator.inject(Fault(.dropConnection(isProcessed: true), when: .next))
            let error = await self.error { () async throws(PushError) in try await client.channels.create(for: app) }
            #expect(error?.certainty == .unknown)
            #expect(error?.code == .connectionLost)
            #expect(error?.attempts == 1)
            // The list shows whether the channel was created, as the documentation says.
            let after = try await client.channels.list(for: app)
            #expect(after.ids.count == 1)
            #expect(simulator.record.channelCalls.count { $0.operation == .create } == 1)
        }
    }

    @Test func otherCallsAreResentAfterALostResponse() async throws {
        try await self.withClient { client, simulator in
            let made = try await client.channels.create(for: app).id
            func loseNext() { simulator.inject(Fault(.dropConnection(isProcessed: true), when: .next)) }
            loseNext()
            #expect(try await client.channels.list(for: app).attempts == 2)
            loseNext()
            #expect(try await client.channels.read(made, for: app).attempts == 2)
            loseNext()
            let deletion = try await client.channels.delete(made, for: app)
            // The first attempt deleted the channel.
            #expect(!deletion.existed)
            #expect(deletion.attempts == 2)
            #expect(simulator.channels(of: app).isEmpty)
        }
    }

    @Test func callsAreResentAfter503And500ButCreatesOnlyAfter503() async throws {
        try await self.withClient { client, simulator in
            simulator.inject(Fault(.respond(.serviceUnavailable), when: .next))
            let overloaded = try await client.channels.create(for: app)
            #expect(overloaded.attempts == 2)
            simulator.inject(Fault(.refuse, when: .next))
            let refused = try await client.channels.create(for: app)
            #expect(refused.attempts == 2)
            simulator.inject(Fault(.respond(.internalServerError), when: .next))
            let faulty = try await client.channels.list(for: app)
            #expect(faulty.attempts == 2)
            simulator.inject(Fault(.respond(.internalServerError), when: .next))
            let error = await self.error { () async throws(PushError) in try await client.channels.create(for: app) }
            #expect(error?.rejection?.status == 500)
            #expect(error?.attempts == 1)
            #expect(simulator.channels(of: app).count == 2)
        }
    }

    @Test func aCallEndsByItsDeadline() async throws {
        let clock = ManualClock()
        try await self.withClient(configure: { $0.use(clock) }) { client, simulator in
            _ = try await client.channels.list(for: app)
            simulator.inject(Fault(.stall(), when: .always))
            for (number, isCreate) in [true, false].enumerated() {
                let options = ChannelCallOptions(deadline: .milliseconds(300))
                let call = Task {
                    await self.error { () async throws(PushError) in
                        if isCreate {
                            _ = try await client.channels.create(for: app, options: options)
                        } else {
                            _ = try await client.channels.list(for: app, options: options)
                        }
                    }
                }
                await until { simulator.faultCounts == ["stall": number + 1] }
                clock.advance(by: .milliseconds(300))
                let error = await call.value
                #expect(error?.certainty == .unknown)
                #expect(error?.code == .deadlineExceeded)
            }
        }
    }

    @Test func aCancelledCallEndsAtOnce() async throws {
        try await self.withClient { client, simulator in
            simulator.inject(Fault(.stall(), when: .always))
            let task = Task {
                await self.error { () async throws(PushError) in try await client.channels.create(for: app) }
            }
            try await simulator.waitUntil(timeout: Patience.limit) { $0.channelCallsReceived == 1 }
            task.cancel()
            let error = await task.value
            #expect(error?.code == .cancelled)
            #expect(error?.certainty == .unknown)
        }
    }

    @Test func aShutdownEndsWaitingCalls() async throws {
        let simulator = try await Simulator.start()
        simulator.inject(Fault(.stall(), when: .always))
        let client = try APNSClient(
            configuration: .local(port: simulator.port, caPEM: simulator.certificateAuthorityPEM)
        )
        let before = Task {
            await self.error { () async throws(PushError) in try await client.channels.list(for: app) }
        }
        try await client.start()
        try await simulator.waitUntil(timeout: Patience.limit) { $0.connectionsOpened == 2 }
        await client.shutdown(within: .milliseconds(50))
        let error = await before.value
        #expect(error?.code == .shuttingDown, "\(String(describing: error))")
        let after = await self.error { () async throws(PushError) in try await client.channels.list(for: app) }
        #expect(after?.code == .shuttingDown)
        #expect(after?.certainty == .notSent)
        await simulator.stop()
    }

    @Test func anUnreachableManagementHostDoesNotDisturbPushes() async throws {
        let closed = try #require(ClosedPort())
        defer { withExtendedLifetime(closed) {} }
        let clock = ManualClock()
        try await self.withClient(configure: {
            $0.use(clock)
            $0.environment.managementPort = closed.number
            $0.pool.unavailableAfter = .milliseconds(200)
        }) { client, simulator in
            try await client.send(PushNotification(topic: app, alert: "Hello"), to: DeviceToken.sample(0))
            let call = Task {
                await self.error { () async throws(PushError) in try await client.channels.list(for: app) }
            }
            #expect(await ends(advancing: clock) { _ = await call.value })
            let error = await call.value
            #expect(error?.certainty == .notSent)
            #expect(error?.code == .unavailable)
            try await client.send(PushNotification(topic: app, alert: "Hello"), to: DeviceToken.sample(1))
            #expect(await client.status.pool.availability == .available)
        }
    }

    @Test func aCredentialRefusedForAChannelCallDoesNotAffectPushes() async throws {
        try await self.withClient { client, simulator in
            simulator.inject(Fault(.respond(.invalidProviderToken), when: .next))
            let error = await self.error { () async throws(PushError) in try await client.channels.list(for: app) }
            #expect(error?.rejection?.reason == .invalidProviderToken)
            #expect(error?.advice == .fixCredential)
            _ = try await client.channels.create(for: app)
            #expect(await !client.status.hasCredentialFault)
        }
    }
}

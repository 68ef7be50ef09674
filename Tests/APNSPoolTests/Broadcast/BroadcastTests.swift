import APNSSimulator
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

private let app = "com.example.app"
private let payload = #"{"aps":{"event":"update","timestamp":1,"content-state":{"score":1}}}"#

/// Broadcasts against the simulator.
struct BroadcastTests {
    private let notification = PushNotification(topic: app, pushType: .liveactivity, rawPayload: Array(payload.utf8))

    private func withChannel(
        simulation: Simulator.Configuration = Simulator.Configuration(),
        storage: MessageStoragePolicy = .noMessage,
        _ body: (APNSClient, Simulator, ChannelID) async throws -> Void
    ) async throws {
        let channel = try ChannelID("dHN0LXNyY2gt/+hubA==")
        try await withPatientSimulator(
            simulation: simulation,
            configure: { $0.pool.connectSpacing = .zero }
        ) { client, simulator in
            simulator.addChannel(channel.rawValue, to: app, storage: storage)
            try await body(client, simulator, channel)
        }
    }

    @Test func aBroadcastHasItsHeadersAndOneOutcome() async throws {
        try await self.withChannel(storage: .mostRecentMessage) { client, simulator, channel in
            let id = APNSID.random()
            let outcome = await client.broadcast(
                self.notification.priority(.conserve).expiration(.at(secondsSince1970: 4_000_000_000)),
                to: channel,
                options: .init(requestID: id)
            )
            #expect(outcome.certainty == .accepted)
            #expect(outcome.apnsID == id)
            let record = try #require(simulator.record.broadcasts.first)
            #expect(record.apnsID == id)
            #expect(record.topic == app)
            #expect(record.channelID == channel.rawValue)
            #expect(record.pushType == .liveactivity)
            #expect(record.priority == .conserve)
            #expect(record.expiration == 4_000_000_000)
            #expect(String(decoding: record.payload, as: UTF8.self) == payload)
            #expect(simulator.record.pushes.isEmpty)
        }
    }

    /// A header that APNs requires is sent even if the caller does not set it.
    @Test func expirationAndPriorityAreAlwaysSent() async throws {
        try await self.withChannel { client, simulator, channel in
            #expect(await client.broadcast(self.notification, to: channel).certainty == .accepted)
            #expect(simulator.record.broadcasts.first?.expiration == 0)
            #expect(simulator.record.broadcasts.first?.priority == .immediate)
            let prepared = try self.notification.prepared()
            #expect(await client.broadcast(prepared, to: channel).certainty == .accepted)
            let broadcast = try self.notification.preparedForBroadcast()
            #expect(await client.broadcast(broadcast, to: channel).certainty == .accepted)
            #expect(Set(simulator.record.broadcasts.map(\.apnsID)).count == 3)
        }
    }

    @Test func broadcastsUseTheConnectionsOfPushes() async throws {
        try await self.withChannel { client, simulator, channel in
            try await client.send(PushNotification(topic: app, alert: "Hello"), to: DeviceToken.sample(1))
            for _ in 0..<20 { #expect(await client.broadcast(self.notification, to: channel).certainty == .accepted) }
            #expect(simulator.record.connectionsOpened == 1)
            #expect(simulator.record.broadcasts.count == 20)
        }
    }

    @Test func refusalsKeepTheirReasons() async throws {
        try await self.withChannel { client, simulator, channel in
            func reason(_ notification: PushNotification, _ channel: ChannelID) async -> RejectionReason? {
                await client.broadcast(notification, to: channel).error?.rejection?.reason
            }
            #expect(await reason(self.notification, try ChannelID("AAAA")) == .badChannelID)
            let dated = self.notification.expiration(.at(secondsSince1970: 4_000_000_000))
            #expect(await reason(dated, channel) == .badExpirationDate)
            try await client.channels.delete(channel, for: app)
            #expect(await reason(self.notification, channel) == .channelNotRegistered)
            let invalid = await client.broadcast(PushNotification(topic: app, alert: "Hello"), to: channel)
            #expect(invalid.error?.code == .validation)
            let alert = try PushNotification(topic: app, alert: "Hello").prepared()
            #expect(await client.broadcast(alert, to: channel).error?.code == .validation)
            for unchecked in [false, true] {
                let elsewhere = PushNotification(
                    topic: "a/../b",
                    pushType: .liveactivity,
                    rawPayload: Array(payload.utf8)
                )
                let options = BroadcastOptions(skippingValidation: unchecked)
                let prepared = try elsewhere.prepared()
                #expect(await client.broadcast(elsewhere, to: channel, options: options).error?.code == .validation)
                #expect(await client.broadcast(prepared, to: channel, options: options).error?.code == .validation)
            }
            #expect(simulator.record.broadcasts.count == 3)
            // Without validation, APNs itself refuses.
            let start = PushNotification(
                topic: app,
                pushType: .liveactivity,
                rawPayload: #"{"aps":{"event":"start"}}"#.utf8
            )
            let other = try await client.channels.create(for: app).id
            #expect(await client.broadcast(start, to: other).error?.code == .validation)
            for outcome in [
                await client.broadcast(start, to: other, options: .init(skippingValidation: true)),
                await client.broadcast(try start.prepared(), to: other, options: .init(skippingValidation: true)),
            ] {
                #expect(outcome.error?.rejection?.reason == .badRequestPayload)
            }
        }
    }

    @Test func aBroadcastThatMayHaveArrivedIsNotResent() async throws {
        try await self.withChannel { client, simulator, channel in
            simulator.inject(Fault(.dropConnection(isProcessed: true), when: .next))
            let lost = await client.broadcast(self.notification, to: channel)
            #expect(lost.certainty == .unknown)
            #expect(lost.attempts == 1)
            simulator.inject(Fault(.respond(.serviceUnavailable), when: .next))
            #expect(await client.broadcast(self.notification, to: channel).attempts == 2)
            #expect(simulator.record.duplicates.isEmpty)
            #expect(simulator.record.processedCounts.count == 2)
        }
    }

    @Test func anExpiredBroadcastIsNotSent() async throws {
        try await self.withChannel(storage: .mostRecentMessage) { client, simulator, channel in
            let late = await client.broadcast(self.notification.expiration(.at(secondsSince1970: 5)), to: channel)
            #expect(late.error?.code == .expired)
            #expect(late.certainty == .notSent)
            #expect(simulator.record.requestsReceived == 0)
        }
    }

    // MARK: Limits

    @Test func theSimulatorRejectsTooManyBroadcastsWith429() async throws {
        var simulation = Simulator.Configuration()
        simulation.broadcastSpacing = .seconds(60)
        try await self.withChannel(simulation: simulation) { client, simulator, channel in
            #expect(await client.broadcast(self.notification, to: channel).certainty == .accepted)
            let outcome = await client.broadcast(self.notification, to: channel)
            #expect(outcome.error?.rejection?.reason == .tooManyRequests)
            #expect(outcome.retryAfter == .seconds(60))
            #expect(outcome.advice == .wait)
        }
    }
}

import APNSSimulator
import APNSTesting
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// A notification without a topic is sent for the sender's default topic, by every kind of call.
struct DefaultTopicTests: GroupOfClients {
    private static let topic = "com.grasscove.Fern"
    private let notification = PushNotification(alert: "Hey There")

    private func withClient(_ body: (APNSClient, Simulator) async throws -> Void) async throws {
        try await withPatientSimulator(configure: { $0.defaultTopic = Self.topic }, body)
    }

    @Test func everyKindOfCallFillsTheTopicIn() async throws {
        try await self.withClient { client, simulator in
            #expect(client.defaultTopic == Self.topic)
            _ = await client.deliver(self.notification, to: "00fa11ce")
            try await client.send(PushNotification.voip(), to: "00fa11ce")
            try await client.send(
                PushNotification.liveActivityUpdate(contentState: ["score": 1]),
                to: "00fa11ce"
            )
            #expect(await client.sendAll(self.notification, to: ["00fa11ce"]).accepted == 1)
            for await delivery in client.deliveries(["00fa11ce"], push: { (self.notification, $0) }) {
                #expect(delivery.outcome.certainty == .accepted)
            }
            let rows = AsyncStream { continuation in
                continuation.yield("00fa11ce")
                continuation.finish()
            }
            for await delivery in client.deliveries(rows, push: { (self.notification, $0) }) {
                #expect(delivery.outcome.certainty == .accepted)
            }
            #expect(await client.check(within: Patience.limit).isOK)
            let suffixes = ["", ".voip", PushType.liveactivity.topicSuffix, "", "", "", ""]
            #expect(simulator.record.pushes.map(\.topic) == suffixes.map { Self.topic + $0 })
        }
    }

    @Test func aTopicOfItsOwnIsKept() async throws {
        try await self.withClient { client, simulator in
            let own = PushNotification(topic: "com.example.other", alert: "Hey There")
            try await client.send(own, to: "00fa11ce")
            try await client.send(own.prepared(), to: "00fa11ce")
            #expect(await client.sendAll(own, to: ["00fa11ce"]).accepted == 1)
            #expect(simulator.record.pushes.map(\.topic) == Array(repeating: "com.example.other", count: 3))
        }
    }

    @Test func broadcastsAndChannelsFillTheTopicIn() async throws {
        try await self.withClient { client, simulator in
            let channel = try await client.channels.create()
            #expect(try await client.channels.list().ids == [channel.id])
            let update = PushNotification.liveActivityUpdate(contentState: ["score": 1])
            #expect(await client.broadcast(update, to: channel.id).certainty == .accepted)
            #expect(simulator.record.broadcasts.map(\.topic) == [Self.topic])
            #expect(try await client.channels.read(channel.id).id == channel.id)
            #expect(try await client.channels.delete(channel.id).existed)
        }
    }

    @Test("Without a default topic, the error names the remedy, and nothing is sent")
    func withoutATopicNothingIsSent() async throws {
        try await withPatientSimulator(configure: { $0.defaultTopic = nil }) { client, simulator in
            let outcome = await client.deliver(self.notification, to: "00fa11ce")
            #expect(outcome.error?.validation?.code == .topicMissing)
            #expect("\(outcome)".contains("APNS_TOPIC"))
            #expect(await client.sendAll(self.notification, to: ["00fa11ce"]).notSent == 1)
            #expect(throws: ValidationError.self) { try self.notification.prepared() }
            let error = await #expect(throws: PushError.self) { try await client.channels.list() }
            #expect(error?.validation?.code == .topicMissing)
            #expect(await client.check(within: Patience.limit).isOK == false)
            #expect(simulator.record.requestsReceived == 0)
        }
    }

    @Test func anAppOfAGroupHasItsOwnTopic() async throws {
        let key = SimulatedKey()
        let simulation = self.simulation(knowing: key)
        try await self.withGroup(simulation: simulation, configure: { $0.client.defaultTopic = "com.example.other" }) {
            group,
            simulator in
            let app = self.app("fern", key, simulator)
            try group.add(app)
            let sender = group.sender(for: "fern", in: .custom(host: "localhost", port: simulator.port))
            #expect(sender.defaultTopic == app.topic)
            try await sender.send(self.notification, to: "00fa11ce")
            #expect(await sender.sendAll(self.notification, to: ["00fa11ce"]).accepted == 1)
            #expect(simulator.record.pushes.map(\.topic) == [app.topic, app.topic])
            // Apps with different topics may share the client.
            try await group.withClient(for: "fern", in: sender.environment) { #expect($0.defaultTopic == nil) }
            let nobody = group.sender(for: "nobody", in: sender.environment)
            #expect(await nobody.deliver(self.notification, to: "00fa11ce").error?.code == .configuration)
        }
    }

    @Test("A recorder and a simulated client have a default topic, so that code without topics can be tested")
    func recordersHaveADefaultTopic() async throws {
        let sender = RecordingPushSender()
        try await sender.send(self.notification, to: "00fa11ce")
        #expect(await sender.sendAll(self.notification, to: ["00fa11ce"]).accepted == 1)
        #expect(sender.pushes.map(\.push.topic) == ["com.example.app", "com.example.app"])
        #expect(sender.pushes.map(\.alert) == [Alert(body: "Hey There"), Alert(body: "Hey There")])
        let strict = RecordingPushSender(defaultTopic: nil)
        #expect(await strict.deliver(self.notification, to: "00fa11ce").error?.validation?.code == .topicMissing)
        try await withPatientSimulator { client, simulator in
            try await client.send(self.notification, to: "00fa11ce")
            let push = try #require(simulator.record.pushes.first)
            #expect(push.topic == "com.example.app" && push.alert?.body == "Hey There")
            struct Payload: Decodable, Equatable {
                var aps: [String: String]
            }
            #expect(try push.decodePayload(as: Payload.self) == Payload(aps: ["alert": "Hey There"]))
        }
    }
}

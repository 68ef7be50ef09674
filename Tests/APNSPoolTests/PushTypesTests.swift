import APNSPool
import APNSSimulator
import Foundation
import Testing

@testable import APNSPoolTestSupport

/// Each push type on the wire: the simulator receives the notification unchanged.
struct PushTypesTests {
    private struct DeliveryAttributes: Encodable { var order: Int }
    private struct DeliveryState: Encodable { var stop: String }

    private let token = String(repeating: "ab", count: 32)

    @Test func pushesOfEveryTypeArriveUnchanged() async throws {
        let topic = "com.grasscove.Fern"
        // The examples of the documentation.
        let start = PushNotification.liveActivityStart(
            topic: "com.grasscove.Fern",
            attributesType: "DeliveryAttributes",
            attributes: DeliveryAttributes(order: 7),
            contentState: DeliveryState(stop: "Elm Street"),
            alert: Alert(title: "On its way", body: "Your order has left the shop.")
        ).inputPushToken()
        let update = PushNotification.liveActivityUpdate(
            topic: "com.grasscove.Fern",
            contentState: DeliveryState(stop: "Oak Street")
        )
        .staleDate(.now.addingTimeInterval(900))
        .priority(.conserve)
        let notifications = [
            start, update, .liveActivityEnd(topic: topic),
            PushNotification(topic: "com.grasscove.Fern", alert: "Hi").aps(key: "new-key", 1),
            .background(topic: topic), .voip(topic: topic), .complication(topic: topic), .fileProvider(topic: topic),
            .mdm(topic: "com.apple.mgmt.External.1", pushMagic: "m"), .location(topic: topic),
            .pushToTalk(topic: topic), .pushToTalkServiceUpdate(topic: topic), .widgets(topic: topic),
            .controls(topic: topic),
            .accessory(topic: topic, encryptedData: "YQ==", sessionIdentifier: "s", keyID: "k", messageIndex: 1),
        ]
        try await withPatientSimulator { client, simulator in
            var types: Set<PushType> = []
            for notification in notifications {
                let push = try notification.prepared()
                let receipt = try await client.send(push, to: token)
                let record = try #require(simulator.record.pushes.last)
                #expect(record.apnsID == receipt.apnsID)
                #expect(record.payload == push.payload)
                #expect(record.topic == push.topic && record.pushType == push.pushType)
                #expect(record.priority == push.priority && record.expiration == push.expiration.headerValue)
                types.insert(push.pushType)
            }
            #expect(types == Set(PushType.known))
        }
    }

    @Test func eachDeviceGetsItsOwnBadge() async throws {
        let notification = PushNotification(topic: "com.grasscove.Fern", alert: "Hi").collapseID("c")
        let devices = (1...5).map { (unread: $0 * 9, token: String(repeating: "0\($0)", count: 32)) }
        try await withPatientSimulator { client, simulator in
            let push = try notification.prepared()
            for device in devices {
                try await client.send(push.badge(device.unread), to: device.token)
            }
            let pushes = simulator.record.pushes
            #expect(pushes.map(\.deviceToken) == devices.map(\.token))
            #expect(
                pushes.map { String(decoding: $0.payload, as: UTF8.self) }
                    == devices.map { #"{"aps":{"badge":\#($0.unread),"alert":"Hi"}}"# }
            )
            #expect(pushes.allSatisfy { $0.collapseID == "c" && $0.status == 200 })
        }
    }

    /// The library and the simulator refuse the same payloads: their limits agree to the byte.
    @Test func limitsAgreeWithTheServer() async throws {
        try await withPatientSimulator { client, _ in
            for type in PushType.known {
                for (extra, reason) in [(0, nil), (1, RejectionReason.payloadTooLarge)] {
                    let push = try PreparedPush(
                        topic: "com.grasscove.Fern" + type.topicSuffix,
                        pushType: type,
                        payload: [UInt8](repeating: 0x20, count: type.payloadLimit + extra),
                        priority: type.allowedPriorities.first,
                        skippingValidation: true
                    )
                    let outcome = await client.deliver(push, to: token)
                    #expect(outcome.error?.rejection?.reason == reason, "\(type)")
                }
            }
        }
    }
}

import APNSModel
import Foundation
import Testing

struct BroadcastTests {
    private struct State: Encodable {
        var text = ""
    }

    private let topic = "com.grasscove.Fern"
    private var update: PushNotification {
        .liveActivityUpdate(topic: topic, contentState: State()).timestamp(secondsSince1970: 1)
    }

    @Test func broadcastsHavePriorityAndExpiration() throws {
        let push = try update.preparedForBroadcast()
        #expect(push.priority == .immediate && push.expiration == .immediate)
        #expect(push.broadcastPriority == .immediate && push.broadcastExpiration == 0)
        #expect(push.bundleID == topic && push.topic == topic + ".push-type.liveactivity")
        #expect(
            String(decoding: push.payload, as: UTF8.self)
                == #"{"aps":{"timestamp":1,"event":"update","content-state":{"text":""}}}"#
        )
        // A push that was prepared for devices can be broadcast too.
        let plain = try update.prepared()
        #expect(plain.priority == nil && plain.expiration == .systemDefault)
        try plain.validateForBroadcast(storagePolicy: .noMessage)
        #expect(plain.broadcastPriority == .immediate && plain.broadcastExpiration == 0)
        let kept = try update.priority(.low).expiration(.at(secondsSince1970: 9)).preparedForBroadcast(
            storagePolicy: .mostRecentMessage
        )
        #expect(kept.broadcastPriority == .low && kept.broadcastExpiration == 9)
        #expect(try PushNotification(topic: topic).prepared().bundleID == topic)
    }

    @Test func broadcastsMayHave5120Bytes() throws {
        func notification(_ size: Int) -> PushNotification {
            let frame = #"{"aps":{"timestamp":1,"event":"update","content-state":{"text":""}}}"#.utf8.count
            return .liveActivityUpdate(
                topic: topic,
                contentState: State(text: String(repeating: "a", count: size - frame))
            ).timestamp(secondsSince1970: 1)
        }
        #expect(try notification(5_120).preparedForBroadcast().payload.count == 5_120)
        #expect(code { _ = try notification(5_120).prepared() } == .payloadTooLarge)
        #expect(throws: ValidationError(code: .payloadTooLarge, field: "payload", limit: 5_120, actual: 5_121)) {
            try notification(5_121).preparedForBroadcast()
        }
        #expect(try notification(5_121).preparedForBroadcast(skippingValidation: true).payload.count == 5_121)
    }

    @Test func broadcastsAreValidated() throws {
        func fault(
            _ notification: PushNotification,
            _ policy: MessageStoragePolicy? = nil
        ) -> ValidationError.Code? {
            code { _ = try notification.preparedForBroadcast(storagePolicy: policy) }
        }
        #expect(fault(update) == nil)
        #expect(fault(.liveActivityEnd(topic: topic)) == nil)
        let start = PushNotification.liveActivityStart(
            topic: topic,
            attributesType: "A",
            attributes: State(),
            contentState: State(),
            alert: Alert(title: "T", body: "B")
        )
        #expect(fault(start) == .contentNotAllowed)
        #expect(code { try start.prepared().validateForBroadcast() } == .contentNotAllowed)
        #expect(fault(PushNotification(topic: topic, alert: "a")) == .contentNotAllowed)
        #expect(fault(update.collapseID("c")) == .contentNotAllowed)
        for priority in [Priority.immediate, .conserve, .low] { #expect(fault(update.priority(priority)) == nil) }
        #expect(fault(update.priority(Priority(rawValue: 7))) == .priorityNotAllowed)
        let later = update.expiration(.at(secondsSince1970: 1_700_000_000))
        #expect(fault(later) == nil)
        #expect(fault(later, .mostRecentMessage) == nil)
        #expect(fault(later, .noMessage) == .expirationInvalid)
        #expect(fault(update.expiration(.immediate), .noMessage) == nil)
        #expect(fault(update.expiration(.at(secondsSince1970: -1))) == .expirationInvalid)
        #expect(fault(later, MessageStoragePolicy(rawValue: 2)) == nil)
        // The event of a raw payload is read from its bytes.
        let raw = PushNotification(
            topic: topic,
            pushType: .liveactivity,
            rawPayload: #"{"aps":{"x":[],"event":"start"}}"#.utf8
        )
        #expect(fault(raw) == .contentNotAllowed)
        #expect(code { _ = try raw.preparedForBroadcast(skippingValidation: true) } == nil)
        #expect(
            fault(PushNotification(topic: topic, pushType: .liveactivity, rawPayload: Array("{}".utf8))) == nil
        )
    }

    @Test(arguments: ["a/b", "a?b", "a%2Fb", "..", "a#b", "com.x.push-type.liveactivity.push-type.liveactivity"])
    func aTopicCannotChangeThePath(topic: String) throws {
        let notification = PushNotification(topic: topic, pushType: .liveactivity, rawPayload: Array("{}".utf8))
        #expect(code { _ = try notification.preparedForBroadcast() } == .topicInvalid)
        #expect(code { _ = try notification.preparedForBroadcast(skippingValidation: true) } == .topicInvalid)
        #expect(code { try notification.prepared().validateForBroadcast() } == .topicInvalid)
    }

    @Test func aBundleIDIsChecked() {
        #expect(throws: Never.self) { try BundleID.check("com.Example-1.app_2") }
        for text in [
            "", "a b", "a\u{E9}", "a\r\nb", "com.example.app.push-type.liveactivity",
            String(repeating: "a", count: 256),
        ] {
            #expect(throws: ValidationError.self) { try BundleID.check(text) }
        }
    }

    @Test func anEmptyPayloadIsRefused() throws {
        let empty = PushNotification(topic: topic, pushType: .liveactivity, rawPayload: [])
        #expect(code { _ = try empty.preparedForBroadcast() } == .payloadEmpty)
        #expect(code { _ = try empty.prepared(skippingValidation: true).validateForBroadcast() } == .payloadEmpty)
    }
}

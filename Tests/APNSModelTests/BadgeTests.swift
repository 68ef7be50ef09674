import APNSModel
import Foundation
import Testing

struct BadgeTests {
    private let topic = "com.example.app"

    private func text(_ push: PreparedPush) -> String { String(decoding: push.payload, as: UTF8.self) }

    @Test func aBadgeReplacesTheOldOne() throws {
        let push = try PushNotification(topic: topic, alert: "Hi").badge(1).sound("a").custom(key: "badge", 5)
            .collapseID("c").prepared()
        #expect(text(try push.badge(42)) == #"{"aps":{"alert":"Hi","badge":42,"sound":"a"},"badge":5}"#)
        #expect(text(try push.badge(42).badge(7)) == #"{"aps":{"alert":"Hi","badge":7,"sound":"a"},"badge":5}"#)
        #expect(text(try push.badge(.max)).contains(#""badge":9223372036854775807,"sound""#))
        // The original is unchanged.
        #expect(text(push) == #"{"aps":{"alert":"Hi","badge":1,"sound":"a"},"badge":5}"#)
        let other = try push.badge(42)
        #expect(other.topic == push.topic && other.pushType == push.pushType && other.collapseID == push.collapseID)
        #expect(other != push)
        #expect(try push.badge(1) == push)
        #expect(try push.badge(1).hashValue == push.hashValue)
    }

    @Test func aBadgeIsInsertedIfThereIsNone() throws {
        let base = PushNotification(topic: topic)
        #expect(text(try base.prepared().badge(3)) == #"{"aps":{"badge":3}}"#)
        #expect(text(try base.prepared().badge(3).badge(44)) == #"{"aps":{"badge":44}}"#)
        let push = try base.alert("Hi").custom(key: "k", 1).prepared()
        #expect(text(try push.badge(3)) == #"{"aps":{"badge":3,"alert":"Hi"},"k":1}"#)
        #expect(text(try push.badge(3).badge(10)) == #"{"aps":{"badge":10,"alert":"Hi"},"k":1}"#)
        #expect(
            text(try base.aps(key: "badge", 9).aps(key: "x", 1).prepared().badge(3)) == #"{"aps":{"badge":3,"x":1}}"#
        )
    }

    @Test(arguments: [
        (#"{"aps":{"badge":1}}"#, #"{"aps":{"badge":55}}"#),
        (
            #" { "x" : {"badge":2} , "aps" : { "a" : [1] , "badge" : -12 , "b" : 1 } } "#,
            #" { "x" : {"badge":2} , "aps" : { "a" : [1] , "badge" : 55 , "b" : 1 } } "#
        ),
        (#"{"aps":{ }}"#, #"{"aps":{"badge":55 }}"#),
        (#"{"aps":{ "a":1}}"#, #"{"aps":{"badge":55, "a":1}}"#),
        (#"{"aps":{"b\u0061dge":"1"}}"#, #"{"aps":{"b\u0061dge":55}}"#),
        (#"{"a":"{\"aps\":{}}","aps":{"badge":null}}"#, #"{"a":"{\"aps\":{}}","aps":{"badge":55}}"#),
    ])
    func aBadgeIsSetInRawPayloads(payload: String, expected: String) throws {
        let push = try PushNotification(topic: topic, rawPayload: payload.utf8).prepared()
        #expect(text(try push.badge(55)) == expected)
        #expect(text(try push.badge(1).badge(55)) == expected)
    }

    @Test(arguments: [
        "{}", "[]", "", "{\"aps\":1}", "{\"aps\":{}", "{\"aps\":{}} x", "{\"aps\":{},\"aps\":{}}",
        "{\"aps\":{\"badge\":1,\"badge\":2}}", "nonsense", "{\"aps\":{\"badge\":}}",
    ])
    func aBadgeIsRefusedInOtherPayloads(payload: String) throws {
        let push = try PreparedPush(
            topic: topic,
            pushType: .alert,
            payload: Array(payload.utf8),
            skippingValidation: true
        )
        #expect(code { _ = try push.badge(1) } == .payloadIsRaw)
        #expect(code { _ = try push.badge(1, skippingValidation: true) } == .payloadIsRaw)
    }

    @Test func aDecodedPushAcceptsABadge() throws {
        let push = try PushNotification(topic: topic, alert: "Hi").badge(1).prepared()
        let again = try JSONDecoder().decode(PreparedPush.self, from: JSONEncoder().encode(push))
        #expect(text(try again.badge(12)) == #"{"aps":{"alert":"Hi","badge":12}}"#)
    }

    @Test func badgesAndPayloadSizesAreLimited() throws {
        let push = try PushNotification(topic: topic).badge(1).prepared()
        #expect(code { _ = try push.badge(-1) } == .badgeInvalid)
        #expect(text(try push.badge(-1, skippingValidation: true)) == #"{"aps":{"badge":-1}}"#)
        #expect(text(try push.badge(.min, skippingValidation: true)) == #"{"aps":{"badge":-9223372036854775808}}"#)
        for type in [PushType.background, .liveactivity, .mdm] {
            let silent = try PreparedPush(
                topic: topic + type.topicSuffix,
                pushType: type,
                payload: Array(#"{"aps":{}}"#.utf8)
            )
            #expect(code { _ = try silent.badge(1) } == .contentNotAllowed)
            #expect(code { _ = try silent.badge(1, skippingValidation: true) } == nil)
        }
        #expect(code { _ = try PushNotification.mdm(topic: topic, pushMagic: "m").prepared().badge(1) } != nil)

        // The limit holds to the byte.
        let frame = #"{"aps":{"alert":"","badge":9}}"#.utf8.count
        let full = try PushNotification(topic: topic, alert: String(repeating: "a", count: 4_096 - frame)).badge(9)
            .prepared()
        #expect(full.payload.count == 4_096)
        #expect(try full.badge(8).payload.count == 4_096)
        #expect(throws: ValidationError(code: .payloadTooLarge, field: "payload", limit: 4_096, actual: 4_097)) {
            try full.badge(10)
        }
        #expect(try full.badge(10, skippingValidation: true).payload.count == 4_097)
        // A payload that was too large before is accepted if the badge adds no bytes.
        #expect(try full.badge(10, skippingValidation: true).badge(11).payload.count == 4_097)
    }

    @Test func badgesShareTheHeaders() throws {
        let push = try PushNotification(topic: topic, alert: "Hi").prepared()
        let one = try push.badge(1)
        let two = try one.badge(2)
        #expect(one.sharesHeaders(with: push) && two.sharesHeaders(with: push) && two.sharesHeaders(with: one))
        #expect(!one.isIdentical(to: push))
        #expect(!(try PushNotification(topic: topic, alert: "Hi").prepared().sharesHeaders(with: push)))
    }
}

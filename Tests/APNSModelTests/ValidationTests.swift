import APNSModel
import Foundation
import Testing

struct ValidationTests {
    let topic = "com.example.app"

    private func raw(_ size: Int, _ type: PushType = .alert) -> PushNotification {
        PushNotification(topic: topic, pushType: type, rawPayload: [UInt8](repeating: 0x20, count: size))
    }

    @Test func payloadSizesAreLimitedByType() throws {
        for type in PushType.known {
            let limit = type == .voip ? 5_120 : 4_096
            #expect(type.payloadLimit == limit)
            #expect(try raw(limit, type).prepared().payload.count == limit)
            #expect(throws: ValidationError(code: .payloadTooLarge, field: "payload", limit: limit, actual: limit + 1))
            {
                try raw(limit + 1, type).prepared()
            }
            #expect(try raw(limit + 1, type).prepared(skippingValidation: true).payload.count == limit + 1)
        }
        #expect(code { _ = try raw(0).prepared() } == .payloadEmpty)
        #expect(code { _ = try raw(5_121, PushType(rawValue: "new")).prepared() } == .payloadTooLarge)
    }

    @Test func encodedPayloadsAreLimited() throws {
        let frame = #"{"aps":{"alert":""}}"#.utf8.count
        let fits = String(repeating: "a", count: 4_096 - frame)
        #expect(try PushNotification(topic: topic, alert: fits).prepared().payload.count == 4_096)
        #expect(code { _ = try PushNotification(topic: topic, alert: fits + "a").prepared() } == .payloadTooLarge)
        // Bytes count, not characters.
        let wide = String(repeating: "é", count: (4_096 - frame) / 2 + 1)
        #expect(code { _ = try PushNotification(topic: topic, alert: wide).prepared() } == .payloadTooLarge)
    }

    @Test func topicsAreValidated() {
        #expect(code { _ = try PushNotification(topic: "").prepared() } == .topicMissing)
        #expect(code { _ = try PushNotification(topic: "", pushType: .voip).prepared() } == .topicMissing)
        for bad in ["a b", "a\r\nx: y", "a\nb", "a\u{0}b", "ü", " a", "a ", "\t", String(repeating: "a", count: 1_001)]
        {
            #expect(code { _ = try PushNotification(topic: bad).prepared() } == .topicInvalid)
            #expect(code { _ = try PushNotification(topic: bad).prepared(skippingValidation: true) } == .topicInvalid)
        }
    }

    @Test func pushTypesAreValidated() {
        for bad in ["", "a b", "alert\r\nx: y", "ü", String(repeating: "a", count: 65)] {
            let notification = PushNotification(topic: topic, pushType: PushType(rawValue: bad))
            #expect(code { _ = try notification.prepared() } == .pushTypeInvalid)
            #expect(code { _ = try notification.prepared(skippingValidation: true) } == .pushTypeInvalid)
        }
    }

    @Test func collapseIDsAreValidated() throws {
        #expect(try CollapseID(String(repeating: "a", count: 64)).rawValue.count == 64)
        #expect(code { _ = try CollapseID(String(repeating: "a", count: 65)) } == .collapseIDTooLong)
        // 40 characters of two bytes each.
        #expect(code { _ = try CollapseID(String(repeating: "é", count: 40)) } == .collapseIDTooLong)
        for bad in ["", "é", "a\nb", "a\r\nx: y", "\u{0}", " a", "a ", "\u{7F}"] {
            #expect(code { _ = try CollapseID(bad) } == .collapseIDInvalid)
            let notification = PushNotification(topic: topic).collapseID(bad)
            #expect(code { _ = try notification.prepared(skippingValidation: true) } == .collapseIDInvalid)
        }
    }

    @Test func prioritiesAreValidated() throws {
        let allowed: [PushType: Set<Priority>] = [
            .alert: [.immediate, .conserve, .low], .background: [.conserve], .voip: [.immediate],
            .liveactivity: [.immediate, .conserve], .location: [.immediate, .conserve], .pushtotalk: [.immediate],
        ]
        for type in PushType.known {
            for priority in [Priority.immediate, .conserve, .low, Priority(rawValue: 7), Priority(rawValue: 0)] {
                let expected = allowed[type, default: [.immediate, .conserve, .low]].contains(priority)
                let notification = PushNotification(topic: topic, pushType: type, rawPayload: [0x20])
                    .priority(priority)
                #expect(code { _ = try notification.prepared() } == (expected ? nil : .priorityNotAllowed))
                #expect(try notification.prepared(skippingValidation: true).priority == priority)
            }
        }
    }

    @Test func expirationsAreValidated() throws {
        func check(_ expiration: Expiration) -> ValidationError.Code? {
            code { _ = try PushNotification(topic: topic).expiration(expiration).prepared() }
        }
        #expect(check(.at(secondsSince1970: -1)) == .expirationInvalid)
        #expect(check(.at(secondsSince1970: .min)) == .expirationInvalid)
        #expect(check(.at(secondsSince1970: 1_700_000_000_000)) == .expirationInvalid)
        #expect(check(.at(secondsSince1970: 100_000_000_000)) == .expirationInvalid)
        #expect(check(.at(secondsSince1970: 99_999_999_999)) == nil)
        #expect(check(.at(secondsSince1970: 0)) == nil)
        #expect(check(.immediate) == nil)
        #expect(check(.at(Date.distantPast)) == .expirationInvalid)
        #expect(check(.at(Date(timeIntervalSince1970: .nan))) == .expirationInvalid)
        #expect(check(.at(Date(timeIntervalSince1970: .infinity))) == .expirationInvalid)
        #expect(Expiration.at(Date(timeIntervalSince1970: 12.9)) == .at(secondsSince1970: 12))
    }

    @Test func typedFieldsAreValidated() {
        let base = PushNotification(topic: topic)
        #expect(code { _ = try base.badge(-1).prepared() } == .badgeInvalid)
        #expect(code { _ = try base.badge(0).prepared() } == nil)
        for volume in [-0.1, 1.1, .nan, .infinity] {
            #expect(code { _ = try base.sound(.critical(volume: volume)).prepared() } == .volumeOutOfRange)
        }
        #expect(code { _ = try base.sound(.critical(volume: 0)).prepared() } == nil)
        for score in [-0.1, 1.1, 100, .nan, -.infinity] {
            #expect(code { _ = try base.relevanceScore(score).prepared() } == .relevanceScoreInvalid)
        }
        let activity = PushNotification.liveActivityEnd(topic: topic)
        #expect(code { _ = try activity.relevanceScore(100).prepared() } == nil)
        #expect(code { _ = try activity.relevanceScore(.nan).prepared() } == .relevanceScoreInvalid)
        // Numbers that JSON cannot represent are refused even without validation.
        #expect(
            code { _ = try base.relevanceScore(.nan).prepared(skippingValidation: true) } == .relevanceScoreInvalid
        )
        #expect(
            code { _ = try base.sound(.critical(volume: .nan)).prepared(skippingValidation: true) }
                == .volumeOutOfRange
        )
    }

    @Test func backgroundPushesAreSilent() {
        let base = PushNotification.background(topic: topic)
        #expect(code { _ = try base.badge(1).prepared() } == .contentNotAllowed)
        #expect(code { _ = try base.sound("a").prepared() } == .contentNotAllowed)
        #expect(
            code { _ = try PushNotification(topic: topic, alert: "a").pushType(.background).prepared() }
                == .contentNotAllowed
        )
        #expect(code { _ = try base.badge(1).prepared(skippingValidation: true) } == nil)
    }

    @Test func customValuesAreValidated() {
        struct HasAPS: Encodable { var aps = 1 }
        struct One: Encodable { var a = 1 }
        struct Two: Encodable { var b = 1, a = 2 }
        struct Bad: Encodable { var number = Double.nan }
        struct Fails: Encodable {
            func encode(to encoder: any Encoder) throws {
                throw CocoaError(.coderInvalidValue)
            }
        }
        let base = PushNotification(topic: topic)
        #expect(code { _ = try base.custom(HasAPS()).prepared() } == .customKeyReserved)
        #expect(code { _ = try base.custom(key: "aps", 1).prepared() } == .customKeyReserved)
        #expect(code { _ = try base.custom(One()).custom(Two()).prepared() } == .customKeyDuplicate)
        #expect(code { _ = try base.custom(One()).custom(key: "a", 1).prepared() } == .customKeyDuplicate)
        #expect(code { _ = try base.custom(key: "a", 1).custom(One()).prepared() } == .customKeyDuplicate)
        #expect(code { _ = try base.pushType(.mdm).custom(HasAPS()).custom(HasAPS()).prepared() } != nil)
        #expect(code { _ = try base.aps(key: "a", 1).aps(key: "a", 2).prepared() } == .customKeyDuplicate)
        #expect(code { _ = try base.badge(1).aps(key: "badge", 2).prepared() } == .customKeyDuplicate)
        #expect(code { _ = try base.aps(key: "a", Double.nan).prepared() } == .notEncodable)
        for value: any Encodable & Sendable in [1, "text", [1], true, Int?.none, Data(), 1.5, ["a"], Date.now] {
            #expect(code { _ = try base.custom(value).prepared() } == .customNotAnObject)
        }
        #expect(code { _ = try base.custom(Bad()).prepared() } == .notEncodable)
        #expect(code { _ = try base.custom(key: "k", [Bad()]).prepared() } == .notEncodable)
        #expect(code { _ = try base.custom(Fails()).prepared(skippingValidation: true) } == .notEncodable)
        #expect(code { _ = try base.custom(key: "k", Decimal.nan).prepared() } == .notEncodable)
        #expect(
            throws: ValidationError(code: .notEncodable, field: "k.0.number", value: "nan")
        ) { try base.custom(key: "k", [Bad()]).prepared() }
    }

    @Test func endlessNestingFails() {
        final class Loop: Encodable, Sendable {
            func encode(to encoder: any Encoder) throws {
                var container = encoder.unkeyedContainer()
                try container.encode(self)
            }
        }
        final class Forwarder: Encodable, Sendable {
            func encode(to encoder: any Encoder) throws {
                var container = encoder.singleValueContainer()
                try container.encode(self)
            }
        }
        let base = PushNotification(topic: topic)
        #expect(code { _ = try base.custom(key: "k", Loop()).prepared() } == .notEncodable)
        #expect(code { _ = try base.custom(key: "k", Forwarder()).prepared() } == .notEncodable)
        #expect(code { _ = try base.custom(Forwarder()).prepared() } == .notEncodable)
    }

    @Test func preparedPushesAreValidated() throws {
        func make(_ topic: String = "com.example.app.voip", size: Int = 2, skipping: Bool = false) throws
            -> PreparedPush
        {
            try PreparedPush(
                topic: topic,
                pushType: .voip,
                payload: [UInt8](repeating: 0x20, count: size),
                priority: .immediate,
                expiration: .immediate,
                skippingValidation: skipping
            )
        }
        #expect(try make().topic == "com.example.app.voip")
        #expect(code { _ = try make("") } == .topicMissing)
        #expect(code { _ = try make("a\nb", skipping: true) } == .topicInvalid)
        #expect(code { _ = try make(size: 0) } == .payloadEmpty)
        #expect(code { _ = try make(size: 5_121) } == .payloadTooLarge)
        #expect(code { _ = try make(size: 5_121, skipping: true) } == nil)
    }

    @Test func descriptionsAreReadableASCII() {
        let large = ValidationError(code: .payloadTooLarge, field: "payload", limit: 4_096, actual: 5_000)
        #expect(
            large.description
                == "payload: the payload has more bytes than APNs accepts for this push type (5000, at most 4096)"
        )
        do {
            _ = try PushNotification(topic: "a\r\nevil: header\u{1B}[31m").prepared()
        } catch {
            #expect(error.description.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F })
        }
        #expect(ValidationError(code: .init(rawValue: "future"), field: "x").description == "x: future")
    }
}

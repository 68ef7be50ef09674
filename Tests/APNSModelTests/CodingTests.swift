import APNSModel
import Foundation
import Testing

struct CodingTests {
    private func roundTrip<T: Codable>(_ value: T) throws -> T {
        try JSONDecoder().decode(T.self, from: try JSONEncoder().encode(value))
    }

    private func text(_ value: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(value), as: UTF8.self)
    }

    private func json(_ bytes: [UInt8]) throws -> NSDictionary {
        try #require(try JSONSerialization.jsonObject(with: Data(bytes)) as? NSDictionary)
    }

    @Test func notificationsRoundTrip() throws {
        let notification = PushNotification(topic: "com.example.app", alert: "Hi")
            .badge(1)
            .priority(.conserve)
            .expiration(.at(secondsSince1970: 1_700_000_000))
            .collapseID("c")
            .custom(key: "id", 9_007_199_254_740_993 as Int64)
        #expect(
            try text(notification) == """
                {"collapseID":"c","expiration":1700000000,"payload":{"aps":{"alert":"Hi","badge":1},\
                "id":9007199254740993},"priority":5,"pushType":"alert","topic":"com.example.app"}
                """
        )
        let again = try roundTrip(notification)
        let push = try again.prepared()
        #expect(try json(push.payload) == json(notification.prepared().payload))
        #expect(push.payload == (try notification.prepared().payload))
        #expect(push.priority == .conserve && push.collapseID?.rawValue == "c")
        #expect(push.expiration == .at(secondsSince1970: 1_700_000_000))
        #expect(try text(again) == text(notification))
    }

    @Test func unsetFieldsStayUnset() throws {
        let voip = PushNotification(topic: "com.example.app", pushType: .voip).custom(key: "a", 1)
        #expect(
            try text(voip) == #"{"payload":{"a":1,"aps":{}},"pushType":"voip","topic":"com.example.app"}"#
        )
        #expect(try roundTrip(voip).prepared().expiration == .immediate)
        #expect(try roundTrip(voip).prepared().topic == "com.example.app.voip")
        let kept = voip.expiration(.systemDefault)
        #expect(try text(kept).contains(#""expiration":"system-default""#))
        #expect(try roundTrip(kept).prepared().expiration == .systemDefault)
        #expect(try roundTrip(voip.expiration(.immediate)).prepared().expiration == .immediate)
        let open = try roundTrip(PushNotification(topic: "t", pushType: PushType(rawValue: "hologram")))
        #expect(try open.prepared().pushType.rawValue == "hologram")
    }

    /// The form that version 1 wrote. Every later version must read it.
    @Test func theFormOfVersion1IsRead() throws {
        let notification = try JSONDecoder().decode(
            PushNotification.self,
            from: Data(
                """
                {"topic":"com.example.app","pushType":"alert","priority":10,"expiration":0,"collapseID":"x",
                "payload":{"aps":{"alert":{"title":"T"}},"n":18446744073709551615,"d":0.1,"b":true,"z":null,"l":[1,"s"]}}
                """.utf8
            )
        )
        let push = try notification.prepared()
        #expect(
            String(decoding: push.payload, as: UTF8.self) == """
                {"aps":{"alert":{"title":"T"}},"b":true,"d":0.1,"l":[1,"s"],"n":18446744073709551615,"z":null}
                """
        )
        #expect(push.expiration == .immediate && push.priority == .immediate)
        #expect(throws: DecodingError.self) {
            try JSONDecoder().decode(PushNotification.self, from: Data(#"{"topic":"t","pushType":"alert"}"#.utf8))
        }
        #expect(throws: DecodingError.self) {
            try JSONDecoder().decode(
                PushNotification.self,
                from: Data(#"{"topic":"t","pushType":"alert","payloadBase64":"?"}"#.utf8)
            )
        }
    }

    @Test func preparedPushesRoundTrip() throws {
        let push = try PushNotification(topic: "com.example.app", alert: "ü🎉\u{1}")
            .pushType(.voip).collapseID("c").expiration(.immediate).prepared()
        let again = try roundTrip(push)
        #expect(again == push)
        #expect(
            try text(push) == #"{"collapseID":"c","expiration":0,"payload":{"aps":{"alert":"ü🎉\u0001"}},"#
                + #""pushType":"voip","topic":"com.example.app.voip"}"#
        )
    }

    @Test(arguments: [
        "[1]", "not json", "{\"a\":1,\"a\":2}", "{\"a\":\"\\ud800\"}", "{\"a\":0.12345678901234567890}", "{} x",
        "{\"a\":01}", "{\"a\":1.}", "{\"a\":1e}", "{\"a\":+1}", "{\"a\":tru}", "{a:1}", "{\"a\":\"\n\"}", "",
    ])
    func otherPayloadsAreCodedAsBase64(payload: String) throws {
        let notification = PushNotification(topic: "t", rawPayload: payload.utf8)
        #expect(try text(notification).contains("payloadBase64"))
        #expect(try roundTrip(notification).prepared(skippingValidation: true).payload == Array(payload.utf8))
        let push = try PreparedPush(
            topic: "t",
            pushType: .alert,
            payload: Array(payload.utf8),
            skippingValidation: true
        )
        #expect(try roundTrip(push) == push)
    }

    @Test func invalidUTF8IsCodedAsBase64() throws {
        let bytes: [UInt8] = Array(#"{"a":""#.utf8) + [0xFF] + Array(#""}"#.utf8)
        #expect(try roundTrip(PushNotification(topic: "t", rawPayload: bytes)).prepared().payload == bytes)
    }

    @Test(arguments: [
        #"{"a":123456789012345678901234567890}"#, #"{"a":-9223372036854775808}"#, #"{"a":9007199254740993}"#,
        #"{"a":1e2,"b":-0,"c":-0.0,"d":1.5E-7,"e":100}"#, "{ \"a\" : [ ] , \"b\" : { } }\n",
        #"{"aps":{"alert":"\"\\\/\b\f\n\r\t\u00e9\ud83c\udf89"}}"#, #"{"a":[[[[[[{"b":[null,true,false]}]]]]]]}"#,
    ])
    func jsonObjectsRoundTrip(payload: String) throws {
        let notification = PushNotification(topic: "t", rawPayload: Array(payload.utf8))
        #expect(!(try text(notification).contains("payloadBase64")))
        let again = try roundTrip(notification).prepared().payload
        #expect(try json(again) == json(Array(payload.utf8)))
        if payload.contains("1234567890123") { #expect(String(decoding: again, as: UTF8.self) == payload) }
    }

    @Test func deepPayloadsRoundTrip() throws {
        let deep = String(repeating: #"{"a":"#, count: 600) + "1" + String(repeating: "}", count: 600)
        let notification = PushNotification(topic: "t", rawPayload: deep.utf8)
        #expect(try roundTrip(notification).prepared().payload == Array(deep.utf8))
    }

    @Test func outcomesRoundTrip() throws {
        let id = try #require(APNSID("eabeae54-14a8-11e5-b60b-1697f925ec7b"))
        let accepted = PushOutcome.accepted(Receipt(apnsID: id, apnsUniqueID: "u", attempts: 2))
        #expect(
            try text(accepted)
                == #"{"outcome":"accepted","receipt":{"apnsID":"eabeae54-14a8-11e5-b60b-1697f925ec7b","#
                + #""apnsUniqueID":"u","attempts":2}}"#
        )
        #expect(try roundTrip(accepted) == accepted)

        let rejection = Rejection(
            status: 410,
            body: Array(#"{"reason":"Unregistered","timestamp":5}"#.utf8),
            apnsID: id
        )
        let rejected = PushOutcome.failed(.rejected(rejection, attempts: 1, retryAfter: .milliseconds(1_500)))
        #expect(try roundTrip(rejected) == rejected)
        #expect(
            try text(rejected) == """
                {"error":{"apnsID":"eabeae54-14a8-11e5-b60b-1697f925ec7b","attempts":1,"certainty":"rejected",\
                "code":"rejected","message":"410 Unregistered: the device token is no longer active for the topic",\
                "rejection":{"apnsID":"eabeae54-14a8-11e5-b60b-1697f925ec7b",\
                "rawBodyBase64":"eyJyZWFzb24iOiJVbnJlZ2lzdGVyZWQiLCJ0aW1lc3RhbXAiOjV9","reason":"Unregistered",\
                "status":410,"timestamp":5},"retryAfterSeconds":1.5},"outcome":"rejected"}
                """
        )
        for certainty in Certainty.allCases where certainty != .accepted {
            let failed = PushOutcome.failed(
                PushError(
                    code: .init(rawValue: "future"),
                    certainty: certainty,
                    message: "m",
                    validation: ValidationError(code: .topicInvalid, field: "f", value: "v", limit: 1, actual: 2)
                )
            )
            #expect(try roundTrip(failed) == failed)
            #expect(try text(failed).contains(#""outcome":"\#(certainty.rawValue)""#))
        }
    }
}

struct PushSenderTests {
    /// Accepts every push. Its receipts have the payload's size as the number of attempts.
    private struct Recorder: PushSender {
        func deliver(_ push: PreparedPush, to token: DeviceToken, options: DeliveryOptions) async -> PushOutcome {
            guard options.deadline != .zero else {
                return .failed(PushError(code: .deadlineExceeded, certainty: .notSent, message: "late"))
            }
            return .accepted(Receipt(apnsID: options.apnsID ?? APNSID(high: 0, low: 0), attempts: push.payload.count))
        }
    }

    @Test func convenienceMethodsCallDeliver() async throws {
        let sender: any PushSender = Recorder()
        let id = APNSID(high: 1, low: 2)
        let token = try DeviceToken("abcd")
        let notification = PushNotification(topic: "t", alert: "Hi")
        let size = try notification.prepared().payload.count
        #expect(
            try await sender.send(notification, to: token, options: DeliveryOptions(deadline: .seconds(5), apnsID: id))
                .apnsID == id
        )
        #expect(try await sender.send(notification.prepared(), to: "ABCD").attempts == size)
        #expect(await sender.deliver(notification, to: token).receipt?.attempts == size)
        #expect(await sender.deliver(notification, to: "abcd", options: DeliveryOptions(apnsID: id)).apnsID == id)
        await #expect(throws: PushError(code: .deadlineExceeded, certainty: .notSent, message: "late")) {
            try await sender.send(notification, to: token, options: DeliveryOptions(deadline: .zero))
        }
    }

    /// The protocol consumes its notification. An implementation may borrow it, and the caller keeps its own.
    @Test func aSenderMayBorrowItsNotification() async throws {
        struct Borrower: PushSender {
            func deliver(_ push: PreparedPush, to token: DeviceToken, options: DeliveryOptions) async -> PushOutcome {
                .accepted(Receipt(apnsID: APNSID(high: 0, low: 0), attempts: 1))
            }

            func deliver(
                _ notification: PushNotification,
                to token: DeviceToken,
                options: DeliveryOptions
            ) async -> PushOutcome {
                let again = notification
                let size = (try? notification.badge(1).prepared().payload.count) ?? 0
                let same = (try? again.badge(1).prepared().payload.count) ?? -1
                return .accepted(Receipt(apnsID: APNSID(high: 0, low: 0), attempts: size == same ? size : 0))
            }
        }
        let notification = PushNotification(topic: "t", alert: "Hi")
        let size = try notification.badge(1).prepared().payload.count
        let sender: any PushSender = Borrower()
        for _ in 0..<2 {
            #expect(await sender.deliver(notification, to: "ab").attempts == size)
            #expect(try await sender.send(notification, to: DeviceToken("ab")).attempts == size)
        }
    }

    @Test func invalidPushesAreNotSent() async throws {
        let sender = Recorder()
        let id = APNSID(high: 1, low: 2)
        let notification = PushNotification(topic: "t", alert: "Hi")
        let badToken = await sender.deliver(notification, to: "xyz", options: DeliveryOptions(apnsID: id))
        #expect(badToken.certainty == .notSent && badToken.error?.code == .validation && badToken.apnsID == id)
        #expect(badToken.error?.validation?.code == .deviceTokenNotHexadecimal)
        #expect(!badToken.canResend && badToken.advice == .fixRequest && badToken.attempts == 0)
        let badPush = await sender.deliver(notification.badge(-1), to: try DeviceToken("ab"))
        #expect(badPush.error?.validation?.code == .badgeInvalid)
        do {
            try await sender.send(notification.prepared(), to: "")
            Issue.record("an empty device token was accepted")
        } catch {
            #expect((error as? PushError)?.validation?.code == .deviceTokenEmpty)
        }
    }
}

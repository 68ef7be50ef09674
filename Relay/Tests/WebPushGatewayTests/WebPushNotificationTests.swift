import APNSModel
import Foundation
import Testing

@testable import WebPushGateway

struct WebPushNotificationTests {
    private static let now: Int64 = 1_795_440_000
    private let notification = WebPushNotification(
        subscription: "kX8dZq2vYbRn5tGm",
        topic: "com.grasscove.Fern",
        fallbackKey: "NEW_MESSAGE"
    )

    private func push(_ fields: [(String, String)], body: [UInt8] = WebPushRequestTests.body) throws -> PreparedPush {
        let request = try WebPushRequestTests.request(fields, body: body)
        return try self.notification.push(for: request, now: Self.now)
    }

    private func json(_ push: PreparedPush) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(push.payload)) as? [String: Any])
    }

    @Test("The payload is an alert with the fallback text, and has the message unchanged")
    func payload() throws {
        let push = try self.push([("ttl", "60"), ("content-encoding", "aes128gcm")])
        let payload = String(decoding: push.payload, as: UTF8.self)
        let body = Base64Text.encode(WebPushRequestTests.body)
        #expect(
            payload
                == #"{"aps":{"alert":{"loc-key":"NEW_MESSAGE"},"mutable-content":1,"interruption-level":"active"},"#
                + #""webpush":{"id":"kX8dZq2vYbRn5tGm","body":"\#(body)"}}"#
        )
        #expect(push.topic == "com.grasscove.Fern" && push.pushType == .alert && push.collapseID == nil)
        #expect(push.priority == .immediate && push.expiration == .at(secondsSince1970: Self.now + 60))
    }

    @Test("With the earlier encoding, the payload also has the salt and the sender's key")
    func aesgcm() throws {
        let (salt, key) = (WebPushRequestTests.salt, WebPushRequestTests.senderKey)
        let push = try self.push(
            [
                ("ttl", "0"), ("content-encoding", "aesgcm"), ("encryption", "salt=\(salt)"),
                ("crypto-key", "dh=\(key)"),
            ],
            body: WebPushRequestTests.oldBody
        )
        let member = try #require(try self.json(push)["webpush"] as? [String: String])
        #expect(member["encoding"] == "aesgcm" && member["salt"] == salt && member["dh"] == key)
        #expect(push.expiration == .immediate)
    }

    @Test("A request without a body shows the fallback text")
    func noBody() throws {
        let push = try self.push([("ttl", "60")], body: [])
        #expect(try self.json(push).keys.sorted() == ["aps"])
    }

    @Test("A message that web-push-php pads fits into a notification", arguments: [false, true])
    func padded(_ allowsTimeSensitive: Bool) throws {
        var notification = self.notification
        notification.allowsTimeSensitive = allowsTimeSensitive
        // 2,820 bytes with the delimiter, the header and the tag.
        let body = Array(WebPushRequestTests.body.prefix(86)) + Array(repeating: 1, count: 2_820 + 16)
        let fields = [("ttl", "60"), ("content-encoding", "aes128gcm"), ("urgency", "high")]
        let request = try WebPushRequestTests.request(fields, body: body)
        #expect(try notification.push(for: request, now: Self.now).payload.count <= 4_096)
    }

    @Test("Urgency becomes the priority and the interruption level")
    func urgency() throws {
        let expected: [(WebPushRequest.Urgency, Bool, Priority, String)] = [
            (.veryLow, true, .conserve, "passive"), (.low, true, .conserve, "passive"),
            (.normal, true, .immediate, "active"), (.high, false, .immediate, "active"),
            (.high, true, .immediate, "time-sensitive"),
        ]
        for (urgency, allows, priority, level) in expected {
            var notification = self.notification
            notification.allowsTimeSensitive = allows
            let request = try WebPushRequestTests.request([("ttl", "60"), ("urgency", urgency.rawValue)], body: [])
            let push = try notification.push(for: request, now: Self.now)
            #expect(push.priority == priority)
            let aps = try #require(try self.json(push)["aps"] as? [String: Any])
            #expect(aps["interruption-level"] as? String == level)
        }
    }

    @Test("A topic replaces only messages of its own subscription, and does not reach the device")
    func topic() throws {
        let push = try self.push([("ttl", "60"), ("content-encoding", "aes128gcm"), ("topic", "unread")])
        let collapseID = try #require(push.collapseID?.rawValue)
        #expect(collapseID.utf8.count == 32)
        #expect(!String(decoding: push.payload, as: UTF8.self).contains("unread") && !collapseID.contains("unread"))
        #expect(self.notification.collapseID("unread") == collapseID)
        #expect(self.notification.collapseID("other") != collapseID)
        var other = self.notification
        other.subscription = "another"
        #expect(other.collapseID("unread") != collapseID)
    }

    @Test("A message that does not fit gets an error with the largest size, which fits")
    func tooLarge() throws {
        let header = Array(WebPushRequestTests.body.prefix(86))
        let fields = [("ttl", "60"), ("content-encoding", "aes128gcm")]
        func body(_ count: Int) -> [UInt8] { header + Array(repeating: 7, count: count - header.count) }
        let error = #expect(throws: WebPushError.self) { try self.push(fields, body: body(4_096)) }
        #expect(error?.code == .tooLarge)
        let number = try #require(error?.message.firstMatch(of: /at most (\d+)/)?.1)
        let limit = try #require(Int(number))
        let largest = try self.push(fields, body: body(limit))
        #expect((4_094...4_096).contains(largest.payload.count))
        #expect(throws: WebPushError.self) { try self.push(fields, body: body(limit + 1)) }
    }
}

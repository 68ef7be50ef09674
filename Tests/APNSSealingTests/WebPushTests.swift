#if Sealing
    import APNSBasics
    import Foundation
    import Testing

    @testable import APNSSealing

    /// Web Push messages of the specifications, and changed ones.
    struct WebPushTests {
        /// RFC 8291, section 5 and appendix A.
        private enum RFC8291 {
            static let privateKey = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
            static let publicKey =
                "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
            static let secret = "BTBZMqHH6r4Tts7J_aSIgg"
            static let body = """
                DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK\
                6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN
                """
        }

        /// draft-ietf-webpush-encryption-04, section 5.
        private enum Draft04 {
            static let privateKey = "9FWl15_QUQAWDaD3k3l50ZBZQJ4au27F1V4F0uLSD_M"
            static let secret = "R29vIGdvbyBnJyBqb29iIQ"
            static let salt = "lngarbyKfMoi9Z75xYXmkg"
            static let senderKey =
                "BNoRDbb84JGm8g5Z5CFxurSqsXWJ11ItfXEWYVLE85Y7CYkDjXsIEc4aqxYaQ1G8BqkXCJ6DPpDrWtdWj_mugHU"
            static let body = "6nqAQUME8hNqw5J3kl8cpVVJylXKYqZOeseZG8UueKpA"
        }

        private func keys(_ privateKey: String, _ secret: String) throws -> WebPushKeys {
            let bytes = try #require(Base64.decodeForURL(privateKey.utf8)) + #require(Base64.decodeForURL(secret.utf8))
            return try WebPushKeys(rawRepresentation: bytes)
        }

        private func message(_ members: [String: String]) throws -> WebPushMessage {
            try WebPushMessage(payload: Array(JSONEncoder().encode(["webpush": members])))
        }

        private func opened(_ members: [String: String], _ keys: WebPushKeys) throws -> String {
            String(decoding: try WebPushOpener(keys: keys).open(self.message(members)), as: UTF8.self)
        }

        private let rfc = ["id": "s1", "body": RFC8291.body]
        private let draft = [
            "id": "s2", "encoding": "aesgcm", "body": Draft04.body, "salt": Draft04.salt, "dh": Draft04.senderKey,
        ]

        @Test("The message of RFC 8291 opens, and the device's public key is the RFC's")
        func aes128gcm() throws {
            let keys = try self.keys(RFC8291.privateKey, RFC8291.secret)
            #expect(try self.opened(self.rfc, keys) == "When I grow up, I want to be a watermelon")
            #expect(keys.p256dh == RFC8291.publicKey)
            #expect(keys.auth == RFC8291.secret)
            #expect(try WebPushKeys(rawRepresentation: keys.rawRepresentation).p256dh == keys.p256dh)
        }

        @Test("The message of the earlier draft opens")
        func aesgcm() throws {
            let keys = try self.keys(Draft04.privateKey, Draft04.secret)
            #expect(try self.opened(self.draft, keys) == "I am the walrus")
        }

        @Test("A notification's dictionary is read like its JSON")
        func userInfo() throws {
            let userInfo: [AnyHashable: Any] = ["aps": ["mutable-content": 1], "webpush": self.draft]
            #expect(try WebPushMessage(userInfo: userInfo) == self.message(self.draft))
            #expect(try WebPushMessage(userInfo: userInfo).subscription == "s2")
            #expect(sealingError { try WebPushMessage(userInfo: ["webpush": "text"]) }?.code == .notSealed)
            #expect(sealingError { try WebPushMessage(payload: Array("{}".utf8)) }?.code == .notSealed)
            #expect(sealingError { try WebPushMessage(payload: Array("[".utf8)) }?.code == .notSealed)
        }

        @Test("Any changed bit is refused, without a reason", arguments: ["rfc", "draft"])
        func changed(_ name: String) throws {
            let (members, keys) =
                name == "rfc"
                ? (self.rfc, try self.keys(RFC8291.privateKey, RFC8291.secret))
                : (self.draft, try self.keys(Draft04.privateKey, Draft04.secret))
            for member in ["body", "salt", "dh"] {
                guard let text = members[member] else { continue }
                let bytes = try #require(Base64.decodeForURL(text.utf8))
                for bit in 0..<(bytes.count * 8) {
                    var changed = bytes
                    changed[bit / 8] ^= 1 << (bit % 8)
                    var other = members
                    other[member] = Base64.encodeForURL(changed)
                    let code = sealingError { try self.opened(other, keys) }?.code
                    // A larger record size changes nothing, because the message has one record.
                    let isRecordSize = name == "rfc" && (16..<20).contains(bit / 8)
                    #expect(
                        code == .notAuthentic || code == .malformed || (isRecordSize && code == nil),
                        "\(member) \(bit)"
                    )
                }
            }
        }

        @Test("Other keys do not open a message")
        func otherKeys() throws {
            for members in [self.rfc, self.draft] {
                #expect(sealingError { try self.opened(members, WebPushKeys()) }?.code == .notAuthentic)
            }
        }

        @Test("Every shortened message is refused and traps nothing")
        func shortened() throws {
            let keys = try self.keys(RFC8291.privateKey, RFC8291.secret)
            let body = try #require(Base64.decodeForURL(RFC8291.body.utf8))
            for count in 0..<body.count {
                let members = ["id": "s1", "body": Base64.encodeForURL(body.prefix(count))]
                let code = sealingError { try self.opened(members, keys) }?.code
                #expect(code == .malformed || code == .notAuthentic, "\(count)")
            }
            for (member, code) in [("salt", SealingError.Code.malformed), ("dh", .malformed), ("id", .malformed)] {
                var members = self.draft
                members[member] = nil
                #expect(sealingError { try self.message(members) }?.code == code)
            }
            let other = self.draft.merging(["encoding": "gzip"]) { $1 }
            #expect(sealingError { try self.message(other) }?.code == .unsupportedEncoding)
        }

        @Test("A message that is fetched opens like one in a notification, and its path has no other parts")
        func fetched() throws {
            let body = try JSONEncoder().encode(["id": "s1", "body": RFC8291.body])
            let message = try WebPushMessage(fetched: Array(body))
            #expect(message == (try self.message(self.rfc.merging(["id": "s1"]) { $1 })))
            for text in ["", "[]", "3", "{"] {
                #expect(sealingError { try WebPushMessage(fetched: Array(text.utf8)) } != nil)
            }
            func kept(_ members: [AnyHashable: Any]) -> KeptWebPushMessage? {
                KeptWebPushMessage(userInfo: ["webpush": members])
            }
            #expect(kept(["id": "s1", "fetch": "a-1"])?.path == "/webpush/subscriptions/s1/messages/a-1")
            #expect(kept(["id": "s1", "body": RFC8291.body]) == nil && kept(["id": "s1", "fetch": 3]) == nil)
            for id in ["", "../x", "a/b", "a?b", "a%2Fb", "ä"] { #expect(kept(["id": "s1", "fetch": id]) == nil) }
        }

        @Test("Bytes that are no keys are refused")
        func badKeys() {
            #expect(sealingError { try WebPushKeys(rawRepresentation: [1]) }?.code == .keyLengthWrong)
            let zeros = [UInt8](repeating: 0, count: 48)
            #expect(sealingError { try WebPushKeys(rawRepresentation: zeros) }?.code == .keyUnusable)
        }

        @Test("A message opens once, until as many others as the capacity have come")
        func replay() throws {
            let opener = WebPushOpener(keys: try self.keys(RFC8291.privateKey, RFC8291.secret))
            let message = try self.message(self.rfc)
            var seen = SeenWebPushes(capacity: 2)
            _ = try opener.open(message, unless: &seen)
            seen = try JSONDecoder().decode(SeenWebPushes.self, from: JSONEncoder().encode(seen))
            let before = seen
            #expect(sealingError { try opener.open(message, unless: &seen) }?.code == .replayed)
            #expect(seen == before)
            for first in ["a", "b"] {
                let salt = Base64.encodeForURL(Array(repeating: UInt8(first.utf8.first ?? 0), count: 16))
                try seen.admit(self.message(self.draft.merging(["salt": salt]) { $1 }))
            }
            #expect(seen.count == 2)
            _ = try opener.open(message, unless: &seen)
        }

        @Test("The documented extension shows a message once, and the fallback otherwise")
        func documentedExtension() throws {
            try SharedKeychain.$items.withValue(SharedKeychain.Items()) {
                let texts = try subscribe("s1", fetchSecret: "x")
                #expect(texts.p256dh.utf8.count == 87 && texts.auth.utf8.count == 22)
                // The RFC's keys, for which there is a message.
                try Subscriptions.store(try self.keys(RFC8291.privateKey, RFC8291.secret), of: "s1")
                let service = WebPushService()
                for (subscription, count) in [("s1", 1), ("s1", 1), ("unknown", 1)] {
                    let userInfo: [AnyHashable: Any] = ["webpush": ["id": subscription, "body": RFC8291.body]]
                    var shown: UNNotificationContent?
                    service.didReceive(UNNotificationRequest(title: "", body: "New message", userInfo: userInfo)) {
                        shown = $0
                    }
                    // Its text is not the JSON that the example expects, so the fallback is shown.
                    #expect(shown?.body == "New message")
                    #expect(try Subscriptions.seen().count == count)
                }
            }
        }

        @Test("Descriptions and mirrors show no secret")
        func redacted() throws {
            let keys = try self.keys(RFC8291.privateKey, RFC8291.secret)
            var text = ""
            dump(keys, to: &text)
            text += "\(keys) \(String(reflecting: keys))"
            #expect(!text.contains(RFC8291.secret) && !text.contains(RFC8291.privateKey))
            #expect(text.contains(RFC8291.publicKey))
        }
    }
#endif

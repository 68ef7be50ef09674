import Testing

@testable import APNSPool

@Suite struct PreparedBroadcastTests {
    private func notification(
        _ payload: String = #"{"aps":{"event":"update","timestamp":1,"content-state":{}}}"#,
        topic: String = "com.example.app",
        type: PushType = .liveactivity
    ) -> PushNotification {
        PushNotification(topic: topic, pushType: type, rawPayload: Array(payload.utf8))
    }

    private func code(_ notification: PushNotification) -> ValidationError.Code? {
        do {
            _ = try PreparedBroadcast(notification)
            return nil
        } catch {
            return error.code
        }
    }

    @Test func theTopicLosesItsSuffixAndTheHeadersAreAlwaysThere() throws {
        for topic in ["com.example.app", "com.example.app.push-type.liveactivity"] {
            let broadcast = try PreparedBroadcast(self.notification(topic: topic))
            #expect(broadcast.bundleID == "com.example.app")
            #expect(broadcast.priority == .immediate)
            #expect(broadcast.expirationSeconds == 0)
        }
        let other = try PreparedBroadcast(self.notification().priority(.conserve).expiration(.at(secondsSince1970: 9)))
        #expect(other.priority == .conserve)
        #expect(other.expirationSeconds == 9)
        #expect(other.isExpired(atSecondsSince1970: 9) && !other.isExpired(atSecondsSince1970: 8))
    }

    @Test func theLimitIs5120Bytes() throws {
        func payload(_ count: Int) -> String {
            let start = #"{"aps":{"event":"update"},"x":""#
            return start + String(repeating: "x", count: count - start.utf8.count - 2) + #""}"#
        }
        for count in [4096, 4097, 5120] {
            #expect(try PreparedBroadcast(self.notification(payload(count))).payload.count == count)
        }
        #expect(self.code(self.notification(payload(5121))) == .payloadTooLarge)
        #expect(self.code(self.notification("")) == .payloadEmpty)
    }

    @Test func whatNoBroadcastHasIsRefused() {
        #expect(self.code(self.notification(type: .alert)) == .pushTypeInvalid)
        #expect(self.code(self.notification().collapseID("a")) == .contentNotAllowed)
        #expect(self.code(self.notification(#"{"aps":{"event":"start"}}"#)) == .contentNotAllowed)
        #expect(self.code(self.notification(#"{"aps":{"event":"end"}}"#)) == nil)
        #expect(self.code(self.notification().priority(.low)) == nil)
        #expect(self.code(self.notification().priority(Priority(rawValue: 7))) == .priorityNotAllowed)
        #expect(self.code(self.notification().expiration(.at(secondsSince1970: -1))) == .expirationInvalid)
        #expect(
            self.code(self.notification().expiration(.at(secondsSince1970: 1_700_000_000_000))) == .expirationInvalid
        )
    }

    @Test(arguments: ["a/b", "a?b", "a%2Fb", "..", "a b", "a#b", "a\u{E9}", "a\r\nb"])
    func aTopicCannotLeaveItsPlaceInThePath(topic: String) {
        #expect(self.code(self.notification(topic: topic)) == .topicInvalid)
        #expect(throws: ValidationError.self) { try BundleID.check(topic) }
    }

    @Test func aBundleIDIsChecked() {
        #expect(throws: Never.self) { try BundleID.check("com.Example-1.app_2") }
        for text in ["", "com.example.app.push-type.liveactivity", String(repeating: "a", count: 256)] {
            #expect(throws: ValidationError.self) { try BundleID.check(text) }
        }
    }
}

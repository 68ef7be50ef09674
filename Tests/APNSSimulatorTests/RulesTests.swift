import APNSModel
import APNSBasics
import Testing

@testable import APNSSimulator

struct RulesTests {
    private let request = TestRequest()

    private func expect(_ reason: RejectionReason, _ status: Int, _ request: TestRequest, _ rules: APNSRules = .init())
    {
        let verdict = request.verdict(rules)
        #expect(verdict.reason?.rawValue == reason.rawValue)
        #expect(verdict.status == status)
    }

    @Test func ordinaryPushesAreAccepted() {
        #expect(self.request.verdict() == .accepted)
        #expect(self.request.without("apns-push-type").verdict() == .accepted)
        #expect(self.request.with("apns-priority", "5").with("apns-expiration", "0").verdict() == .accepted)
        #expect(self.request.with("apns-collapse-id", String(repeating: "c", count: 64)).verdict() == .accepted)
        #expect(self.request.with("apns-id", "EABEAE54-14A8-11E5-B60B-1697F925EC7B").verdict() == .accepted)
        #expect(self.request.sized(4096).verdict() == .accepted)
        #expect(
            self.request.with("apns-push-type", "voip").with("apns-topic", "com.example.app.voip").sized(5120).verdict()
                == .accepted
        )
    }

    @Test func methodAndPathAreCheckedFirst() {
        var request = TestRequest()
        request.method = "GET"
        self.expect(.methodNotAllowed, 405, request)
        request = TestRequest()
        for path in ["/", "/3/devices/00", "/4/broadcasts/apps/x", "/3/device/00/11"] {
            request.path = path
            self.expect(.badPath, 404, request)
        }
        for path in ["/3/device", "/3/device/"] {
            request.path = path
            self.expect(.missingDeviceToken, 400, request)
        }
        for token in ["0", "xy", "00 1", "%30"] {
            request.path = "/3/device/\(token)"
            self.expect(.badDeviceToken, 400, request)
        }
    }

    @Test func credentialsAreCheckedBeforeFields() {
        let request = self.request.without("apns-topic")
        let verdict = request.verdict(credentialFault: .missingProviderToken)
        #expect(verdict == Verdict(status: 403, reason: .missingProviderToken))
        #expect(
            TestRequest(method: "PUT").verdict(credentialFault: .expiredProviderToken).reason == .methodNotAllowed
        )
    }

    @Test func fieldsAreChecked() {
        var twice = self.request
        twice.fields.append(("apns-topic", Sample.topic))
        self.expect(.duplicateHeaders, 400, twice)
        self.expect(.missingTopic, 400, self.request.without("apns-topic"))
        self.expect(.invalidPushType, 400, self.request.with("apns-push-type", "Alert"))
        for id in ["", "1", "eabeae5414a811e5b60b1697f925ec7b", "zabeae54-14a8-11e5-b60b-1697f925ec7b"] {
            self.expect(.badMessageID, 400, self.request.with("apns-id", id))
        }
        for expiration in ["", "-1", "1.5", "tomorrow", "9999999999999999999"] {
            self.expect(.badExpirationDate, 400, self.request.with("apns-expiration", expiration))
        }
        for priority in ["", "0", "2", "high"] {
            self.expect(.badPriority, 400, self.request.with("apns-priority", priority))
        }
        let background = self.request.with("apns-push-type", "background")
        self.expect(.badPriority, 400, background.with("apns-priority", "10"))
        #expect(background.with("apns-priority", "5").verdict() == .accepted)
        self.expect(.badCollapseID, 400, self.request.with("apns-collapse-id", String(repeating: "c", count: 65)))
    }

    @Test func topicsMustFitTheirPushType() {
        self.expect(.badTopic, 400, self.request.with("apns-push-type", "voip"))
        self.expect(.badTopic, 400, self.request.with("apns-topic", "com.example.app.voip"))
        let rules = APNSRules(topics: ["com.example.app", "com.example.other.complication"])
        self.expect(.topicDisallowed, 400, self.request.with("apns-topic", "com.example"), rules)
        #expect(self.request.verdict(rules) == .accepted)
        let activity = self.request.with("apns-push-type", "liveactivity")
        #expect(activity.with("apns-topic", "com.example.app.push-type.liveactivity").verdict(rules) == .accepted)
        self.expect(.badTopic, 400, activity, rules)
        let complication = self.request.with("apns-push-type", "complication")
        #expect(complication.with("apns-topic", "com.example.other.complication").verdict(rules) == .accepted)
        #expect(self.request.with("apns-push-type", "mdm").with("apns-topic", "any.thing").verdict() == .accepted)
    }

    @Test func payloadsHaveLimits() {
        self.expect(.payloadEmpty, 400, self.request.sized(0))
        self.expect(.payloadTooLarge, 413, self.request.sized(4097))
        let voip = self.request.with("apns-push-type", "voip").with("apns-topic", "com.example.app.voip")
        self.expect(.payloadTooLarge, 413, voip.sized(5121))
    }

    @Test func tokenStatesDecideTheResponse() {
        var rules = APNSRules()
        rules.tokenStates = [
            "aa": .unregistered(sinceMilliseconds: 1_700_000_000_001), "bb": .expired(sinceMilliseconds: 2), "cc": .bad,
            "dd": .notForTopic, "ee": .valid,
        ]
        func request(_ token: String) -> TestRequest { TestRequest(path: "/3/device/\(token)") }
        self.expect(.unregistered, 410, request("AA"), rules)
        #expect(request("aa").verdict(rules).timestamp == 1_700_000_000_001)
        self.expect(.expiredToken, 410, request("bb"), rules)
        self.expect(.badDeviceToken, 400, request("cc"), rules)
        self.expect(.deviceTokenNotForTopic, 400, request("dd"), rules)
        #expect(request("ee").verdict(rules) == .accepted)
        #expect(request("ff").verdict(rules) == .accepted)
        // Faults of the request take precedence.
        self.expect(.payloadEmpty, 400, request("aa").sized(0), rules)
    }

    @Test func rejectionsHaveJSONBodies() {
        #expect(Verdict.accepted.body == [])
        #expect(String(decoding: Verdict.rejected(.badTopic).body, as: UTF8.self) == #"{"reason":"BadTopic"}"#)
        let gone = Verdict.rejected(.unregistered, timestamp: 12)
        #expect(String(decoding: gone.body, as: UTF8.self) == #"{"reason":"Unregistered","timestamp":12}"#)
        let odd = Verdict(status: 400, reason: RejectionReason(rawValue: "a\"b\\\n"))
        #expect(String(decoding: odd.body, as: UTF8.self) == #"{"reason":"a\"b\\\n"}"#)
    }
}

struct LogarithmTests {
    @Test func theLogarithmIsAccurate() {
        for (x, expected) in [
            (1.0, 0.0), (2.718281828459045, 1), (0.5, -0.6931471805599453), (1e-9, -20.72326583694641),
        ] {
            #expect(abs(Logarithm.natural(x) - expected) < 1e-9)
        }
    }
}

import APNSModel
import Testing

@testable import APNSDevices

/// The rules of notifications, storage and wakes.
struct VirtualDeviceTests {
    private static let hello = #"{"aps":{"alert":"Hello"}}"#

    private static func alert(_ text: String) -> String { #"{"aps":{"alert":"\#(text)"}}"# }

    // MARK: Offline

    @Test("While a device is offline, APNs stores the newest push of an app and discards the older one")
    func storeOfOne() throws {
        var fixture = try DeviceFixture()
        fixture.setOnline(false)
        let first = fixture.push(Self.alert("First"))
        let second = fixture.push(Self.alert("Second"), at: 1)
        let offline = fixture.snapshot(at: 2)
        #expect(offline.waiting.map(\.order) == [second])
        #expect(offline.waiting.map(\.expiration) == [DeviceFixture.start + 1 + 30 * 86_400])
        #expect(offline.rules == [first: "replaced-while-offline"])
        #expect(offline.undelivered.first?.source.hasSuffix("sending-notification-requests-to-apns") == true)
        #expect(offline.notifications.isEmpty)

        fixture.setOnline(true, at: 3)
        let online = fixture.snapshot(at: 3)
        #expect(online.notifications.map(\.body) == ["Second"])
        #expect(online.notifications.map(\.deliveredMilliseconds) == [(DeviceFixture.start + 3) * 1000])
        #expect(online.waiting.isEmpty)
    }

    @Test("Each topic has its own stored push, and a note says that Apple does not define this")
    func storePerTopic() throws {
        var fixture = try DeviceFixture()
        fixture.setOnline(false)
        fixture.push(Self.hello)
        fixture.push("{}", topic: "com.example.app.voip", type: .voip)
        #expect(fixture.snapshot().waiting.map(\.order) == [1, 2])
        #expect(fixture.snapshot().has(.storedPerTopic))
    }

    @Test(
        "Each rule of offline storage keeps its pushes, and discards the others with its page",
        arguments: [
            (OfflineStorage.latest, [6], "sending-notification-requests-to-apns"),
            (.all, [1, 2, 3, 4, 5, 6], nil),
            (.latestPerCollapseID, [3, 5, 6], "updates/usernotifications"),
        ] as [(OfflineStorage, [Int], String?)]
    )
    func offlineStorage(rule: OfflineStorage, stored: [Int], page: String?) throws {
        var fixture = try DeviceFixture()
        fixture.storage = rule
        fixture.setOnline(false)
        for collapseID in ["a", "b", "b", nil, nil, "a"] {
            fixture.push(Self.alert("Hello"), collapseID: collapseID)
        }
        let offline = fixture.snapshot()
        #expect(offline.waiting.map(\.order) == stored)
        #expect(Set(offline.rules.keys) == Set(1...6).subtracting(stored))
        #expect(offline.undelivered.allSatisfy { $0.message.hasSuffix(rule.message) })
        #expect(offline.undelivered.allSatisfy { page.map($0.source.hasSuffix) == true })
        #expect(offline.has(.severalStored) == (stored.count > 1))
        #expect(offline.has(.storageNotGuaranteed) == (stored.count < 6))

        fixture.setOnline(true)
        // A device shows one notification for each collapse id, and one for each push without.
        let shown = [OfflineStorage.latest: [6], .all: [6, 5, 4, 3], .latestPerCollapseID: [6, 5, 3]][rule]
        #expect(fixture.snapshot().notifications.map(\.order) == shown)
    }

    @Test("Pushes that were stored before the rule changed stay until another push of their topic arrives")
    func storageRuleChanges() throws {
        var fixture = try DeviceFixture()
        fixture.storage = .all
        fixture.setOnline(false)
        for _ in 1...3 { fixture.push(Self.hello) }
        fixture.storage = .latest
        #expect(fixture.snapshot().waiting.count == 3)
        fixture.push(Self.hello)
        #expect(fixture.snapshot().waiting.map(\.order) == [4])
    }

    @Test("At most 1,000 pushes are stored for a device")
    func storageIsBounded() throws {
        var fixture = try DeviceFixture()
        fixture.storage = .all
        fixture.setOnline(false)
        for _ in 1...1_002 { fixture.push(Self.hello) }
        #expect(fixture.snapshot().waiting.map(\.order) == Array(3...1_002))
        #expect(fixture.snapshot().rules == [1: "storage-full", 2: "storage-full"])
    }

    @Test func expirationZeroIsNotStored() throws {
        var fixture = try DeviceFixture()
        fixture.push(Self.hello, expiration: 0)
        fixture.setOnline(false)
        let order = fixture.push(Self.hello, expiration: 0)
        #expect(fixture.snapshot().rules == [order: "expiration-zero"])
        #expect(fixture.snapshot().waiting.isEmpty)
        #expect(fixture.snapshot().notifications.map(\.order) == [1])
    }

    @Test("A push that expires in the future is stored until then, and at most for 30 days")
    func futureExpiration() throws {
        var fixture = try DeviceFixture()
        fixture.setOnline(false)
        let order = fixture.push(Self.hello, expiration: DeviceFixture.start + 60)
        #expect(fixture.snapshot(at: 59).waiting.map(\.order) == [order])
        #expect(fixture.snapshot(at: 60).rules == [order: "expired"])
        fixture.setOnline(true, at: 60)
        #expect(fixture.snapshot(at: 60).notifications.isEmpty)
        #expect(fixture.snapshot(at: 60).rules == [order: "expired"])

        fixture.setOnline(false, at: 70)
        fixture.push(Self.hello, at: 70, expiration: .max)
        let limit = DeviceFixture.start + 70 + 30 * 86_400
        #expect(fixture.snapshot(at: 71).waiting.map(\.expiration) == [limit])
        #expect(fixture.snapshot(at: 70 + 30 * 86_400).waiting.isEmpty)
    }

    @Test("A push whose expiration has passed is not stored; a device that is online still receives it")
    func pastExpiration() throws {
        var fixture = try DeviceFixture()
        fixture.push(Self.hello, at: 10, expiration: DeviceFixture.start)
        #expect(fixture.snapshot(at: 10).notifications.count == 1)
        fixture.setOnline(false, at: 10)
        let stored = fixture.push(Self.hello, at: 10)
        let order = fixture.push(Self.hello, at: 10, expiration: DeviceFixture.start + 10)
        #expect(fixture.snapshot(at: 10).rules == [order: "expired"])
        #expect(fixture.snapshot(at: 10).waiting.map(\.order) == [stored])
    }

    @Test(arguments: [Priority.conserve, .low]) func lowPriorityHasANote(priority: Priority) throws {
        var fixture = try DeviceFixture()
        fixture.push(Self.hello)
        #expect(!fixture.snapshot().has(.lowPriority))
        fixture.push(Self.hello, priority: priority)
        #expect(fixture.snapshot().has(.lowPriority))
        #expect(fixture.snapshot().notifications.count == 2)
    }

    // MARK: Tokens

    @Test("A push that waits for a token is not delivered after the token was removed")
    func tokenRemoved() throws {
        var fixture = try DeviceFixture()
        fixture.setOnline(false)
        let order = fixture.push(Self.hello)
        fixture.device.unlink(DeviceFixture.app)
        fixture.setOnline(true)
        #expect(fixture.snapshot().rules == [order: "token-removed"])
        fixture.push(Self.hello)
        #expect(fixture.snapshot().counts.received == 1)
    }

    @Test func pushToAnotherTopic() throws {
        var fixture = try DeviceFixture()
        let order = fixture.push(Self.hello, topic: "com.example.other")
        #expect(fixture.snapshot().rules == [order: "token-of-another-topic"])
        // The token of a suffixed topic takes the pushes of that topic.
        try fixture.device.link(.init(token: "dd", kind: .app, topic: "com.example.app.voip"), now: 0)
        fixture.push("{}", to: .token("dd"), topic: "com.example.app.voip", type: .voip)
        fixture.push("{}", to: .token("dd"), topic: "com.example.app.voip", type: nil)
        #expect(fixture.snapshot().apps.map(\.topic) == ["com.example.app"])
        #expect(fixture.snapshot().apps.first?.wakes == [.voip: 2])
    }

    @Test func pushToATokenOfAnotherKind() throws {
        var fixture = try DeviceFixture(.app, .activity, .pushToStart)
        let orders = [
            fixture.push(Self.hello, to: .token(DeviceFixture.activity)),
            fixture.push("{}", to: .token(DeviceFixture.pushToStart), type: .voip),
            fixture.event("update", at: 0, to: .token(DeviceFixture.app)),
            fixture.event("update", at: 0, to: .token(DeviceFixture.pushToStart)),
            fixture.event("start", at: 0, to: .token(DeviceFixture.activity)),
        ]
        let rules = fixture.snapshot().rules
        for order in orders { #expect(rules[order] == "token-of-another-kind", "push \(order)") }
    }

    // MARK: Content

    @Test func collapseIDReplacesTheShownNotification() throws {
        var fixture = try DeviceFixture()
        try fixture.device.link(.init(token: "dd", kind: .app, topic: "com.example.other"), now: 0)
        fixture.push(Self.alert("1 : 0"), collapseID: "game")
        fixture.push(Self.alert("Other"))
        fixture.push(Self.alert("Another app"), to: .token("dd"), topic: "com.example.other", collapseID: "game")
        fixture.push(Self.alert("2 : 0"), collapseID: "game")
        fixture.push(Self.alert("3 : 0"), collapseID: "game")
        let notifications = fixture.snapshot().apps.map { $0.notifications.map(\.body) }
        #expect(notifications == [["3 : 0", "Other"], ["Another app"]])
        #expect(fixture.snapshot().notifications.map(\.replaced) == [2, 0, 0])
        #expect(fixture.snapshot().counts.shown == 5)
    }

    @Test("A number sets the badge, 0 removes it, and a push without a badge leaves it")
    func badge() throws {
        var fixture = try DeviceFixture()
        fixture.push(#"{"aps":{"badge":3}}"#)
        #expect(fixture.snapshot().apps.map(\.badge) == [3])
        #expect(fixture.snapshot().notifications.isEmpty)
        fixture.push(Self.hello)
        #expect(fixture.snapshot().apps.map(\.badge) == [3])
        fixture.push(#"{"aps":{"badge":-1}}"#)
        #expect(fixture.snapshot().apps.map(\.badge) == [3])
        #expect(fixture.snapshot().has(.negativeBadge))
        fixture.push(#"{"aps":{"badge":0}}"#)
        #expect(fixture.snapshot().apps.map(\.badge) == [nil])
        #expect(fixture.snapshot().counts.badgesAndSounds == 3)
    }

    @Test func allFieldsOfANotification() throws {
        var fixture = try DeviceFixture()
        fixture.push(
            """
            {"aps":{"alert":{"title":"T","subtitle":"S","body":"B"},"sound":{"critical":1,"name":"bell","volume":0.5},
            "thread-id":"chat","category":"REPLY","interruption-level":"time-sensitive","mutable-content":1}}
            """,
            collapseID: "c"
        )
        let expected = VirtualDevice.Notification(
            order: 1,
            title: "T",
            subtitle: "S",
            body: "B",
            threadID: "chat",
            interruptionLevel: "time-sensitive",
            category: "REPLY",
            sound: "bell",
            isCritical: true,
            collapseID: "c",
            deliveredMilliseconds: DeviceFixture.start * 1000,
            replaced: 0
        )
        #expect(fixture.snapshot().notifications == [expected])
        #expect(fixture.snapshot().has(.mutableContent))

        fixture.push(#"{"aps":{"alert":"B","sound":"default"}}"#)
        let plain = try #require(fixture.snapshot().notifications.first)
        #expect(plain.sound == "default")
        #expect(!plain.isCritical)
        #expect(plain.interruptionLevel == "active")
        #expect(!fixture.snapshot().has(.unknownInterruptionLevel))

        fixture.push(#"{"aps":{"alert":"B","interruption-level":"loud"}}"#)
        #expect(fixture.snapshot().notifications.first?.interruptionLevel == "loud")
        #expect(fixture.snapshot().has(.unknownInterruptionLevel))
    }

    @Test("A loc-key is shown as the key with its arguments")
    func localizedAlert() throws {
        var fixture = try DeviceFixture()
        fixture.push(
            #"""
            {"aps":{"alert":{"title-loc-key":"TITLE","subtitle-loc-key":"SUB","subtitle-loc-args":[],"loc-key":"PLAY",
            "loc-args":["Jenna","Frank"]}}}
            """#
        )
        let shown = try #require(fixture.snapshot().notifications.first)
        #expect(shown.title == "TITLE")
        #expect(shown.subtitle == "SUB")
        #expect(shown.body == "PLAY (Jenna, Frank)")
        #expect(fixture.snapshot().has(.localizedText))
        fixture.push(#"{"aps":{"alert":{"body":"Text","loc-key":"PLAY"}}}"#)
        #expect(fixture.snapshot().notifications.first?.body == "Text")
        #expect(fixture.snapshot().has(.textAndLocalization))
    }

    // MARK: Wakes

    @Test func backgroundPushWakesTheApp() throws {
        var fixture = try DeviceFixture()
        fixture.push(#"{"aps":{"content-available":1},"x":1}"#, type: .background, priority: .conserve)
        fixture.push(#"{"aps":{"alert":"Hi","content-available":1}}"#)
        let app = try #require(fixture.snapshot().apps.first)
        #expect(app.backgroundWakes == 2)
        #expect(app.wakes == [.background: 1])
        #expect(app.notifications.map(\.body) == ["Hi"])
        #expect(fixture.snapshot().has(.backgroundBudget))
        #expect(fixture.snapshot().counts.wakes == 1)
    }

    @Test("A background push with a badge shows nothing, and one without content-available does nothing")
    func unusualBackgroundPushes() throws {
        var fixture = try DeviceFixture()
        fixture.push(#"{"aps":{"content-available":true,"badge":3}}"#, type: .background)
        #expect(fixture.snapshot().apps.map(\.badge) == [nil])
        #expect(fixture.snapshot().apps.map(\.backgroundWakes) == [1])
        #expect(fixture.snapshot().has(.backgroundWithContent))
        #expect(fixture.snapshot().has(.booleanFlag))
        let order = fixture.push(#"{"aps":{}}"#, type: .background)
        #expect(fixture.snapshot().rules == [order: "no-content-available"])
    }

    @Test(arguments: [
        PushType.voip, .complication, .fileprovider, .mdm, .location, .pushtotalk, .widgets, .controls, .accessory,
    ])
    func otherTypesOnlyWake(type: PushType) throws {
        var fixture = try DeviceFixture()
        let topic = DeviceFixture.topic + type.topicSuffix
        fixture.push(#"{"aps":{"alert":7}}"#, topic: topic, type: type)
        #expect(fixture.snapshot().apps.map(\.wakes) == [[type: 1]])
        #expect(fixture.snapshot().apps.map(\.topic) == [DeviceFixture.topic])
        #expect(fixture.snapshot().notifications.isEmpty)
        #expect(fixture.snapshot().has(.voip) == (type == .voip))
        #expect(fixture.snapshot().has(.pushToTalk) == (type == .pushtotalk))
    }

    @Test("Without apns-push-type, the topic and the payload decide")
    func missingPushType() throws {
        var fixture = try DeviceFixture()
        fixture.push(Self.hello, type: nil)
        fixture.push(#"{"aps":{"content-available":1}}"#, type: nil)
        fixture.push("{}", topic: "com.example.app.voip", type: nil)
        #expect(fixture.snapshot().notifications.count == 1)
        #expect(fixture.snapshot().apps.map(\.wakes) == [[.background: 1, .voip: 1]])
        #expect(fixture.snapshot().has(.missingPushType))
    }

    // MARK: Payloads without effect

    @Test(arguments: [
        ("", "payload-not-json"), ("[1]", "payload-not-json"), ("{\"aps\":", "payload-not-json"),
        (#"{"aps":7}"#, "payload-wrong-type"), (#"{"aps":{"alert":7}}"#, "payload-wrong-type"),
        (#"{"aps":{"alert":"x","badge":"3"}}"#, "payload-wrong-type"),
        (#"{"aps":{"alert":"x","badge":true}}"#, "payload-wrong-type"),
        (#"{"aps":{"alert":"x","badge":1.5}}"#, "payload-wrong-type"),
        (#"{"aps":{"alert":{"title":["x"]}}}"#, "payload-wrong-type"),
        (#"{"aps":{"alert":"x","sound":{"volume":"1"}}}"#, "payload-wrong-type"),
        (#"{"aps":{}}"#, "nothing-to-show"), ("{}", "nothing-to-show"), (#"{"aps":{"alert":{}}}"#, "nothing-to-show"),
    ])
    func payloadWithoutEffect(payload: String, rule: String) throws {
        var fixture = try DeviceFixture()
        let order = fixture.push(payload)
        #expect(fixture.snapshot().rules == [order: rule])
        #expect(fixture.snapshot().apps.isEmpty)
    }

    @Test func unknownPushType() throws {
        var fixture = try DeviceFixture()
        let order = fixture.push(Self.hello, type: PushType(rawValue: "telepathy"))
        #expect(fixture.snapshot().rules == [order: "unknown-push-type"])
    }

    @Test func everyRuleHasAMessageAndAPage() {
        for rule in DeliveryRule.allCases {
            #expect(rule.message.hasSuffix("."), "\(rule)")
            #expect(rule.source.hasPrefix("https://developer.apple.com/documentation/"), "\(rule)")
        }
    }

    // MARK: Bounds

    @Test("Lists drop their oldest elements, and the counts stay")
    func bounds() throws {
        var fixture = try DeviceFixture()
        for _ in 0..<1_300 {
            fixture.push(Self.hello)
            fixture.push("")
        }
        let snapshot = fixture.snapshot()
        #expect(snapshot.notifications.count == 1_000)
        #expect(snapshot.notifications.first?.order == 2_599)
        #expect(snapshot.notifications.last?.order == 601)
        #expect(snapshot.undelivered.map(\.order) == Array(stride(from: 602, through: 2_600, by: 2)))
        #expect(snapshot.counts.shown == 1_300)
        #expect(snapshot.counts.undelivered == 1_300)
    }
}

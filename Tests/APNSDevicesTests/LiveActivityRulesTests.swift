import APNSModel
import Testing

@testable import APNSDevices

/// The rules of Live Activities and of broadcasts to them.
struct LiveActivityRulesTests {
    private static let hour: Int64 = 3_600

    private static func channel(_ storage: MessageStoragePolicy) -> AcceptedPush.Target {
        .channel(DeviceFixture.channel, storage: storage)
    }

    private static func subscribed() throws -> DeviceFixture {
        var fixture = try DeviceFixture()
        let subscription = VirtualDevice.Subscription(channelID: DeviceFixture.channel, topic: DeviceFixture.topic)
        try fixture.device.subscribe(subscription, now: DeviceFixture.start * 1000)
        return fixture
    }

    private static func text(_ object: VirtualDevice.PayloadObject?) -> String? {
        object.map { String(decoding: $0.json, as: UTF8.self) }
    }

    // MARK: Start

    @Test("A push-to-start shows an activity without a token; the next linked token belongs to it")
    func startAndLink() throws {
        var fixture = try DeviceFixture(.pushToStart)
        fixture.event("start", at: 0, state: 1, more: #","stale-date":\#(DeviceFixture.start + 60)"#)
        let started = try #require(fixture.snapshot(at: 1).activities.first)
        #expect(started.token == nil)
        #expect(started.state == .active)
        #expect(started.topic == DeviceFixture.topic)
        #expect(started.attributesType == "Order")
        #expect(Self.text(started.attributes) == #"{"id":1}"#)
        #expect(Self.text(started.contentState) == #"{"n":1}"#)
        #expect(started.alert == VirtualDevice.ActivityAlert(title: "Started"))
        #expect(fixture.snapshot().has(.linkActivityToken))

        let topic = "\(DeviceFixture.topic).push-type.liveactivity"
        try fixture.device.link(.init(token: DeviceFixture.activity, kind: .activity, topic: topic), now: 0)
        fixture.event("update", at: 2, state: 2)
        let snapshot = fixture.snapshot(at: 2)
        #expect(snapshot.activities.map(\.token) == [DeviceFixture.activity])
        #expect(snapshot.activities.map { Self.text($0.contentState) } == [#"{"n":2}"#])
        #expect(snapshot.activities.first?.history.map(\.event) == ["start", "update"])
        #expect(snapshot.activities.first?.alert == nil)
        #expect(snapshot.counts.activityEvents == 2)
    }

    @Test("Tokens belong to started activities in the order of the starts, and a new token may follow an old one")
    func tokensInOrder() throws {
        var fixture = try DeviceFixture(.pushToStart)
        fixture.event("start", at: 0, state: 1)
        fixture.event("start", at: 1, state: 2)
        let now = (DeviceFixture.start + 2) * 1000
        try fixture.device.link(.init(token: "01", kind: .activity, topic: DeviceFixture.topic), now: now)
        try fixture.device.link(.init(token: "02", kind: .activity, topic: DeviceFixture.topic), now: now)
        #expect(fixture.snapshot(at: 2).activities.map(\.token) == ["02", "01"])
        fixture.device.unlink("01")
        try fixture.device.link(.init(token: "03", kind: .activity, topic: DeviceFixture.topic), now: now)
        #expect(fixture.snapshot(at: 2).activities.map(\.token) == ["02", "03"])
    }

    @Test("A token without a started activity belongs to one that the app started")
    func startedByTheApp() throws {
        var fixture = try DeviceFixture(.activity)
        #expect(fixture.snapshot().activities.map(\.state) == [.active])
        fixture.event("update", at: 1, state: 5)
        #expect(fixture.snapshot(at: 1).activities.map { Self.text($0.contentState) } == [#"{"n":5}"#])
        #expect(fixture.snapshot(at: 1).has(.startedByApp))
    }

    @Test(arguments: [
        (#""event":"start","timestamp":1,"content-state":{},"attributes-type":"A","attributes":{}"#, "aps.alert"),
        (#""event":"start","timestamp":1,"content-state":{},"attributes":{},"alert":{"title":"t"}"#, "attributes-type"),
        (#""event":"start","content-state":{},"attributes-type":"A","attributes":{},"alert":{}"#, "aps.timestamp"),
        (#""event":"update","timestamp":1"#, "aps.content-state"), (#""event":"end""#, "aps.timestamp"),
        (#""timestamp":1,"content-state":{}"#, "aps.event"),
    ])
    func incompletePayload(aps: String, key: String) throws {
        var fixture = try DeviceFixture(.activity, .pushToStart)
        let token = aps.contains("start") ? DeviceFixture.pushToStart : DeviceFixture.activity
        let order = fixture.push("{\"aps\":{\(aps)}}", to: .token(token), type: .liveactivity)
        #expect(fixture.snapshot().rules == [order: "activity-incomplete"])
        #expect(fixture.snapshot().undelivered.first?.message.contains(key) == true)
    }

    @Test func unknownEventAndWrongTypes() throws {
        var fixture = try DeviceFixture(.activity)
        fixture.event("pause", at: 0)
        let number = #"{"aps":{"event":"update","timestamp":"now","content-state":{}}}"#
        fixture.push(number, to: .token(DeviceFixture.activity), type: .liveactivity)
        #expect(fixture.snapshot().undelivered.map(\.rule) == ["activity-unknown-event", "payload-wrong-type"])
    }

    @Test("A timestamp beyond 64 bits counts as the last or first possible one", arguments: ["", "-"])
    func hugeTimestamp(sign: String) throws {
        var fixture = try DeviceFixture(.activity)
        let digits = sign + String(repeating: "9", count: 30)
        let update = #"{"aps":{"event":"update","timestamp":\#(digits),"content-state":{}}}"#
        fixture.push(update, to: .token(DeviceFixture.activity), type: .liveactivity)
        #expect(fixture.snapshot().activities.map(\.timestamp) == [sign.isEmpty ? .max : .min])
        #expect(fixture.snapshot().undelivered.isEmpty)
    }

    // MARK: Update and end

    @Test("A push with an older timestamp is ignored, one with the same timestamp is applied")
    func timestamps() throws {
        var fixture = try DeviceFixture(.activity)
        fixture.event("update", at: 0, timestamp: 10, state: 1)
        fixture.event("update", at: 1, timestamp: 9, state: 2)
        let activity = try #require(fixture.snapshot(at: 1).activities.first)
        #expect(Self.text(activity.contentState) == #"{"n":1}"#)
        #expect(activity.history.map(\.isIgnored) == [false, true])
        #expect(activity.history.last?.reason?.contains("older") == true)
        fixture.event("update", at: 2, timestamp: 10, state: 3)
        #expect(fixture.snapshot(at: 2).activities.map { Self.text($0.contentState) } == [#"{"n":3}"#])
        #expect(fixture.snapshot(at: 2).has(.sameTimestamp))
        fixture.event("end", at: 3, timestamp: 9)
        #expect(fixture.snapshot(at: 3).activities.map(\.state) == [.active])
        #expect(fixture.snapshot(at: 3).has(.olderEnd))
    }

    @Test("Content is stale from its stale-date on, until new content arrives")
    func staleDate() throws {
        var fixture = try DeviceFixture(.activity)
        fixture.event("update", at: 0, more: #","stale-date":\#(DeviceFixture.start + 60)"#)
        #expect(fixture.snapshot(at: 59).activities.map(\.state) == [.active])
        #expect(fixture.snapshot(at: 60).activities.map(\.state) == [.stale])
        fixture.event("update", at: 61)
        #expect(fixture.snapshot(at: 61).activities.map(\.state) == [.active])
    }

    @Test("An ended activity leaves the screen at its dismissal-date, at most four hours after the end")
    func dismissal() throws {
        let cases: [(date: Int64?, ended: Int64?, dismissed: Int64)] = [
            (nil, 4 * Self.hour - 1, 4 * Self.hour), (-1, nil, 0), (60, 59, 60),
            (9 * Self.hour, 4 * Self.hour - 1, 4 * Self.hour),
        ]
        for (date, ended, dismissed) in cases {
            var fixture = try DeviceFixture(.activity)
            fixture.event("end", at: 0, more: date.map { #","dismissal-date":\#(DeviceFixture.start + $0)"# } ?? "")
            if let ended { #expect(fixture.snapshot(at: ended).activities.map(\.state) == [.ended]) }
            #expect(fixture.snapshot(at: dismissed).activities.map(\.state) == [.dismissed])
            #expect(fixture.snapshot().has(.defaultDismissal) == (date == nil))
            #expect(fixture.snapshot().has(.lateDismissal) == (date == 9 * Self.hour))
        }
    }

    @Test func pushesAfterTheEndAreIgnored() throws {
        var fixture = try DeviceFixture(.activity)
        fixture.event("end", at: 0, state: 1)
        fixture.event("update", at: 1, state: 2)
        let activity = try #require(fixture.snapshot(at: 1).activities.first)
        #expect(activity.state == .ended)
        #expect(Self.text(activity.contentState) == #"{"n":1}"#)
        #expect(activity.history.map(\.isIgnored) == [false, true])
        #expect(fixture.snapshot(at: 1).counts.activityEvents == 2)
    }

    @Test("The system ends an activity after eight hours and removes it after twelve")
    func longestLife() throws {
        var fixture = try DeviceFixture(.activity)
        fixture.event("update", at: 8 * Self.hour - 1, state: 1)
        #expect(fixture.snapshot(at: 8 * Self.hour - 1).activities.map(\.state) == [.active])
        fixture.event("update", at: 8 * Self.hour, state: 2)
        let activity = try #require(fixture.snapshot(at: 8 * Self.hour).activities.first)
        #expect(activity.state == .ended)
        #expect(activity.history.last?.reason?.contains("eight hours") == true)
        #expect(fixture.snapshot(at: 12 * Self.hour - 1).activities.map(\.state) == [.ended])
        #expect(fixture.snapshot(at: 12 * Self.hour).activities.map(\.state) == [.dismissed])
    }

    @Test("An alert's lines are texts or objects with loc-key; flat loc-keys are ignored")
    func activityAlert() throws {
        var fixture = try DeviceFixture(.activity)
        let alert = #","alert":{"title":{"loc-key":"T","loc-args":["1"]},"body":"B"}"#
        fixture.event("update", at: 0, more: alert)
        #expect(fixture.snapshot().activities.first?.alert == .init(title: "T (1)", body: "B"))
        fixture.event("update", at: 1, more: #","alert":{"title-loc-key":"T"}"#)
        #expect(fixture.snapshot().activities.first?.alert == nil)
    }

    @Test func historyIsBounded() throws {
        var fixture = try DeviceFixture(.activity)
        for second in 0..<200 { fixture.event("update", at: Int64(second)) }
        let activity = try #require(fixture.snapshot().activities.first)
        #expect(activity.history.map(\.order) == Array(101...200))
        #expect(activity.historyTotal == 200)
    }

    // MARK: Channels

    @Test func broadcastReachesAllActivitiesOfTheChannel() throws {
        var fixture = try DeviceFixture(.pushToStart)
        let channel = #","input-push-channel":"channel""#
        fixture.event("start", at: 0, more: channel)
        fixture.event("start", at: 0, more: channel)
        fixture.event("start", at: 0, more: #","input-push-token":1"#)
        #expect(fixture.device.subscriptions.map(\.channelID) == ["channel"])
        fixture.event("update", at: 1, state: 7, to: Self.channel(.noMessage))
        let states = fixture.snapshot(at: 1).activities.map { Self.text($0.contentState) }
        #expect(states == [#"{"n":0}"#, #"{"n":7}"#, #"{"n":7}"#])
        #expect(fixture.snapshot().counts.activityEvents == 4)
        let order = fixture.event("start", at: 2, to: Self.channel(.noMessage))
        #expect(fixture.snapshot().rules == [order: "token-of-another-kind"])
    }

    @Test("A channel without storage loses a broadcast to a device that is offline")
    func channelWithoutStorage() throws {
        var fixture = try Self.subscribed()
        fixture.setOnline(false)
        let order = fixture.event("update", at: 1, to: Self.channel(.noMessage))
        #expect(fixture.snapshot().rules == [order: "channel-stores-nothing"])
    }

    @Test("A channel with storage keeps the newest broadcast, for at most eight hours")
    func channelWithStorage() throws {
        var fixture = try Self.subscribed()
        fixture.setOnline(false)
        let first = fixture.event("update", at: 1, state: 1, to: Self.channel(.mostRecentMessage))
        fixture.event("update", at: 2, state: 2, to: Self.channel(.mostRecentMessage))
        let waiting = fixture.snapshot(at: 3).waiting
        #expect(waiting.map(\.channelID) == ["channel"])
        #expect(waiting.map(\.expiration) == [DeviceFixture.start + 2 + 8 * Self.hour])
        #expect(fixture.snapshot(at: 3).rules == [first: "replaced-while-offline"])
        fixture.setOnline(true, at: 3)
        #expect(fixture.snapshot(at: 3).activities.map { Self.text($0.contentState) } == [#"{"n":2}"#])
    }

    @Test func unsubscribedDeviceReceivesNothing() throws {
        var fixture = try Self.subscribed()
        fixture.setOnline(false)
        let order = fixture.event("update", at: 1, to: Self.channel(.mostRecentMessage))
        fixture.device.unsubscribe(DeviceFixture.channel)
        #expect(fixture.snapshot(at: 1).rules == [order: "unsubscribed"])
        fixture.event("update", at: 2, to: Self.channel(.mostRecentMessage))
        #expect(fixture.snapshot(at: 2).counts.received == 1)
    }

    @Test("A push to an activity that the device dropped, because it had too many, finds none")
    func tooManyActivities() throws {
        var fixture = try DeviceFixture(.activity, .pushToStart)
        for _ in 0..<VirtualDevice.activityLimit { fixture.event("start", at: 0) }
        let order = fixture.event("update", at: 1)
        #expect(fixture.snapshot().activities.count == VirtualDevice.activityLimit)
        #expect(fixture.snapshot().rules == [order: "no-activity"])
    }
}

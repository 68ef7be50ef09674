import APNSModel
import Testing

@testable import APNSDevices

/// The registry of virtual devices.
struct VirtualDevicesTests {
    private static func token(_ digits: String, _ kind: VirtualDevice.TokenKind = .app) -> VirtualDevice.Token {
        VirtualDevice.Token(token: digits, kind: kind, topic: DeviceFixture.topic)
    }

    private static func push(_ target: AcceptedPush.Target, order: Int = 1, _ payload: String? = nil) -> AcceptedPush {
        AcceptedPush(
            order: order,
            target: target,
            topic: DeviceFixture.topic,
            pushType: .alert,
            payload: Array((payload ?? #"{"aps":{"alert":"Hello"}}"#).utf8),
            time: 0
        )
    }

    private static func code(_ body: () throws(VirtualDeviceError) -> Void) -> VirtualDeviceError.Code? {
        do {
            try body()
            return nil
        } catch {
            return error.code
        }
    }

    @Test func pushReachesTheOwnerOfItsToken() throws {
        var devices = VirtualDevices()
        #expect(devices.isEmpty)
        devices.receive(Self.push(.token("aa")))
        #expect(try devices.create(name: "Anna", tokens: [Self.token("AA")], now: 0) == "d1")
        #expect(try devices.create(name: "Bob", tokens: [Self.token("bb")], now: 0) == "d2")
        devices.receive(Self.push(.token("bb")))
        devices.receive(Self.push(.token("cc")))
        #expect(devices.all.map { $0.snapshot(now: 0).counts.received } == [0, 1])
        #expect(devices.owner(ofToken: "aa") == "d1")
        #expect(devices["d2"]?.name == "Bob")
    }

    @Test("A token belongs to at most one device, and a failed creation changes nothing")
    func tokenTaken() throws {
        var devices = VirtualDevices()
        _ = try devices.create(name: "Anna", tokens: [Self.token("aa")], now: 0)
        let code = Self.code { () throws(VirtualDeviceError) in
            _ = try devices.create(name: "Bob", tokens: [Self.token("bb"), Self.token("AA")], now: 0)
        }
        #expect(code == .tokenTaken)
        #expect(devices.count == 1)
        #expect(devices.owner(ofToken: "bb") == nil)
        try devices.unlink("d1", token: "AA")
        #expect(try devices.create(name: "Bob", tokens: [Self.token("aa")], now: 0) == "d2")
    }

    @Test func errors() throws {
        var devices = VirtualDevices()
        let id = try devices.create(name: "Anna", tokens: [], now: 0)
        let long = String(repeating: "x", count: 201)
        #expect(Self.code { () throws(VirtualDeviceError) in try devices.remove("d9") } == .deviceUnknown)
        #expect(Self.code { () throws(VirtualDeviceError) in try devices.rename(id, to: long) } == .invalid)
        #expect(Self.code { () throws(VirtualDeviceError) in try devices.unlink(id, token: "aa") } == .tokenUnknown)
        #expect(
            Self.code { () throws(VirtualDeviceError) in try devices.unsubscribe(id, channelID: "c") }
                == .channelUnknown
        )
        #expect(
            Self.code { () throws(VirtualDeviceError) in try devices.link(id, Self.token("xyz"), now: 0) } == .invalid
        )
        for number in 0..<VirtualDevice.addressLimit {
            try devices.link(id, Self.token("00" + String(1_000 + number)), now: 0)
        }
        #expect(
            Self.code { () throws(VirtualDeviceError) in try devices.link(id, Self.token("aa"), now: 0) }
                == .limitReached
        )
    }

    @Test func removedDeviceReceivesNothing() throws {
        var devices = VirtualDevices()
        let id = try devices.create(name: "Anna", tokens: [Self.token("aa")], now: 0)
        try devices.subscribe(id, .init(channelID: "c", topic: DeviceFixture.topic), now: 0)
        #expect(devices.hasSubscribers("c"))
        try devices.remove(id)
        #expect(devices.isEmpty)
        #expect(!devices.hasSubscribers("c"))
        devices.receive(Self.push(.token("aa")))
        devices.receive(Self.push(.channel("c", storage: .noMessage)))
        // No later device gets the id of a removed one.
        #expect(try devices.create(name: "Bob", tokens: [Self.token("aa")], now: 0) == "d2")
    }

    @Test(
        "A broadcast reaches all devices of its channel, also one that a push-to-start subscribed while it was offline"
    )
    func broadcast() throws {
        var devices = VirtualDevices()
        let first = try devices.create(name: "Anna", tokens: [Self.token("aa", .pushToStart)], now: 0)
        let second = try devices.create(name: "Bob", tokens: [], now: 0)
        try devices.subscribe(second, .init(channelID: "c", topic: DeviceFixture.topic), now: 0)
        try devices.setOnline(first, false, now: 0)
        var start = Self.push(
            .token("aa"),
            #"""
            {"aps":{"event":"start","timestamp":1,"content-state":{},"attributes-type":"A","attributes":{},
            "alert":{"title":"T"},"input-push-channel":"c"}}
            """#
        )
        start.pushType = .liveactivity
        devices.receive(start)
        try devices.setOnline(first, true, now: 0)
        var update = Self.push(
            .channel("c", storage: .noMessage),
            order: 2,
            #"{"aps":{"event":"update","timestamp":2,"content-state":{"n":1}}}"#
        )
        update.pushType = .liveactivity
        devices.receive(update)
        let states = devices.all.flatMap { $0.snapshot(now: 0).activities }.map(\.contentState?.json)
        #expect(states == [Array(#"{"n":1}"#.utf8), Array(#"{"n":1}"#.utf8)])
        try devices.unsubscribe(second, channelID: "c")
        #expect(devices.hasSubscribers("c"))
    }

    @Test func startWhileOnlineSubscribesToItsChannel() throws {
        var devices = VirtualDevices()
        _ = try devices.create(name: "Anna", tokens: [Self.token("aa", .pushToStart)], now: 0)
        var start = Self.push(
            .token("aa"),
            #"""
            {"aps":{"event":"start","timestamp":1,"content-state":{},"attributes-type":"A","attributes":{},
            "alert":{"title":"T"},"input-push-channel":"c"}}
            """#
        )
        start.pushType = .liveactivity
        devices.receive(start)
        #expect(devices.hasSubscribers("c"))
    }

    @Test("A bounded list has at most its limit of elements, and finds and changes no others")
    func boundedList() {
        var list = BoundedList<Int>(limit: 4)
        for number in 1...6 { list.append(number) }
        #expect(Array(list.elements) == [3, 4, 5, 6])
        #expect(list.removeLast(where: { $0 <= 2 }) == nil)
        #expect(list.update(where: { $0 < 5 }, { $0 += 10 }) == 2)
        #expect(Array(list.elements) == [13, 14, 5, 6])
        for number in 7...100 { list.append(number) }
        #expect(Array(list.elements) == [97, 98, 99, 100])
        #expect(list.removeLast(where: { $0 < 99 }) == 98)
        #expect(list.total == 100)
    }

    @Test("A replay is what an online device with this token would hold")
    func replay() {
        let pushes = [
            Self.push(.token("aa")), Self.push(.token("bb"), order: 2), Self.push(.token("aa"), order: 3, "no JSON"),
        ]
        let snapshot = VirtualDevices.replay(pushes, token: "AA", now: 5)
        #expect(snapshot.apps.flatMap(\.notifications).map(\.order) == [1])
        #expect(snapshot.rules == [3: "payload-not-json"])
        #expect(snapshot.nowMilliseconds == 5)
        #expect(VirtualDevices.replay([], token: "not hex", now: 0).counts.received == 0)
    }

    @Test func replayOfActivities() {
        var start = Self.push(.token("aa"), #"{"aps":{"event":"start"}}"#)
        start.pushType = .liveactivity
        #expect(VirtualDevices.replay([start], token: "aa", now: 0).tokens.map(\.kind) == [.pushToStart])
        var update = Self.push(.token("aa"), #"{"aps":{"event":"update","timestamp":1,"content-state":{}}}"#)
        update.pushType = .liveactivity
        #expect(VirtualDevices.replay([update], token: "aa", now: 0).activities.count == 1)
    }

    @Test("A device keeps keys for Web Push, one set for each subscription, and at most 200")
    func webPushKeys() throws {
        var devices = VirtualDevices()
        let id = try devices.create(name: "Anna", tokens: [Self.token("aa")], now: 0)
        func keys(_ subscription: String, _ auth: String = "s") -> VirtualDevice.WebPushKeys {
            VirtualDevice.WebPushKeys(subscription: subscription, privateKey: "k", publicKey: "p", auth: auth)
        }
        #expect(Self.code { () throws(VirtualDeviceError) in try devices.add("d9", keys("s1")) } == .deviceUnknown)
        #expect(Self.code { () throws(VirtualDeviceError) in try devices.add(id, keys("")) } == .invalid)
        for auth in [String(repeating: "x", count: 201), "s=", "é", "a b"] {
            #expect(Self.code { () throws(VirtualDeviceError) in try devices.add(id, keys("s1", auth)) } == .invalid)
        }
        try devices.add(id, keys("s1"))
        try devices.add(id, keys("s1", "t"))
        #expect(devices[id]?.webPushKeys == [keys("s1", "t")])
        for number in 2...200 { try devices.add(id, keys("s\(number)")) }
        #expect(Self.code { () throws(VirtualDeviceError) in try devices.add(id, keys("s201")) } == .limitReached)
        #expect(devices[id]?.snapshot(now: 0).webPushKeys.count == 200)
    }

    @Test("A notification has the encrypted message if an extension may change it")
    func webPushMessage() throws {
        var devices = VirtualDevices()
        let id = try devices.create(name: "Anna", tokens: [Self.token("aa")], now: 0)
        let payloads = [
            #"{"aps":{"alert":"a","mutable-content":1},"webpush":{"id":"s1","body":"x"}}"#,
            #"{"aps":{"alert":"a"},"webpush":{"id":"s1","body":"x"}}"#,
            #"{"aps":{"alert":"a","mutable-content":1},"webpush":"x"}"#,
        ]
        for (order, payload) in payloads.enumerated() {
            devices.receive(Self.push(.token("aa"), order: order, payload))
        }
        let notifications = devices[id]?.snapshot(now: 0).apps.first?.notifications.reversed().map(\.webPush?.json)
        #expect(notifications?.first == Array(#"{"id":"s1","body":"x"}"#.utf8))
        #expect(notifications?.dropFirst() == [nil, nil])
    }
}

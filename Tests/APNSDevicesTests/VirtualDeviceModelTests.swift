import APNSModel
import TestSupport
import Testing

@testable import APNSDevices

/// Random actions on virtual devices, and arbitrary payloads.
struct VirtualDeviceModelTests {
    private static let tokens = ["aa", "bb", "cc", "dd"]
    private static let topics = ["com.example.app", "com.example.app.voip", "com.example.app.push-type.liveactivity"]
    private static let payloads = [
        "", "{}", "[]", #"{"aps":{}}"#, #"{"aps":{"alert":"Hello"}}"#, #"{"aps":{"badge":1,"sound":"default"}}"#,
        #"{"aps":{"alert":{"title":"T","body":"B"},"content-available":1,"mutable-content":1}}"#,
        #"{"aps":{"content-available":1}}"#, #"{"aps":{"alert":7}}"#, #"{"aps":{"badge":0}}"#,
        #"{"aps":{"event":"start","timestamp":9,"content-state":{},"attributes-type":"A","attributes":{},"alert":{"title":"T"},"input-push-channel":"c1"}}"#,
        #"{"aps":{"event":"start","timestamp":9,"content-state":{},"attributes-type":"A","attributes":{},"alert":{"title":"T"}}}"#,
        #"{"aps":{"event":"update","timestamp":10,"content-state":{"n":1},"stale-date":1800000100}}"#,
        #"{"aps":{"event":"update","timestamp":1e400,"content-state":{}}}"#,
        #"{"aps":{"event":"end","timestamp":18446744073709551615,"dismissal-date":-9223372036854775808}}"#,
        #"{"aps":{"event":"end","timestamp":11,"content-state":{}}}"#,
    ]
    private static let times: [Int64] = [.min, .max, 0, -1, 1_800_000_000_000]

    /// One of the payloads; a quarter of them with some bytes replaced by those of another one.
    private static func payload<Random: RandomNumberGenerator>(_ random: inout Random) -> [UInt8] {
        var bytes = Array((self.payloads.randomElement(using: &random) ?? "").utf8)
        guard !bytes.isEmpty, Int.random(in: 0..<4, using: &random) == 0 else { return bytes }
        let other = Array((self.payloads.randomElement(using: &random) ?? "").utf8)
        let start = Int.random(in: 0..<bytes.count, using: &random)
        let end = Int.random(in: start..<bytes.count, using: &random)
        bytes.replaceSubrange(start...end, with: other.dropFirst(start).prefix(Int.random(in: 0...8, using: &random)))
        return bytes
    }

    private static func push<Random: RandomNumberGenerator>(
        order: Int,
        time: Int64,
        payload: [UInt8]?,
        _ random: inout Random
    ) -> AcceptedPush {
        let token = AcceptedPush.Target.token(self.tokens.randomElement(using: &random) ?? "aa")
        let storage = MessageStoragePolicy(rawValue: Int.random(in: 0...2, using: &random))
        let channel = AcceptedPush.Target.channel(Bool.random(using: &random) ? "c1" : "c2", storage: storage)
        let types: [PushType?] = [
            .alert, .alert, .liveactivity, .liveactivity, .background, .voip, nil, .init(rawValue: "x"),
        ]
        let expirations: [Int64?] = [nil, nil, 0, 1, .max, .min, 1_800_000_050]
        return AcceptedPush(
            order: order,
            target: Int.random(in: 0..<4, using: &random) == 0 ? channel : token,
            topic: self.topics.randomElement(using: &random) ?? "",
            pushType: types.randomElement(using: &random) ?? nil,
            priority: [nil, .immediate, .conserve, .low].randomElement(using: &random) ?? nil,
            expiration: expirations.randomElement(using: &random) ?? nil,
            collapseID: [nil, nil, "a", "b"].randomElement(using: &random) ?? nil,
            payload: payload ?? self.payload(&random),
            time: time
        )
    }

    /// One random action. Errors are allowed: the registry rejects what is impossible.
    private static func act<Random: RandomNumberGenerator>(
        _ devices: inout VirtualDevices,
        order: Int,
        time: Int64,
        payload: [UInt8]? = nil,
        _ random: inout Random
    ) {
        let id = "d\(Int.random(in: 1...3, using: &random))"
        let kind = VirtualDevice.TokenKind.allCases.randomElement(using: &random) ?? .app
        let topic = self.topics.randomElement(using: &random) ?? ""
        let token = self.tokens.randomElement(using: &random) ?? ""
        let channelID = Bool.random(using: &random) ? "c1" : "c2"
        switch Int.random(in: 0..<20, using: &random) {
        case 0: _ = try? devices.create(name: "Phone", tokens: [], now: time)
        case 1: if Int.random(in: 0..<10, using: &random) == 0 { try? devices.remove(id) }
        case 2, 3: try? devices.link(id, .init(token: token, kind: kind, topic: topic), now: time)
        case 4: try? devices.unlink(id, token: token)
        case 5: try? devices.subscribe(id, .init(channelID: channelID, topic: topic), now: time)
        case 6: try? devices.unsubscribe(id, channelID: channelID)
        case 9: devices.offlineStorage = OfflineStorage.allCases.randomElement(using: &random) ?? .latest
        case 7, 8: try? devices.setOnline(id, Bool.random(using: &random), now: time)
        default: devices.receive(self.push(order: order, time: time, payload: payload, &random))
        }
    }

    /// What holds for each device at any time.
    private static func check(_ devices: VirtualDevices, now: Int64, _ comment: String) {
        for device in devices.all {
            let snapshot = device.snapshot(now: now)
            let counts = snapshot.counts
            let ends = counts.shown + counts.badgesAndSounds + counts.wakes + counts.activityEvents + counts.undelivered
            #expect(counts.received == ends + snapshot.waiting.count, "\(comment)")
            #expect(snapshot == device.snapshot(now: now), "\(comment)")
            #expect(snapshot.apps.map(\.notifications.count).reduce(0, +) <= VirtualDevice.notificationLimit)
            #expect(snapshot.activities.count <= VirtualDevice.activityLimit)
            #expect(snapshot.activities.allSatisfy { $0.history.count <= DeviceActivity.historyLimit })
            #expect(snapshot.waiting.count <= VirtualDevice.waitingLimit)
            #expect(snapshot.undelivered.count <= VirtualDevice.undeliveredLimit)
            #expect(snapshot.notes.count <= DeviceNote.allCases.count)
            for app in snapshot.apps {
                let ids = app.notifications.compactMap(\.collapseID)
                #expect(ids.count == Set(ids).count, "\(comment)")
            }
            for token in device.tokens { #expect(devices.owner(ofToken: token.token) == device.id, "\(comment)") }
            for subscription in device.subscriptions {
                #expect(devices.hasSubscribers(subscription.channelID), "\(comment)")
            }
        }
    }

    @Test("After any actions, each push has exactly one result, the lists are bounded, and snapshots repeat")
    func randomActions() async {
        let run = PropertyRun(commands: 20_000, runs: 4)
        for seed in run.seeds {
            var random = SeededRandom(seed: seed)
            var devices = VirtualDevices()
            var time: Int64 = 1_800_000_000_000
            for order in 1...run.commandsPerRun {
                time += Int64.random(in: 0...20_000, using: &random)
                let isExtreme = Int.random(in: 0..<50, using: &random) == 0
                let now = isExtreme ? Self.times.randomElement(using: &random) ?? 0 : time
                Self.act(&devices, order: order, time: now, &random)
                if order.isMultiple(of: 100) {
                    Self.check(devices, now: now, run.replay(seed))
                    await TestScale.letOthersRun()
                }
            }
        }
    }

    @Test("Any bytes as a payload lead to one result and to hints, and nothing traps")
    func fuzzVirtualDevice() throws {
        try Fuzz.run("virtual-device") { bytes in
            var random = SeededRandom(bytes: Array(bytes.prefix(32)))
            let payload = Array(bytes.dropFirst(32))
            var devices = VirtualDevices()
            for (number, kind) in VirtualDevice.TokenKind.allCases.enumerated() {
                let token = VirtualDevice.Token(token: Self.tokens[number], kind: kind, topic: Self.topics[0])
                _ = try devices.create(name: "", tokens: [token], now: 0)
            }
            for order in 1...8 { Self.act(&devices, order: order, time: Int64(order), payload: payload, &random) }
            for (type, target) in [
                (PushType.alert, "aa"), (.background, "aa"), (.liveactivity, "bb"), (.liveactivity, "cc"),
            ] {
                var push = Self.push(order: 9, time: 9, payload: payload, &random)
                push.target = .token(target)
                push.topic = Self.topics[0]
                push.pushType = type
                devices.receive(push)
                _ = VirtualDevices.replay([push], token: target, now: 9)
                let hints = PushHint.hints(
                    type: push.pushType,
                    topic: push.topic,
                    priority: push.priority,
                    expiration: push.expiration,
                    payload: payload,
                    payloadBytes: payload.count,
                    payloadLimit: 4_096,
                    isBroadcast: false,
                    now: 9
                )
                #expect(hints.allSatisfy { $0.message.utf8.count < 1_000 })
            }
            Self.check(devices, now: 10, "")
        }
    }

    @Test func deeplyNestedPayloads() throws {
        for depth in [10, 100, 500, 2_000] {
            let nested = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
            let payload = Array(#"{"aps":{"alert":"x","y":\#(nested)}}"#.utf8)
            var fixture = try DeviceFixture()
            fixture.push(String(decoding: payload, as: UTF8.self))
            #expect(fixture.snapshot().counts.shown + fixture.snapshot().counts.undelivered == 1)
        }
    }
}

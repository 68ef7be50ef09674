import APNSModel
import Foundation
import TestSupport
import Testing

@testable import APNSDevices

struct PushHintTests {
    private static let now: Int64 = 1_800_000_000

    private static func hints(
        _ payload: String = #"{"aps":{"alert":"Hello"}}"#,
        type: PushType? = .alert,
        priority: Priority? = nil,
        expiration: Int64? = nil,
        payloadBytes: Int? = nil,
        isBroadcast: Bool = false
    ) -> [PushHint] {
        PushHint.hints(
            type: type,
            topic: "com.example.app",
            priority: priority,
            expiration: expiration,
            payload: Array(payload.utf8),
            payloadBytes: payloadBytes ?? payload.utf8.count,
            payloadLimit: (type ?? .alert).payloadLimit,
            isBroadcast: isBroadcast,
            now: self.now * 1000
        )
    }

    /// Whether there is exactly one hint, and it has these words.
    private static func hasOnly(_ words: String, _ hints: [PushHint]) -> Bool {
        hints.count == 1 && hints[0].message.contains(words)
    }

    private static func activity(_ event: String, _ timestamp: Int64 = 0, _ more: String = "") -> String {
        let state = #""content-state":{"n":1}"#
        return #"{"aps":{"event":"\#(event)","timestamp":\#(self.now + timestamp),\#(state)\#(more)}}"#
    }

    @Test(arguments: [
        hints(), hints(#"{"aps":{"badge":0},"x":{"y":[1]}}"#, priority: .conserve),
        hints(#"{"aps":{"content-available":1}}"#, type: .background, priority: .conserve),
        hints("{}", type: .voip, expiration: 0), hints(expiration: now + 3600),
        hints(activity("update"), type: .liveactivity), hints(#"{"mdm":"x"}"#, type: .mdm),
        hints(#"{"container-identifier":"x"}"#, type: .fileprovider),
        hints(#"{"aps":{"content-changed":true}}"#, type: .widgets),
    ])
    func goodPushesHaveNoHint(hints: [PushHint]) {
        #expect(hints == [])
    }

    @Test(arguments: [
        ("apns-push-type is missing", hints(type: nil)),
        (
            "apns-priority 5. It is 10",
            hints(#"{"aps":{"content-available":1}}"#, type: .background, priority: .immediate)
        ),
        ("Without apns-priority", hints(#"{"aps":{"content-available":1}}"#, type: .background)),
        ("a duration", hints(expiration: 300)), ("milliseconds", hints(expiration: now * 1000)),
        ("in the past", hints(expiration: now - 1)), ("30 days", hints(expiration: now + 40 * 86_400)),
        ("A late call", hints("{}", type: .voip)), ("A late call", hints("{}", type: .voip, expiration: now + 600)),
        ("A late conversation", hints("{}", type: .pushtotalk)),
    ])
    func headers(words: String, hints: [PushHint]) {
        #expect(Self.hasOnly(words, hints), "\(hints)")
    }

    @Test(arguments: [
        ("not a JSON object", hints("Hello")), ("aps must be an object", hints(#"{"aps":[]}"#)),
        ("Move alert into it", hints(#"{"alert":"Hello"}"#)),
        ("Did you mean thread-id?", hints(#"{"aps":{"alert":"x","threadId":"y"}}"#)),
        ("Put your own keys beside aps", hints(#"{"aps":{"alert":"x","color":"red"}}"#)),
        ("is null", hints(#"{"aps":{"alert":"x","badge":null}}"#)),
        ("x is or contains null", hints(#"{"aps":{"alert":"x"},"x":null}"#)),
        ("x is or contains null", hints(#"{"aps":{"alert":"x"},"x":{"y":[1,{"z":null}]}}"#)),
        ("it accepts this one, too", hints("{aps}")),
        ("category, thread-id has no effect without", hints(#"{"aps":{"badge":1,"thread-id":"t","category":"c"}}"#)),
        ("aps.badge must be a whole number", hints(#"{"aps":{"badge":"3"}}"#)),
        ("aps.mutable-content must be the number 1", hints(#"{"aps":{"alert":"x","mutable-content":true}}"#)),
        ("aps.alert.body must be a string", hints(#"{"aps":{"alert":{"title":"x","body":1}}}"#)),
        ("aps.sound.name must be a string", hints(#"{"aps":{"sound":{"name":1}}}"#)),
        ("volume", hints(#"{"aps":{"sound":{"name":"x","critical":1,"volume":3}}}"#)),
        ("mutable-content has no effect", hints(#"{"aps":{"badge":1,"mutable-content":1}}"#)),
        ("passive, active, time-sensitive, critical", hints(#"{"aps":{"alert":"x","interruption-level":"loud"}}"#)),
        ("between 0 and 1", hints(#"{"aps":{"alert":"x","relevance-score":100}}"#)),
        ("also wakes the app", hints(#"{"aps":{"alert":"x","content-available":1}}"#)),
        ("this one has none. Use apns-push-type background", hints(#"{"aps":{"content-available":1}}"#)),
        ("this one has none. Add", hints(#"{"aps":{}}"#)),
        (
            "must not have an alert",
            hints(
                #"{"aps":{"content-available":1,"badge":1}}"#,
                type: .background,
                priority: .conserve
            )
        ),
        ("needs content-available: 1", hints(#"{"aps":{}}"#, type: .background, priority: .conserve)),
        ("needs content-changed: true", hints(#"{"aps":{}}"#, type: .controls)),
        ("needs mdm", hints(#"{"aps":{}}"#, type: .mdm)),
    ])
    func payloads(words: String, hints: [PushHint]) {
        #expect(Self.hasOnly(words, hints), "\(hints)")
    }

    @Test(arguments: [
        ("needs aps.event", hints(#"{"aps":{"timestamp":\#(now)}}"#, type: .liveactivity)),
        ("pause is unknown", hints(activity("pause"), type: .liveactivity)),
        ("needs aps.timestamp", hints(#"{"aps":{"event":"update","content-state":{}}}"#, type: .liveactivity)),
        ("needs aps.content-state", hints(#"{"aps":{"event":"update","timestamp":\#(now)}}"#, type: .liveactivity)),
        ("final content-state", hints(#"{"aps":{"event":"end","timestamp":\#(now)}}"#, type: .liveactivity)),
        ("timestamp looks like milliseconds", hints(activity("update", now * 999), type: .liveactivity)),
        ("aps.timestamp is in the past", hints(activity("update", -301), type: .liveactivity)),
        ("in the future", hints(activity("update", 301), type: .liveactivity)),
        (
            "aps.timestamp has a fraction",
            hints(#"{"aps":{"event":"update","timestamp":\#(now).5,"content-state":{"n":1}}}"#, type: .liveactivity)
        ),
        (
            "Put sound into aps.alert",
            hints(activity("update", 0, #","sound":"a","alert":{"title":"t","body":"b"}"#), type: .liveactivity)
        ),
        ("and this one is a text", hints(activity("update", 0, #","alert":"Goal""#), type: .liveactivity)),
        ("aps.badge has no effect", hints(activity("update", 0, #","badge":1"#), type: .liveactivity)),
        ("only with the event start", hints(activity("update", 0, #","attributes":{}"#), type: .liveactivity)),
        (
            "removes the activity after four",
            hints(activity("end", 0, #","dismissal-date":\#(now + 4 * 3600 + 1)"#), type: .liveactivity)
        ),
        ("stale at once", hints(activity("update", 0, #","stale-date":\#(now)"#), type: .liveactivity)),
        ("only with the event end", hints(activity("update", 0, #","dismissal-date":\#(now)"#), type: .liveactivity)),
        ("ignore title-loc-key", hints(activity("update", 0, #","alert":{"title-loc-key":"K"}"#), type: .liveactivity)),
        (
            "not both",
            hints(
                activity(
                    "start",
                    0,
                    #","attributes-type":"A","attributes":{},"alert":{"title":"t","body":"b"},"#
                        + #""input-push-token":1,"input-push-channel":"c""#
                ),
                type: .liveactivity
            )
        ),
    ])
    func activities(words: String, hints: [PushHint]) {
        #expect(Self.hasOnly(words, hints), "\(hints)")
    }

    @Test func startNeedsAttributesAndAlert() {
        let hints = Self.hints(Self.activity("start"), type: .liveactivity)
        #expect(hints.map(\.message).filter { $0.contains("needs aps.") }.count == 3)
    }

    @Test func rejectionIsExplained() {
        #expect(PushHint.meaning(of: .badDeviceToken)?.message.hasPrefix("BadDeviceToken: the device token is") == true)
        #expect(PushHint.meaning(of: RejectionReason(rawValue: "New")) == nil)
    }

    @Test func payloadSize() {
        let text = String(repeating: "x", count: 3_700)
        #expect(Self.hasOnly("of 4096 bytes", Self.hints(#"{"aps":{"alert":"\#(text)"}}"#)))
        let hints = Self.hints(#"{"aps":{"alert":"\#(text + text)"}}"#)
        #expect(Self.hasOnly("APNs accepts 4096", hints))
        #expect(Self.hints(#"{"aps":{"alert":"\#(text)"}}"#, type: .voip, expiration: 0) == [])
    }

    @Test("Nothing is said about a payload that was not recorded, or only in part")
    func unrecordedPayload() {
        #expect(Self.hints("", payloadBytes: 100) == [])
        #expect(Self.hints(#"{"aps":{"al"#, payloadBytes: 100) == [])
    }

    @Test("A payload full of unknown keys gets a limited number of hints")
    func limit() {
        let keys = (0..<300).map { #""k\#($0)":1"# }.joined(separator: ",")
        #expect(Self.hints("{\"aps\":{\(keys)}}").count == HintCollector.limit)
    }

    @Test func broadcast() {
        let hints = Self.hints(Self.activity("update"), type: .liveactivity, expiration: 300, isBroadcast: true)
        #expect(Self.hasOnly("a duration", hints))
    }

    @Test("The keys of aps are those of Apple's list")
    func keysOfAPS() throws {
        let file = DocumentedCode.root.appendingPathComponent("Tests/Reference/apns.txt")
        let text = try String(contentsOf: file, encoding: .utf8)
        let section = try #require(text.components(separatedBy: "[Keys of aps]\n").dropFirst().first)
        let keys = section.prefix { $0 != "[" }.split(whereSeparator: \.isWhitespace).map(String.init)
        #expect(Set(DevicePayload.kinds.keys) == Set(keys))
    }
}

import APNSModel
import Foundation
import Testing

/// The exact bytes of each push type, written by hand after Apple's articles.
struct GoldenTests {
    private struct Attributes: Encodable {
        var currentHealthLevel = 100
        var eventDescription = "Adventure has begun!"
    }

    private struct State: Encodable {
        var currentHealthLevel = 0
        var eventDescription = "Power Panda has been knocked down!"
    }

    private struct Dated: Encodable {
        /// One second after the reference date of `Date`, from which ActivityKit's decoder counts.
        var arrival = Date(timeIntervalSince1970: 978_307_201)
    }

    private let topic = "com.example.app"

    private func expect(
        _ notification: PushNotification,
        _ json: String,
        _ type: PushType,
        suffix: String,
        location: SourceLocation = #_sourceLocation
    ) throws {
        let push = try notification.prepared(now: Date(timeIntervalSince1970: 1_700_000_000.9))
        #expect(String(decoding: push.payload, as: UTF8.self) == json, sourceLocation: location)
        #expect(push.pushType == type, sourceLocation: location)
        #expect(push.topic == topic + suffix, sourceLocation: location)
        #expect(push.priority == (type == .background ? .conserve : nil), sourceLocation: location)
        let isBrief = type == .voip || type == .pushtotalk
        #expect(push.expiration == (isBrief ? .immediate : .systemDefault), sourceLocation: location)
        // A decoded notification makes the same JSON.
        let again = try JSONDecoder().decode(PreparedPush.self, from: JSONEncoder().encode(push))
        let objects = try [push, again].map {
            try #require(try JSONSerialization.jsonObject(with: Data($0.payload)) as? NSDictionary)
        }
        #expect(objects[0] == objects[1], sourceLocation: location)
    }

    @Test func alertWithEveryKey() throws {
        let alert = Alert(title: "T", body: "B")
        try expect(
            PushNotification(topic: topic, alert: alert)
                .badge(0).sound(.critical(name: "siren.caf", volume: 0.25)).threadID("th").category("CAT")
                .contentAvailable().mutableContent().targetContentID("win").interruptionLevel(.critical)
                .relevanceScore(1).filterCriteria("f").aps(key: "new-key", [1, 2])
                .aps(key: "newer-key", true).custom(key: "c", 1),
            """
            {"aps":{"alert":{"title":"T","body":"B"},"badge":0,"sound":{"critical":1,"name":"siren.caf","volume":0.25},\
            "thread-id":"th","category":"CAT","content-available":1,"mutable-content":1,"target-content-id":"win",\
            "interruption-level":"critical","relevance-score":1,"filter-criteria":"f",\
            "new-key":[1,2],"newer-key":true},"c":1}
            """,
            .alert,
            suffix: ""
        )
    }

    @Test func liveActivityStart() throws {
        try expect(
            .liveActivityStart(
                topic: topic,
                attributesType: "AdventureAttributes",
                attributes: Attributes(),
                contentState: State(),
                alert: Alert(
                    titleLocKey: "%@ is on an adventure!",
                    titleLocArgs: ["Power Panda"],
                    locKey: "%@ found a sword!",
                    locArgs: ["Power Panda"]
                )
            )
            .timestamp(secondsSince1970: 1_234).sound("chime.aiff").inputPushToken(),
            """
            {"aps":{"timestamp":1234,"event":"start",\
            "content-state":{"currentHealthLevel":0,"eventDescription":"Power Panda has been knocked down!"},\
            "attributes-type":"AdventureAttributes",\
            "attributes":{"currentHealthLevel":100,"eventDescription":"Adventure has begun!"},"input-push-token":1,\
            "alert":{"title":{"loc-key":"%@ is on an adventure!","loc-args":["Power Panda"]},\
            "body":{"loc-key":"%@ found a sword!","loc-args":["Power Panda"]},"sound":"chime.aiff"}}}
            """,
            .liveactivity,
            suffix: ".push-type.liveactivity"
        )
        try expect(
            .liveActivityStart(
                topic: topic,
                attributesType: "A",
                attributes: [String: Int](),
                contentState: [String: Int](),
                alert: Alert(title: "T", body: "B")
            )
            .inputPushChannel(try ChannelID("dHN0LXNyY2gtY2hubA==")).staleDate(secondsSince1970: 5),
            """
            {"aps":{"timestamp":1700000000,"event":"start","content-state":{},"attributes-type":"A","attributes":{},\
            "stale-date":5,"input-push-channel":"dHN0LXNyY2gtY2hubA==","alert":{"title":"T","body":"B"}}}
            """,
            .liveactivity,
            suffix: ".push-type.liveactivity"
        )
    }

    @Test func liveActivityUpdate() throws {
        try expect(
            .liveActivityUpdate(topic: topic, contentState: State()).timestamp(
                Date(timeIntervalSince1970: 1_685_952_000.7)
            )
            .staleDate(Date(timeIntervalSince1970: 1_650_998_941)).relevanceScore(75),
            """
            {"aps":{"timestamp":1685952000,"event":"update",\
            "content-state":{"currentHealthLevel":0,"eventDescription":"Power Panda has been knocked down!"},\
            "stale-date":1650998941,"relevance-score":75}}
            """,
            .liveactivity,
            suffix: ".push-type.liveactivity"
        )
        // Apple's keys count from 1970, the app's dates from 2001.
        try expect(
            .liveActivityUpdate(topic: topic, contentState: Dated()).alert("Hi").sound(.default),
            """
            {"aps":{"timestamp":1700000000,"event":"update","content-state":{"arrival":1},\
            "alert":{"body":"Hi","sound":"default"}}}
            """,
            .liveactivity,
            suffix: ".push-type.liveactivity"
        )
    }

    @Test func liveActivityEnd() throws {
        try expect(
            .liveActivityEnd(topic: topic, contentState: State()).dismissalDate(
                Date(timeIntervalSince1970: 1_663_177_260)
            ),
            """
            {"aps":{"timestamp":1700000000,"event":"end",\
            "content-state":{"currentHealthLevel":0,"eventDescription":"Power Panda has been knocked down!"},\
            "dismissal-date":1663177260}}
            """,
            .liveactivity,
            suffix: ".push-type.liveactivity"
        )
        try expect(
            .liveActivityEnd(topic: topic).sound("a.caf"),
            #"{"aps":{"timestamp":1700000000,"event":"end","sound":"a.caf"}}"#,
            .liveactivity,
            suffix: ".push-type.liveactivity"
        )
        try expect(
            .liveActivity(topic: topic, event: LiveActivityEvent(rawValue: "pause")).dismissalDate(secondsSince1970: 0)
                .aps(key: "pause-kind", "long"),
            #"{"aps":{"timestamp":1700000000,"event":"pause","dismissal-date":0,"pause-kind":"long"}}"#,
            .liveactivity,
            suffix: ".push-type.liveactivity"
        )
    }

    @Test func otherPushTypes() throws {
        struct Call: Encodable { var caller = "Ann", isVideo = true }
        try expect(
            .background(topic: topic).custom(key: "acme", 42),
            #"{"aps":{"content-available":1},"acme":42}"#,
            .background,
            suffix: ""
        )
        // The push type itself adds the fields that it requires.
        try expect(
            PushNotification(topic: topic, pushType: .background),
            #"{"aps":{"content-available":1}}"#,
            .background,
            suffix: ""
        )
        // Custom values are at the root, without a wrapper.
        try expect(
            .voip(topic: topic).custom(Call()),
            #"{"aps":{},"caller":"Ann","isVideo":true}"#,
            .voip,
            suffix: ".voip"
        )
        try expect(
            .complication(topic: topic).custom(key: "steps", 5),
            #"{"aps":{},"steps":5}"#,
            .complication,
            suffix: ".complication"
        )
        try expect(
            .fileProvider(topic: topic),
            #"{"container-identifier":"NSFileProviderWorkingSetContainerItemIdentifier"}"#,
            .fileprovider,
            suffix: ".pushkit.fileprovider"
        )
        try expect(
            .fileProvider(
                topic: topic,
                containerIdentifier: "NSFileProviderRootContainerItemIdentifier",
                domain: "d"
            ),
            #"{"container-identifier":"NSFileProviderRootContainerItemIdentifier","domain":"d"}"#,
            .fileprovider,
            suffix: ".pushkit.fileprovider"
        )
        try expect(.mdm(topic: topic, pushMagic: "5A-1"), #"{"mdm":"5A-1"}"#, .mdm, suffix: "")
        try expect(.location(topic: topic), #"{"aps":{}}"#, .location, suffix: ".location-query")
        try expect(
            .pushToTalk(topic: topic).custom(key: "speaker", "Ann"),
            #"{"aps":{},"speaker":"Ann"}"#,
            .pushtotalk,
            suffix: ".voip-ptt"
        )
        try expect(
            .pushToTalkServiceUpdate(topic: topic),
            #"{"aps":{"ptt-push-type":"service-update"}}"#,
            .pushtotalk,
            suffix: ".voip-ptt"
        )
        try expect(
            .widgets(topic: topic),
            #"{"aps":{"content-changed":true}}"#,
            .widgets,
            suffix: ".push-type.widgets"
        )
        try expect(
            .controls(topic: topic),
            #"{"aps":{"content-changed":true}}"#,
            .controls,
            suffix: ".push-type.controls"
        )
        try expect(
            .accessory(topic: topic, encryptedData: "c2Vj", sessionIdentifier: "s", keyID: "k", messageIndex: .max),
            """
            {"aps":{"encryptedData":"c2Vj","sessionIdentifier":"s","keyID":"k","messageIndex":"18446744073709551615"}}
            """,
            .accessory,
            suffix: ".push-type.accessory"
        )
    }

    @Test func keysOfApsAreWritten() throws {
        try expect(
            PushNotification(topic: topic).aps(key: "a", 1).aps(key: "b/\"", ["x": [1.5]]),
            #"{"aps":{"a":1,"b/\"":{"x":[1.5]}}}"#,
            .alert,
            suffix: ""
        )
        try expect(
            PushNotification(topic: topic, pushType: .liveactivity).aps(key: "event", "update").alert("Hi"),
            #"{"aps":{"alert":{"body":"Hi"},"event":"update"}}"#,
            .liveactivity,
            suffix: ".push-type.liveactivity"
        )
    }
}

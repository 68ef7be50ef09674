import APNSModel
import Testing

struct PayloadTests {
    let topic = "com.example.app"

    // The examples of Apple's "Generating a remote notification", written out by hand.

    @Test func alertWithCustomValues() throws {
        let notification = PushNotification(
            topic: topic,
            alert: Alert(title: "Hey There", subtitle: "Full moon sighting", body: "Did you see it?")
        )
        .badge(1)
        .sound("cow.wav")
        .custom(Acme(acme2: ["bang", "whiz"]))
        #expect(
            try notification.text() == """
                {"aps":{"alert":{"title":"Hey There","subtitle":"Full moon sighting","body":"Did you see it?"},\
                "badge":1,"sound":"cow.wav"},"acme2":["bang","whiz"]}
                """
        )
    }

    @Test func gameRequest() throws {
        let notification = PushNotification(
            topic: topic,
            alert: Alert(title: "Game Request", subtitle: "Five Card Draw", body: "Bob wants to play poker")
        )
        .category("GAME_INVITATION")
        .custom(key: "gameID", "12345678")
        #expect(
            try notification.text() == """
                {"aps":{"alert":{"title":"Game Request","subtitle":"Five Card Draw","body":"Bob wants to play poker"},\
                "category":"GAME_INVITATION"},"gameID":"12345678"}
                """
        )
    }

    @Test func badgeAndSound() throws {
        let notification = PushNotification(topic: topic)
            .badge(9)
            .sound("bingbong.aiff")
            .custom(key: "messageID", "ABCDEFGHIJ")
        #expect(
            try notification.text() == #"{"aps":{"badge":9,"sound":"bingbong.aiff"},"messageID":"ABCDEFGHIJ"}"#
        )
    }

    @Test func localised() throws {
        let notification = PushNotification(
            topic: topic,
            alert: Alert(locKey: "GAME_PLAY_REQUEST_FORMAT", locArgs: ["Shelly", "Rick"])
        )
        .sound("chime.aiff")
        #expect(
            try notification.text() == """
                {"aps":{"alert":{"loc-key":"GAME_PLAY_REQUEST_FORMAT","loc-args":["Shelly","Rick"]},\
                "sound":"chime.aiff"}}
                """
        )
        let all = Alert(
            title: "a",
            subtitle: "b",
            body: "c",
            launchImage: "d",
            titleLocKey: "e",
            titleLocArgs: ["f"],
            subtitleLocKey: "g",
            subtitleLocArgs: [],
            locKey: "h",
            locArgs: ["i", "j"]
        )
        #expect(
            try PushNotification(topic: topic, alert: all).text() == """
                {"aps":{"alert":{"title":"a","subtitle":"b","body":"c","launch-image":"d","title-loc-key":"e",\
                "title-loc-args":["f"],"subtitle-loc-key":"g","subtitle-loc-args":[],"loc-key":"h",\
                "loc-args":["i","j"]}}}
                """
        )
    }

    @Test func background() throws {
        let push = try PushNotification.background(topic: topic).custom(key: "acme1", "bar").custom(key: "acme2", 42)
            .prepared()
        #expect(
            String(decoding: push.payload, as: UTF8.self)
                == #"{"aps":{"content-available":1},"acme1":"bar","acme2":42}"#
        )
        #expect(push.pushType == .background)
        #expect(push.priority == .conserve)
        #expect(push.expiration == .systemDefault)
    }

    @Test func mutableContent() throws {
        let notification = PushNotification(topic: topic, alert: Alert(title: "Secret Message!", body: "(Encrypted)"))
            .category("SECRET")
            .mutableContent()
            .custom(key: "ENCRYPTED_DATA", "Salted__·öîQÊ$UDì_¶Ù∞èΩ^¬%gq∞NÿÒQùw")
        #expect(
            try notification.text() == """
                {"aps":{"alert":{"title":"Secret Message!","body":"(Encrypted)"},"category":"SECRET",\
                "mutable-content":1},"ENCRYPTED_DATA":"Salted__·öîQÊ$UDì_¶Ù∞èΩ^¬%gq∞NÿÒQùw"}
                """
        )
    }

    @Test func soundForms() throws {
        let base = PushNotification(topic: topic)
        #expect(try base.sound(.default).text() == #"{"aps":{"sound":"default"}}"#)
        #expect(try base.sound(.named("a.caf")).text() == #"{"aps":{"sound":"a.caf"}}"#)
        #expect(
            try base.sound(.critical(name: "a.caf", volume: 0.5)).text()
                == #"{"aps":{"sound":{"critical":1,"name":"a.caf","volume":0.5}}}"#
        )
        #expect(
            try base.sound(.critical()).text() == #"{"aps":{"sound":{"critical":1,"name":"default","volume":1}}}"#
        )
    }

    @Test func otherFields() throws {
        let notification = PushNotification(topic: topic, alert: "Hi")
            .threadID("t")
            .contentAvailable()
            .targetContentID("w")
            .interruptionLevel(.timeSensitive)
            .relevanceScore(0.25)
            .filterCriteria("f")
            .contentChanged()
        #expect(
            try notification.text() == """
                {"aps":{"alert":"Hi","thread-id":"t","content-available":1,"target-content-id":"w",\
                "interruption-level":"time-sensitive","relevance-score":0.25,"filter-criteria":"f",\
                "content-changed":true}}
                """
        )
    }

    @Test func otherPushTypes() throws {
        #expect(try PushNotification(topic: topic, pushType: .location).text() == #"{"aps":{}}"#)
        #expect(
            try PushNotification(topic: topic, pushType: .voip).custom(key: "call", 7).text()
                == #"{"aps":{},"call":7}"#
        )
        #expect(
            try PushNotification(topic: "com.apple.mgmt.External.1", pushType: .mdm).custom(key: "mdm", "magic").text()
                == #"{"mdm":"magic"}"#
        )
        #expect(
            try PushNotification(topic: topic, pushType: .fileprovider)
                .custom(["container-identifier": "NSFileProviderRootContainerItemIdentifier"]).text()
                == #"{"container-identifier":"NSFileProviderRootContainerItemIdentifier"}"#
        )
        #expect(
            try PushNotification(topic: topic, pushType: .widgets).text()
                == #"{"aps":{"content-changed":true}}"#
        )
    }

    @Test func rawBytesAreUntouched() throws {
        let bytes = Array(#"  {"aps" : {"new-key":[1.0,1e2]}, "aps":null}"#.utf8)
        let push = try PushNotification(topic: topic, rawPayload: bytes).prepared()
        #expect(push.payload == bytes)
        #expect(try PushNotification(topic: topic, rawPayload: bytes[...].lazy.map { $0 }).prepared().payload == bytes)
        #expect(
            code { _ = try PushNotification(topic: topic, rawPayload: bytes).badge(1).prepared() } == .payloadIsRaw
        )
        #expect(
            code { _ = try PushNotification(topic: topic, rawPayload: bytes).custom(key: "a", 1).prepared() }
                == .payloadIsRaw
        )
    }

    @Test(arguments: [
        ("\u{0}\u{1}\u{8}\u{9}\u{A}\u{C}\u{D}\u{1F}\u{7F}", #"\u0000\u0001\b\t\n\f\r\u001f"# + "\u{7F}"),
        (#"say "hi" \ a/b"#, #"say \"hi\" \\ a/b"#),
        ("👩‍👩‍👧‍👦 é e\u{301} \u{2028}\u{2029}", "👩‍👩‍👧‍👦 é e\u{301} \u{2028}\u{2029}"),
        ("12345678\"", "12345678\\\""),
        ("1234567\"89012345\\", "1234567\\\"89012345\\\\"),
        ("", ""),
        ("\u{10FFFF}\u{80}\u{7FF}\u{FFFF}", "\u{10FFFF}\u{80}\u{7FF}\u{FFFF}"),
    ])
    func stringsAreEscaped(text: String, expected: String) throws {
        #expect(try PushNotification(topic: topic, alert: text).text() == #"{"aps":{"alert":"\#(expected)"}}"#)
        #expect(try PushNotification(topic: topic).custom(key: text, 1).text() == #"{"aps":{},"\#(expected)":1}"#)
    }

    @Test func controlCharactersAreEscapedAtEveryOffset() throws {
        for unit in UInt8(0)..<0x80 {
            for offset in 0..<20 {
                let text =
                    String(repeating: "x", count: offset) + String(UnicodeScalar(unit))
                    + String(repeating: "y", count: 19 - offset)
                let payload = try PushNotification(topic: topic, alert: text).prepared().payload
                let raw = payload.dropFirst(17).dropLast(3)
                let needsEscape = unit < 0x20 || unit == 0x22 || unit == 0x5C
                #expect(raw.contains(0x5C) == needsEscape)
                #expect(raw.count == (needsEscape ? (raw.contains(0x75) ? 25 : 21) : 20))
            }
        }
    }

    @Test func severalCustomValues() throws {
        struct One: Encodable { var a = 1, b = "x" }
        struct Two: Encodable { var c: [Int] = [], d: Int? }
        let notification = PushNotification(topic: topic).custom(One()).custom(key: "k", [1.5]).custom(Two())
        #expect(try notification.text() == #"{"aps":{},"a":1,"b":"x","k":[1.5],"c":[]}"#)
    }

    @Test func headersAndDefaults() throws {
        let push = try PushNotification(topic: topic, alert: "Hi")
            .priority(.low)
            .expiration(.at(secondsSince1970: 1_700_000_000))
            .collapseID("score 7")
            .prepared()
        #expect(push.topic == topic)
        #expect(push.pushType == .alert)
        #expect(push.priority == .low)
        #expect(push.expiration.headerValue == 1_700_000_000)
        #expect(push.collapseID?.rawValue == "score 7")
        #expect(push.isExpired(atSecondsSince1970: 1_700_000_000))
        #expect(!push.isExpired(atSecondsSince1970: 1_699_999_999))

        let voip = try PushNotification(topic: topic, pushType: .voip).prepared()
        #expect(voip.expiration == .immediate)
        #expect(!voip.isExpired(atSecondsSince1970: .max))
        let kept = try PushNotification(topic: topic, pushType: .pushtotalk).expiration(.systemDefault).prepared()
        #expect(kept.expiration == .systemDefault)
        #expect(!kept.isExpired(atSecondsSince1970: .max))
    }

    @Test func modifiersDoNotChangeTheOriginal() throws {
        let original = PushNotification(topic: topic, alert: "Hi")
        let changed = original.badge(3).custom(key: "a", 1)
        #expect(try original.text() == #"{"aps":{"alert":"Hi"}}"#)
        #expect(try changed.text() == #"{"aps":{"alert":"Hi","badge":3},"a":1}"#)
    }

    @Test func interruptionLevelsHaveApplesNames() throws {
        let levels: [(InterruptionLevel, String)] = [
            (.passive, #"{"aps":{"alert":"Hi","interruption-level":"passive"}}"#),
            (.active, #"{"aps":{"alert":"Hi","interruption-level":"active"}}"#),
            (.timeSensitive, #"{"aps":{"alert":"Hi","interruption-level":"time-sensitive"}}"#),
            (.critical, #"{"aps":{"alert":"Hi","interruption-level":"critical"}}"#),
        ]
        for (level, text) in levels {
            #expect(try PushNotification(topic: topic, alert: "Hi").interruptionLevel(level).text() == text)
        }
    }

    @Test func topicSuffixesAreAddedOnce() throws {
        let suffixes: [PushType: String] = [
            .alert: "", .background: "", .voip: ".voip", .complication: ".complication",
            .fileprovider: ".pushkit.fileprovider", .mdm: "", .liveactivity: ".push-type.liveactivity",
            .location: ".location-query", .pushtotalk: ".voip-ptt", .widgets: ".push-type.widgets",
            .controls: ".push-type.controls", .accessory: ".push-type.accessory",
        ]
        #expect(Set(PushType.known) == Set(suffixes.keys))
        for (type, suffix) in suffixes {
            #expect(type.topicSuffix == suffix)
            for given in [topic, topic + suffix] {
                let notification = PushNotification(topic: given, pushType: type)
                #expect(try notification.prepared(skippingValidation: true).topic == topic + suffix)
            }
        }
        let unknown = try PushNotification(topic: topic, pushType: PushType(rawValue: "hologram")).prepared()
        #expect(unknown.topic == topic)
        #expect(unknown.pushType.rawValue == "hologram")
    }
}

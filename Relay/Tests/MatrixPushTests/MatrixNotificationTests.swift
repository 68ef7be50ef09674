import APNSModel
import Testing

@testable import MatrixPush

struct MatrixNotificationTests {
    private static func push(_ text: String) throws -> PreparedPush? {
        let notification = try MatrixNotification(Array(text.utf8))
        return try notification.push(for: try #require(notification.devices.first), topic: "com.example.fern")
    }

    private static func payload(_ members: String, device: String = "") throws -> String? {
        try Self.push(MatrixRequests.request(members, device: device)).map {
            String(decoding: $0.payload, as: UTF8.self)
        }
    }

    @Test("The specification's example becomes an alert that names sender, room and text, with a badge and a sound")
    func example() throws {
        let notification = try MatrixNotification(Array(MatrixRequests.example.utf8))
        #expect(notification.eventID == "$3957tyerfgewrf384" && notification.isUrgent)
        let device = try #require(notification.devices.first)
        #expect(device.appID == "org.matrix.matrixConsole.ios" && device.pushkeyTime == 12_345_678)
        let text = "Why on earth did you decode this?".utf8.map { byte in
            String(byte >> 4, radix: 16) + String(byte & 15, radix: 16)
        }
        #expect(try device.token().hexadecimal == text.joined())
        let push = try #require(try notification.push(for: device, topic: "com.example.fern"))
        #expect(push.pushType == .alert && push.priority == .immediate && push.topic == "com.example.fern")
        #expect(
            String(decoding: push.payload, as: UTF8.self) == #"""
                {"aps":{"alert":{"loc-args":["Major Tom","Mission Control","I'm floating in a most peculiar way."],\#
                "loc-key":"MSG_FROM_USER_IN_ROOM_WITH_CONTENT"},"badge":3,"sound":"bing"},\#
                "event_id":"$3957tyerfgewrf384","room_id":"!slw48wfj34rtnrf:example.com"}
                """#
        )
    }

    @Test("A notification that only has ids passes them on, with the counts, beside what the app has registered")
    func eventIDOnly() throws {
        let members = #""event_id":"$e","room_id":"!r","counts":{"unread":2,"missed_calls":1},"prio":"low""#
        #expect(
            try Self.payload(members) == #"{"event_id":"$e","missed_calls":1,"room_id":"!r","unread_count":2}"#
        )
        let data = #"""
            ,"data":{"format":"event_id_only","default_payload":{"cs":"x","room_id":"old","aps":{"mutable-content":1,\#
            "alert":{"loc-key":"SINGLE_UNREAD","loc-args":[]}}}},"tweaks":{"sound":"default","highlight":true}
            """#
        #expect(
            try Self.payload(members, device: data) == #"""
                {"aps":{"alert":{"loc-args":[],"loc-key":"SINGLE_UNREAD"},"mutable-content":1,"sound":"default"},\#
                "cs":"x","event_id":"$e","missed_calls":1,"room_id":"!r","unread_count":2}
                """#
        )
        let push = try #require(try Self.push(MatrixRequests.request(members, device: data)))
        #expect(push.pushType == .alert && push.priority == .conserve)
    }

    @Test("The text of the alert depends on the event")
    func alerts() throws {
        func loc(_ members: String) throws -> String? {
            let payload = try Self.payload(members)
            return payload.map { $0.replacing(/.*"loc-args":(\[.*\]),"loc-key":"([A-Z_]+)".*/) { "\($0.2)\($0.1)" } }
        }
        let (message, room, sender) = (
            #""type":"m.room.message""#, #","room_name":"R""#, #","sender_display_name":"S""#
        )
        func content(_ kind: String) -> String { #","content":{"msgtype":"\#(kind)","body":"B"}"# }
        let cases: [(String, String)] = [
            (message + room + sender + content("m.text"), #"MSG_FROM_USER_IN_ROOM_WITH_CONTENT["S","R","B"]"#),
            (message + room + sender + content("m.emote"), #"ACTION_FROM_USER_IN_ROOM["R","S","B"]"#),
            (message + room + sender + content("m.image"), #"IMAGE_FROM_USER_IN_ROOM["S","B","R"]"#),
            (message + room + sender + content("m.new"), #"MSG_FROM_USER_IN_ROOM_WITH_CONTENT["S","R","B"]"#),
            (message + room + sender, #"MSG_FROM_USER_IN_ROOM["S","R"]"#),
            (message + sender + content("m.text"), #"MSG_FROM_USER_WITH_CONTENT["S","B"]"#),
            (message + sender + content("m.emote"), #"ACTION_FROM_USER["S","B"]"#),
            (message + sender + content("m.image"), #"IMAGE_FROM_USER["S","B"]"#),
            (message + sender + #","content":{"body":"B"}"#, #"MSG_FROM_USER["S"]"#),
            (message + ##","sender":"@s:x","room_alias":"#r:x""##, ##"MSG_FROM_USER_IN_ROOM["@s:x","#r:x"]"##),
            (#""type":"m.room.encrypted""#, #"MSG_FROM_USER[" "]"#),
            (#""type":"m.call.invite""# + sender, #"VOICE_CALL_FROM_USER["S"]"#),
            (
                #""type":"m.call.invite","content":{"offer":{"sdp":"v=0\r\nm=video 9"}}"# + sender,
                #"VIDEO_CALL_FROM_USER["S"]"#
            ),
            (
                #""type":"m.room.member","membership":"invite","user_is_target":true"# + sender + room,
                #"USER_INVITE_TO_NAMED_ROOM["S","R"]"#
            ),
            (
                #""type":"m.room.member","membership":"invite","user_is_target":true"# + sender,
                #"USER_INVITE_TO_CHAT["S"]"#
            ),
            (#""type":"m.new""# + sender + room, #"MSG_FROM_USER["S"]"#),
        ]
        for (members, expected) in cases { #expect(try loc(members) == expected, "\(members)") }
        for members in [
            "", #""type":"m.room.member","membership":"join","user_is_target":true"#,
            #""type":"m.room.member","membership":"invite""#, #""counts":{}"#,
        ] {
            #expect(try Self.payload(members) == nil, "\(members)")
        }
    }

    @Test("A notification that only has counts sets the badge, also to 0")
    func counts() throws {
        #expect(try Self.payload(#""counts":{"unread":0}"#) == #"{"aps":{"badge":0}}"#)
        #expect(try Self.payload(#""counts":{"missed_calls":3}"#) == #"{"aps":{"badge":3}}"#)
        #expect(
            try Self.payload(
                #""counts":{"unread":5}"#,
                device: #","data":{"default_payload":{"a":1}},"tweaks":{"sound":"bing"}"#
            ) == #"{"aps":{"badge":5}}"#
        )
        for number in ["9223372036854775807", "1e30", "99999999999999999999"] {
            let largest = try Self.payload(#""counts":{"unread":\#(number),"missed_calls":1}"#)
            #expect(largest == #"{"aps":{"badge":9223372036854775807}}"#)
        }
    }

    @Test("What the app has registered stays, and gives way only to the notification's own members")
    func defaultPayload() throws {
        let members = #""event_id":"$e","type":"m.new","counts":{"unread":1}"#
        let data = #"""
            ,"data":{"default_payload":{"n":1.5,"t":true,"z":null,"l":[1,"x"],"aps":{"category":"C","badge":9,\#
            "alert":{"title":"T","loc-key":"OLD"},"sound":"own"}}},"tweaks":{"sound":"bing"}
            """#
        #expect(
            try Self.payload(members, device: data) == #"""
                {"aps":{"alert":{"loc-args":[" "],"loc-key":"MSG_FROM_USER","title":"T"},"badge":1,"category":"C",\#
                "sound":"own"},"event_id":"$e","l":[1,"x"],"n":1.5,"t":true,"z":null}
                """#
        )
        // What is no object, or no alert that can be merged, does not stop the notification.
        for data in [#""x""#, #"{"default_payload":[1]}"#, #"{"default_payload":{"aps":7}}"#, "null"] {
            #expect(try Self.payload(members, device: #","data":\#(data)"#)?.contains("MSG_FROM_USER") == true)
        }
        let text = #","data":{"default_payload":{"aps":{"alert":"text"}}}"#
        #expect(try Self.payload(members, device: text)?.contains(#""loc-key":"MSG_FROM_USER""#) == true)
        for silent in [#","tweaks":{}"#, #","tweaks":{"sound":true}"#, #","tweaks":[]"#] {
            #expect(try Self.payload(members, device: silent)?.contains("sound") == false)
        }
    }

    @Test("A payload that only wakes the app is a background push")
    func background() throws {
        let wake = #","data":{"default_payload":{"aps":{"content-available":1}}}"#
        let push = try #require(try Self.push(MatrixRequests.request(#""event_id":"$e""#, device: wake)))
        #expect(push.pushType == .background && push.priority == .conserve)
        let alert = #","data":{"default_payload":{"aps":{"content-available":1,"alert":"A"}}}"#
        #expect(try Self.push(MatrixRequests.request(#""event_id":"$e""#, device: alert))?.pushType == .alert)
    }

    @Test("A long text is cut between characters until the payload fits, and a payload without texts is refused")
    func size() throws {
        for (unit, count) in [("a", 65_000), ("é", 20_000), ("👩‍👩‍👧", 3_000), (#"\""#, 30_000), (#"\n"#, 30_000)] {
            let body = String(repeating: unit, count: count)
            let members = #"""
                "type":"m.room.message","room_name":"R","sender":"S","content":{"msgtype":"m.text","body":"\#(body)"}
                """#
            let payload = try #require(try Self.payload(members))
            #expect(payload.utf8.count <= 4_096 && payload.utf8.count > 2_000, "\(unit) \(payload.utf8.count)")
            let value = try #require(MatrixJSON(Array(payload.utf8)))
            guard case .array(let arguments) = value["aps"]?["alert"]?["loc-args"] else {
                Issue.record("expected arguments")
                return
            }
            #expect(arguments.prefix(2) == [.text("S"), .text("R")])
            // Whole characters only.
            let text = try #require(arguments.last?.text)
            #expect(Set(text).count == 1)
        }
        // Several long texts share what must go.
        let name = String(repeating: "x", count: 3_000)
        let body = #""content":{"msgtype":"m.text","body":"\#(name)"}"#
        let both = try #require(
            try Self.payload(#""type":"m.room.message","room_name":"\#(name)","sender":"\#(name)",\#(body)"#)
        )
        #expect(both.utf8.count <= 4_096)
        let large = #","data":{"default_payload":{"x":"\#(String(repeating: "x", count: 5_000))","aps":{"alert":"A"}}}"#
        let error = #expect(throws: MatrixPushError.self) { try Self.payload(#""event_id":"$e""#, device: large) }
        #expect(error?.code == .payloadTooLarge)
        let alert =
            #","data":{"default_payload":{"aps":{"alert":{"body":"\#(String(repeating: "x", count: 5_000))"}}}}"#
        #expect(try Self.payload(#""event_id":"$e""#, device: alert)?.utf8.count == 4_096)
        let many =
            #","data":{"default_payload":{"aps":{"alert":{"loc-args":["x"\#(String(repeating: #","xx""#, count: 20_000))]}}}}"#
        #expect(throws: MatrixPushError.self) { try Self.payload(#""event_id":"$e""#, device: many) }
    }

    @Test("Pushkeys are device tokens in base64, with or without padding, or in hexadecimal digits")
    func pushkeys() throws {
        func token(_ pushkey: String) throws -> String {
            let text = #"{"notification":{"devices":[{"app_id":"a","pushkey":"\#(pushkey)"}]}}"#
            return try #require(try MatrixNotification(Array(text.utf8)).devices.first).token().hexadecimal
        }
        let digits = String(repeating: "ab", count: 32)
        let base64 = "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s"
        for pushkey in [digits, digits.uppercased(), base64, base64 + "="] { #expect(try token(pushkey) == digits) }
        for pushkey in ["", "=", "a", "é", "fcm:token", base64 + "-", String(repeating: "ab", count: 600)] {
            let error = #expect(throws: MatrixPushError.self) { try token(pushkey) }
            #expect(error?.code == .invalidPushkey)
        }
    }

    @Test("A member of another type counts as missing, because it may come from another user")
    func otherTypes() throws {
        let nested = String(repeating: "[", count: 100) + String(repeating: "]", count: 100)
        for member in [
            #""event_id":1"#, #""room_name":{}"#, #""counts":[]"#, #""counts":{"unread":1.5}"#, #""content":"x""#,
            #""content":\#(nested)"#, #""user_is_target":1"#,
        ] {
            let text = #"{"notification":{\#(member),"devices":[{"app_id":"a","pushkey":"b"}]}}"#
            #expect(try MatrixNotification(Array(text.utf8)).devices.count == 1, "\(member)")
        }
    }

    @Test("A request of another form is refused, and random changes trap nothing")
    func malformed() throws {
        let device = #"{"app_id":"a","pushkey":"b"}"#
        let nested = String(repeating: "[", count: 300) + String(repeating: "]", count: 300)
        let texts = [
            "", "{", "[]", "{}", #"{"notification":[]}"#, #"{"notification":{}}"#, #"{"notification":{"devices":{}}}"#,
            #"{"notification":{"devices":[{"app_id":"a"}]}}"#, #"{"notification":{"devices":[{"pushkey":"a"}]}}"#,
            #"{"notification":{"devices":[{"app_id":1,"pushkey":"a"}]}}"#,
            #"{"notification":{"devices":["a"]}}"#, #"{"notification":{"content":\#(nested),"devices":[]}}"#,
            #"{"notification":{"devices":[\#(Array(repeating: device, count: 101).joined(separator: ","))]}}"#,
        ]
        for text in texts {
            let error = #expect(throws: MatrixPushError.self, "\(text)") { try MatrixNotification(Array(text.utf8)) }
            #expect(error?.code == .malformed)
        }
        #expect(try MatrixNotification(Array(#"{"notification":{"devices":[]}}"#.utf8)).devices.isEmpty)
        var read = 0
        for _ in 0..<10_000 {
            var bytes = Array(MatrixRequests.example.utf8)
            for _ in 0..<Int.random(in: 1...4) {
                let at = Int.random(in: 0..<bytes.count)
                switch Int.random(in: 0..<3) {
                case 0: bytes[at] = UInt8.random(in: 0...255)
                case 1: bytes.remove(at: at)
                default: bytes.insert(UInt8.random(in: 32...126), at: at)
                }
            }
            guard let notification = try? MatrixNotification(bytes) else { continue }
            for device in notification.devices {
                _ = try? device.token()
                let push = try? notification.push(for: device, topic: "com.example.fern")
                if let push {
                    read += 1
                    #expect(push.payload.count <= 4_096)
                    #expect(MatrixJSON(push.payload) != nil)
                }
            }
        }
        #expect(read > 0)
    }
}

import APNSModel
import APNSPool
import Foundation
import NIOHTTP1
import TestSupport
import Testing

@testable import APNSControl
@testable import APNSSimulator

/// The control API of `apns simulator --control`, request by request.
struct ControlAPITests {
    // MARK: Pushes

    @Test("A push is listed, filtered, paged from either end, and shown with everything that is known about it")
    func pushes() async throws {
        try await ControlClient.with { control in
            control.simulator.inject(Fault(.respond(.badTopic), when: .nth(3)))
            for number in 1...5 { try await control.push(number, title: "Push \(number)") }
            let all = try await control.get("/v1/pushes")
            #expect(all.status == 200 && all.headers["content-type"] == ["application/json"])
            #expect(all.integers("pushes", "order") == [1, 2, 3, 4, 5])
            #expect(all["total"] == .integer(5) && all["dropped"] == .integer(0) && all["next"] == nil)
            #expect(all["pushes", "0", "summary"] == .string("Push 1 – There"))

            let first = try await control.get("/v1/pushes?limit=2")
            #expect(first.integers("pushes", "order") == [1, 2] && first["next"] == .integer(2))
            #expect(try await control.get("/v1/pushes?after=2&limit=3").integers("pushes", "order") == [3, 4, 5])
            let newest = try await control.get("/v1/pushes?newest=true&limit=2")
            #expect(newest.integers("pushes", "order") == [5, 4] && newest["next"] == .integer(4))
            let older = try await control.get("/v1/pushes?newest=true&before=4&limit=3")
            #expect(older.integers("pushes", "order") == [3, 2, 1] && older["next"] == nil)

            let filters = [
                "outcome=rejected": [3], "outcome=accepted": [1, 2, 4, 5], "outcome=no-response": [],
                "reason=BadTopic": [3], "token=\(token(10).uppercased())": [], "token=\(token(4))": [4],
                "topic=com.example.app&pushType=alert": [1, 2, 3, 4, 5], "topic=other": [],
            ]
            for (query, orders) in filters {
                let found = try await control.get("/v1/pushes?\(query)").integers("pushes", "order")
                #expect(found == orders.map { Int64($0) }, "\(query)")
            }

            let detail = try await control.get("/v1/pushes/3")
            #expect(detail["outcome"] == .string("rejected") && detail["faults", "0"] == .string("respond"))
            #expect(detail["response", "status"] == .integer(400))
            #expect(detail["response", "body"] == .string(#"{"reason":"BadTopic"}"#))
            #expect(detail["response", "headers", "apns-id"] != nil)
            #expect(detail["headers", "apns-topic"] == .string("com.example.app"))
            #expect(detail["headers", "authorization"] == nil && detail["teamID"] != nil)
            #expect(detail["payloadJSON", "aps", "alert", "title"] == .string("Push 3"))
            #expect(detail["payloadLimit"] == .integer(4096) && detail["hints"] == .array([]))
            #expect(detail["meaning", "source"] != nil && all["pushes", "0", "hintCount"] == nil)
            for missing in ["/v1/pushes/6", "/v1/pushes/0", "/v1/pushes/x", "/v1/pushes/9223372036854775807"] {
                #expect(try await control.get(missing).status == 404, "\(missing)")
            }

            let ledger = try await control.get("/v1/ledger")
            #expect(ledger.headers["content-type"] == ["application/x-ndjson"])
            let lines = ledger.text.split(separator: "\n")
            #expect(lines.count == 5 && lines.allSatisfy { $0.contains(#""payload":"{\"aps\":"#) })
        }
    }

    @Test("Waiting ends when enough pushes match, and says after its time how many there were")
    func waiting() async throws {
        try await ControlClient.with { control in
            async let waiting = control.get("/v1/pushes/wait?count=2&token=\(token(1))&timeoutSeconds=30")
            for number in [1, 2, 1] { try await control.push(number) }
            let arrived = try await waiting
            #expect(arrived.status == 200 && arrived.integers("pushes", "order") == [1, 3])
            let missing = try await control.get("/v1/pushes/wait?count=4&timeoutSeconds=0")
            #expect(missing.status == 408 && missing["received"] == .integer(3))
            #expect(missing["error", "code"] == .string("timed-out"))
            #expect(missing.text.contains("3 of 4 matching pushes arrived within 0 s"))
        }
    }

    @Test("Pushes with hints are counted, and found by a filter, so that a test can fail on them")
    func hints() async throws {
        try await ControlClient.with { control in
            try await control.push(1)
            let silent = PushNotification(
                topic: "com.example.app",
                rawPayload: Array(#"{"aps":{"x":1},"y":null}"#.utf8)
            )
            _ = await control.client.deliver(silent, to: try DeviceToken(token(2)))
            let found = try await control.get("/v1/pushes?hints=true")
            #expect(found.integers("pushes", "order") == [2] && found["pushes", "0", "hintCount"] == .integer(3))
            #expect(try await control.get("/v1/pushes?hints=false").integers("pushes", "order") == [1])
            #expect(try await control.get("/v1/pushes/wait?hints=true").integers("pushes", "order") == [2])
            #expect(control.simulator.received(PushFilter(hasHints: true)).map(\.hints.count) == [3])
        }
    }

    @Test("Clearing the pushes keeps faults, states of tokens and devices")
    func clear() async throws {
        try await ControlClient.with { control in
            try await control.push(1)
            control.simulator.setToken(token(2), .busy)
            control.simulator.inject(Fault(.respond(.badTopic), when: .nth(3)))
            try control.simulator.addDevice("Anna")
            #expect(try await control.call(.DELETE, "/v1/pushes").status == 204)
            #expect(try await control.get("/v1/pushes").integers("pushes", "order") == [])
            let state = try await control.get("/v1/state")
            #expect(state["counts", "received"] == .integer(0) && state["lastOrder"] == .integer(1))
            #expect(state["faults"] == .integer(1) && state["devices"] == .integer(1))
            #expect(control.simulator.tokenStates == [token(2): .busy])
        }
    }

    @Test("A push to a Live Activity is listed with what it changes")
    func activitySummaries() async throws {
        try await ControlClient.with { control in
            let pushes = [
                (#""event":"start","content-state":{"home":0}"#, "start: home 0"),
                (#""event":"update","content-state":{"home":1,"by":"Ann"}"#, "update: home 0 → 1, by Ann"),
                (#""event":"update","content-state":{"home":1,"by":"Ann"}"#, "update: nothing changed"),
                (#""event":"update","content-state":{"home":1},"alert":{"title":"Goal","body":"!"}"#, "Goal – !"),
                (#""event":"end","content-state":{}"#, "end: home removed"), (#""event":"end""#, "end"),
            ]
            for (aps, _) in pushes {
                let push = PushNotification(
                    topic: "com.example.app",
                    pushType: .liveactivity,
                    rawPayload: Array(#"{"aps":{"timestamp":1,\#(aps)}}"#.utf8)
                )
                _ = await control.client.deliver(push, to: try DeviceToken(token(1)))
                // To another activity.
                _ = await control.client.deliver(push, to: try DeviceToken(token(2)))
            }
            let list = try await control.get("/v1/pushes?token=\(token(1))")
            for (index, push) in pushes.enumerated() {
                #expect(list["pushes", "\(index)", "summary"] == .string(push.1))
            }
        }
    }

    @Test("A broadcast is listed with its channel")
    func broadcast() async throws {
        try await ControlClient.with { control in
            control.simulator.addChannel("dHN0", to: "com.example.app")
            let push = PushNotification(
                topic: "com.example.app",
                pushType: .liveactivity,
                rawPayload: Array(#"{"aps":{"event":"update","timestamp":1,"content-state":{}}}"#.utf8)
            )
            let outcome = await control.client.broadcast(push, to: try ChannelID("dHN0"))
            #expect(outcome.certainty == .accepted)
            let list = try await control.get("/v1/pushes?channelID=dHN0")
            #expect(list.integers("pushes", "order") == [1])
            #expect(list["pushes", "0", "deviceToken"] == nil && list["pushes", "0", "summary"] == .string("update"))
            #expect(try await control.get("/v1/pushes/1")["payloadLimit"] == .integer(5120))
        }
    }

    @Test("A payload that is neither UTF-8 nor JSON is shown in Base64")
    func foreignPayload() async throws {
        try await ControlClient.with { control in
            let push = PushNotification(topic: "com.example.app", rawPayload: [0xFF, 0x00])
            _ = await control.client.deliver(push, to: try DeviceToken(token(1)))
            let detail = try await control.get("/v1/pushes/1")
            #expect(detail["payloadBase64"] == .string("/wA=") && detail["payload"] == nil)
            #expect(detail["payloadJSON"] == nil && detail["summary"] == .string("(not JSON)"))
        }
    }

    @Test(
        "A push without a text is listed with what is wrong with its payload",
        arguments: [
            (#"{"aps":{}}"#, PushType.alert, "(empty aps)"), (#"{"aps":null}"#, .background, "(empty aps)"),
            ("{}", .alert, "(no aps)"), ("[]", .alert, "(not a JSON object)"), ("{}", .voip, "voip"),
            (#"{"aps":{"badge":1}"#, .alert, "(not JSON)"), ("{", .voip, "(not JSON)"),
            (#"{"aps":{"badge":1}}"#, .alert, "alert"),
            (#"{"aps":{"content-available":1}}"#, .background, "background"),
        ]
    )
    func summaryWithoutText(payload: String, type: PushType, summary: String) async throws {
        try await ControlClient.with { control in
            let push = PushNotification(topic: "com.example.app", pushType: type, rawPayload: Array(payload.utf8))
            _ = await control.client.deliver(push, to: try DeviceToken(token(1)))
            #expect(try await control.get("/v1/pushes/1")["summary"] == .string(summary))
        }
    }

    // MARK: Tokens, faults, state

    @Test(
        "Each state of a device token has its status and reason",
        arguments: [
            ("unregistered", 410, "Unregistered"), ("expired", 410, "ExpiredToken"),
            ("other-environment", 400, "BadDeviceToken"), ("other-topic", 400, "DeviceTokenNotForTopic"),
            ("busy", 429, "TooManyRequests"),
        ]
    )
    func tokenStates(state: String, status: Int64, reason: String) async throws {
        try await ControlClient.with { control in
            let path = "/v1/tokens/\(token(1).uppercased())"
            let body = #"{"state":"\#(state)","sinceMilliseconds":1700000000123}"#
            let set = try await control.call(.PUT, path, body)
            #expect(set.status == 200 && set["state"] == .string(state) && set["token"] == .string(token(1)))
            let tokens = try await control.get("/v1/tokens")
            #expect(tokens["tokens", "0"] == set.json && tokens["tokens", "1"] == nil)
            #expect(try await control.push(1).certainty != .accepted)
            let push = try await control.get("/v1/pushes?token=\(token(1))")
            #expect(push["pushes", "0", "status"] == .integer(status))
            #expect(push["pushes", "0", "reason"] == .string(reason))
            #expect(try await control.call(.DELETE, path).status == 204)
            #expect(try await control.push(1).certainty == .accepted)
        }
    }

    @Test("Faults are added, listed with their counts, and removed")
    func faults() async throws {
        try await ControlClient.with { control in
            let fault = #"{"when":{"times":3},"effect":{"kind":"respond","reason":"BadTopic"}}"#
            let one = try await control.call(.POST, "/v1/faults", fault)
            #expect(one.status == 201 && one.integers("faults", "id") == [1])
            let list = try await control.call(.POST, "/v1/faults", "[\(fault),\(fault)]")
            #expect(list.integers("faults", "id") == [2, 3])
            #expect(try await control.call(.POST, "/v1/faults", #"{"seed":7,"faults":[\#(fault)]}"#).status == 201)
            try await control.push(1)
            let active = try await control.get("/v1/faults")
            #expect(active.integers("faults", "id") == [1, 2, 3, 4])
            #expect(active.integers("faults", "applied") == [1, 0, 0, 0])
            #expect(active["faults", "0", "when", "times"] == .integer(3))
            #expect(active["faults", "0", "effect", "reason"] == .string("BadTopic"))
            #expect(try await control.call(.DELETE, "/v1/faults/2").status == 204)
            #expect(try await control.call(.DELETE, "/v1/faults/2").status == 404)
            #expect(try await control.call(.DELETE, "/v1/faults").status == 204)
            #expect(try await control.get("/v1/faults").integers("faults", "id").isEmpty)
            #expect(try await control.push(1).certainty == .accepted)
            let many = "[" + Array(repeating: fault, count: 1001).joined(separator: ",") + "]"
            #expect(try await control.call(.POST, "/v1/faults", many).status == 409)
            let wrong = try await control.call(.POST, "/v1/faults", #"[{"effect":{"kind":"respond","status":99}}]"#)
            #expect(wrong.status == 400)
            #expect(wrong.text.contains("[0].effect.status = 99: expected a whole number from 200 to 599"))
        }
    }

    @Test("A timed fault acts on open connections", arguments: ["goaway", "drop"])
    func timedFault(kind: String) async throws {
        try await ControlClient.with { control in
            try await control.push(1)
            // The client opens another connection as soon as it notices.
            let before = control.simulator.record.connectionsOpened
            let fault = #"{"when":{"on":"time"},"effect":{"kind":"\#(kind)"}}"#
            #expect(try await control.call(.POST, "/v1/faults", fault).status == 201)
            try await control.simulator.waitUntil(timeout: Patience.limit) { $0.connectionsClosed == before }
            let record = control.simulator.record
            #expect(kind == "drop" ? record.connectionsDropped == 1 : record.goAwaysSent == 1)
            #expect(try await control.get("/v1/faults")["faults"] == .array([]))
        }
    }

    @Test("The state counts what was received, and a reset clears it")
    func state() async throws {
        try await ControlClient.with(keep: 2) { control in
            control.simulator.inject(Fault(.respond(.badTopic), when: .nth(2)))
            for number in 1...4 { try await control.push(number) }
            let state = try await control.get("/v1/state")
            #expect(state["endpoint"] == .string("https://localhost:\(control.simulator.port)"))
            #expect(state["counts", "received"] == .integer(4) && state["counts", "accepted"] == .integer(3))
            #expect(state["counts", "rejected"] == .integer(1) && state["counts", "noResponse"] == .integer(0))
            #expect(state["responses", "400"] == .integer(1))
            #expect(state["keep"] == .integer(2) && state["kept"] == .integer(2) && state["dropped"] == .integer(2))
            #expect(try await control.get("/v1/pushes").integers("pushes", "order") == [3, 4])
            #expect(try await control.call(.POST, "/v1/reset").status == 204)
            #expect(try await control.get("/v1/state")["counts", "received"] == .integer(0))
        }
    }

    @Test("The settings are read and changed, and a reset restores them")
    func settings() async throws {
        try await ControlClient.with { control in
            let first = try await control.get("/v1/settings")
            #expect(first["offlineStorage"] == .string("latest"))
            #expect(first["limitsProviderTokenUpdates"] == .bool(false))
            for (index, rule) in OfflineStorage.allCases.enumerated() {
                let shown = first["offlineStorageRules", "\(index)"]?.members
                #expect(shown?["name"] == .string(rule.rawValue) && shown?["message"] == .string(rule.message))
                #expect(shown?["source"] == .string(rule.source))
            }
            let body = #"{"offlineStorage":"all","limitsProviderTokenUpdates":true}"#
            let changed = try await control.call(.PATCH, "/v1/settings", body)
            #expect(changed.status == 200 && changed["offlineStorage"] == .string("all"))
            #expect(control.simulator.offlineStorage == .all && control.simulator.limitsProviderTokenUpdates)
            // A missing or null value leaves the setting as it is.
            let same = try await control.call(.PATCH, "/v1/settings", #"{"offlineStorage":null}"#)
            #expect(same.json == changed.json)
            let state = try await control.get("/v1/state")
            #expect(state["settings", "offlineStorage"] == .string("all"))
            #expect(state["settings", "limitsProviderTokenUpdates"] == .bool(true))
            #expect(try await control.call(.POST, "/v1/reset").status == 204)
            #expect(try await control.get("/v1/settings").json == first.json)
        }
    }

    @Test("A simulator without provider tokens cannot limit them, and says why")
    func settingsWithoutTokens() async throws {
        try await ControlClient.with(credential: .none) { control in
            #expect(try await control.get("/v1/settings")["limitsProviderTokenUpdates"] == .null)
            let body = #"{"offlineStorage":"all","limitsProviderTokenUpdates":true}"#
            let refused = try await control.call(.PATCH, "/v1/settings", body)
            #expect(refused.status == 409 && refused["error", "code"] == .string("no-provider-tokens"))
            #expect(refused.text.contains("--without-token"))
            #expect(control.simulator.offlineStorage == .latest, "a refused request changes nothing")
        }
    }

    // MARK: Devices

    @Test("A device gets keys for Web Push, and shows them")
    func webPushKeys() async throws {
        try await ControlClient.with { control in
            let body = #"{"name":"Anna","tokens":[{"token":"\#(token(1))","topic":"com.example.app"}]}"#
            #expect(try await control.call(.POST, "/v1/devices", body).status == 201)
            let keys = #"{"subscription":"s1","privateKey":"k","publicKey":"p","auth":"a"}"#
            let added = try await control.call(.POST, "/v1/devices/d1/web-push-keys", keys)
            #expect(added.status == 201 && added["webPushKeys", "0", "auth"] == .string("a"), "\(added.text)")
            for (path, body, status) in [("d2", keys, 404), ("d1", #"{"subscription":"s1"}"#, 400)] {
                let refused = try await control.call(.POST, "/v1/devices/\(path)/web-push-keys", body)
                #expect(refused.status == status, "\(refused.text)")
            }
        }
    }

    @Test("A device is created, goes offline and online, and shows what it holds")
    func devices() async throws {
        try await ControlClient.with { control in
            let body = #"{"name":"Anna","tokens":[{"token":"\#(token(1))","topic":"com.example.app"}]}"#
            let created = try await control.call(.POST, "/v1/devices", body)
            #expect(created.status == 201 && created["id"] == .string("d1") && created["isOnline"] == .bool(true))
            let taken = try await control.call(.POST, "/v1/devices", body)
            #expect(taken.status == 409 && taken["error", "code"] == .string("token-taken"))
            try await control.push(1, title: "A", collapseID: "x")
            try await control.push(1, title: "B", collapseID: "x")
            let held = try await control.get("/v1/devices/d1")
            #expect(held["apps", "0", "notifications", "0", "title"] == .string("B"))
            #expect(held["apps", "0", "notifications", "0", "replaced"] == .integer(1))
            #expect(held["apps", "0", "notifications", "1"] == nil)
            #expect(try await control.get("/v1/pushes/1")["device"] == .string("d1"))

            #expect(
                try await control.call(.PATCH, "/v1/devices/d1", #"{"isOnline":false}"#)["isOnline"] == .bool(false)
            )
            try await control.push(1, title: "C")
            try await control.push(1, title: "D")
            let offline = try await control.get("/v1/tokens/\(token(1))/device")
            #expect(offline.integers("waiting", "order") == [4] && offline.integers("undelivered", "order") == [3])
            #expect(offline["undelivered", "0", "rule"] == .string("replaced-while-offline"))
            let online = try await control.call(.PATCH, "/v1/devices/d1", #"{"isOnline":true,"name":"Bea"}"#)
            #expect(online["name"] == .string("Bea") && online["waiting"] == .array([]))
            #expect(online["apps", "0", "notifications", "0", "title"] == .string("D"))

            let link = #"{"token":"0A","kind":"activity","topic":"com.example.app"}"#
            #expect(try await control.call(.POST, "/v1/devices/d1/tokens", link).status == 201)
            #expect(try await control.get("/v1/devices")["devices", "0", "tokens", "1", "token"] == .string("0a"))
            #expect(try await control.call(.DELETE, "/v1/devices/d1/tokens/0A").status == 204)
            let subscription = #"{"channelID":"dHN0+/==","topic":"com.example.app"}"#
            #expect(try await control.call(.POST, "/v1/devices/d1/subscriptions", subscription).status == 201)
            let encoded = "/v1/devices/d1/subscriptions?channelID=dHN0%2B%2F%3D%3D"
            #expect(try await control.call(.DELETE, encoded).status == 204)
            #expect(try await control.call(.DELETE, encoded).status == 404)
            #expect(try await control.call(.DELETE, "/v1/devices/d1").status == 204)
            #expect(try await control.get("/v1/devices/d1").status == 404)
        }
    }

    // MARK: Errors and security

    @Test(
        "A wrong request says what to do",
        arguments: [
            (HTTPMethod.GET, "/v1/pushes?limit=0", "", 400, "limit=0: expected a whole number from 1 to 1000"),
            (.GET, "/v1/pushes?limit=many", "", 400, "limit=many: expected a whole number"),
            (.GET, "/v1/pushes?outcome=good", "", 400, "the values are accepted, rejected, no-response"),
            (.GET, "/v1/pushes?apnsID=1", "", 400, "expected a UUID"),
            (.GET, "/v1/pushes?newest=perhaps", "", 400, "expected true or false"),
            (.GET, "/v1/pushes?tokn=1", "", 400, "Unknown query parameter 'tokn'"),
            (.GET, "/v1/pushes?token=%zz", "", 400, "not percent-encoded"),
            (.GET, "/v1/pushes?token=%ff", "", 400, "not UTF-8"),
            (.GET, "/v1/pushes?token=%", "", 400, "not percent-encoded"),
            (.GET, "/v1/pushes/wait?timeoutSeconds=301", "", 400, "from 0 to 300"),
            (.GET, "/v1/state?x=1", "", 400, "There are none here"),
            (.GET, "/v1/nothing", "", 404, "There is nothing at /v1/nothing"),
            (.GET, "/v1", "", 404, "There is nothing"), (.GET, "/v1/", "", 404, "There is nothing"),
            (.GET, "//", "", 404, "There is nothing"), (.GET, "/v1/devices/d1/x/y", "", 404, "There is nothing"),
            (.POST, "/v1/pushes", "", 405, "The methods of this path are GET"),
            (.GET, "/v1/reset", "", 405, "The methods of this path are POST"),
            (.OPTIONS, "/v1/state", "", 405, "The methods of this path are GET"),
            (.POST, "/v1/faults", "no", 400, "The body: this is not JSON"),
            (.POST, "/v1/faults", "{}", 400, "faults: expected a list of faults"),
            (.POST, "/v1/devices", "[]", 400, "expected an object"),
            (.POST, "/v1/devices", #"{"nam":"x"}"#, 400, "nam"),
            (.POST, "/v1/devices", #"{"tokens":[{"token":"0a"}]}"#, 400, "tokens[0].topic: expected a text"),
            (.POST, "/v1/devices", #"{"tokens":[{"token":"0g","topic":"a"}]}"#, 400, "hexadecimal digits"),
            (.PATCH, "/v1/devices/d1", #"{"isOnline":1}"#, 400, "isOnline = 1: expected true or false"),
            (.PATCH, "/v1/devices/d1", #"{"name":"x"}"#, 404, "d1"),
            (.DELETE, "/v1/devices/d1/subscriptions", "", 400, "channelID is missing"),
            (.PUT, "/v1/tokens/xyz", "{}", 400, "'xyz' is not a device token"),
            (.PUT, "/v1/tokens/0a", "{}", 400, "state: expected one of active"),
            (.PUT, "/v1/tokens/0a", #"{"state":"gone"}"#, 400, "the values are active"),
            (.PUT, "/v1/tokens/0a", "", 400, "The body is not JSON"),
            (.PATCH, "/v1/settings", #"{"offlineStorage":"some"}"#, 400, "the values are latest, all, collapse-id"),
            (.PATCH, "/v1/settings", #"{"limitsProviderTokenUpdates":1}"#, 400, "expected true or false"),
            (.PATCH, "/v1/settings", #"{"limit":true}"#, 400, "unknown key"),
            (.GET, "/v1/events?after=-1", "", 400, "after=-1"),
            (.DELETE, "/v1/faults/x", "", 404, "There is no fault x"),
        ]
    )
    func wrongRequests(method: HTTPMethod, uri: String, body: String, status: Int, message: String) async throws {
        try await ControlClient.with { control in
            let response = try await control.call(method, uri, body)
            #expect(response.status == status)
            guard case .string(let text)? = response["error", "message"] else {
                Issue.record("no message: \(response.text)")
                return
            }
            #expect(text.contains(message), "\(text)")
            #expect((status == 405) == !response.headers["allow"].isEmpty)
        }
    }

    @Test(
        "Requests for other names are refused, and requests with an effect need the header",
        arguments: [
            (HTTPMethod.GET, ["host": "evil.example"], 421), (.GET, [:], 421),
            (.GET, ["host": "localhost.evil.example"], 421), (.GET, ["host": "[::1].evil"], 421),
            (.GET, ["host": "LOCALHOST"], 200), (.GET, ["host": "localhost:1"], 200), (.GET, ["host": "[::1]:80"], 200),
            (.DELETE, ["host": "localhost"], 403), (.DELETE, ["host": "localhost", "x-apns-simulator": "1"], 204),
            (.DELETE, ["host": "evil.example", "x-apns-simulator": "1"], 421),
        ]
    )
    func hostsAndHeaders(method: HTTPMethod, headers: [String: String], status: Int) async throws {
        try await ControlClient.with { control in
            let headers = HTTPHeaders(headers.map { ($0.key, $0.value) })
            let response = try await control.call(method, "/v1/faults", headers: headers)
            #expect(response.status == status)
        }
    }

    @Test("With a token, everything but the files of the page needs it")
    func tokenRequired() async throws {
        try await ControlClient.with(token: "0123456789abcdef") { control in
            let expected: [(String, String?, Int)] = [
                ("/v1/state", nil, 401), ("/v1/state", "Bearer 0123456789abcdee", 401),
                ("/v1/state", "Bearer 0123456789abcde", 401), ("/v1/state", "Bearer ", 401),
                ("/openapi.json", nil, 401), ("/v1/state", "bearer 0123456789abcdef", 200), ("/", nil, 200),
            ]
            for (uri, authorization, status) in expected {
                let received = try await self.status(control, uri, authorization)
                #expect(received == status, "\(uri) \(authorization ?? "-")")
            }
        }
    }

    private func status(_ control: ControlClient, _ uri: String, _ authorization: String?) async throws -> Int {
        var headers: HTTPHeaders = ["host": "localhost"]
        if let authorization { headers.add(name: "authorization", value: authorization) }
        return try await control.call(.GET, uri, headers: headers).status
    }

    @Test("The files of the page allow nothing but themselves")
    func page() async throws {
        try await ControlClient.with { control in
            let types = ["css": "text/css", "js": "text/javascript"].mapValues { "\($0); charset=utf-8" }
            for path in ControlPage.files.keys {
                let file = try await control.get(path)
                let type = types[String(path.split(separator: ".").last ?? "")] ?? "text/html; charset=utf-8"
                #expect(file.status == 200 && file.headers["content-type"] == [type] && !file.bytes.isEmpty)
                let policy = try #require(file.headers["content-security-policy"].first)
                #expect(policy.hasPrefix("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'"))
                #expect(!policy.contains("unsafe"))
                #expect(!file.text.contains("innerHTML") && !file.text.contains("insertAdjacentHTML"))
                #expect(!file.text.contains("eval("), "\(path)")
            }
        }
    }

    @Test("The page filters by every push type that Apple documents")
    func pushTypesOfThePage() async throws {
        try await ControlClient.with { control in
            let script = try await control.call(.GET, "/filters.js").text
            let list = script.components(separatedBy: "const TYPES = [").last?.prefix { $0 != "]" } ?? ""
            let types = list.matches(of: /"([a-z]+)"/).map { String($0.output.1) }
            #expect(types.count == PushType.known.count && Set(types) == Set(PushType.known.map(\.rawValue)))
        }
    }

    @Test("The OpenAPI document lists the kinds of effects, and allows a null wherever the API does")
    func describedValues() async throws {
        try await ControlClient.with { control in
            let document = try await control.get("/openapi.json")
            let kind = document["components", "schemas", "Effect", "properties", "kind"]
            guard case .array(let kinds)? = kind?.members?["enum"] else {
                Issue.record("no list of kinds")
                return
            }
            #expect(kinds == FaultEffect.kinds.map { .string($0.name) })
            let script = document["components", "schemas", "Script", "anyOf", "2", "properties", "seed"]
            #expect(script?.members?["type"] == .array([.string("integer"), .string("null")]))
            let fault = #"{"seed":null,"faults":[{"effect":{"kind":"refuse"}}]}"#
            #expect(try await control.call(.POST, "/v1/faults", fault).status == 201)
            let rules = OfflineStorage.allCases.map { JSONValue.string($0.rawValue) }
            let values = document["components", "schemas", "SettingValues", "properties", "offlineStorage", "enum"]
            #expect(values == .array(rules))
            let change = document["components", "schemas", "SettingsChange", "properties", "offlineStorage", "enum"]
            #expect(change == .array(rules + [.null]))
        }
    }

    @Test("The OpenAPI document lists the values of each enumeration")
    func enumerations() async throws {
        try await ControlClient.with { control in
            let document = try await control.get("/openapi.json")
            func values(of list: [String]) -> JSONValue { .array(list.map { .string($0) }) }
            let outcomes = values(of: PushRecord.Outcome.allCases.map(\.rawValue))
            #expect(document["components", "parameters", "outcome", "schema", "enum"] == outcomes)
            #expect(document["components", "schemas", "Push", "properties", "outcome", "enum"] == outcomes)
            let kinds = VirtualDevice.TokenKind.allCases.map { JSONValue.string($0.rawValue) }
            let kind = document["components", "schemas", "DeviceToken", "properties", "kind", "enum"]
            #expect(kind == .array(kinds + [.null]))
            let shown = document[
                "components",
                "schemas",
                "Device",
                "properties",
                "tokens",
                "items",
                "properties",
                "kind"
            ]
            #expect(shown?.members?["enum"] == .array(kinds))
            let states = values(of: ControlAPI.State.allCases.map(\.rawValue))
            for schema in ["TokenState", "NewTokenState"] {
                #expect(document["components", "schemas", schema, "properties", "state", "enum"] == states)
            }
        }
    }

    @Test("The ledger is also available as text, for clients that are generated and know no NDJSON")
    func ledgerAsText() async throws {
        try await ControlClient.with { control in
            for number in 1...2 { try await control.push(number) }
            let lines = try await control.get("/v1/ledger")
            #expect(lines.headers["content-type"] == ["application/x-ndjson"])
            let accepted = [
                "text/plain": "text/plain; charset=utf-8", "TEXT/plain;q=0.9, */*;q=0.1": "text/plain; charset=utf-8",
                "*/*": "application/x-ndjson", "application/json": "application/x-ndjson",
                "application/x-ndjson, text/plain": "application/x-ndjson",
            ]
            for (accept, type) in accepted {
                let headers: HTTPHeaders = ["host": "localhost", "accept": accept]
                let response = try await control.call(.GET, "/v1/ledger", headers: headers)
                #expect(response.headers["content-type"] == [type], "\(accept)")
                #expect(response.bytes == lines.bytes)
            }
            let content = try await control.get("/openapi.json")[
                "paths",
                "/v1/ledger",
                "get",
                "responses",
                "200",
                "content"
            ]
            #expect(content?.members.map { Set($0.keys) } == ["application/x-ndjson", "text/plain"])
        }
    }

    @Test("The OpenAPI document lists each path with its methods")
    func description() async throws {
        try await ControlClient.with { control in
            let document = try await control.get("/openapi.json")
            let paths = try #require(document["paths"]?.members)
            #expect(paths.count == 20)
            for (template, operations) in paths {
                let path = template.replacing("{order}", with: "1").replacing("{token}", with: "0a")
                    .replacing("{id}", with: "1").replacing("{name}", with: "slow")
                let response = try await control.call(.TRACE, path)
                #expect(response.status == 405, "\(template)")
                let allowed = response.headers["allow"].first?.split(separator: ", ").map { $0.lowercased() } ?? []
                #expect(Set(allowed) == Set(try #require(operations.members).keys), "\(template)")
            }
        }
    }
}

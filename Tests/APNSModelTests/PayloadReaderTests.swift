import APNSModel
import TestSupport
import Testing

/// Reads the alert and other parts of a prepared push back.
struct PayloadReaderTests {
    private func alert(_ notification: PushNotification) throws -> Alert? { try notification.prepared().alert }

    @Test func theAlertIsReadBack() throws {
        let alert = Alert(
            title: "Hey \"There\"",
            subtitle: "é 🌕",
            body: "Did you see it?",
            launchImage: "moon.png",
            titleLocKey: "MOON",
            titleLocArgs: ["Ada", "Bob"],
            subtitleLocKey: "SUB",
            subtitleLocArgs: [],
            locKey: "SEEN",
            locArgs: ["1"]
        )
        #expect(try self.alert(PushNotification(topic: "com.example.app", alert: alert)) == alert)
        #expect(try self.alert(PushNotification(topic: "com.example.app", alert: "Hey")) == Alert(body: "Hey"))
        #expect(try self.alert(PushNotification(topic: "com.example.app", pushType: .alert).badge(1)) == nil)
    }

    @Test("The alert of a Live Activity has its localisation inside title and body")
    func theAlertOfALiveActivityIsReadBack() throws {
        let alert = Alert(titleLocKey: "MOON", titleLocArgs: ["Ada"], locKey: "SEEN", locArgs: ["1"])
        let update = PushNotification.liveActivityUpdate(topic: "com.example.app", contentState: ["a": 1]).alert(alert)
        #expect(try self.alert(update) == alert)
        #expect(try self.alert(update.alert(Alert(title: "a", body: "b"))) == Alert(title: "a", body: "b"))
    }

    @Test(arguments: ["{}", "[]", "no JSON", #"{"aps":1}"#, #"{"aps":{"alert":null}}"#, #"{"aps":{"alert":[1]}}"#])
    func aPayloadWithoutAnAlertHasNone(_ json: String) throws {
        let push = try PreparedPush(topic: "com.example.app", pushType: .alert, payload: Array(json.utf8))
        #expect(push.alert == nil)
    }

    @Test func valuesOfOtherTypesAreLeftOut() throws {
        let json =
            #"{"aps":{"alert":{"title":1,"body":"b","loc-args":"x","title-loc-args":["a",1],"title-loc-key":{}}}}"#
        let push = try PreparedPush(topic: "com.example.app", pushType: .alert, payload: Array(json.utf8))
        #expect(push.alert == Alert(body: "b", titleLocArgs: ["a"]))
    }

    @Test func thePayloadIsDecoded() throws {
        struct Payload: Decodable {
            struct APS: Decodable { var badge: Int }
            var aps: APS
            var order: String
        }
        let push = try PushNotification(topic: "com.example.app", alert: "Hey").badge(3).custom(key: "order", "A7")
            .prepared()
        let payload = try push.decodePayload(as: Payload.self)
        #expect(payload.aps.badge == 3 && payload.order == "A7")
        #expect(throws: DecodingError.self) { try push.decodePayload(as: [String: Int].self) }
    }
}

import APNSModel
import Foundation
import Testing

struct LiveActivityTests {
    private struct State: Encodable { var stop = "Elm Street" }

    private let topic = "com.grasscove.Fern"
    private var start: PushNotification {
        .liveActivityStart(
            topic: topic,
            attributesType: "A",
            attributes: State(),
            contentState: State(),
            alert: Alert(title: "T", body: "B")
        )
    }
    private var update: PushNotification { .liveActivityUpdate(topic: topic, contentState: State()) }
    private var end: PushNotification { .liveActivityEnd(topic: topic) }

    private func fault(_ notification: PushNotification) -> (ValidationError.Code, String)? {
        do {
            _ = try notification.prepared()
            return nil
        } catch {
            return (error.code, error.field)
        }
    }

    private func expect(
        _ notification: PushNotification,
        _ code: ValidationError.Code,
        _ field: String,
        location: SourceLocation = #_sourceLocation
    ) {
        let fault = fault(notification)
        #expect(fault?.0 == code, sourceLocation: location)
        #expect(fault?.1 == field, sourceLocation: location)
        // Everything that can be encoded can be sent without validation.
        if code != .customNotAnObject, code != .notEncodable, code != .customKeyDuplicate {
            #expect(throws: Never.self, sourceLocation: location) {
                try notification.prepared(skippingValidation: true)
            }
        }
    }

    @Test func eventsRequireTheirFields() {
        func bare(_ event: LiveActivityEvent) -> PushNotification { .liveActivity(topic: topic, event: event) }
        #expect(fault(start) == nil)
        #expect(fault(update) == nil)
        #expect(fault(end) == nil)
        expect(bare(.start), .contentMissing, "aps.attributes-type")
        expect(bare(.start).attributes(State(), type: "A"), .contentMissing, "aps.alert")
        expect(bare(.start).attributes(State(), type: "A").alert("a"), .contentMissing, "aps.content-state")
        expect(bare(.update), .contentMissing, "aps.content-state")
        expect(PushNotification(topic: topic, pushType: .liveactivity), .contentMissing, "aps.event")
        expect(
            PushNotification(topic: topic, pushType: .liveactivity).contentState(State()),
            .contentMissing,
            "aps.event"
        )
    }

    @Test func eventsRefuseForeignFields() throws {
        let channel = try ChannelID("YQ==")
        expect(update.attributes(State(), type: "A"), .contentNotAllowed, "aps.attributes-type")
        expect(update.inputPushToken(), .contentNotAllowed, "aps.input-push-token")
        expect(end.inputPushChannel(channel), .contentNotAllowed, "aps.input-push-channel")
        expect(update.dismissalDate(.now), .contentNotAllowed, "aps.dismissal-date")
        expect(start.dismissalDate(.now), .contentNotAllowed, "aps.dismissal-date")
        expect(start.inputPushToken().inputPushChannel(channel), .contentContradictory, "aps.input-push-token")
        #expect(fault(start.inputPushToken(false).inputPushChannel(channel)) == nil)
        expect(update.badge(1), .contentNotAllowed, "aps.badge")
        expect(update.category("c"), .contentNotAllowed, "aps.category")
        #expect(fault(update.aps(key: "category", "c")) == nil)
        // No other type may have the keys of Live Activities.
        expect(update.pushType(.alert), .contentNotAllowed, "aps.event")
        expect(PushNotification(topic: topic, alert: "a").staleDate(.now), .contentNotAllowed, "aps.event")
        expect(
            PushNotification.accessory(
                topic: topic,
                encryptedData: "",
                sessionIdentifier: "",
                keyID: "",
                messageIndex: 0
            )
            .pushType(.alert),
            .contentNotAllowed,
            "aps.encryptedData"
        )
        #expect(fault(update.pushType(PushType(rawValue: "hologram"))) == nil)
    }

    @Test func alertsHaveTitleAndBodyOnly() {
        expect(update.alert(Alert(subtitle: "s")), .contentNotAllowed, "aps.alert.subtitle")
        expect(update.alert(Alert(launchImage: "s")), .contentNotAllowed, "aps.alert.launch-image")
        expect(update.alert(Alert(subtitleLocKey: "s")), .contentNotAllowed, "aps.alert.subtitle-loc-key")
        expect(update.alert(Alert(title: "a", titleLocKey: "b")), .contentContradictory, "aps.alert.title")
        expect(update.alert(Alert(body: "a", locKey: "b")), .contentContradictory, "aps.alert.body")
        #expect(fault(update.alert(Alert(title: "a", locKey: "b"))) == nil)
    }

    @Test func statesMustBeObjects() {
        expect(.liveActivityUpdate(topic: topic, contentState: [1]), .customNotAnObject, "aps.content-state")
        expect(.liveActivityUpdate(topic: topic, contentState: "text"), .customNotAnObject, "aps.content-state")
        expect(start.attributes(7, type: "A"), .customNotAnObject, "aps.attributes")
        expect(
            .liveActivityUpdate(topic: topic, contentState: ["x": Double.infinity]),
            .notEncodable,
            "aps.content-state.x"
        )
        expect(update.aps(key: "event", "end"), .customKeyDuplicate, "aps.event")
        expect(update.aps(key: "timestamp", 5), .customKeyDuplicate, "aps.timestamp")
    }

    @Test func timesAreValidated() {
        expect(update.timestamp(secondsSince1970: -1), .timeInvalid, "aps.timestamp")
        expect(update.timestamp(secondsSince1970: 1_700_000_000_000), .timeInvalid, "aps.timestamp")
        expect(update.staleDate(Date(timeIntervalSince1970: .nan)), .timeInvalid, "aps.stale-date")
        expect(update.staleDate(.distantPast), .timeInvalid, "aps.stale-date")
        expect(end.dismissalDate(Date(timeIntervalSince1970: .infinity)), .timeInvalid, "aps.dismissal-date")
        #expect(fault(end.dismissalDate(secondsSince1970: 0)) == nil)
    }

    @Test func timestampsAreFilledIn() throws {
        func timestamp(_ push: PreparedPush) throws -> Int? {
            let object = try JSONSerialization.jsonObject(with: Data(push.payload)) as? [String: Any]
            return (object?["aps"] as? [String: Any])?["timestamp"] as? Int
        }
        #expect(try timestamp(update.prepared(now: Date(timeIntervalSince1970: 12.9))) == 12)
        #expect(try timestamp(update.preparedForBroadcast(timestamp: 78)) == 78)
        let given = update.timestamp(secondsSince1970: 5)
        #expect(try timestamp(given.prepared()) == 5)
        #expect(try timestamp(PushNotification(topic: topic, alert: "a").prepared()) == nil)

        // The default is the time of preparing or encoding.
        let before = Int(Date().timeIntervalSince1970.rounded(.down))
        let coded = try JSONDecoder().decode(PushNotification.self, from: JSONEncoder().encode(update))
        let filled = try [timestamp(update.prepared()), timestamp(coded.prepared())]
        let after = Int(Date().timeIntervalSince1970.rounded(.up))
        for time in filled { #expect((before...after).contains(try #require(time))) }
    }

    /// The clock is read only for notifications that need a timestamp.
    @Test func alertsDoNotReadTheClock() throws {
        var asked = 0
        func now() -> Date {
            asked += 1
            return .now
        }
        _ = try PushNotification(topic: topic, alert: "a").prepared(now: now())
        _ = try update.timestamp(.now).prepared(now: now())
        #expect(asked == 0)
        _ = try update.prepared(now: now())
        #expect(asked == 1)
    }
}

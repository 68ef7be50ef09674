// The examples of the catalog of APNSModel and of Docs/Notifications.md. `make format` copies what stands between `// example` and `// end of
// example` from the page.
// swift-format-ignore-file

import APNSModel
import Foundation

// example Sources/APNSModel/Documentation.docc/APNSModel.md
func moonAlert() -> PushNotification {
    PushNotification(
        topic: "com.grasscove.Fern",
        alert: Alert(title: "Hey There", subtitle: "Full moon sighting", body: "Did you see it?")
    )
    .badge(1)
    .sound("cow.wav")
    .threadID("moon")
    .interruptionLevel(.timeSensitive)
}
// end of example

// example Docs/Notifications.md 1-6
func localisedAlert(name: String) -> PushNotification {
    PushNotification(
        topic: "com.grasscove.Fern",
        alert: Alert(titleLocKey: "MOON", locKey: "SEEN_BY_%@", locArgs: [name])
    )
}

struct Match: Encodable, Sendable {
    var homeTeam: String
    var kickOff: Date

    enum CodingKeys: String, CodingKey {
        case homeTeam = "home_team"
        case kickOff = "kick_off"
    }

    func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: CodingKeys.self)
        try fields.encode(self.homeTeam, forKey: .homeTeam)
        try fields.encode(self.kickOff.formatted(.iso8601), forKey: .kickOff)
    }
}

// {"aps":{"alert":"Soon"},"home_team":"Elm","kick_off":"2026-06-11T19:00:00Z","tags":["cup"]}
func soon(_ match: Match) -> PushNotification {
    PushNotification(topic: "com.grasscove.Fern", alert: "Soon").custom(match).custom(key: "tags", ["cup"])
}

struct Fixture: Encodable, Sendable {
    var homeTeam: String
    var kickOff: Date
}

// {"aps":{"alert":"Soon"},"match":{"home_team":"Elm","kick_off":"2026-06-11T19:00:00Z"}}
func encodedByYou(_ match: Fixture) -> PushNotification {
    let encoder = JSONEncoder()
    encoder.dateEncodingStrategy = .iso8601
    encoder.keyEncodingStrategy = .convertToSnakeCase
    return PushNotification(topic: "com.grasscove.Fern", alert: "Soon").custom(key: "match", match, encoder: encoder)
}

struct OrderState: Codable, Sendable { var stop: String }

func orderMoved(to stop: String) -> PushNotification {
    PushNotification.liveActivityUpdate(topic: "com.grasscove.Fern", contentState: OrderState(stop: stop))
        .staleDate(.now.addingTimeInterval(900))
        .priority(.conserve)
}

func newMail() -> PushNotification {
    PushNotification.background(topic: "com.grasscove.Fern").custom(key: "mailbox", "inbox")
}

func checked(_ notification: PushNotification) -> PreparedPush? {
    do {
        return try notification.prepared()
    } catch {
        // payload: the payload has more bytes than APNs accepts for this push type (5008, at most 4096)
        print(error)
        return nil
    }
}

func badged(_ push: PreparedPush, unread: [Int]) throws -> [PreparedPush] {
    try unread.map { try push.badge($0) }
}

func relayed(_ json: [UInt8]) throws -> PreparedPush {
    try PreparedPush(topic: "com.grasscove.Fern", pushType: .alert, payload: json)
}
// end of example

// example Docs/Notifications.md 9
func enqueued(_ notification: PushNotification) throws -> Data {
    try JSONEncoder().encode(notification)
}

func dequeued(_ message: Data) throws -> PushNotification {
    try JSONDecoder().decode(PushNotification.self, from: message)
}
// end of example

// The examples of the catalog of APNSModel. `make format` copies what stands between `// example` and `// end of
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

// example Sources/APNSModel/Documentation.docc/BuildingNotifications.md
func localisedAlert(name: String) -> PushNotification {
    PushNotification(
        topic: "com.grasscove.Fern",
        alert: Alert(titleLocKey: "MOON", locKey: "SEEN_BY_%@", locArgs: [name])
    )
}

struct Sighting: Codable, Sendable {
    var place: String
    var seen: Date
}

func sighted(_ sighting: Sighting) -> PushNotification {
    moonAlert().custom(sighting).custom(key: "acme2", ["bang", "whiz"])
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

// example Sources/APNSModel/Documentation.docc/TheCodedForm.md
func enqueued(_ notification: PushNotification) throws -> Data {
    try JSONEncoder().encode(notification)
}

func dequeued(_ message: Data) throws -> PushNotification {
    try JSONDecoder().decode(PushNotification.self, from: message)
}
// end of example

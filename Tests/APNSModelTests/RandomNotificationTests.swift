import APNSModel
import Foundation
import TestSupport
import Testing

/// Compares random notifications with the JSON that each key should make, and sends them through their coded form.
struct RandomNotificationTests {
    /// A notification and the expected content of its payload.
    private struct Pair {
        var notification: PushNotification
        var aps: [String: Any] = [:]
        var root: [String: Any] = [:]

        var object: NSDictionary {
            var object = root
            object["aps"] = aps
            return object as NSDictionary
        }

        mutating func change(_ body: (PushNotification) -> PushNotification) {
            notification = body(notification)
        }
    }

    private static func alert(using generator: inout SeededRandom) -> (Alert, [String: Any]) {
        var alert = Alert()
        var json: [String: Any] = [:]
        func text(_ key: String, _ set: (String?) -> Void, _ generator: inout SeededRandom) {
            guard generator.chance(2) else { return }
            let text = Sample.text(using: &generator)
            json[key] = text
            set(text)
        }
        func texts(_ key: String, _ set: ([String]?) -> Void, _ generator: inout SeededRandom) {
            guard generator.chance(3) else { return }
            let texts = (0..<generator.next() % 3).map { _ in Sample.text(using: &generator) }
            json[key] = texts
            set(texts)
        }
        text("title", { alert.title = $0 }, &generator)
        text("subtitle", { alert.subtitle = $0 }, &generator)
        text("body", { alert.body = $0 }, &generator)
        text("launch-image", { alert.launchImage = $0 }, &generator)
        text("title-loc-key", { alert.titleLocKey = $0 }, &generator)
        texts("title-loc-args", { alert.titleLocArgs = $0 }, &generator)
        text("subtitle-loc-key", { alert.subtitleLocKey = $0 }, &generator)
        texts("subtitle-loc-args", { alert.subtitleLocArgs = $0 }, &generator)
        text("loc-key", { alert.locKey = $0 }, &generator)
        texts("loc-args", { alert.locArgs = $0 }, &generator)
        return (alert, json)
    }

    private static func random(using generator: inout SeededRandom) -> Pair {
        var pair = Pair(notification: PushNotification(topic: "com.example.app"))
        let text = Sample.text(using: &generator)
        switch generator.next() % 3 {
        case 0: break
        case 1:
            pair.change { $0.alert(text) }
            pair.aps["alert"] = text
        default:
            let (alert, json) = alert(using: &generator)
            pair.change { $0.alert(alert) }
            pair.aps["alert"] = json
        }
        let number = Int(truncatingIfNeeded: generator.next() >> (1 + generator.next() % 62))
        // Few digits, since JSONSerialization does not read longer numbers exactly.
        let score = Double(generator.next() % 1_025) / 1_024
        let changes: [(inout Pair) -> Void] = [
            {
                $0.change { $0.badge(number) }
                $0.aps["badge"] = number
            },
            {
                $0.change { $0.sound(text) }
                $0.aps["sound"] = text
            },
            {
                $0.change { $0.sound(.critical(name: text, volume: score)) }
                $0.aps["sound"] = ["critical": 1, "name": text, "volume": score] as [String: Any]
            },
            {
                $0.change { $0.threadID(text) }
                $0.aps["thread-id"] = text
            },
            {
                $0.change { $0.category(text) }
                $0.aps["category"] = text
            },
            {
                $0.change { $0.contentAvailable().mutableContent() }
                $0.aps["content-available"] = 1
                $0.aps["mutable-content"] = 1
            },
            {
                $0.change { $0.targetContentID(text).filterCriteria(text) }
                $0.aps["target-content-id"] = text
                $0.aps["filter-criteria"] = text
            },
            {
                $0.change { $0.interruptionLevel(InterruptionLevel(rawValue: text)) }
                $0.aps["interruption-level"] = text
            },
            {
                $0.change { $0.relevanceScore(score) }
                $0.aps["relevance-score"] = score
            },
            {
                $0.change { $0.aps(key: "raw-" + text, [number]) }
                $0.aps["raw-" + text] = [number]
            },
            {
                $0.change { $0.custom(key: "key" + text, ["x": text]) }
                $0.root["key" + text] = ["x": text]
            },
            {
                $0.change { $0.custom(Acme(acme2: [text])) }
                $0.root["acme2"] = [text]
            },
        ]
        // The order of the modifiers must not matter.
        for change in changes.shuffled(using: &generator) where generator.chance(2) {
            change(&pair)
        }
        return pair
    }

    private func object(_ push: PreparedPush) throws -> NSDictionary? {
        try JSONSerialization.jsonObject(with: Data(push.payload)) as? NSDictionary
    }

    @Test func randomNotificationsRoundTrip() async throws {
        let run = PropertyRun(commands: 100, runs: 50)
        for seed in run.seeds {
            await TestScale.letOthersRun()
            var generator = SeededRandom(seed: seed)
            for _ in 0..<run.commandsPerRun {
                let comment: Comment = "\(run.replay(seed))"
                var pair = Self.random(using: &generator)
                let push = try pair.notification.prepared()
                let expected = pair.object
                #expect(try object(push) == expected, comment)

                let coded = try JSONEncoder().encode(pair.notification)
                let again = try JSONDecoder().decode(PushNotification.self, from: coded).prepared()
                #expect(try object(again) == expected, comment)
                let stored = try JSONDecoder().decode(PreparedPush.self, from: JSONEncoder().encode(push))
                #expect(try object(stored) == expected, comment)

                let badge = Int(generator.next() % 100_000)
                pair.aps["badge"] = badge
                let patched = pair.object
                for push in [push, again, stored, try push.badge(7)] {
                    #expect(try object(push.badge(badge)) == patched, comment)
                }
            }
        }
    }

    @Test func randomLiveActivities() async throws {
        let run = PropertyRun(commands: 100, runs: 20)
        for seed in run.seeds {
            await TestScale.letOthersRun()
            var generator = SeededRandom(seed: seed)
            for _ in 0..<run.commandsPerRun {
                let text = Sample.text(using: &generator)
                let time = Int64(generator.next() % 2_000_000_000)
                var aps: [String: Any] = [
                    "event": "update", "timestamp": time, "content-state": ["text": text, "dates": [12.5]],
                ]
                struct State: Encodable {
                    var text: String
                    var dates = [Date(timeIntervalSinceReferenceDate: 12.5)]
                }
                var notification = PushNotification.liveActivityUpdate(
                    topic: "com.example.app",
                    contentState: State(text: text)
                )
                .timestamp(secondsSince1970: time)
                if generator.chance(2) {
                    notification = notification.staleDate(secondsSince1970: time + 1)
                    aps["stale-date"] = time + 1
                }
                if generator.chance(2) {
                    notification = notification.alert(Alert(title: text, locKey: text, locArgs: [text])).sound(text)
                    aps["alert"] =
                        ["title": text, "body": ["loc-key": text, "loc-args": [text]] as [String: Any], "sound": text]
                        as [String: Any]
                } else if generator.chance(2) {
                    notification = notification.sound(text)
                    aps["sound"] = text
                }
                let score = Double(generator.next() % 1_000) / 8
                if generator.chance(2) {
                    notification = notification.relevanceScore(score)
                    aps["relevance-score"] = score
                }
                let expected = ["aps": aps] as NSDictionary
                let comment: Comment = "\(run.replay(seed))"
                #expect(try object(notification.prepared()) == expected, comment)
                #expect(try object(notification.preparedForBroadcast()) == expected, comment)
                let coded = try JSONEncoder().encode(notification)
                #expect(
                    try object(JSONDecoder().decode(PushNotification.self, from: coded).prepared()) == expected,
                    comment
                )
            }
        }
    }
}

import Foundation
import TestSupport
import Testing

@testable import APNSModel

/// The tables of the sources have what Apple's pages have: `Tests/Reference/apns.txt`, which was written down from the pages.
struct AppleListTests {
    private static func items(_ section: String) throws -> Set<String> {
        let file = DocumentedCode.root.appendingPathComponent("Tests/Reference/apns.txt")
        let text = try String(contentsOf: file, encoding: .utf8)
        let part = try #require(text.components(separatedBy: "[\(section)]\n").dropFirst().first)
        return Set(part.prefix { $0 != "[" }.split(whereSeparator: \.isWhitespace).map(String.init))
    }

    @Test("The push types are Apple's") func pushTypes() throws {
        #expect(try Set(PushType.known.map(\.rawValue)) == Self.items("Push types"))
    }

    @Test("The table has every reason that Apple lists, some of them under their second name, and no other one")
    func reasons() throws {
        let listed = try Self.items("Reasons")
        for name in listed { #expect(RejectionReason(rawValue: name).status != nil, "\(name)") }
        #expect(Set(RejectionReason.known.map(\.rawValue)).isSubset(of: listed))
    }

    /// Notifications that together set every key.
    private static func notifications() throws -> [PushNotification] {
        let start = PushNotification.liveActivityStart(
            topic: "com.example.a",
            attributesType: "a",
            attributes: ["a": 1],
            contentState: ["b": 2],
            alert: Alert(title: "a", body: "b")
        )
        return [
            PushNotification(
                topic: "com.example.a",
                alert: Alert(title: "a", subtitle: "b", body: "c", launchImage: "d")
            )
            .badge(1).sound(.critical(name: "a", volume: 1)).threadID("a").category("a").mutableContent()
            .contentAvailable().contentChanged().targetContentID("a").interruptionLevel(.active).relevanceScore(1)
            .filterCriteria("a"),
            PushNotification(
                topic: "com.example.a",
                alert: Alert(
                    titleLocKey: "a",
                    titleLocArgs: ["b"],
                    subtitleLocKey: "c",
                    subtitleLocArgs: ["d"],
                    locKey: "e",
                    locArgs: ["f"]
                )
            ),
            start.staleDate(secondsSince1970: 1).inputPushToken(),
            start.inputPushChannel(try ChannelID("dHN0LXNyY2gtY2hubA==")),
            .liveActivityEnd(topic: "com.example.a").dismissalDate(secondsSince1970: 1),
            .fileProvider(topic: "com.example.a", domain: "a"), .mdm(topic: "com.apple.mgmt.a", pushMagic: "b"),
            .pushToTalkServiceUpdate(topic: "com.example.a"),
            .accessory(topic: "com.example.a", encryptedData: "a", sessionIdentifier: "b", keyID: "c", messageIndex: 1),
        ]
    }

    @Test("The keys that notifications write are Apple's, and errors name no others")
    func writtenKeys() throws {
        var keys: (root: Set<String>, aps: Set<String>, alert: Set<String>, sound: Set<String>) = ([], [], [], [])
        for notification in try Self.notifications() {
            let push = try notification.prepared()
            let root = try #require(JSONValue(json: push.payload)?.members)
            let aps = root["aps"]?.members ?? [:]
            keys.root.formUnion(root.keys)
            keys.aps.formUnion(aps.keys)
            keys.alert.formUnion((aps["alert"]?.members ?? [:]).keys)
            keys.sound.formUnion((aps["sound"]?.members ?? [:]).keys)
        }
        #expect(try keys.root == Self.items("Keys beside aps"))
        #expect(try keys.aps == Self.items("Keys of aps"))
        #expect(try keys.alert == Self.items("Keys of alert"))
        #expect(try keys.sound == Self.items("Keys of sound"))
        let names = (0..<15).map { APSFields(rawValue: 1 << $0).firstName }
        #expect(Set(names).count == 15 && APSFields(rawValue: 1 << 15).firstName == "aps")
        for name in names { #expect(keys.aps.contains(String(name.dropFirst(4))), "\(name)") }
    }
}

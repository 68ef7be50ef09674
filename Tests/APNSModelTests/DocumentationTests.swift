import APNSModel
import Foundation
import TestSupport
import Testing

/// The examples of the catalog and of Docs/Notifications.md are compiled in `DocumentedExamples.swift` and behave as the pages say.
struct DocumentationTests {
    @Test func theExamplesPrepareValidPushes() throws {
        let push = try soon(Match(homeTeam: "Elm", kickOff: .distantPast)).prepared()
        #expect(checked(localisedAlert(name: "Ada")) != nil)
        #expect(try newMail().prepared().priority == .conserve)
        let update = try orderMoved(to: "Oak Street").prepared()
        #expect(update.topic == "com.grasscove.Fern.push-type.liveactivity")
        let badges = try badged(push, unread: [0, 7]).map { push in
            String(decoding: push.payload, as: UTF8.self).contains(#""badge":7"#)
        }
        #expect(badges == [false, true])
        #expect(try relayed(push.payload).payload == push.payload)
    }

    /// The payload of each example equals the one in the comment above it.
    @Test("Custom values are encoded as the page on notifications shows, by the library and by a custom encoder")
    func customValuesAreEncodedAsShown() throws {
        let shown = try DocumentedCode.blocks(in: "Docs/Notifications.md", language: "swift")
            .flatMap { $0.text.components(separatedBy: "\n") }
            .compactMap { $0.hasPrefix("// {") ? String($0.dropFirst(3)) : nil }
        let kickOff = try Date("2026-06-11T19:00:00Z", strategy: .iso8601)
        let pushes = [
            try soon(Match(homeTeam: "Elm", kickOff: kickOff)).prepared(),
            try encodedByYou(Fixture(homeTeam: "Elm", kickOff: kickOff)).prepared(),
        ]
        #expect(shown.count == pushes.count)
        for (text, push) in zip(shown, pushes) {
            #expect(try Self.object(Array(text.utf8)) == Self.object(push.payload))
        }
    }

    private static func object(_ json: [UInt8]) throws -> NSDictionary? {
        try JSONSerialization.jsonObject(with: Data(json)) as? NSDictionary
    }

    @Test func theErrorForATooLargePayloadIsAsShown() throws {
        let wrapping = try PushNotification(topic: "com.grasscove.Fern", alert: "").prepared().payload.count
        let text = String(repeating: "x", count: 5_008 - wrapping)
        let error = try #require(throws: ValidationError.self) {
            try PushNotification(topic: "com.grasscove.Fern", alert: text).prepared()
        }
        let source = try String(
            contentsOf: DocumentedCode.root.appendingPathComponent("Tests/APNSModelTests/DocumentedExamples.swift"),
            encoding: .utf8
        )
        #expect(source.contains("// \(error)\n"), "\(error)")
    }

    @Test func aQueuedNotificationRoundTrips() throws {
        let notification = try dequeued(enqueued(soon(Match(homeTeam: "Elm", kickOff: .distantPast))))
        #expect(notification.topic == "com.grasscove.Fern")
        #expect(throws: ValidationError.self) { try notification.badge(2).prepared() }
    }

    /// JSON with sorted keys, for comparison.
    private static func sorted(_ json: Data) throws -> String {
        let value = try JSONSerialization.jsonObject(with: json)
        return String(
            decoding: try JSONSerialization.data(withJSONObject: value, options: [.sortedKeys]),
            as: UTF8.self
        )
    }

    /// Each form on the page can be decoded and is encoded again as shown.
    @Test func theCodedFormIsAsShown() throws {
        let blocks = try DocumentedCode.blocks(in: "Docs/Notifications.md", language: "json")
        #expect(blocks.count == 4)
        for (index, block) in blocks.enumerated() {
            let data = Data(block.text.utf8)
            let written: Data
            if index == 0 {
                written = try JSONEncoder().encode(JSONDecoder().decode(PushNotification.self, from: data))
            } else {
                written = try JSONEncoder().encode(JSONDecoder().decode(PushOutcome.self, from: data))
            }
            let text = try Self.sorted(written)
            let shown = try Self.sorted(data)
            #expect(text == shown, "\(block)")
        }
        let outcome = try JSONDecoder().decode(PushOutcome.self, from: Data(blocks[2].text.utf8))
        #expect(outcome.invalidation?.millisecondsSince1970 == 1_700_000_000_123)
    }

    /// The comments of the reasons repeat the meanings of the table.
    @Test func commentsOfReasonsMatchTheTable() throws {
        let path = "Sources/APNSModel/Outcome/RejectionReason.swift"
        let source = try String(contentsOf: DocumentedCode.root.appendingPathComponent(path), encoding: .utf8)
        let text = source.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
            .joined(separator: "\n").replacingOccurrences(of: "\n/// ", with: " ")
        for reason in RejectionReason.known {
            let status = try #require(reason.status)
            let comment = "\(status): \(try #require(reason.meaning))."
            let lines = text.components(separatedBy: "\n")
            let declaration = #"RejectionReason(rawValue: "\#(reason.rawValue)")"#
            let place = try #require(lines.firstIndex { $0.contains(declaration) })
            #expect(lines[..<place].suffix(3).joined().contains(comment), "\(reason)")
        }
    }
}

import APNSPool
import APNSSimulator
import APNSTesting
import Foundation
import TestSupport
import Testing

// The examples of the README. `make format` copies what stands between `// example` and `// end of
// example` from the page.
// swift-format-ignore-file

// example README.md 1
struct Recipient {
    var token: String
    var registeredAt: Date
}

func announce(to recipients: [Recipient]) async throws {
    let configuration = APNSClientConfiguration(
        authentication: .token(keyFile: "AuthKey_9UC9ZLQ8YW.p8", teamID: "ABBM6U9RM5")
    )
    let notification = PushNotification(
        topic: "com.grasscove.Fern",
        alert: Alert(title: "Hey There", subtitle: "Full moon sighting", body: "Did you see it?")
    ).badge(1).sound("cow.wav")
    try await withAPNSClient(configuration: configuration) { client in
        let summary = try await client.sendAll(notification, to: recipients, token: \.token) { recipient, end in
            if end.shouldRemove(registeredAt: recipient.registeredAt) { print("forget", recipient.token) }
        }
        print(summary)  // 3 pushes: 2 accepted, 1 rejected (1 Unregistered)
    }
}
// end of example

// example README.md 2
@Test func aDeviceThatIsGoneIsFound() async throws {
    try await withSimulatedAPNS { client, simulator in
        simulator.setToken("00fa11ce", .unregistered(sinceMilliseconds: 1_700_000_000_000))
        let notification = PushNotification(topic: "com.grasscove.Fern", alert: "Hey There")
        let outcome = await client.deliver(notification, to: "00fa11ce")
        #expect(outcome.certainty == .rejected)
        #expect(outcome.invalidation != nil)
    }
}
// end of example

struct ReadmeTests {
    /// The key file of the example does not exist. The error names it.
    @Test func theExampleNamesTheMissingKeyFile() async throws {
        let error = await #expect(throws: APNSConfigurationError.self) { try await announce(to: []) }
        #expect(error?.setting == "authentication.keyFile")
        #expect(error?.description.contains("AuthKey_9UC9ZLQ8YW.p8") == true)
    }

    /// The guide's table of outcomes has every certainty.
    @Test func theTableOfOutcomesIsComplete() throws {
        let guide = try String(contentsOf: DocumentedCode.root.appendingPathComponent("Docs/Guide.md"), encoding: .utf8)
        for certainty in Certainty.allCases {
            #expect(guide.contains("\n| `\(certainty.rawValue)` | "))
        }
    }
}

import Foundation
import Testing

// The example of the README, compiled. It stands between the two marks word for word.
// swift-format-ignore-file

// README begins
import APNSPool

func announce(to deviceTokens: [String]) async throws {
    let configuration = APNSClientConfiguration(
        authentication: .token(keyFile: "AuthKey_9UC9ZLQ8YW.p8", teamID: "ABBM6U9RM5")
    )
    let notification = PushNotification(
        topic: "com.grasscove.Fern",
        alert: Alert(title: "Hey There", subtitle: "Full moon sighting", body: "Did you see it?")
    ).badge(1).sound("cow.wav")
    let push = try notification.prepared()
    let control = BulkControl(rate: .perSecond(5_000))  // pause, resume, stop, progress, another rate: from any task
    try await withAPNSClient(configuration: configuration) { client in
        let options = BulkOptions(control: control)
        for await delivery in client.deliveries(of: push, to: deviceTokens, token: { $0 }, options: options) {
            if delivery.outcome.tokenInvalid != nil { print("forget", delivery.element) }
        }
    }
}
// README ends

@Suite struct ReadmeTests {
    private static let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    @Test func theSwiftExampleIsTheOneThatIsCompiledHere() throws {
        let readme = try String(contentsOf: Self.root.appendingPathComponent("README.md"), encoding: .utf8)
        let source = try String(contentsOf: URL(fileURLWithPath: #filePath), encoding: .utf8)
        let blocks = readme.components(separatedBy: "```swift\n").dropFirst().map {
            $0.components(separatedBy: "```")[0]
        }
        let compiled = source.components(separatedBy: "// README begins\n")[1]
            .components(separatedBy: "// README ends")[0]
        #expect(blocks.count == 1)
        #expect(blocks.first == compiled)
    }

    /// The key file of the example does not exist, and the client says so by its name.
    @Test func theExampleNamesTheMissingKeyFile() async throws {
        let error = await #expect(throws: APNSConfigurationError.self) { try await announce(to: []) }
        #expect(error?.setting == "authentication.keyFile")
        #expect(error?.description.contains("AuthKey_9UC9ZLQ8YW.p8") == true)
    }
}

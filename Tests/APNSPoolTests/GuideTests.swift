import APNSPool
import Foundation
import Testing

// The examples of `Docs/Sending.md` and `Docs/Authentication.md`, compiled. They stand there word for word.
// swift-format-ignore-file

struct Row {
    var id: APNSID?
    var deviceToken: DeviceToken
    var language: String
    var unread: Int
}

func campaign(_ push: PreparedPush, to rows: [Row], with client: APNSClient, _ control: BulkControl) async {
    let options = BulkOptions(rate: .perSecond(5_000), control: control)
    for await delivery in client.deliveries(of: push, to: rows, token: \.deviceToken, options: options) {
        if delivery.outcome.tokenInvalid != nil { print("forget", delivery.element.deviceToken) }
    }
    // After stop(), or a crash: go on from here.
    print("done before row", control.progress.completedPrefix)
}

func atNight(_ control: BulkControl) {
    control.rate = .perSecond(500)
    control.pause()  // pulls nothing more; what is in flight goes on
    control.resume()
    control.stop()  // ends the run when what was pulled has its outcome
}

func remind(
    _ rows: [Row],
    of pushes: [String: PreparedPush],
    else english: PreparedPush,
    with client: APNSClient
) async {
    let deliveries = client.deliveries(rows, apnsID: { $0.id }) { row in
        let push = pushes[row.language] ?? english
        return ((try? push.badge(row.unread)) ?? push, row.deviceToken)
    }
    for await delivery in deliveries where delivery.outcome.certainty != .accepted { print(delivery.outcome) }
}

struct DeliveryState: Encodable { var stop: String }

func arrived(at stop: String, token: DeviceToken, with client: APNSClient) async -> PushOutcome {
    let update = PushNotification.liveActivityUpdate(
        topic: "com.grasscove.Fern",
        contentState: DeliveryState(stop: stop)
    )
    return await client.deliver(update.priority(.conserve), to: token)
}

func kickOff(_ client: APNSClient) async throws {
    let channel = try await client.channels.create(for: "com.grasscove.Fern", storage: .mostRecentMessage)
    let score = PushNotification.liveActivityUpdate(
        topic: "com.grasscove.Fern",
        contentState: DeliveryState(stop: "Elm Street")
    )
    print(await client.broadcast(score, to: channel.id))
    try await client.channels.delete(channel.id, for: "com.grasscove.Fern")
}

func behindTheFirewall(_ configuration: inout APNSClientConfiguration, password: String) {
    configuration.proxy = .init(host: "proxy.example.com", port: 3128, username: "fern", password: password)
    configuration.environment = .production(port: 2197)
}

func rotate(_ client: APNSClient) async throws {
    try await client.replaceAuthentication(.token(keyFile: "AuthKey_7YC9ZLQ8YX.p8", teamID: "ABBM6U9RM5"))
}

func shared() -> APNSAuthentication {
    var authentication = APNSAuthentication.token(keyFile: "AuthKey_9UC9ZLQ8YW.p8", teamID: "ABBM6U9RM5")
    authentication.tokenSource = SharedFileTokenSource(path: "/run/fern/apns-token")
    return authentication
}

func group(of apps: [APNSApp]) throws -> APNSClientGroup {
    let group = try APNSClientGroup(configuration: .init(maxConnections: 50))
    for app in apps { try group.add(app) }
    return group  // run() it; then group.sender(for: "fern").deliver(notification, to: token)
}

@Suite struct GuideTests {
    private static let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    private static let docs = tests.deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Docs")

    @Test(arguments: [("Sending.md", 5), ("Authentication.md", 3)])
    func theExamplesAreThoseThatAreCompiledHere(page: String, count: Int) throws {
        let text = try String(contentsOf: Self.docs.appendingPathComponent(page), encoding: .utf8)
        let source = try String(contentsOf: URL(fileURLWithPath: #filePath), encoding: .utf8)
        let examples = text.components(separatedBy: "```swift\n").dropFirst().map {
            $0.components(separatedBy: "```")[0]
        }
        #expect(examples.count == count)
        for example in examples { #expect(source.contains(example), "\(page): \(example.prefix(60))") }
    }
}

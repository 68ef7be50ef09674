// The examples of the catalog of APNSPool, and of the pages that need a client. `make format` copies what stands between `// example` and `// end of
// example` from the page.
// swift-format-ignore-file

import APNSPool
import APNSSimulator
import APNSTesting
import Foundation
import Logging
import ServiceLifecycle
import Testing
import UnixSignals

// The parts that the examples leave out.

struct Device: Sendable {
    var token: DeviceToken
    var registeredAt: Date
    var unread = 0
}

struct Row {
    var id: APNSID?
    var deviceToken: DeviceToken
    var language: String
    var unread: Int
}

protocol DeviceStore: Sendable {
    func forget(_ device: Device) async
    func queue(_ device: Device, after: Duration) async
}

// MARK: APNSPool.md

// example Sources/APNSPool/Documentation.docc/APNSPool.md
func sendOnePush(to deviceToken: String) async throws {
    let configuration = APNSClientConfiguration(
        authentication: .token(keyFile: "AuthKey_9UC9ZLQ8YW.p8", teamID: "ABBM6U9RM5"),
        environment: .development
    )
    let notification = PushNotification(
        topic: "com.grasscove.Fern",
        alert: Alert(title: "Hey There", body: "Did you see it?")
    ).sound(.default)
    try await withAPNSClient(configuration: configuration) { client in
        let outcome = await client.deliver(notification, to: deviceToken)
        print(outcome.certainty, outcome.advice)
    }
}
// end of example

// MARK: Guide.md

// example Docs/Guide.md
func sendToASimulator() async throws {
    try await withSimulatedAPNS { client, simulator in
        let notification = PushNotification(topic: "com.grasscove.Fern", alert: "Did you see it?")
        let outcome = await client.deliver(notification, to: "00fa11ce")
        print(outcome.certainty, simulator.record.requestsProcessed)  // accepted 1
    }
}

func configurationFromEnvironment(_ variables: [String: String]) throws -> APNSClientConfiguration {
    try APNSClientConfiguration(settings: [.environment(variables)])  // without an argument: those of the process
}

func serve(_ client: APNSClient, and server: any Service, logger: Logger) async throws {
    let group = ServiceGroup(
        services: [client, server],
        gracefulShutdownSignals: [.sigterm, .sigint],
        logger: logger
    )
    try await group.run()
}

final class PushLifecycle: Sendable {
    let client: APNSClient

    init(configuration: APNSClientConfiguration) throws {
        self.client = try APNSClient(configuration: configuration)
    }

    func didBoot() async throws { try await self.client.start() }

    func willShutDown() async { await self.client.shutdown(within: .seconds(20)) }
}

func sendCode(_ code: String, to deviceToken: String, with client: some PushSender) async -> Bool {
    let notification = PushNotification(topic: "com.grasscove.Fern", alert: "Your code is \(code)")
        .interruptionLevel(.timeSensitive)
        .expiration(.immediate)
    let outcome = await client.deliver(notification, to: deviceToken, options: DeliveryOptions(deadline: .seconds(5)))
    switch outcome {
    case .accepted:
        return true
    case .rejected(let error):
        print("refused:", error.reason?.rawValue ?? "", "dead token:", error.invalidation != nil)
        return false
    case .notProcessed(let error), .notSent(let error):
        if error.canResend { print("put it back on the queue, for", error.retryAfter ?? .zero) }
        return false
    case .unknown:
        print("it may have arrived: not sent again")
        return false
    }
}

func settle(_ outcome: PushOutcome, of device: Device, in store: some DeviceStore) async {
    guard let error = outcome.error else { return }
    if let end = error.invalidation, end.shouldRemove(registeredAt: device.registeredAt) {
        // APNs answered 410, and the app has not registered the token since.
        await store.forget(device)
    } else if error.canResend {
        await store.queue(device, after: error.retryAfter ?? .seconds(60))
    } else {
        // Nothing that time mends: `error.advice` says in a word what to look at.
        print(error, error.advice)
    }
}

func sweep(_ client: APNSClient, forget: @Sendable (DeviceToken, Date?) async -> Void) async {
    for await token in client.invalidTokens {
        await forget(token.deviceToken, token.invalidation.since)
    }
}

func announce(
    _ notification: PushNotification,
    to devices: [Device],
    in store: some DeviceStore,
    with client: APNSClient
) async throws {
    let summary = try await client.sendAll(notification, to: devices, token: \.token) { device, end in
        if end.shouldRemove(registeredAt: device.registeredAt) { await store.forget(device) }
    }
    print(summary)
}

func report(_ notification: PushNotification, to devices: [Device], with client: APNSClient) async {
    var summary = BulkSummary()
    let deliveries = client.deliveries(of: notification, to: devices, token: \.token)
    for await delivery in deliveries {
        summary.count(delivery.outcome)
        if let error = delivery.outcome.error { print(delivery.element.token, error) }
    }
    print(summary)
    let progress = deliveries.control.progress
    if !progress.isFinished { print("sent to the first \(progress.pulled) devices only") }
}

func remind(
    _ rows: [Row],
    of pushes: [String: PreparedPush],
    else english: PreparedPush,
    with client: APNSClient
) async {
    let deliveries = client.deliveries(rows, apnsID: { $0.id }) { row in
        (try (pushes[row.language] ?? english).badge(row.unread), row.deviceToken)
    }
    for await delivery in deliveries where delivery.outcome.certainty != .accepted { print(delivery.outcome) }
}

func nightly(_ push: PreparedPush, to tokens: [DeviceToken], with client: APNSClient) async -> Int {
    let control = BulkControl(rate: .perSecond(5_000))
    let watch = Task {
        while !Task.isCancelled {
            try await Task.sleep(for: .seconds(10))
            print(control.progress.outcomes.total)
        }
    }
    let options = BulkOptions(maxInFlight: 2_000, deadline: .seconds(60), control: control)
    for await _ in client.deliveries(of: push, to: tokens, options: options) {}
    watch.cancel()
    return control.progress.completedPrefix
}
// end of example

// MARK: Notifications.md

// example Docs/Notifications.md 7-8
struct RideAttributes: Codable, Sendable { var order: Int }
struct RideState: Codable, Sendable { var stop: String }

func beginRide(_ order: Int, pushToStartToken: DeviceToken, with client: APNSClient) async -> PushOutcome {
    let start = PushNotification.liveActivityStart(
        topic: "com.grasscove.Fern",
        attributesType: "RideAttributes",
        attributes: RideAttributes(order: order),
        contentState: RideState(stop: "Elm Street"),
        alert: Alert(title: "On its way", body: "Your order has left the shop.")
    )
    return await client.deliver(start.inputPushToken(), to: pushToStartToken)
}

func endRide(at stop: String, token: DeviceToken, with client: APNSClient) async -> PushOutcome {
    let end = PushNotification.liveActivityEnd(topic: "com.grasscove.Fern", contentState: RideState(stop: stop))
        .dismissalDate(.now.addingTimeInterval(600))
    return await client.deliver(end, to: token)
}

func playMatch(_ client: APNSClient) async throws {
    let bundleID = "com.grasscove.Fern"
    let channel = try await client.channels.create(for: bundleID, storage: .mostRecentMessage)
    let score = PushNotification.liveActivityUpdate(topic: bundleID, contentState: RideState(stop: "1:0"))
    let outcome = await client.broadcast(score, to: channel.id)
    print(outcome.certainty)
    try await client.channels.delete(channel.id, for: bundleID)
}
// end of example

// MARK: Authentication.md

// example Docs/Authentication.md
func authentication(from variables: [String: String]) -> APNSAuthentication? {
    guard let key = variables["APNS_KEY"], let keyID = variables["APNS_KEY_ID"],
        let teamID = variables["APNS_TEAM_ID"]
    else { return nil }
    return .token(privateKeyPEM: key, keyID: keyID, teamID: teamID)
}

struct RemoteSigner: APNSTokenSigner {
    let sign: @Sendable ([UInt8]) async throws -> [UInt8]

    func signature(for bytes: [UInt8]) async throws -> [UInt8] { try await self.sign(bytes) }
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
// end of example

// MARK: Operations.md

// example Docs/Operations.md 1-2
func watch(_ client: APNSClient, logger: Logger) async {
    for await health in client.healthChanges {
        logger.notice("push: \(health)", metadata: ["ready": "\(health.isReady)"])
    }
}

func forCampaigns(_ configuration: inout APNSClientConfiguration) {
    configuration.pool.size = 4  // kept open, opened one after another
    configuration.pool.maxOverflow = 4  // opened when pushes wait, closed when they idle
    configuration.pool.maxQueued = 50_000
}

func beforeTheGame(_ client: APNSClient, connections: Int) async throws {
    try await client.prewarm(connections, within: .seconds(60))
}
// end of example

func tune(_ client: APNSClient) throws {
    // example Docs/Operations.md 3
    try client.update { settings in
        settings.pool.size = 8
        settings.timeouts.deadline = .seconds(10)
    }
    // end of example
}

// MARK: ComingFrom.md

// example Docs/ComingFrom.md
struct OrderID: Encodable { var order: Int }

func shipped(order: Int, to deviceToken: String, with client: APNSClient) async throws {
    let notification = PushNotification(
        topic: "com.grasscove.Fern",
        alert: Alert(title: "On its way", body: "Your order has left the shop.")
    )
    .custom(OrderID(order: order))
    .expiration(.immediate)
    do {
        let receipt = try await client.send(notification, to: deviceToken)
        print(receipt.apnsID)
    } catch {
        switch error.certainty {
        case .rejected where error.invalidation != nil: print("forget", deviceToken)
        case .unknown: print("it may have arrived: not sent again")
        default: print(error, "may be sent again:", error.canResend)
        }
    }
}
// end of example

// MARK: Simulator.md

func makeChannels(_ simulator: Simulator) {
    // example Docs/Simulator.md
    simulator.addChannel("dHN0LXNyY2gtY2hubA==", to: "com.grasscove.Fern", storage: .mostRecentMessage)
    print(simulator.channels(of: "com.grasscove.Fern"))  // in the order in which they were made
    simulator.setBroadcastEnabled(false, for: "com.grasscove.Fern")  // and deletes its channels

    #expect(simulator.received(PushFilter(hasHints: true)).flatMap(\.hints) == [])
    // end of example
}

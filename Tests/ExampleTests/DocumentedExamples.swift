// The examples of the catalog of APNSPool. `make format` copies what stands between `// example` and `// end of
// example` from the page.
// swift-format-ignore-file

import APNSPool
import APNSSimulator
import APNSTesting
import Foundation
import Logging
import ServiceLifecycle
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

// MARK: GettingStarted.md

// example Sources/APNSPool/Documentation.docc/GettingStarted.md
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

func sendTwice(_ notification: PushNotification, to token: DeviceToken, with sender: some PushSender) async {
    let outcome = await sender.deliver(notification, to: token, options: DeliveryOptions(deadline: .seconds(5)))
    if let error = outcome.error { print("not accepted:", error) }
    do {
        let receipt = try await sender.send(notification, to: token)
        print("accepted:", receipt.apnsID)
    } catch {
        print("not accepted:", error)
    }
}
// end of example

// MARK: OutcomesAndRetries.md

// example Sources/APNSPool/Documentation.docc/OutcomesAndRetries.md
func log(_ outcome: PushOutcome, logger: Logger) {
    switch outcome {
    case .accepted(let receipt):
        logger.debug("APNs took \(receipt.apnsID)")
    case .rejected(let error):
        logger.warning("APNs refused it: \(error.reason?.rawValue ?? error.message), advice: \(error.advice)")
    case .notProcessed(let error), .notSent(let error):
        logger.notice("no device has it: \(error.message), may be sent again: \(error.canResend)")
    case .unknown(let error):
        logger.notice("a device may have it: \(error.message)")
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

func impatient(_ configuration: inout APNSClientConfiguration) {
    configuration.timeouts.deadline = .seconds(5)
    configuration.retry.maxAttempts = 2
    configuration.retry.retriesInternalServerError = false
}
// end of example

// MARK: Lifecycle.md

// example Sources/APNSPool/Documentation.docc/Lifecycle.md
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
// end of example

// MARK: SendingInBulk.md

// example Sources/APNSPool/Documentation.docc/SendingInBulk.md
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

func count(_ notification: PushNotification, to tokens: [String], with client: APNSClient) async -> Bool {
    let summary = await client.sendAll(notification, to: tokens)
    print(summary)  // 3 pushes: 2 accepted, 1 rejected (1 Unregistered)
    if !summary.isFinished { print("not all were sent") }
    return summary.isFinished && summary.accepted == summary.total
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

func remindEach(_ devices: [Device], with client: APNSClient) async {
    let deliveries = client.deliveries(devices) { device in
        let text = "\(device.unread) unread"
        return (PushNotification(topic: "com.grasscove.Fern", alert: text).badge(device.unread), device.token)
    }
    for await delivery in deliveries where delivery.outcome.error != nil { print(delivery.outcome) }
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

struct Campaign: Service {
    let client: APNSClient
    let announcement: PushNotification
    let tokens: String

    func run() async throws {
        let lines = try String(contentsOfFile: tokens, encoding: .utf8).split(whereSeparator: \.isNewline)
        let control = BulkControl()
        let options = BulkOptions(control: control)
        var left: [Substring] = []
        for await delivery in client.deliveries(of: announcement, to: lines, options: options) {
            switch delivery.outcome.advice {
            case .resend, .wait, .checkEnvironment, .fixCredential: left.append(delivery.element)
            case .removeToken: print("forget", delivery.element)
            default: if let error = delivery.outcome.error { print(delivery.element, error) }
            }
        }
        // The loop also ends early, for example at a shutdown.
        if !control.progress.isFinished { left += lines.dropFirst(control.progress.pulled) }
        try left.joined(separator: "\n").write(toFile: tokens, atomically: true, encoding: .utf8)
    }
}

enum Program {
    static func main() async {
        let logger = Logger(label: "campaign")
        do {
            try await serve(logger)
        } catch {
            // An error thrown by `main` would print a crash report.
            logger.critical("\(error)")
            exit(1)
        }
    }

    static func serve(_ logger: Logger) async throws {
        let client = try APNSClient(configuration: APNSClientConfiguration(settings: [.environment()]))
        let campaign = Campaign(
            client: client,
            announcement: PushNotification(topic: "com.grasscove.Fern", alert: "Full moon tonight"),
            tokens: "tokens.txt"
        )
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: [
                    .init(service: client),
                    .init(service: campaign, successTerminationBehavior: .gracefullyShutdownGroup),
                ],
                gracefulShutdownSignals: [.sigterm, .sigint],
                logger: logger
            )
        )
        try await group.run()
    }
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

func handle(_ command: String, with control: BulkControl) {
    switch command {
    case "slow": control.rate = .perSecond(500)
    case "pause": control.pause()  // pulls nothing more; what is in flight goes on
    case "resume": control.resume()
    case "stop": control.stop()  // ends the run when what was pulled has its outcome
    default: print("unknown command")
    }
}
// end of example

// MARK: LiveActivitiesAndBroadcasts.md

// example Sources/APNSPool/Documentation.docc/LiveActivitiesAndBroadcasts.md
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

// MARK: Authenticating.md

// example Sources/APNSPool/Documentation.docc/Authenticating.md
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
// end of example

// MARK: TuningThePool.md

// example Sources/APNSPool/Documentation.docc/TuningThePool.md
func forCampaigns(_ configuration: inout APNSClientConfiguration) {
    configuration.pool.size = 4  // kept open, opened one after another
    configuration.pool.maxOverflow = 4  // opened when pushes wait, closed when they idle
    configuration.pool.maxQueued = 50_000
}

func beforeTheGame(_ client: APNSClient, connections: Int) async throws {
    try await client.prewarm(connections, within: .seconds(60))
}
// end of example

// MARK: Observing.md

// example Sources/APNSPool/Documentation.docc/Observing.md
func watch(_ client: APNSClient, logger: Logger) async {
    for await health in client.healthChanges {
        logger.notice("push: \(health)", metadata: ["ready": "\(health.isReady)"])
    }
}

func askWhatIsWrong(_ client: APNSClient) async -> String {
    let check = await client.check(topic: "com.grasscove.Fern")
    return check.isOK ? "all is well" : "\(check)\n\n\(await client.status.pool)"
}

func sweep(_ client: APNSClient, forget: @Sendable (DeviceToken, Date?) async -> Void) async {
    for await token in client.invalidTokens {
        await forget(token.deviceToken, token.invalidation.since)
    }
}

func load(of client: APNSClient) async -> Double {
    let pool = await client.status.pool
    return pool.capacity == 0 ? 1 : Double(pool.leased) / Double(pool.capacity)
}
// end of example

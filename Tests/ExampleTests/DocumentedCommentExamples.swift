// The examples of doc comments. `make format` copies what stands between `// example` and `// end of
// example` from the page.
// swift-format-ignore-file

@_spi(Relay) import APNSModel
import APNSPool
import APNSSimulator
import APNSTesting
import Foundation
import Logging
import SupervisedPool
import Testing

#if Configuration
    import Configuration
#endif

// The parts that the examples leave out.

private struct SharedStore: Sendable {
    func read() async throws -> SharedProviderToken? { nil }
    func write(_ token: SharedProviderToken) async throws {}
    func withLock<Value: Sendable>(_ body: () async throws -> Value) async throws -> Value { try await body() }
}

private struct Vault: Sendable {
    func sign(_ bytes: [UInt8], key: String, algorithm: String) async throws -> [UInt8] { bytes }
}

private struct Database: Sendable {
    func delete(_ device: Device) async throws {}
}

private struct Application {
    func notifyEverybody(with client: APNSClient) async {}
}

private let store = SharedStore()
private let vault = Vault()
private let app = Application()
private let database = Database()

private func welcome(_ user: Device, with sender: some PushSender) async throws {
    try await sender.send(PushNotification(topic: "com.grasscove.Fern", alert: "Welcome"), to: user.token)
}

// MARK: APNSModel

func alertExamples() -> [Alert] {
    // example Sources/APNSModel/Payload/Alert.swift
    let alert = Alert(title: "Hey There", body: "Did you see it?")
    let localised = Alert(titleLocKey: "MOON", locKey: "SEEN_BY_%@", locArgs: ["Ada"])
    // end of example
    return [alert, localised]
}

func deviceTokenExample() throws {
    // example Sources/APNSModel/DeviceToken.swift
    let token = try DeviceToken("00FA11CE")  // throws a ValidationError for text that is not hexadecimal
    print(token.hexadecimal)  // 00fa11ce
    // end of example
    #expect(token.hexadecimal == "00fa11ce")
}

func notificationExample() -> PushNotification {
    // example Sources/APNSModel/Payload/PushNotification.swift
    let notification = PushNotification(topic: "com.grasscove.Fern", alert: Alert(title: "Hey There"))
        .badge(1)
        .sound("cow.wav")
        .custom(key: "acme2", ["bang", "whiz"])
    // end of example
    return notification
}

func liveActivityExamples() -> [PushNotification] {
    // example Sources/APNSModel/Payload/LiveActivityContent.swift 1
    let start = PushNotification.liveActivityStart(
        topic: "com.grasscove.Fern",
        attributesType: "RideAttributes",
        attributes: RideAttributes(order: 7),
        contentState: RideState(stop: "Elm Street"),
        alert: Alert(title: "On its way", body: "Your order has left the shop.")
    ).inputPushToken()
    // end of example
    func moved() -> PushNotification {
        // example Sources/APNSModel/Payload/LiveActivityContent.swift 2
        let state = RideState(stop: "Oak Street")
        let update = PushNotification.liveActivityUpdate(topic: "com.grasscove.Fern", contentState: state)
            .staleDate(.now.addingTimeInterval(900))
            .priority(.conserve)
        // end of example
        return update
    }
    // example Sources/APNSModel/Payload/LiveActivityContent.swift 3
    let state = RideState(stop: "Arrived")
    let end = PushNotification.liveActivityEnd(topic: "com.grasscove.Fern", contentState: state)
        .dismissalDate(.now.addingTimeInterval(600))
    // end of example
    return [start, moved(), end]
}

func certaintyExample(_ outcomes: [PushOutcome]) -> [PushOutcome] {
    // example Sources/APNSModel/Outcome/Certainty.swift
    let mayHaveArrived = outcomes.filter { $0.certainty >= .unknown }
    // end of example
    return mayHaveArrived
}

func rejectionExamples(_ outcome: PushOutcome, of device: Device) {
    // example Sources/APNSModel/Outcome/Rejection.swift 1
    if let rejection = outcome.error?.rejection {
        print(rejection.status, rejection.meaning)  // 410 the device token is no longer active for the topic
    }
    // end of example
    // example Sources/APNSModel/Outcome/Rejection.swift 2
    if let end = outcome.invalidation, end.shouldRemove(registeredAt: device.registeredAt) {
        print("forget", device.token)
    }
    // end of example
}

/// Sends three pushes.
func sendExamples(_ client: some PushSender, _ notification: PushNotification, to deviceToken: String) async {
    // example Sources/APNSModel/Outcome/PushOutcome.swift
    switch await client.deliver(notification, to: deviceToken) {
    case .accepted(let receipt): print("accepted", receipt.apnsID)
    case .rejected(let error): print("rejected", error.reason?.rawValue ?? "")
    case .notProcessed(let error), .notSent(let error): print("not arrived, may be sent again:", error.canResend)
    case .unknown: print("may have arrived")
    }
    // end of example
    // example Sources/APNSModel/Outcome/PushError.swift
    do {
        print(try await client.send(notification, to: deviceToken).apnsID)
    } catch {
        if error.invalidation != nil { print("the device token is dead") }
        if error.canResend { print("send it again in", error.retryAfter ?? .seconds(60)) }
    }
    // end of example
    // example Sources/APNSModel/Sending/PushSender.swift 1
    let options = DeliveryOptions(deadline: .seconds(5), apnsID: .random())
    let outcome = await client.deliver(notification, to: deviceToken, options: options)
    // end of example
    if outcome.error != nil {
        // example Sources/APNSModel/Sending/PushSender.swift 2
        let outcome = await client.deliver(notification, to: deviceToken)
        // end of example
        print(outcome)
    }
}

/// Sends a push to each device in ten ways.
func bulkExamples(_ client: APNSClient, _ notification: PushNotification, to devices: [Device]) async throws {
    let deviceTokens = devices.map(\.token)
    // example Sources/APNSModel/Bulk/PushSender+Bulk.swift 1
    for await delivery in client.deliveries(of: notification, to: devices, token: \.token) {
        print(delivery.element.token, delivery.outcome.certainty)
    }
    // end of example
    // example Sources/APNSModel/Bulk/PushSender+Bulk.swift 2
    for await delivery in client.deliveries(of: notification, to: deviceTokens) {
        print(delivery.element, delivery.outcome.certainty)
    }
    // end of example
    do {
        // example Sources/APNSModel/Bulk/PushSender+SendAll.swift 1
        let summary = try await client.sendAll(notification, to: devices, token: \.token) { device, end in
            if end.shouldRemove(registeredAt: device.registeredAt) { try await database.delete(device) }
        }
        print(summary)  // 3 pushes: 2 accepted, 1 rejected (1 Unregistered)
        // end of example
    }
    do {
        // example Sources/APNSModel/Bulk/PushSender+SendAll.swift 2
        let summary = await client.sendAll(notification, to: deviceTokens)
        if !summary.isFinished { print("not all were sent:", summary) }
        // end of example
    }
    // example Sources/APNSModel/Bulk/BulkControl.swift 2
    let deliveries = client.deliveries(of: notification, to: deviceTokens)
    for await delivery in deliveries { print(delivery.outcome.certainty) }
    if !deliveries.control.progress.isFinished { print("not all were sent") }
    // end of example
    func finishedSummary() async {
        // example Sources/APNSModel/Bulk/BulkSummary.swift 1
        let summary = await client.sendAll(notification, to: deviceTokens)
        if !summary.isFinished { print("not all were sent:", summary.stopped?.message ?? "") }
        // end of example
    }
    do {
        // example Sources/APNSModel/Bulk/BulkSummary.swift 2
        var summary = BulkSummary()
        for await delivery in client.deliveries(of: notification, to: deviceTokens) {
            summary.count(delivery.outcome)
        }
        print(summary)  // 3 pushes: 2 accepted, 1 rejected (1 Unregistered)
        // end of example
    }
    await finishedSummary()
    func badges() async throws {
        // example Sources/APNSModel/Bulk/PushSender+Bulk.swift 3
        let push = try PushNotification(topic: "com.grasscove.Fern", alert: "Hey There").prepared()
        for await delivery in client.deliveries(devices, push: { (try push.badge($0.unread), $0.token) }) {
            print(delivery.element.token, delivery.outcome.certainty)
        }
        // end of example
    }
    try await badges()
    do {
        // example Sources/APNSModel/Payload/PayloadReader.swift
        let push = try PushNotification(topic: "com.grasscove.Fern", alert: "Hey There").prepared()
        print(push.alert?.body ?? "")  // Hey There
        // end of example
    }
    // example Sources/APNSModel/Payload/PreparedPush.swift
    let push = try PushNotification(topic: "com.grasscove.Fern", alert: "Hey There").prepared()
    for device in devices {
        _ = await client.deliver(try push.badge(device.unread), to: device.token)
    }
    // end of example
    // example Sources/APNSModel/Bulk/BulkOptions.swift
    let options = BulkOptions(maxInFlight: 500, deadline: .seconds(60), rate: .perSecond(1_000))
    let summary = await client.sendAll(notification, to: deviceTokens, options: options)
    // end of example
    print(summary)
}

func controlExample(_ client: APNSClient, _ notification: PushNotification, to deviceTokens: [DeviceToken]) async {
    // example Sources/APNSModel/Bulk/BulkControl.swift 1
    let control = BulkControl()
    async let summary = client.sendAll(notification, to: deviceTokens, options: BulkOptions(control: control))
    control.rate = .perSecond(500)
    print(control.progress.outcomes.total, "pushes have ended")
    control.stop()
    print(await summary.accepted, "were accepted")
    // end of example
}

func scannerExample(_ buffer: UnsafeBufferPointer<UInt8>, send: (Slice<UnsafeBufferPointer<UInt8>>) -> Void) throws {
    // example Sources/APNSModel/JSON/JSONScanner.swift
    var scanner = JSONScanner(buffer)
    var members: [JSONScanner.Member] = []
    try scanner.object(into: &members)
    for member in members where scanner.text(member.key) == "payload" { send(buffer[member.value.range]) }
    // end of example
}

// MARK: APNSPool

func clientExample(to deviceToken: String) async throws {
    // example Sources/APNSPool/Client/APNSClient.swift 1
    let client = try APNSClient(configuration: APNSClientConfiguration(settings: [.environment()]))
    try await client.start()
    let notification = PushNotification(topic: "com.grasscove.Fern", alert: "Hey There")
    let outcome = await client.deliver(notification, to: deviceToken)
    if let error = outcome.error { print(error) }
    await client.shutdown()
    // end of example
}

func closureExample(
    _ configuration: APNSClientConfiguration,
    _ notification: PushNotification,
    to deviceTokens: [DeviceToken]
) async throws -> Int {
    // example Sources/APNSPool/Client/APNSClient.swift 2
    let accepted = try await withAPNSClient(configuration: configuration) { client in
        await client.sendAll(notification, to: deviceTokens).accepted
    }
    // end of example
    return accepted
}

func configurationExample() throws -> APNSClient {
    // example Sources/APNSPool/Client/APNSClientConfiguration.swift
    var configuration = APNSClientConfiguration(
        authentication: .token(keyFile: "AuthKey_9UC9ZLQ8YW.p8", teamID: "ABBM6U9RM5"),
        environment: .development
    )
    configuration.timeouts.deadline = .seconds(10)
    configuration.pool.maxOverflow = 1
    let client = try APNSClient(configuration: configuration)
    // end of example
    return client
}

func settingsExamples(logger: Logger, password: String) throws -> [APNSClientConfiguration] {
    func fromSources() throws -> APNSClientConfiguration {
        // example Sources/APNSPool/Settings/APNSClientConfiguration+Settings.swift 1
        let configuration = try APNSClientConfiguration(settings: [.environment(), .jsonFile("/etc/fern/push.json")])
        // end of example
        return configuration
    }
    // example Sources/APNSPool/Settings/APNSClientConfiguration+Settings.swift 2
    var configuration = APNSClientConfiguration(authentication: .withoutToken, logger: logger)
    configuration.pool.size = 2  // unless the environment says something else
    try configuration.apply(settings: [.environment()])
    // end of example
    // example Sources/APNSPool/Client/APNSClientConfiguration+Proxy.swift
    configuration.proxy = .init(host: "proxy.example.com", port: 3128, username: "fern", password: password)
    // end of example
    return [try fromSources(), configuration]
}

#if Configuration
    func readerExample() throws -> APNSClientConfiguration {
        // example Sources/APNSPool/Settings/APNSClientConfiguration+ConfigReader.swift
        let reader = ConfigReader(provider: EnvironmentVariablesProvider())
        let configuration = try APNSClientConfiguration(reader)
        // end of example
        return configuration
    }
#endif

func authenticationExamples(key: String) -> [APNSAuthentication] {
    // example Sources/APNSPool/Credentials/APNSAuthentication.swift
    let fromFile = APNSAuthentication.token(keyFile: "AuthKey_9UC9ZLQ8YW.p8", teamID: "ABBM6U9RM5")
    let fromText = APNSAuthentication.token(privateKeyPEM: key, keyID: "9UC9ZLQ8YW", teamID: "ABBM6U9RM5")
    // end of example
    // example Sources/APNSPool/Credentials/SharedFileTokenSource.swift
    var authentication = APNSAuthentication.token(keyFile: "AuthKey_9UC9ZLQ8YW.p8", teamID: "ABBM6U9RM5")
    authentication.tokenSource = SharedFileTokenSource(path: "/run/myservice/apns-token")
    // end of example
    return [fromFile, fromText, authentication]
}

// In a namespace, because a test declares types of the same names.
enum CredentialExamples {
    // example Sources/APNSPool/Credentials/ProviderTokenSource.swift
    struct StoreTokenSource: ProviderTokenSource {
        func token(for request: ProviderTokenRequest) async throws -> SharedProviderToken {
            if let token = try await store.read(), request.accepts(token) { return token }
            return try await store.withLock {
                // Another process may have been faster.
                if let token = try await store.read(), request.accepts(token) { return token }
                let token = try await request.sign()
                try await store.write(token)
                return token
            }
        }
    }
    // end of example

    // example Sources/APNSPool/Credentials/ProviderTokenSigner.swift
    struct VaultSigner: APNSTokenSigner {
        func signature(for bytes: [UInt8]) async throws -> [UInt8] {
            try await vault.sign(bytes, key: "apns", algorithm: "ES256")
        }
    }
    // end of example
}

func runningClientExamples(_ client: APNSClient, logger: Logger) async throws {
    // example Sources/APNSPool/Observability/APNSClient+Health.swift 1
    let statusOfReadiness = await client.health.isReady ? 200 : 503
    // end of example
    print(statusOfReadiness)
    // example Sources/APNSPool/Observability/APNSClientStatus.swift
    print(await client.status.health)
    // end of example
    // example Sources/APNSPool/Client/APNSCheck.swift
    let check = await client.check(topic: "com.example.app")
    if !check.isOK { print(check) }
    // end of example
    // example Sources/APNSPool/Client/APNSClientSettings.swift
    try client.update { settings in
        settings.pool.size = 8
        settings.timeouts.deadline = .seconds(10)
    }
    // end of example
    // example Sources/APNSPool/Credentials/APNSClient+Authentication.swift
    try await client.replaceAuthentication(.token(keyFile: "AuthKey_7YC9ZLQ8YX.p8", teamID: "ABBM6U9RM5"))
    // end of example
    // example Sources/APNSPool/Observability/APNSClient+Health.swift 2
    for await health in client.healthChanges { logger.notice("push: \(health)") }
    // end of example
}

func groupExample(_ fernKey: APNSAuthentication, _ notification: PushNotification, to token: DeviceToken) async throws {
    // example Sources/APNSPool/Group/APNSClientGroup.swift 1
    let group = try APNSClientGroup(configuration: .init(maxConnections: 50))
    try group.add(APNSApp(name: "fern", topic: "com.grasscove.Fern", authentication: fernKey))
    // in a task, or in a ServiceGroup:
    try await group.run()
    // from anywhere:
    let outcome = await group.sender(for: "fern", in: .production).deliver(notification, to: token)
    // end of example
    print(outcome)
    // example Sources/APNSPool/Group/APNSClientGroup.swift 2
    try group.update { $0.timeouts.deadline = .seconds(10) }
    // end of example
}

func channelExample(_ client: APNSClient) async throws {
    // example Sources/APNSPool/Broadcast/APNSChannels.swift
    let channel = try await client.channels.create(for: "com.example.app", storage: .mostRecentMessage)
    let all = try await client.channels.list(for: "com.example.app").ids
    try await client.channels.delete(channel.id, for: "com.example.app")
    // end of example
    print(all)
}

func broadcastExample(_ client: APNSClient, json: [UInt8]) async throws {
    // example Sources/APNSPool/Broadcast/APNSClient+Broadcast.swift
    let score = PushNotification(topic: "com.example.app", pushType: .liveactivity, rawPayload: json)
    let outcome = await client.broadcast(score, to: try ChannelID("dHN0LXNyY2gtY2hubA=="))
    // end of example
    print(outcome)
}

// MARK: APNSSimulator and APNSTesting

func simulatorExamples(token: String) async throws {
    // example Sources/APNSSimulator/Server/Simulator.swift 1
    let simulator = try await Simulator.start()
    // … a client with host "localhost", port `simulator.port`, trust root `simulator.certificateAuthorityPEM`
    simulator.inject(.serviceUnavailable(count: 5))
    await simulator.stop()
    // end of example
    // example Sources/APNSSimulator/Server/Simulator.swift 2
    await simulator.apply(.silence)
    await simulator.apply(.settings(maxConcurrentStreams: 2), to: .number(1))
    // end of example
    func received() -> [PushRecord] {
        // example Sources/APNSSimulator/Server/Simulator+Record.swift 1
        let pushes = simulator.received(PushFilter(topic: "com.example.app", outcome: .accepted))
        // end of example
        return pushes
    }
    // example Sources/APNSSimulator/Server/Simulator+Record.swift 2
    let pushes = try await simulator.waitFor(3, PushFilter(deviceToken: token))
    // end of example
    #expect(pushes == received())
}

func deviceExample(_ simulator: Simulator) throws {
    // example Sources/APNSSimulator/Server/Simulator+Devices.swift
    let token = VirtualDevice.Token(token: "00fa11cf", kind: .app, topic: "com.example.app")
    let id = try simulator.addDevice("Anna", tokens: [token])
    try simulator.updateDevices { devices, now throws(VirtualDeviceError) in
        try devices.setOnline(id, false, now: now)
    }
    // end of example
}

func recorderExample(_ user: Device) async throws {
    // example Sources/APNSTesting/RecordingPushSender.swift
    let sender = RecordingPushSender()
    try await welcome(user, with: sender)  // takes `some PushSender`
    #expect(sender.pushes.map(\.token) == [user.token])
    #expect(sender.pushes.first?.alert?.title == "Welcome")
    // end of example
}

func simulatedExample(dead: String) async throws {
    // example Sources/APNSTesting/withSimulatedAPNS.swift
    try await withSimulatedAPNS { client, simulator in
        simulator.setToken(dead, .unregistered(sinceMilliseconds: 1_700_000_000_000))
        await app.notifyEverybody(with: client)
        #expect(simulator.record.requestsProcessed == 2)
    }
    // end of example
}

// MARK: SupervisedPool

func backoffExample(_ isDone: Bool, _ clock: ContinuousClock) async throws {
    // example Sources/SupervisedPool/Backoff.swift
    var backoff = Backoff(.doubling(), minimum: .seconds(5), maximum: .seconds(60))
    while !isDone { try await clock.sleep(for: backoff.next()) }
    // end of example
}

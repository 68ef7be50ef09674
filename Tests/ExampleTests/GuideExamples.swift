import APNSPool
import APNSSimulator
import APNSTesting
import Foundation
import Testing

// The examples of the pages in `Docs`. `make format` copies what stands between `// example` and `// end of
// example` from the page.
// swift-format-ignore-file

// MARK: Sending.md

// example Docs/Sending.md
struct Match: Encodable, Sendable {
    var homeTeam: String
    var kickOff: Date

    enum CodingKeys: String, CodingKey {
        case homeTeam = "home_team"
        case kickOff = "kick_off"
    }

    func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: CodingKeys.self)
        try fields.encode(self.homeTeam, forKey: .homeTeam)
        try fields.encode(self.kickOff.formatted(.iso8601), forKey: .kickOff)
    }
}

// {"aps":{"alert":"Soon"},"home_team":"Elm","kick_off":"2026-06-11T19:00:00Z","tags":["cup"]}
func soon(_ match: Match) -> PushNotification {
    PushNotification(topic: "com.grasscove.Fern", alert: "Soon").custom(match).custom(key: "tags", ["cup"])
}

struct Fixture: Encodable, Sendable {
    var homeTeam: String
    var kickOff: Date
}

// {"aps":{"alert":"Soon"},"match":{"home_team":"Elm","kick_off":"2026-06-11T19:00:00Z"}}
func encodedByYou(_ match: Fixture) -> PushNotification {
    let encoder = JSONEncoder()
    encoder.dateEncodingStrategy = .iso8601
    encoder.keyEncodingStrategy = .convertToSnakeCase
    return PushNotification(topic: "com.grasscove.Fern", alert: "Soon").custom(key: "match", match, encoder: encoder)
}

func behindTheFirewall(_ configuration: inout APNSClientConfiguration, password: String) {
    configuration.proxy = .init(host: "proxy.example.com", port: 3128, username: "fern", password: password)
    configuration.environment = .production(port: 2197)
}
// end of example

// MARK: Authentication.md

// example Docs/Authentication.md
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

func tryAGroup() async throws -> PushOutcome {
    let simulator = try await Simulator.start()
    let simulated = APNSEnvironment.custom(host: "localhost", port: simulator.port)
    let key = SimulatedKey()
    simulator.addKey(key)
    let app = APNSApp(
        name: "fern",
        topic: "com.grasscove.Fern",
        authentication: .token(privateKeyPEM: key.p8, keyID: key.keyID, teamID: key.teamID),
        environments: [simulated]
    )
    // What the clients of all apps have in common.
    var common = APNSClientConfiguration(authentication: app.authentication, environment: simulated)
    common.trust.caPEM = simulator.certificateAuthorityPEM
    let group = try APNSClientGroup(configuration: .init(client: common))
    try group.add(app)
    async let running: Void = group.run()
    let notification = PushNotification(topic: app.topic, alert: "Hey There")
    let outcome = await group.sender(for: app.name, in: simulated).deliver(notification, to: "00fa11ce")
    group.shutdown()
    try await running
    await simulator.stop()
    return outcome
}
// end of example

// MARK: SendingLittle.md

// example Docs/SendingLittle.md
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
// end of example

// MARK: Migrating.md

// example Docs/Migrating.md
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

// MARK: Tuning.md

func tune(_ client: APNSClient) throws {
    // example Docs/Tuning.md
    try client.update { settings in
        settings.pool.size = 8
        settings.timeouts.deadline = .seconds(10)
    }
    // end of example
}

// MARK: Simulator.md

func makeChannels(_ simulator: Simulator) {
    // example Docs/Simulator.md
    simulator.addChannel("dHN0LXNyY2gtY2hubA==", to: "com.grasscove.Fern", storage: .mostRecentMessage)
    print(simulator.channels(of: "com.grasscove.Fern"))  // in the order in which they were made
    simulator.setBroadcastEnabled(false, for: "com.grasscove.Fern")  // and deletes its channels

    #expect(simulator.received(PushFilter(hasHints: true)).flatMap(\.hints) == [])
    // end of example
}

func expectNoHints(_ simulator: Simulator) {
    // example Docs/Simulator.md
    simulator.addChannel("dHN0LXNyY2gtY2hubA==", to: "com.grasscove.Fern", storage: .mostRecentMessage)
    print(simulator.channels(of: "com.grasscove.Fern"))  // in the order in which they were made
    simulator.setBroadcastEnabled(false, for: "com.grasscove.Fern")  // and deletes its channels

    #expect(simulator.received(PushFilter(hasHints: true)).flatMap(\.hints) == [])
    // end of example
}

// MARK: Lambda.md

// example Docs/Lambda.md 2-3
func configurationForLambda() throws -> APNSClientConfiguration {
    var configuration = try APNSClientConfiguration(settings: [.environment()])
    configuration.pool.size = 1
    configuration.pool.maxOverflow = 0  // more events at once run in other copies of the function
    configuration.timeouts.deadline = .seconds(5)  // less than the function's timeout
    return configuration
}

struct Shipment: Codable, Sendable {
    var deviceToken: String
    var order: Int
    var pushID: APNSID
}

/// Throws if the push did not arrive and may be sent again, so that the event's queue delivers the event again.
func notify(_ shipment: Shipment, with sender: some PushSender) async throws(PushError) {
    let notification = PushNotification(
        topic: "com.grasscove.Fern",
        alert: Alert(title: "On its way", body: "Order \(shipment.order) has left the shop.")
    )
    let options = DeliveryOptions(apnsID: shipment.pushID)
    let outcome = await sender.deliver(notification, to: shipment.deviceToken, options: options)
    if let error = outcome.error, error.canResend { throw error }
}

@Test func anEventIsRepeatedOnlyIfItsPushMayBeSentAgain() async throws {
    let shipment = Shipment(deviceToken: "00fa11ce", order: 17, pushID: .random())
    let busy = RecordingPushSender { _, _ in
        .failed(PushError(code: .queueFull, certainty: .notSent, message: "the queue is full"))
    }
    await #expect(throws: PushError.self) { try await notify(shipment, with: busy) }
    let silent = RecordingPushSender { _, _ in
        .failed(PushError(code: .connectionLost, certainty: .unknown, message: "no response"))
    }
    try await notify(shipment, with: silent)
    #expect(silent.pushes.map(\.options.apnsID) == [shipment.pushID])
}
// end of example

import APNSPool
import APNSSimulator
import APNSTesting
import Foundation
import Logging
import Synchronization
import TestSupport
import Testing

@testable import APNSPoolTestSupport

/// The catalogs' examples are compiled in the files next to this one and behave as the pages say.
struct DocumentationTests {
    private static let push = PushNotification(topic: "com.grasscove.Fern", alert: "Hey There")

    @Test("The examples in doc comments do what the comments say")
    func examplesOfDocCommentsRun() async throws {
        try deviceTokenExample()
        let alerts = alertExamples().map { PushNotification(topic: "com.grasscove.Fern", alert: $0) }
        for notification in alerts + [notificationExample()] + liveActivityExamples() {
            #expect(try notification.prepared().payload.count > 2)
        }
        let gone = PushOutcome.failed(.rejected(Rejection(status: 410, reason: .unregistered), attempts: 1))
        let lost = PushOutcome.failed(PushError(code: .connectionLost, certainty: .unknown, message: "lost"))
        let accepted = PushOutcome.accepted(Receipt(apnsID: .random()))
        #expect(certaintyExample([gone, lost, accepted]) == [lost, accepted])
        try await withPatientSimulator { client, simulator in
            let devices = try (0..<3).map(Self.device)
            await sendExamples(client, Self.push, to: "00fa11ce")
            try deviceExample(simulator)
            #expect(simulator.devices.map(\.isOnline) == [false])
            try await bulkExamples(client, Self.push, to: devices)
            #expect(simulator.record.pushes.map(\.status) == Array(repeating: 200, count: 33))
        }
    }

    private static func device(_ number: Int) throws -> Device {
        Device(token: try DeviceToken("00fa11\(10 + number)"), registeredAt: .distantPast, unread: number)
    }

    /// A program whose `main` throws ends with a crash report of many lines around the message.
    @Test("The programs on the pages print an error of the settings and exit")
    func programsDoNotThrow() throws {
        let files = FileManager.default.enumerator(at: DocumentedCode.root, includingPropertiesForKeys: nil)
        var programs = 0
        while let file = files?.nextObject() as? URL {
            let folder = file.lastPathComponent
            if folder.hasPrefix(".") || ["Tests", "Benchmarks", "Vendor"].contains(folder) { files?.skipDescendants() }
            let isExample = file.pathExtension == "swift" && file.pathComponents.contains("Examples")
            guard file.pathExtension == "md" || isExample else { continue }
            let page = try String(contentsOf: file, encoding: .utf8)
            programs += page.components(separatedBy: "static func main() async {").count - 1
            #expect(!page.contains("static func main() async throws"), "\(file.lastPathComponent)")
        }
        #expect(programs >= 2)
    }

    // MARK: Getting started

    @Test func theFirstPushGoesToASimulator() async throws {
        try await sendToASimulator()
    }

    @Test("The environment makes a configuration") func theEnvironmentMakesAConfiguration() throws {
        #expect(throws: APNSSettingsError.self) { try configurationFromEnvironment([:]) }
        let variables = [
            "APNS_PRIVATE_KEY": KeyTexts.p256, "APNS_KEY_ID": "9UC9ZLQ8YW", "APNS_TEAM_ID": "ABBM6U9RM5",
            "APNS_ENVIRONMENT": "development",
        ]
        #expect(try configurationFromEnvironment(variables).environment == .development)
    }

    @Test func aCodeIsSent() async throws {
        try await withPatientSimulator { client, simulator in
            #expect(await sendCode("2718", to: "00fa11ce", with: client))
            #expect(simulator.record.requestsProcessed == 1)
        }
    }

    // MARK: Outcomes

    private final class Store: DeviceStore {
        private let calls = Mutex<[String]>([])
        var log: [String] { self.calls.withLock { $0 } }
        func forget(_ device: Device) { self.calls.withLock { $0.append("forget") } }
        func queue(_ device: Device, after: Duration) { self.calls.withLock { $0.append("queue \(after)") } }
    }

    @Test func anOutcomeIsSettled() async throws {
        let store = Store()
        let device = try Self.device(0)
        let gone = Rejection(status: 410, reason: .unregistered, timestamp: 1_700_000_000_000)
        await settle(.failed(.rejected(gone, attempts: 1)), of: device, in: store)
        let busy = PushError(code: .queueFull, certainty: .notSent, message: "full", retryAfter: .seconds(2))
        await settle(.failed(busy), of: device, in: store)
        let lost = PushError(code: .connectionLost, certainty: .unknown, message: "lost")
        await settle(.failed(lost), of: device, in: store)
        #expect(store.log == ["forget", "queue 2.0 seconds"])
    }

    // MARK: Life

    @Test func aFrameworkStartsAndStopsTheClient() async throws {
        let configuration = APNSClientConfiguration(
            authentication: .withoutToken,
            environment: .custom(host: "localhost")
        )
        let life = try PushLifecycle(configuration: configuration)
        try await life.didBoot()
        await life.willShutDown()
        #expect(await life.client.health == .stopped)
    }

    // MARK: Bulk

    @Test func bulkCallsReachEveryDevice() async throws {
        try await withPatientSimulator(configure: forCampaigns) { client, simulator in
            try await beforeTheGame(client, connections: 2)
            let devices = try (0..<20).map(Self.device)
            let tokens = devices.map(\.token)
            let push = try Self.push.prepared()
            try await announce(Self.push, to: devices, in: Store(), with: client)
            await report(Self.push, to: devices, with: client)
            let rows = devices.map { Row(deviceToken: $0.token, language: "en", unread: $0.unread) }
            await remind(rows, of: [:], else: push, with: client)
            #expect(await nightly(push, to: tokens, with: client) == 20)
            #expect(simulator.record.requestsProcessed == 80)
        }
    }

    // MARK: Questions to the simulator

    @Test func receivedPushesAreFound() async throws {
        try await withPatientSimulator { client, simulator in
            let token = "00fa11ce"
            let push = PushNotification(topic: "com.example.app", alert: "Hello")
            for _ in 1...3 { _ = await client.deliver(push, to: try DeviceToken(token)) }
            // example Docs/Testing.md 5
            let accepted = simulator.received(PushFilter(topic: "com.example.app", outcome: .accepted))
            let three = try await simulator.waitFor(3, PushFilter(deviceToken: token))
            // end of example
            #expect(accepted == three && three.count == 3)
        }
    }

    // MARK: Live Activities

    @Test func activitiesAndBroadcastsAreAccepted() async throws {
        try await withPatientSimulator { client, simulator in
            let token = try DeviceToken("00fa11ce")
            #expect(await beginRide(7, pushToStartToken: token, with: client).certainty == .accepted)
            #expect(await endRide(at: "Oak Street", token: token, with: client).certainty == .accepted)
            try await playMatch(client)
            #expect(simulator.record.broadcasts.map(\.status) == [200])
            #expect(simulator.channels(of: "com.grasscove.Fern").isEmpty)
        }
    }

    // MARK: Values of your own

    @Test("The limits and errors of custom values match the page on notifications")
    func limitsOfCustomValues() throws {
        struct Broken: Encodable, Sendable {
            struct Failure: Error {}
            func encode(to encoder: any Encoder) throws { throw Failure() }
        }
        let page = try String(
            contentsOf: DocumentedCode.root.appendingPathComponent("Docs/Notifications.md"),
            encoding: .utf8
        )
        let long = String(repeating: "x", count: 5_120)
        let wrong = [
            Self.push.custom(key: "text", long), Self.push.pushType(.voip).custom(key: "text", long),
            Self.push.custom(["no", "object"]), Self.push.custom(["aps": 1]),
            Self.push.custom(["a": 1]).custom(key: "a", 2), Self.push.custom(Broken()),
            PushNotification(topic: "com.grasscove.Fern", rawPayload: Array("{}".utf8)).badge(1),
        ].map { notification in #expect(throws: ValidationError.self) { try notification.prepared() } }
        #expect(
            wrong.map { $0?.code } == [
                .payloadTooLarge, .payloadTooLarge, .customNotAnObject, .customKeyReserved, .customKeyDuplicate,
                .notEncodable, .payloadIsRaw,
            ]
        )
        #expect(wrong.prefix(2).map { $0?.limit } == [4_096, 5_120])
        #expect(page.contains("4,096 bytes of JSON, and 5,120 bytes for `voip`"))
        for error in wrong { #expect(page.contains("`\(error?.code.rawValue ?? "")`")) }
    }

    // MARK: Authentication

    @Test func keysComeFromTheEnvironmentAndChange() async throws {
        let key = SimulatedKey()
        #expect(authentication(from: [:]) == nil)
        let found = try #require(
            authentication(from: ["APNS_KEY": key.p8, "APNS_KEY_ID": key.keyID, "APNS_TEAM_ID": key.teamID])
        )
        let signed = try await RemoteSigner { Array($0.prefix(64)) }.signature(for: Array(repeating: 7, count: 130))
        #expect(signed.count == 64)
        #expect(shared().tokenSource != nil)
        let apps = try group(of: [APNSApp(name: "fern", topic: "com.grasscove.Fern", authentication: found)])
        #expect(apps.status.map(\.app) == ["fern", "fern"])
        try await withPatientSimulator { client, _ in
            // There is no such file, so the client keeps its key.
            await #expect(throws: APNSAuthenticationError.self) { try await rotate(client) }
            #expect(await client.deliver(Self.push, to: "00fa11ce").certainty == .accepted)
        }
    }

    // MARK: Observing

    @Test func aClientReportsHealthLoadAndDeadTokens() async throws {
        try await withPatientSimulator { client, simulator in
            let forgotten = Journal<DeviceToken>()
            async let sweeping: Void = sweep(client) { token, _ in forgotten.write(token) }
            async let watching: Void = watch(
                client,
                logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
            )
            // A dead token is reported only to current listeners, so the pushes repeat until both listen.
            simulator.setToken("00fa11ce", .unregistered(sinceMilliseconds: 1_700_000_000_000))
            while forgotten.entries.isEmpty {
                _ = await client.deliver(Self.push, to: "00fa11ce")
                try await ContinuousClock().sleep(for: .milliseconds(1))
            }
            #expect(await client.check(topic: "com.grasscove.Fern", within: Patience.limit).isOK)
            await client.shutdown()
            _ = await (sweeping, watching)
        }
    }

    // MARK: Deployment

    /// `Docs/Examples/Deploy`: the grace period of a pod is long enough for the client's default drain.
    @Test func theGracePeriodIsLongerThanTheDrain() throws {
        let page = try String(
            contentsOf: DocumentedCode.root.appendingPathComponent("Docs/Examples/Deploy/deployment.yaml"),
            encoding: .utf8
        )
        func number(after key: String) throws -> Int {
            let piece = try #require(page.components(separatedBy: key).dropFirst().first)
            return try #require(Int(piece.drop { !$0.isNumber }.prefix { $0.isNumber }))
        }
        let grace = try number(after: "\n      terminationGracePeriodSeconds: ")
        let preStop = try number(after: "command: [\"sleep\", \"")
        let drain = Int(APNSClientConfiguration.Timeouts().drain.components.seconds)
        #expect(drain == 20)
        #expect(preStop + drain + 1 < grace)
    }
}

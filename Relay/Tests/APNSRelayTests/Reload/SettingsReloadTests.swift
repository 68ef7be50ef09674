@_spi(Relay) import APNSPool
import APNSSimulator
import Crypto
import Foundation
import Logging
import NIOHTTP1
import PushQueue
import PushQueueConformance
import RelayTestSupport
import SQLitePushQueue
import Synchronization
import Testing

@testable import APNSRelay

/// A relay in this process, whose settings a test changes.
private final class RunningRelay: Sendable {
    /// The settings that the relay reads.
    final class Values: Sendable {
        private let values: Mutex<[String: String]>

        init(_ values: [String: String]) {
            self.values = Mutex(values)
        }

        func load() throws(RelaySettingsError) -> LoadedSettings {
            try LoadedSettings([.values(self.values.withLock { $0 })])
        }

        func set(_ changes: [String: String?]) {
            self.values.withLock { values in
                for (key, value) in changes { values[key] = value }
            }
        }
    }

    let simulator: Simulator
    let folder: URL
    private let values: Values
    private let task: Task<Void, any Error>
    let url: String
    private let client = TestHTTPClient()

    /// - Parameter values: settings besides those of the app `fern` and the caller `ops`.
    static func run(
        _ values: (URL, Simulator) throws -> [String: String] = { _, _ in [:] },
        _ body: (RunningRelay) async throws -> Void
    ) async throws {
        let relay = try await RunningRelay(values)
        do {
            try await body(relay)
        } catch {
            try await relay.end()
            throw error
        }
        try await relay.end()
    }

    private init(_ values: (URL, Simulator) throws -> [String: String]) async throws {
        var configuration = Simulator.Configuration()
        configuration.credential = .none
        configuration.environment = .production
        let simulator = try await Simulator.start(configuration)
        let folder = FileManager.default.temporaryDirectory.appending(path: "relay-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let authority = folder.appending(path: "ca.pem")
        try Data(simulator.certificateAuthorityPEM.utf8).write(to: authority)
        let more = try values(folder, simulator)
        let settings = [
            "apps": "fern", "app.fern.topic": "com.grasscove.Fern", "app.fern.environments": "production",
            "server.production": "localhost:\(simulator.port)", "client.caFile": authority.path, "http.port": "0",
            "callers": "ops", "caller.ops.token": Self.token, "caller.ops.roles": "send, readAll, operate",
            "dispatch.shutdownTimeout": "2s",
        ].merging(more) { $1 }
        let (source, logger) = (Values(settings), Logger(label: "relay") { _ in SwiftLogNoOpLogHandler() })
        let loaded = try source.load()
        let file = folder.appending(path: "queue.sqlite").path
        let relay = try Relay(
            settings: loaded.settings,
            reading: (loaded, { () throws(RelaySettingsError) in try source.load() }),
            queue: try await SQLitePushQueue.open(file: file, logger: logger),
            prometheus: PrometheusMetrics(),
            logger: logger
        )
        let (ports, continuation) = AsyncStream.makeStream(of: Int.self)
        self.task = Task {
            defer { continuation.finish() }
            try await relay.run { continuation.yield($0) }
        }
        let port = try #require(await ports.first { _ in true })
        self.url = "\(loaded.settings.http.hasTLS ? "https" : "http")://127.0.0.1:\(port)"
        self.simulator = simulator
        self.folder = folder
        self.values = source
    }

    static let token = "ops-token-1234567"

    private func end() async throws {
        self.task.cancel()
        _ = await self.task.result
        await self.simulator.stop()
        try FileManager.default.removeItem(at: self.folder)
    }

    func send(_ method: HTTPMethod, _ path: String, _ body: String? = nil, token: String = token) async throws
        -> TestHTTPClient.Response
    {
        try await self.client.send(
            method,
            self.url + path,
            headers: ["authorization": "Bearer \(token)", "content-type": "application/json", "if-match": "*"],
            body: body.map { Array($0.utf8) }
        )
    }

    /// Changes settings and lets the relay read them again.
    func reload(_ changes: [String: String?]) async throws -> TestHTTPClient.Response {
        self.values.set(changes)
        return try await self.send(.POST, "/v1/reload")
    }

    /// Submits a push. Returns the status of the response, and the id.
    func push(to app: String, token: String = token) async throws -> (status: Int, id: String) {
        let push = #"{"app":"\#(app)","token":"00ff","headers":{"apns-push-type":"alert"},"payload":{"aps":{}}}"#
        let response = try await self.send(.POST, "/v1/pushes", push, token: token)
        struct Receipt: Decodable {
            struct Push: Decodable { var id: String }
            var pushes: [Push]
        }
        let receipt = try? JSONDecoder().decode(Receipt.self, from: Data(response.text.utf8))
        return (response.status, receipt?.pushes.first?.id ?? "")
    }

    /// Waits until the status of a push contains a text.
    func wait(for text: String, of id: String) async throws {
        try await Patience.wait(for: "the push is \(text)") {
            try await self.send(.GET, "/v1/pushes/\(id)").text.contains(text)
        }
    }

    /// Pauses these apps and no others.
    func pause(_ apps: [String]) async throws {
        let names = apps.map { "\"\($0)\"" }.joined(separator: ",")
        let response = try await self.send(.PUT, "/v1/settings", #"{"pausedApps":[\#(names)]}"#)
        #expect(response.status == 200, "\(response)")
    }
}

/// Relays whose settings change while they run.
@Suite("Reload", .timeLimit(.minutes(5))) struct SettingsReloadTests {
    private static let moss = [
        "apps": "fern, moss", "app.moss.topic": "com.grasscove.Moss", "app.moss.environments": "production",
    ]

    private static func names(_ added: String = "", removed: String = "", changed: String = "") -> String {
        func list(_ name: String) -> String { name.isEmpty ? "[]" : "[\"\(name)\"]" }
        return #"{"added":\#(list(added)),"changed":\#(list(changed)),"removed":\#(list(removed))}"#
    }

    private static func changes(
        apps: String = names(),
        callers: String = names(),
        webhooks: String = names(),
        certificates: Bool = false
    ) -> String {
        #"{"apps":\#(apps),"callers":\#(callers),"certificates":\#(certificates),"webhooks":\#(webhooks)}"#
    }

    @Test("An app is added, changed and removed; its pushes are sent with the present settings")
    func apps() async throws {
        try await RunningRelay.run { relay in
            #expect(try await relay.push(to: "moss").status == 400)
            var response = try await relay.reload(Self.moss)
            #expect(response.status == 200 && response.text == Self.changes(apps: Self.names("moss")), "\(response)")
            let first = try await relay.push(to: "moss")
            try await relay.wait(for: "accepted", of: first.id)
            response = try await relay.reload(["app.moss.topic": "com.grasscove.Other"])
            #expect(response.text == Self.changes(apps: Self.names(changed: "moss")), "\(response)")
            let second = try await relay.push(to: "moss")
            try await relay.wait(for: "accepted", of: second.id)
            let topics = relay.simulator.record.pushes.map(\.topic)
            #expect(topics == ["com.grasscove.Moss", "com.grasscove.Other"])
            response = try await relay.reload(["apps": "fern", "app.moss.topic": nil, "app.moss.environments": nil])
            #expect(response.text == Self.changes(apps: Self.names(removed: "moss")), "\(response)")
            #expect(try await relay.push(to: "moss").status == 400)
            #expect(try await relay.push(to: "fern").status == 202)
        }
    }

    @Test("Pushes of an app that is removed are parked, and are sent when it is there again")
    func parked() async throws {
        try await RunningRelay.run({ _, _ in Self.moss }) { relay in
            // So that the push is still queued when the app is removed.
            try await relay.pause(["moss"])
            let id = try await relay.push(to: "moss").id
            _ = try await relay.reload(["apps": "fern", "app.moss.topic": nil, "app.moss.environments": nil])
            try await relay.pause([])
            try await relay.wait(for: "parked", of: id)
            _ = try await relay.reload(Self.moss)
            try await relay.wait(for: "accepted", of: id)
        }
    }

    @Test("Pushes that were queued with an earlier topic of their app are parked, and hold up no others")
    func otherTopic() async throws {
        try await RunningRelay.run({ _, _ in Self.moss }) { relay in
            // So that the push is still queued when the topic changes.
            try await relay.pause(["moss"])
            let id = try await relay.push(to: "moss").id
            _ = try await relay.reload(["app.moss.topic": "com.grasscove.Other"])
            try await relay.pause([])
            try await relay.wait(for: "the app's topic in the settings is com.grasscove.Other", of: id)
            try await relay.wait(for: "parked", of: id)
            try await relay.wait(for: "accepted", of: try await relay.push(to: "moss").id)
        }
    }

    @Test("A reading that has failed is repeated, so that a file may come later")
    func repetition() async throws {
        try await RunningRelay.run { relay in
            let file = relay.folder.appending(path: "shop.token")
            let response = try await relay.reload(["callers": "ops, shop", "caller.shop.tokenFile": file.path])
            #expect(response.status == 422)
            try Data("shop-token-123456".utf8).write(to: file)
            try await Patience.wait(for: "the file is read") {
                try await relay.push(to: "fern", token: "shop-token-123456").status == 202
            }
        }
    }

    @Test("A caller is added, gets another token, and is removed")
    func callers() async throws {
        try await RunningRelay.run { relay in
            #expect(try await relay.push(to: "fern", token: "shop-token-123456").status == 401)
            var response = try await relay.reload(["callers": "ops, shop", "caller.shop.token": "shop-token-123456"])
            #expect(response.text == Self.changes(callers: Self.names("shop")), "\(response)")
            #expect(try await relay.push(to: "fern", token: "shop-token-123456").status == 202)
            response = try await relay.reload([
                "caller.shop.token": "shop-token-other", "caller.shop.pushesPerSecond": "1",
            ])
            #expect(response.text == Self.changes(callers: Self.names(changed: "shop")), "\(response)")
            #expect(try await relay.push(to: "fern", token: "shop-token-123456").status == 401)
            // The limit applies to ten seconds together.
            var status = 202
            while status == 202 { status = try await relay.push(to: "fern", token: "shop-token-other").status }
            #expect(status == 429)
            response = try await relay.reload([
                "callers": "ops", "caller.shop.token": nil, "caller.shop.pushesPerSecond": nil,
            ])
            #expect(response.text == Self.changes(callers: Self.names(removed: "shop")), "\(response)")
            #expect(try await relay.push(to: "fern", token: "shop-token-other").status == 401)
        }
    }

    @Test("A webhook is added, moved and removed, and loses no outcome")
    func webhooks() async throws {
        try await WebhookReceiver.run { first in
            try await WebhookReceiver.run { second in
                try await RunningRelay.run { try await self.moveWebhook($0, from: first, to: second) }
            }
        }
    }

    private func moveWebhook(_ relay: RunningRelay, from first: WebhookReceiver, to second: WebhookReceiver)
        async throws
    {
        func waitForOutcome(_ id: String, at receiver: WebhookReceiver) async throws {
            try await Patience.wait(for: "the outcome arrives") {
                receiver.deliveries.contains { String(decoding: $0.body, as: UTF8.self).contains(id) }
            }
        }
        let secret = String(decoding: WebhookReceiver.secret, as: UTF8.self)
        let webhook = ["webhooks": "crm", "webhook.crm.secret": secret, "webhook.crm.url": first.url]
        var response = try await relay.reload(webhook)
        #expect(response.text == Self.changes(webhooks: Self.names("crm")), "\(response)")
        try await waitForOutcome(try await relay.push(to: "fern").id, at: first)
        response = try await relay.reload(["webhook.crm.url": second.url])
        #expect(response.text == Self.changes(webhooks: Self.names(changed: "crm")), "\(response)")
        try await waitForOutcome(try await relay.push(to: "fern").id, at: second)
        response = try await relay.reload(webhook.mapValues { _ in nil })
        #expect(response.text == Self.changes(webhooks: Self.names(removed: "crm")), "\(response)")
        // While there is no webhook, its position stays.
        let last = try await relay.push(to: "fern").id
        try await relay.wait(for: "accepted", of: last)
        #expect(try await relay.reload(webhook).status == 200)
        try await waitForOutcome(last, at: first)
    }

    @Test("An error changes nothing, and its message is that of the settings")
    func errors() async throws {
        try await RunningRelay.run { relay in
            let cases: [([String: String?], String)] = [
                (
                    Self.moss.merging(["app.moss.topic": ""]) { $1 },
                    "app.moss.topic: it is missing: set the app's bundle ID"
                ),
                (
                    Self.moss.merging(["http.idleTimeout": "3s"]) { $1 },
                    "http.idleTimeout (values): it cannot change while"
                ),
                (
                    Self.moss.merging(["app.moss.keyFile": "/none.p8", "app.moss.teamID": "ABCDE12345"]) { $1 },
                    "/none.p8"
                ),
            ]
            for (changes, message) in cases {
                let response = try await relay.reload(changes)
                #expect(response.status == 422 && response.text.contains("invalidSettings"), "\(response)")
                #expect(response.text.replacing(#"\/"#, with: "/").contains(message), "\(response)")
                #expect(try await relay.push(to: "moss").status == 400)
                #expect(try await relay.push(to: "fern").status == 202)
                #expect(try await relay.send(.GET, "/metrics").text.contains("\napns_relay_settings_current 0"))
                let undone = try await relay.reload(changes.mapValues { _ in nil }.merging(["apps": "fern"]) { $1 })
                #expect(undone.text == Self.changes(), "\(undone)")
                #expect(try await relay.send(.GET, "/metrics").text.contains("\napns_relay_settings_current 1"))
            }
        }
    }

    @Test("New connections get the new certificate of the listener, and open ones go on")
    func certificate() async throws {
        try await RunningRelay.run({ folder, simulator in
            try Self.write(try simulator.makeClientCertificate(), to: folder)
            return [
                "http.certificateChainFile": folder.appending(path: "certificate.pem").path,
                "http.privateKeyFile": folder.appending(path: "key.pem").path,
            ]
        }) { relay in
            #expect(try await relay.push(to: "fern").status == 202)
            let new = try relay.simulator.makeClientCertificate()
            #expect(try await !Self.has(new, relay))
            try Self.write(new, to: relay.folder)
            let response = try await relay.reload([:])
            #expect(response.text == Self.changes(certificates: true), "\(response)")
            #expect(try await Self.has(new, relay))
            #expect(try await relay.push(to: "fern").status == 202)
        }
    }

    /// Whether a new connection gets a certificate, each of which has a key of its own.
    private static func has(_ certificate: SimulatedCertificate, _ relay: RunningRelay) async throws -> Bool {
        let key = try P256.Signing.PrivateKey(pemRepresentation: certificate.privateKeyPEM).publicKey
        let digest = Data(SHA256.hash(data: key.derRepresentation))
        let client = TestHTTPClient(publicKeyPin: "sha256//\(digest.base64EncodedString())")
        do {
            return try await client.send(.GET, "\(relay.url)/live").status == 200
        } catch let failure as TestHTTPClient.Failure where failure.isOtherKey {
            return false
        }
    }

    private static func write(_ certificate: SimulatedCertificate, to folder: URL) throws {
        try Data(certificate.certificatePEM.utf8).write(to: folder.appending(path: "certificate.pem"))
        try Data(certificate.privateKeyPEM.utf8).write(to: folder.appending(path: "key.pem"))
    }

    @Test("A process reads its settings again when the file changes and at SIGHUP, and survives a broken file")
    func process() async throws {
        var configuration = Simulator.Configuration()
        configuration.credential = .none
        configuration.environment = .production
        let simulator = try await Simulator.start(configuration)
        let relay = try RelayUnderTest(port: simulator.port, certificateAuthority: simulator.certificateAuthorityPEM)
        try await relay.start()
        let push =
            #"{"app":"fern","token":"00ff","headers":{"apns-push-type":"alert"},"payload":{"aps":{}},"environment":"E"}"#
        func status(_ environment: String) async throws -> Int {
            let body = push.replacing("\"E\"", with: "\"\(environment)\"")
            return try await relay.request("POST", "/v1/pushes", body: body, type: "application/json").status
        }
        #expect(try await status("development") == 400)
        try relay.writeSettings(#"{"app":{"fern":{"environments":["production","development"]}}}"#)
        try await Patience.wait(for: "the file is read") { try await status("development") == 202 }
        try relay.writeSettings(#"{"app":{"fern":"#)
        try await Patience.wait(for: "the error is logged") {
            relay.output.contains("The settings cannot be applied")
        }
        #expect(try await status("development") == 202)
        try relay.writeSettings(#"{"app":{"fern":{"environments":["production"]}}}"#)
        relay.hangUp()
        try await Patience.wait(for: "the file is read again") { try await status("development") == 400 }
        #expect(try await status("production") == 202)
        await relay.kill()
        await simulator.stop()
    }
}

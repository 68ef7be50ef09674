import APNSPool
import Configuration
import Foundation
import NATSPushQueue
import PushQueue
import Testing

@testable import APNSRelay

struct RelaySettingsTests {
    private func read(_ values: [String: String]) throws(RelaySettingsError) -> RelaySettings {
        let names = values.map { key, value in
            (AbsoluteConfigKey(ConfigKey(key)), ConfigValue(.string(value), isSecret: false))
        }
        let provider = InMemoryProvider(values: Dictionary(uniqueKeysWithValues: names))
        return try RelaySettings(ConfigReader(provider: provider))
    }

    private func problems(_ values: [String: String]) -> [String] {
        do throws(RelaySettingsError) {
            _ = try self.read(values)
            return []
        } catch {
            return error.problems
        }
    }

    /// Servers other than Apple's need no key.
    private let small = [
        "apps": "fern", "app.fern.topic": "com.grasscove.Fern", "server.production": "localhost:2197",
        "server.development": "localhost:2198",
    ]

    @Test("One app with its topic and credential is enough")
    func smallest() throws {
        let settings = try self.read(self.small)
        #expect(settings.apps.map(\.name) == ["fern"])
        #expect(settings.apps.first?.topic == "com.grasscove.Fern")
        #expect(settings.apps.first?.environments.keys.sorted() == ["development", "production"])
        #expect(settings.apps.first?.defaultEnvironment == "production")
        #expect(settings.http == HTTPSettings())
        #expect(settings.dispatch == DispatchSettings())
        #expect(settings.storage == StorageSettings())
        #expect(settings.fleet.maxConnections == nil)
    }

    @Test("Outcomes are published if that is set, and only with brokers")
    func outcomes() throws {
        let set = try self.read(self.small.merging(["nats.servers": "nats://a:4222", "nats.outcomes": "true"]) { $1 })
        #expect(set.storage.brokers?.publishesOutcomes == true)
        let unset = try self.read(self.small.merging(["nats.servers": "nats://a:4222"]) { $1 })
        #expect(unset.storage.brokers?.publishesOutcomes == false)
        let problems = self.problems(self.small.merging(["nats.outcomes": "true"]) { $1 })
        #expect(problems == ["nats.outcomes: it needs brokers: set nats.servers"])
    }

    @Test("Settings of every group are read")
    func every() throws {
        let more = [
            "app.fern.environments": "development",
            "callers": "shop, crew", "caller.shop.token": "0123456789abcdef", "caller.shop.apps": "fern",
            "caller.shop.pushesPerSecond": "500", "caller.crew.token": "fedcba9876543210",
            "caller.crew.operator": "true",
            "webhooks": "crm", "webhook.crm.url": "https://crm.example.com/push", "webhook.crm.batch": "10",
            "webhook.crm.secret": "0123456789abcdef01234567", "webhook.crm.onlyInvalidTokens": "true",
            "webhook.crm.timeout": "3s", "webhook.crm.giveUpAfter": "2h", "webhook.crm.apps": "fern",
            "http.host": "0.0.0.0", "http.port": "0", "http.maxBodyBytes": "2048", "http.idleTimeout": "5s",
            "dispatch.maxInFlight": "100", "dispatch.attemptDeadline": "10s", "dispatch.settleMargin": "5s",
            "dispatch.defaultDeadline": "1h",
            "storage.file": "/tmp/q.sqlite", "storage.capacity": "5", "retention.payloads": "1d",
            "fleet.maxConnections": "40", "group.maxConnections": "7", "group.isolation": "perApp",
            "client.pool.size": "3", "client.retry.retriesInternalServerError": "false",
        ]
        let settings = try self.read(self.small.merging(more) { $1 })
        #expect(settings.apps.first?.environments == ["development": .custom(host: "localhost", port: 2198)])
        #expect(settings.apps.first?.defaultEnvironment == "development")
        #expect(settings.callers.map(\.name) == ["shop", "crew"])
        #expect(settings.callers.map(\.isOperator) == [false, true])
        #expect(settings.callers.map(\.apps) == [["fern"], nil])
        #expect(settings.callers.first?.pushesPerSecond == 500)
        #expect(settings.callers.first?.tokenDigest == SecretText.digest("0123456789abcdef"))
        let webhook = try #require(settings.webhooks.first)
        #expect(webhook.batch == 10 && webhook.timeout == .seconds(3) && webhook.giveUpAfter == .seconds(7_200))
        #expect(webhook.onlyInvalidTokens && webhook.apps == ["fern"])
        #expect(settings.http.host == "0.0.0.0" && settings.http.port == 0 && settings.http.maxBodyBytes == 2_048)
        #expect(settings.http.idleTimeout == .seconds(5))
        #expect(settings.dispatch.maxInFlight == 100 && settings.dispatch.attemptDeadline == .seconds(10))
        #expect(settings.dispatch.settleMargin == .seconds(5))
        #expect(settings.storage.file == "/tmp/q.sqlite" && settings.storage.capacity == 5)
        #expect(settings.storage.retention.payloads == .seconds(86_400))
        #expect(settings.fleet.maxConnections == 40)
        #expect(settings.group.maxConnections == 7 && settings.group.isolation == .perApp)
        #expect(settings.group.client.pool.size == 3)
        #expect(!settings.group.client.retry.retriesInternalServerError)
    }

    @Test("A JSON file has numbers, booleans and arrays as such")
    func file() async throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("settings-\(UUID().uuidString).json")
        defer { try? FileManager.default.removeItem(at: file) }
        let json = """
            {"apps": ["fern"], "app": {"fern": {"topic": "com.grasscove.Fern"}},
             "server": {"production": "localhost:2197", "development": "localhost:2198"},
             "callers": ["crew", "shop"],
             "caller": {"crew": {"token": "fedcba9876543210", "operator": true},
                        "shop": {"token": "0123456789abcdef", "operator": false, "pushesPerSecond": 50}},
             "nats": {"servers": ["nats://10.0.0.1:4222", "nats://10.0.0.2:4222"], "replicas": 3}}
            """
        try Data(json.utf8).write(to: file)
        let settings = try RelaySettings(try await RelayProcess.reader(file: file.path))
        #expect(settings.callers.map(\.isOperator) == [true, false])
        #expect(settings.callers.last?.pushesPerSecond == 50)
        #expect(settings.storage.brokers?.servers == ["nats://10.0.0.1:4222", "nats://10.0.0.2:4222"])
        #expect(settings.storage.brokers?.replicas == 3)
    }

    @Test("The settings of brokers are read, and wrong ones are named")
    func brokers() throws {
        let values = [
            "nats.servers": "tls://10.0.0.1:4222, tls://10.0.0.2:4222", "nats.stream": "PUSHES", "nats.replicas": "3",
            "nats.maxBytes": "1073741824", "nats.caFile": "/ca.pem", "nats.certificateFile": "/relay.pem",
            "nats.keyFile": "/relay.key", "nats.expectedHost": "broker", "nats.credentialsFile": "/relay.creds",
            "nats.timeout": "45s",
        ]
        let settings = try self.read(self.small.merging(values) { $1 })
        let brokers = try #require(settings.storage.brokers)
        #expect(brokers.servers == ["tls://10.0.0.1:4222", "tls://10.0.0.2:4222"])
        #expect(brokers.stream == "PUSHES" && brokers.replicas == 3 && brokers.maximumBytes == 1_073_741_824)
        #expect(brokers.tls?.caFile == "/ca.pem" && brokers.tls?.keyFile == "/relay.key")
        #expect(brokers.tls?.certificateFile == "/relay.pem" && brokers.tls?.expectedHost == "broker")
        #expect(brokers.credentialsFile == "/relay.creds")
        #expect(settings.storage.brokerTimeout == .seconds(45))
        let encrypted = try self.read(self.small.merging(["nats.servers": "tls://10.0.0.1:4222"]) { $1 })
        #expect(encrypted.storage.brokers?.tls != nil)
        for (key, value) in [
            ("nats.servers", "10.0.0.1:4222"), ("nats.stream", "a.b"), ("nats.replicas", "9"), ("nats.replicas", "2"),
            ("nats.keyFile", "/k"), ("nats.timeout", "0s"), ("retention.payloads", "1d"),
        ] {
            let wrong = ["nats.servers": "nats://10.0.0.1:4222"].merging([key: value]) { $1 }
            let problems = self.problems(self.small.merging(wrong) { $1 })
            let name = key == "nats.keyFile" ? "nats.certificateFile" : key
            #expect(problems.contains { $0.hasPrefix(name + ":") }, "\(key): \(problems)")
        }
    }

    @Test("All errors are reported together, each with its setting")
    func errors() {
        let problems = self.problems([
            "apps": "fern,fern,a b", "app.fern.topic": "com.a", "server.development": "localhost",
            "app.fern.environments": "moon", "callers": "x", "caller.x.token": "short", "caller.x.apps": "elm",
            "webhooks": "w", "webhook.w.url": "ftp://x", "http.port": "70000", "dispatch.maxInFlight": "many",
            "dispatch.attemptDeadline": "1y", "group.isolation": "none", "http.clientAuthoritiesFile": "/x",
            "server.production": "a:b:c", "storage.capacity": "0", "fleet.maxConnections": "0",
            "client.retry.resendsUnknown": "true",
        ])
        // One of them is the missing key of the app.
        let keys = problems.map { String($0.prefix { $0 != ":" }) }
        #expect(
            keys.sorted() == [
                "app.fern", "app.fern.environments", "apps", "apps", "caller.x.apps", "caller.x.token",
                "client.retry.resendsUnknown",
                "dispatch.attemptDeadline",
                "dispatch.maxInFlight", "fleet.maxConnections", "group.isolation", "http.clientAuthoritiesFile",
                "http.port",
                "server.production", "storage.capacity", "webhook.w.url",
            ]
        )
    }

    @Test("Without callers, the relay listens only on a loopback address")
    func loopback() {
        #expect(self.problems(self.small.merging(["http.host": "127.0.0.2"]) { $1 }) == [])
        let problems = self.problems(self.small.merging(["http.host": "0.0.0.0"]) { $1 })
        #expect(problems.count == 1 && problems.first?.hasPrefix("callers:") == true)
    }

    @Test("A secret may be in a file, and errors never contain it")
    func secrets() throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try Data("0123456789abcdef\n".utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let base = self.small.merging(["callers": "shop", "caller.shop.tokenFile": file.path]) { $1 }
        let settings = try self.read(base)
        #expect(settings.callers.first?.tokenDigest == SecretText.digest("0123456789abcdef"))
        let both = self.problems(base.merging(["caller.shop.token": "secretsecretsecret"]) { $1 })
        #expect(both.contains { $0.contains("not both") })
        #expect(!both.contains { $0.contains("secretsecret") })
        let missing = self.problems(base.merging(["caller.shop.tokenFile": "/nowhere/token"]) { $1 })
        #expect(missing.contains { $0.contains("/nowhere/token") })
    }

    @Test("A webhook's secret is text, or base64 after whsec_")
    func signingKeys() {
        #expect(SecretText.signingKey("abc") == Array("abc".utf8))
        #expect(SecretText.signingKey("whsec_AAEC") == [0, 1, 2])
        #expect(SecretText.signingKey("whsec_!") == nil)
    }

    @Test(
        "Durations have a unit",
        arguments: [
            ("500ms", Duration.milliseconds(500)), ("30", .seconds(30)), ("30s", .seconds(30)), ("1.5m", .seconds(90)),
            ("12h", .seconds(43_200)), ("7d", .seconds(604_800)),
        ]
    )
    func durations(text: String, duration: Duration) {
        #expect(SettingsReader.duration(text) == duration)
    }

    @Test(
        "A text that is no duration is refused",
        arguments: ["", "s", "-1s", "1y", "1 s", "1e3s", "٣s", "9999999999999d"]
    )
    func noDurations(text: String) {
        #expect(SettingsReader.duration(text) == nil)
    }
}

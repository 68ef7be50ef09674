@_spi(Relay) import APNSPool
import Foundation
import PostgresPushQueue
import PushQueue
import Testing

@testable import APNSRelay

struct RelaySettingsTests {
    private func read(_ values: [String: String]) throws(RelaySettingsError) -> RelaySettings {
        try RelaySettings([.values(values)])
    }

    private func faults(_ sources: [APNSSettingsSource]) -> [APNSSettingsError.Fault] {
        do throws(RelaySettingsError) {
            _ = try RelaySettings(sources)
            return []
        } catch {
            return error.faults
        }
    }

    private func faults(_ values: [String: String]) -> [APNSSettingsError.Fault] { self.faults([.values(values)]) }

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

    @Test("Settings of every group are read")
    func every() throws {
        let more = [
            "app.fern.environments": "development",
            "callers": "shop, crew", "caller.shop.token": "0123456789abcdef", "caller.shop.apps": "fern",
            "app.fern.capacity": "3", "app.fern.pushesPerSecond": "200", "caller.shop.capacity": "4",
            "caller.shop.pushesPerSecond": "500", "caller.crew.token": "fedcba9876543210",
            "caller.crew.roles": "readAll, operate",
            "webhooks": "crm", "webhook.crm.url": "https://crm.example.com/push", "webhook.crm.batch": "10",
            "webhook.crm.secret": "0123456789abcdef01234567", "webhook.crm.onlyInvalidTokens": "true",
            "webhook.crm.timeout": "3s", "webhook.crm.apps": "fern",
            "http.host": "0.0.0.0", "http.port": "0", "http.maxBodyBytes": "2048", "http.idleTimeout": "5s",
            "dispatch.maxInFlight": "100", "dispatch.attemptDeadline": "10s", "dispatch.settleMargin": "5s",
            "dispatch.defaultDeadline": "1h",
            "storage.file": "/tmp/q.sqlite", "storage.capacity": "5", "retention.parked": "1d",
            "fleet.maxConnections": "40", "group.maxConnections": "7", "group.isolation": "perApp",
            "client.pool.size": "3", "client.retry.retriesInternalServerError": "false",
        ]
        let settings = try self.read(self.small.merging(more) { $1 })
        #expect(settings.apps.first?.environments == ["development": .custom(host: "localhost", port: 2198)])
        #expect(settings.apps.first?.defaultEnvironment == "development")
        #expect(settings.callers.map(\.name) == ["shop", "crew"])
        #expect(settings.callers.map(\.roles) == [[.send, .read, .cancel], [.readAll, .operate]])
        #expect(settings.callers.map(\.apps) == [["fern"], nil])
        #expect(settings.callers.map(\.pushesPerSecond) == [500, nil] && settings.callers.map(\.capacity) == [4, nil])
        #expect(settings.apps.first?.pushesPerSecond == 200 && settings.apps.first?.capacity == 3)
        #expect(settings.callers.first?.tokenDigests == [SecretText.digest("0123456789abcdef")])
        let webhook = try #require(settings.webhooks.first)
        #expect(webhook.batch == 10 && webhook.timeout == .seconds(3))
        #expect(webhook.onlyInvalidTokens && webhook.apps == ["fern"])
        #expect(settings.http.host == "0.0.0.0" && settings.http.port == 0 && settings.http.maxBodyBytes == 2_048)
        #expect(settings.http.idleTimeout == .seconds(5))
        #expect(settings.dispatch.maxInFlight == 100 && settings.dispatch.attemptDeadline == .seconds(10))
        #expect(settings.dispatch.settleMargin == .seconds(5))
        #expect(settings.storage.file == "/tmp/q.sqlite" && settings.storage.capacity == 5)
        #expect(settings.storage.retention.parked == .seconds(86_400))
        #expect(settings.fleet.maxConnections == 40)
        #expect(settings.group.maxConnections == 7 && settings.group.isolation == .perApp)
        #expect(settings.group.client.pool.size == 3)
        #expect(!settings.group.client.retry.retriesInternalServerError)
    }

    @Test("A JSON file has numbers, booleans and arrays as such")
    func file() throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("settings-\(UUID().uuidString).json")
        defer { try? FileManager.default.removeItem(at: file) }
        let json = """
            {"apps": ["fern"], "app": {"fern": {"topic": "com.grasscove.Fern"}},
             "server": {"production": "localhost:2197", "development": "localhost:2198"},
             "callers": ["crew", "shop"],
             "caller": {"crew": {"token": "fedcba9876543210", "roles": ["operate"]},
                        "shop": {"token": "0123456789abcdef", "roles": ["send"], "pushesPerSecond": 50}},
             "storage": {"postgres": "host=/run/postgresql dbname=apns", "connections": 3, "migrate": false}}
            """
        try Data(json.utf8).write(to: file)
        let settings = try RelaySettings([.jsonFile(file.path)])
        #expect(settings.callers.map(\.roles) == [[.operate], [.send]])
        #expect(settings.callers.last?.pushesPerSecond == 50)
        #expect(settings.storage.postgres?.description == "host=/run/postgresql dbname=apns")
        #expect(settings.storage.connections == 3 && !settings.storage.migrates)
    }

    @Test("A relay may have no app if its settings say so, as those of the package; a missing list is an error")
    func withoutApps() throws {
        let settings = try RelaySettings([.jsonFile(Repository.path("Relay/Deploy/apns-relay.json"))])
        #expect(settings.apps.isEmpty && settings.http.host == "127.0.0.1")
        #expect(self.faults([:]).map(\.key) == ["apps"])
        #expect(self.faults(["apps": ""]).map(\.key) == ["apps"])
    }

    @Test("The settings of a database are read, and a malformed one is named")
    func postgres() throws {
        let values = [
            "storage.postgres": "postgres://relay:secret-1@10.0.0.1:5433/apns", "storage.connections": "12",
            "storage.migrate": "false", "storage.timeout": "45s",
        ]
        let storage = try self.read(self.small.merging(values) { $1 }).storage
        let expected = "host=10.0.0.1 port=5433 dbname=apns user=relay sslmode=verify-full"
        #expect(storage.postgres?.description == expected)
        #expect(storage.place == expected, "the log names the database, without its password")
        #expect(storage.connections == 12 && !storage.migrates)
        #expect(storage.timeout == .seconds(45))
        let local = try self.read(self.small.merging(["storage.postgres": "host=/run/postgresql"]) { $1 }).storage
        #expect(local.postgres?.description == "host=/run/postgresql")
        #expect(local.connections == 6 && local.migrates)
        for (key, value) in [
            ("storage.postgres", "10.0.0.1:5432"), ("storage.postgres", "hots=10.0.0.1"), ("storage.connections", "1"),
            ("storage.migrate", "maybe"), ("storage.timeout", "0s"),
        ] {
            let wrong = ["storage.postgres": "host=/run/postgresql"].merging([key: value]) { $1 }
            let faults = self.faults(self.small.merging(wrong) { $1 })
            #expect(faults.map(\.key) == [key], "\(key): \(faults)")
        }
    }

    @Test("All errors are reported together, each with its setting")
    func errors() {
        let faults = self.faults([
            "apps": "fern,fern,a b", "app.fern.topic": "com.a", "server.development": "localhost",
            "app.fern.environments": "moon", "callers": "x", "caller.x.token": "short", "caller.x.apps": "elm",
            "webhooks": "w", "webhook.w.url": "ftp://x", "http.port": "70000", "dispatch.maxInFlight": "many",
            "dispatch.attemptDeadline": "1y", "group.isolation": "none", "http.clientAuthoritiesFile": "/x",
            "server.production": "a:b:c", "storage.capacity": "0", "fleet.maxConnections": "0",
            "client.retry.resendsUnknown": "true",
        ])
        #expect(
            faults.map(\.key).sorted() == [
                "app.fern.environments", "app.fern.keyFile", "apps", "apps", "caller.x.apps", "caller.x.token",
                "client.retry.resendsUnknown",
                "dispatch.attemptDeadline",
                "dispatch.maxInFlight", "fleet.maxConnections", "group.isolation", "http.clientAuthoritiesFile",
                "http.port",
                "server.production", "storage.capacity", "webhook.w.secret", "webhook.w.url",
            ]
        )
    }

    @Test(
        "A wrong capacity or rate of a caller or an app is an error that names it",
        arguments: [
            ("caller.shop.capacity", "0"), ("caller.shop.capacity", "many"), ("caller.shop.pushesPerSecond", "0.5"),
            ("app.fern.capacity", "-1"), ("app.fern.pushesPerSecond", "10000001"),
        ]
    )
    func limits(_ key: String, _ value: String) {
        #expect(self.faults(self.pair.merging([key: value]) { $1 }).map(\.key) == [key])
    }

    @Test("A capacity of a caller or an app that is larger than the queue's is an error")
    func largeCapacities() {
        let values = ["storage.capacity": "1000", "caller.shop.capacity": "1001", "app.fern.capacity": "1000"]
        let faults = self.faults(self.pair.merging(values) { $1 })
        #expect(
            faults.map(\.description) == [
                "caller.shop.capacity (values): it is larger than storage.capacity, 1000 pushes"
            ]
        )
    }

    @Test("Without callers, the relay listens only on a loopback address")
    func loopback() {
        #expect(self.faults(self.small.merging(["http.host": "127.0.0.2"]) { $1 }) == [])
        #expect(self.faults(self.small.merging(["http.host": "0.0.0.0"]) { $1 }).map(\.key) == ["callers"])
        let empty = self.small.merging(["http.host": "0.0.0.0", "callers": ","]) { $1 }
        #expect(self.faults(empty).map(\.key) == ["callers"])
    }

    @Test("A secret may be in a file, and errors never contain it")
    func secrets() throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try Data("0123456789abcdef\n".utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let base = self.small.merging(["callers": "shop", "caller.shop.tokenFile": file.path]) { $1 }
        let settings = try self.read(base)
        #expect(settings.callers.first?.tokenDigests == [SecretText.digest("0123456789abcdef")])
        let both = self.faults(base.merging(["caller.shop.token": "secretsecretsecret"]) { $1 })
        #expect(both.contains { $0.message.contains("not both") })
        #expect(!"\(both)".contains("secretsecret"))
        let missing = self.faults(base.merging(["caller.shop.tokenFile": "/nowhere/token"]) { $1 })
        #expect(missing.contains { $0.message.contains("/nowhere/token") })
    }

    @Test(
        "A role that does not exist, and a caller without roles, are errors",
        arguments: [
            ("send, reed", "'reed' is not a role: use send, read, readAll, cancel, cancelAll, subscribe, operate"),
            ("Send", "'Send' is not a role: use send, read, readAll, cancel, cancelAll, subscribe, operate"),
            (",", "a caller needs at least one role: use send, read, readAll, cancel, cancelAll, subscribe, operate"),
        ]
    )
    func roles(_ text: String, _ message: String) {
        let values = ["callers": "shop", "caller.shop.token": "0123456789abcdef", "caller.shop.roles": text]
        let faults = self.faults(self.small.merging(values) { $1 })
        #expect(faults.map(\.description) == ["caller.shop.roles (values): \(message)"])
    }

    @Test("The former setting for operators is an error that names the role")
    func formerOperator() {
        let faults = self.faults(
            self.environment([
                "APNS_RELAY_CALLERS": "crew", "APNS_RELAY_CALLER_CREW_TOKEN": "0123456789abcdef",
                "APNS_RELAY_CALLER_CREW_OPERATOR": "true",
            ])
        )
        #expect(
            faults.map(\.description) == [
                "APNS_RELAY_CALLER_CREW_OPERATOR (environment): there is no such setting; set "
                    + "'APNS_RELAY_CALLER_CREW_ROLES' to operate"
            ]
        )
    }

    /// A caller and a webhook.
    private var pair: [String: String] {
        self.small.merging([
            "callers": "shop", "caller.shop.token": "0123456789abcdef", "webhooks": "crm",
            "webhook.crm.url": "https://crm.example.com", "webhook.crm.secret": "0123456789abcdef01234567",
        ]) { $1 }
    }

    @Test("A caller may have a second token, and a webhook a second secret, each also in a file")
    func nextSecrets() throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        let next = "the-next-secret-of-both-sides"
        try Data("\(next)\n".utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        for values in [
            ["caller.shop.nextToken": next, "webhook.crm.nextSecret": next],
            ["caller.shop.nextTokenFile": file.path, "webhook.crm.nextSecretFile": file.path],
        ] {
            let settings = try self.read(self.pair.merging(values) { $1 })
            let digests = try #require(settings.callers.first?.tokenDigests)
            #expect(digests == [SecretText.digest("0123456789abcdef"), SecretText.digest(next)])
            let secrets = try #require(settings.webhooks.first?.secrets)
            #expect(secrets == [Array("0123456789abcdef01234567".utf8), Array(next.utf8)])
        }
    }

    @Test(
        "Errors in a second token or secret are reported",
        arguments: [
            (
                "caller.shop.nextToken", "0123456789abcdef",
                "it is the same as caller.shop.token; set the new one, or remove it"
            ),
            ("caller.shop.nextToken", "short", "a token needs at least 16 characters"),
            ("caller.shop.nextTokenFile", "/nowhere/token", "the file '/nowhere/token' cannot be read"),
            (
                "webhook.crm.nextSecret", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3",
                "it is the same as webhook.crm.secret; set the new one, or remove it"
            ),
            (
                "webhook.crm.nextSecret", "short",
                "it has 5 bytes as text; the webhook needs a secret of at least 24 bytes"
            ),
            ("webhook.crm.nextSecretFile", "/nowhere/secret", "the file '/nowhere/secret' cannot be read"),
        ]
    )
    func nextSecretErrors(_ key: String, _ value: String, _ message: String) {
        #expect(self.faults(self.pair) == [])
        let faults = self.faults(self.pair.merging([key: value]) { $1 })
        #expect(faults.map(\.description) == ["\(key) (values): \(message)"])
    }

    @Test("Two callers cannot share a token, not even if it is the next one of one of them")
    func sharedTokens() {
        let values = self.pair.merging(["callers": "shop,news", "caller.news.token": "fedcba9876543210"]) { $1 }
        #expect(self.faults(values) == [])
        for change in [
            ["caller.news.token": "0123456789abcdef"], ["caller.news.nextToken": "0123456789abcdef"],
            ["caller.shop.nextToken": "the-next-token-of-both", "caller.news.nextToken": "the-next-token-of-both"],
        ] {
            let faults = self.faults(values.merging(change) { $1 })
            #expect(
                faults.map(\.description) == [
                    "callers (values): two callers have the same token; give each caller its own"
                ],
                "\(change)"
            )
        }
    }

    @Test("A webhook's secret is text, or base64 after whsec_")
    func signingKeys() throws {
        let text = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
        #expect(try SecretText.signingKey(text) == Array(text.utf8))
        #expect(try SecretText.signingKey("whsec_" + text) == Array("0123456789abcdef01234567".utf8))
    }

    @Test(
        "What looks like a webhook's secret and is not one is named",
        arguments: [
            ("v1,whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3", "before whsec_"),
            ("WHSEC_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3", "before whsec_"),
            ("SECRET=whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3", "before whsec_"),
            ("whsk_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3", "Ed25519"), ("whpk_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3", "Ed25519"),
            (#""whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3""#, "quotation"),
            ("'a secret of at least 24 bytes'", "quotation"),
            ("\u{FEFF}whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3", "byte order mark"),
            ("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY", "base64"), ("whsec_-_EyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3", "base64"),
            ("whsec_MDEyMzQ1Njc4OWFi", "12 bytes as base64"), ("whsec_", "0 bytes"), ("0123456789", "10 bytes as text"),
            ("a secret of at least 24 bytes\nand another one", "several lines"),
        ]
    )
    func signingKeyMisses(_ text: String, _ message: String) {
        let faults = self.faults(self.pair.merging(["webhook.crm.secret": text]) { $1 }).map(\.description)
        #expect(faults.count == 1 && faults[0].hasPrefix("webhook.crm.secret (values): "), "\(faults)")
        #expect(faults.first?.contains(message) == true, "\(faults)")
    }

    @Test(
        "A token that no request can contain is an error",
        arguments: [
            (#""0123456789abcdef""#, "quotation"), ("Bearer 0123456789abcdef", "Bearer"),
            ("0123456789 abcdef", "space"),
        ]
    )
    func tokenMisses(_ text: String, _ message: String) {
        for key in ["caller.shop.token", "caller.shop.nextToken"] {
            let faults = self.faults(self.pair.merging([key: text]) { $1 }).map(\.description)
            #expect(
                faults.count == 1 && faults[0].hasPrefix("\(key) (values): ") && faults[0].contains(message),
                "\(faults)"
            )
        }
    }

    // MARK: Unknown keys

    @Test(
        "A key that is no setting is an error that names the intended one",
        arguments: [
            ("http.prot", "http.port"), ("htp.idleTimeout", "http.idleTimeout"),
            ("app.fern.keyfile", "app.fern.keyFile"),
            ("app.fern.team", "app.fern.teamID"), ("app.fern.environment", "app.fern.environments"),
            ("app.fern.pool.size", "client.pool.size"), ("caller.shop.pushesPerSec", "caller.shop.pushesPerSecond"),
            ("webhook.crm.onlyInvalidToken", "webhook.crm.onlyInvalidTokens"), ("client.log.level", "log.level"),
            ("client.keyFile", nil), ("dispatch.maxInflight", "dispatch.maxInFlight"),
            ("http", nil), ("colour", nil),
        ]
    )
    func unknown(key: String, intended: String?) {
        let more = [
            "callers": "shop", "caller.shop.token": "0123456789abcdef", "webhooks": "crm",
            "webhook.crm.url": "https://crm.example.com", "webhook.crm.secret": "0123456789abcdef01234567",
        ]
        let values = self.small.merging(more) { $1 }
        #expect(self.faults(values) == [])
        let faults = self.faults(values.merging([key: "7"]) { $1 })
        #expect(faults.map(\.code) == [.unknownSetting] && faults.map(\.key) == [key])
        if let intended {
            #expect(faults.first?.message == "there is no such setting; did you mean '\(intended)'?")
        } else {
            #expect(faults.first?.message.hasPrefix("there is no such setting") == true)
        }
    }

    @Test("A setting of an app, a caller or a webhook that is not listed is an error")
    func unlisted() {
        let more = [
            "app.elm.topic": "com.grasscove.Elm", "caller.shop.token": "0123456789abcdef", "webhook.crm.url": "x",
        ]
        let faults = self.faults(self.small.merging(more) { $1 })
        #expect(
            faults.map(\.description) == [
                "app.elm.topic (values): the name after 'app.' is not in 'apps'",
                "caller.shop.token (values): the name after 'caller.' is not in 'callers'",
                "webhook.crm.url (values): the name after 'webhook.' is not in 'webhooks'",
            ]
        )
    }

    /// The small settings as environment variables.
    private let variables = [
        "APNS_RELAY_APPS": "fern,fern_beta", "APNS_RELAY_APP_FERN_TOPIC": "com.grasscove.Fern",
        "APNS_RELAY_APP_FERN_BETA_TOPIC": "com.grasscove.FernBeta", "APNS_RELAY_SERVER_PRODUCTION": "localhost:2197",
        "APNS_RELAY_SERVER_DEVELOPMENT": "localhost:2198",
    ]

    private func environment(_ more: [String: String]) -> [APNSSettingsSource] {
        [APNSSettingsSource.environment(self.variables.merging(more) { $1 }).below("apns.relay")]
    }

    @Test("Environment variables of the relay are settings, and those of other programs are not")
    func environment() throws {
        // A service apns-relay of Kubernetes, the library and the tool, and a script share the prefix or a part of it.
        let others = [
            "APNS_RELAY_SERVICE_HOST": "10.0.0.7", "APNS_RELAY_SERVICE_PORT": "8027",
            "APNS_RELAY_PORT": "tcp://10.0.0.7:8027", "APNS_RELAY_PORT_8027_TCP_ADDR": "10.0.0.7",
            "APNS_RELAY_HEADLESS_SERVICE_HOST": "10.0.0.8", "APNS_POOL_SIZE": "many",
            "APNS_RELAY": "/usr/bin/apns-relay",
            "APNS_RELAY_HTTP_HOST": "",
        ]
        let settings = try RelaySettings(self.environment(others.merging(["APNS_RELAY_HTTP_PORT": "8000"]) { $1 }))
        #expect(settings.apps.map(\.name) == ["fern", "fern_beta"])
        #expect(settings.http.port == 8000 && settings.http.host == "127.0.0.1")
    }

    @Test("Errors in environment variables name the variable, its value and the intended one")
    func variableErrors() {
        let faults = self.faults(
            self.environment([
                "APNS_RELAY_HTTP_PROT": "8000", "APNS_RELAY_APP_FERN_TOPIK": "x", "APNS_RELAY_APP_ELM_TOPIC": "x",
                "APNS_RELAY_DISPATCH_BATCH": "none", "APNS_RELAY_HTTP_PORT": "tcp://10.0.0.7:80",
                "APNS_RELAY_CALLERS": "shop", "APNS_RELAY_CALLER_SHOP_TOKEN": "shortsecret",
            ]) + [.values(["caller.shop.token": "ignored, because the environment has it"])]
        )
        let texts = faults.map(\.description).sorted()
        #expect(
            texts == [
                "APNS_RELAY_APP_ELM_TOPIC (environment): the name after 'APNS_RELAY_APP_' is not in 'APNS_RELAY_APPS'",
                "APNS_RELAY_APP_FERN_TOPIK (environment): there is no such setting; did you mean "
                    + "'APNS_RELAY_APP_FERN_TOPIC'?",
                "APNS_RELAY_CALLER_SHOP_TOKEN (environment): a token needs at least 16 characters",
                "APNS_RELAY_DISPATCH_BATCH (environment): 'none' is not a whole number; allowed: 1 to 10000",
                "APNS_RELAY_HTTP_PORT (environment): 'tcp://10.0.0.7:80' is not a whole number; allowed: 0 to 65535. "
                    + "Kubernetes has set it, for a service 'apns-relay-http' of this namespace; set "
                    + "enableServiceLinks: false in the pod's specification, or rename the service",
                "APNS_RELAY_HTTP_PROT (environment): there is no such setting; did you mean 'APNS_RELAY_HTTP_PORT'?",
            ]
        )
    }

    @Test("No error contains a secret, whatever is wrong with it")
    func noSecretInErrors() {
        let secret = "S3CRET"
        let values = [
            "apps": "fern", "app.fern.topic": "com.grasscove.Fern", "app.fern.privateKey": secret,
            "app.fern.passphrase": secret, "callers": "a,b", "caller.a.token": secret, "caller.b.token": secret,
            "webhooks": "crm", "webhook.crm.url": "https://crm.example.com", "webhook.crm.secret": "whsec_" + secret,
            "client.proxy": "http://user:\(secret)@proxy",
            "http.privateKeyFile": "-----BEGIN PRIVATE KEY-----\(secret)",
            "caller.a.tokens": secret, "caller.a.nextToken": secret, "webhook.crm.nextSecret": "whsec_" + secret,
        ]
        let faults = self.faults(values)
        #expect(faults.count >= 7, "\(faults)")
        #expect(!"\(faults)".contains(secret), "\(faults)")
    }

    @Test("Every key of a table is read from a file and from the environment, and no key twice")
    func everyKey() {
        let names = ["fern", "shop", "crm"]
        let keys = RelaySettingsTable.keys(apps: [names[0]], callers: [names[1]], webhooks: [names[2]])
        #expect(Set(keys).count == keys.count)
        for key in keys {
            var values = self.small
            values["callers"] = names[1]
            values["webhooks"] = names[2]
            values[key] = "?"
            let written = key.split(separator: ".").joined(separator: ".")
            #expect(!self.faults(values).contains { $0.code == .unknownSetting && $0.key == written }, "\(key)")
        }
    }
}

@_spi(Relay) import APNSPool
import Logging
import PushQueue

/// The table of all settings of the relay. Keys that are not in the table are errors.
///
/// `Relay/Operating.md` and `Relay/WebPush.md` describe the settings; a test compares the pages with the table.
enum RelaySettingsTable {
    /// The permitted numbers of pushes per second, and of pushes without an outcome.
    private static let rates = 1...10_000_000
    private static let capacities = 1...1_000_000_000

    /// The values of all settings whose keys contain no name of an app, a caller or a webhook.
    struct Draft {
        var settings = RelaySettings(apps: [])
        var appNames: [String] = []
        var callerNames: [String] = []
        var webhookNames: [String] = []
        /// The servers as `host` or `host:port`; nil for Apple's servers.
        var production: String?
        var development: String?
        /// libpq's connection string; nil for a queue in the file.
        var postgres: String?
        var webPush = WebPush()
    }

    /// The settings `app.NAME.…`, except for those of the credential.
    struct App {
        var topic: String?
        var environments: [String]?
        var capacity: Int?
        var pushesPerSecond: Int?
        var appIDPrefix: String?

        static let rows: [SettingRow<Self>] = [
            .text("topic", \.topic), .list("environments", \.environments), .text("appIDPrefix", \.appIDPrefix),
            .integer("capacity", \.capacity, RelaySettingsTable.capacities),
            .integer("pushesPerSecond", \.pushesPerSecond, RelaySettingsTable.rates),
        ]
    }

    /// The settings `caller.NAME.…`.
    struct Caller {
        var token: String?
        var tokenFile: String?
        var nextToken: String?
        var nextTokenFile: String?
        var apps: [String]?
        var roles: [String]?
        var pushesPerSecond: Int?
        var capacity: Int?

        static let rows: [SettingRow<Self>] = [
            .text("token", \.token, isSecret: true), .file("tokenFile", \.tokenFile),
            .text("nextToken", \.nextToken, isSecret: true), .file("nextTokenFile", \.nextTokenFile),
            .list("apps", \.apps), .list("roles", \.roles),
            .integer("pushesPerSecond", \.pushesPerSecond, RelaySettingsTable.rates),
            .integer("capacity", \.capacity, RelaySettingsTable.capacities),
        ]
    }

    /// The settings `webhook.NAME.…`.
    struct Webhook {
        var url: String?
        var secret: String?
        var secretFile: String?
        var nextSecret: String?
        var nextSecretFile: String?
        var apps: [String]?
        var settings = WebhookSettings(name: "", url: "", secrets: [])

        static let rows: [SettingRow<Self>] = [
            .text("url", \.url), .text("secret", \.secret, isSecret: true), .file("secretFile", \.secretFile),
            .text("nextSecret", \.nextSecret, isSecret: true), .file("nextSecretFile", \.nextSecretFile),
            .list("apps", \.apps), .boolean("onlyInvalidTokens", \.settings.onlyInvalidTokens),
            .integer("batch", \.settings.batch, 1...1_000),
            .duration("timeout", \.settings.timeout, .seconds(1)...(.seconds(300))),
        ]
    }

    /// The settings whose keys contain no name of an app, a caller or a webhook.
    static let rows: [SettingRow<Draft>] = [names, http, dispatch, storage, group, webPush].flatMap { $0 }

    /// The keys of all settings.
    ///
    /// - Parameters:
    ///   - apps: the names of the apps.
    ///   - callers: the names of the callers.
    ///   - webhooks: the names of the webhooks.
    static func keys(apps: [String], callers: [String], webhooks: [String]) -> [String] {
        let app = Self.App.rows.map(\.key) + SettingsTable.credentialKeys
        let caller = Self.Caller.rows.map(\.key)
        let webhook = Self.Webhook.rows.map(\.key)
        return Self.rows.map(\.key)
            + apps.flatMap { name in app.map { "app.\(name).\($0)" } }
            + callers.flatMap { name in caller.map { "caller.\(name).\($0)" } }
            + webhooks.flatMap { name in webhook.map { "webhook.\(name).\($0)" } }
            + Self.clientKeys
    }

    /// The settings of all clients. They have no log level, because the clients use the relay's logger.
    static let clientKeys = SettingsTable.sharedKeys.filter { $0 != "log.level" }.map { "client.\($0)" }

    private static let names: [SettingRow<Draft>] = [
        .list("apps", \.appNames).live, .list("callers", \.callerNames).live, .list("webhooks", \.webhookNames).live,
        .text("server.production", \.production).live, .text("server.development", \.development).live,
    ]

    private static let http: [SettingRow<Draft>] = [
        .text("http.host", \.settings.http.host), .integer("http.port", \.settings.http.port, 0...65_535),
        .text("http.probeHost", \.settings.http.probeHost),
        .integer("http.probePort", \.settings.http.probePort, 0...65_535),
        .file("http.certificateChainFile", \.settings.http.certificateChainFile).live,
        .file("http.privateKeyFile", \.settings.http.privateKeyFile).live,
        .file("http.clientAuthoritiesFile", \.settings.http.clientAuthoritiesFile).live,
        .size("http.maxBodyBytes", \.settings.http.maxBodyBytes, 1_024...(1 << 30)),
        .size("http.maxBufferedBytes", \.settings.http.maxBufferedBytes, 65_536...(1 << 40)),
        .duration("http.requestTimeout", \.settings.http.requestTimeout, .seconds(1)...(.seconds(3_600))),
        .duration("http.idleTimeout", \.settings.http.idleTimeout, .seconds(1)...(.seconds(3_600))),
        .integer("http.maxConnections", \.settings.http.maxConnections, 1...100_000),
        .integer("http.maxConnectionsPerAddress", \.settings.http.maxConnectionsPerAddress, 1...100_000),
    ]

    private static let year = Duration.seconds(366 * 86_400)

    private static let dispatch: [SettingRow<Draft>] = [
        .integer("dispatch.maxInFlight", \.settings.dispatch.maxInFlight, 1...100_000),
        .integer("dispatch.batch", \.settings.dispatch.batch, 1...10_000),
        .duration("dispatch.attemptDeadline", \.settings.dispatch.attemptDeadline, .seconds(1)...(.seconds(600))),
        .duration("dispatch.settleMargin", \.settings.dispatch.settleMargin, .seconds(1)...(.seconds(86_400))),
        .duration("dispatch.defaultDeadline", \.settings.dispatch.defaultDeadline, .seconds(1)...year),
        .duration("dispatch.maxDeadline", \.settings.dispatch.maxDeadline, .seconds(1)...year),
        .integer("dispatch.maxAttempts", \.settings.dispatch.maxAttempts, 1...1_000),
        .duration("dispatch.shutdownTimeout", \.settings.dispatch.shutdownTimeout, .seconds(1)...(.seconds(600))),
    ]

    private static let storage: [SettingRow<Draft>] = [
        .file("storage.file", \.settings.storage.file),
        .text("storage.postgres", \.postgres, isSecret: true),
        .integer("storage.connections", \.settings.storage.connections, 2...100),
        .boolean("storage.migrate", \.settings.storage.migrates),
        .choice(
            "storage.afterFailover",
            \.settings.storage.afterFailover,
            ["park": .park, "send": .send]
        ),
        .file("storage.progressFile", \.settings.storage.progressFile),
        .duration("storage.timeout", \.settings.storage.timeout, .seconds(1)...(.seconds(600))),
        .integer("storage.capacity", \.settings.storage.capacity, Self.capacities),
        .duration("storage.maxClockJump", \.settings.storage.maxClockJump, .seconds(60)...year),
        .duration("retention.outcomes", \.settings.storage.retention.outcomes, .zero...year),
        .duration("retention.idempotencyKeys", \.settings.storage.retention.idempotencyKeys, .zero...year),
        .duration("retention.parked", \.settings.storage.retention.parked, .zero...year),
    ]

    private static let group: [SettingRow<Draft>] = [
        .integer("group.maxConnections", \.settings.group.maxConnections, 1...100_000),
        .duration("group.idleTimeout", \.settings.group.idleTimeout, .seconds(1)...(.seconds(86_400))),
        .choice("group.isolation", \.settings.group.isolation, ["perKey": .perKey, "perApp": .perApp]),
        .integer("fleet.maxConnections", \.settings.fleet.maxConnections, FleetSettings.range),
        .choice(
            "log.level",
            \.settings.log.level,
            [
                "trace": .trace, "debug": .debug, "info": .info, "notice": .notice, "warning": .warning,
                "error": .error,
                "critical": .critical,
            ]
        ),
        .choice("log.format", \.settings.log.format, ["text": .text, "json": .json]),
    ]
}

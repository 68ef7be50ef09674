import Foundation

@testable import APNSPoolTestSupport

/// A value other than the default for each setting, and the properties that it changes.
struct SettingsExample: Sendable {
    var key: String
    var value: String
    /// The other settings, before and after the change.
    var with: [String: String] = ["endpoint": "https://push.example.com"]
    /// Settings that are valid only together with this one.
    var together: [String: String] = [:]
    /// The properties that change.
    var changes: Set<String>
    /// The text of the first changed property after the change; nil: not compared.
    var becomes: String?

    init(
        _ key: String,
        _ value: String,
        with: [String: String] = ["endpoint": "https://push.example.com"],
        together: [String: String] = [:],
        changes: Set<String>? = nil,
        becomes: String? = nil
    ) {
        self.key = key
        self.value = value
        self.with = with
        self.together = together
        self.changes = changes ?? [key]
        self.becomes = becomes
    }

    static func all(_ files: SettingsFixtures) -> [SettingsExample] {
        self.authentication(files) + self.service(files) + self.numbers + [
            SettingsExample(
                "caFile",
                files.caFile,
                changes: ["trust.caFile"],
                becomes: "Optional(\"\(files.caFile)\")"
            ),
            SettingsExample("caPEM", files.caPEM, changes: ["trust.caPEM"]),
        ]
    }

    private static func authentication(_ files: SettingsFixtures) -> [SettingsExample] {
        let token = ["keyFile": files.keyFile, "teamID": SettingsFixtures.teamID]
        let pem = ["privateKey": KeyTexts.p256, "teamID": SettingsFixtures.teamID, "keyID": SettingsFixtures.keyID]
        let credential: Set<String> = ["authentication.credential"]
        return [
            SettingsExample(
                "keyFile",
                files.keyFile,
                together: ["teamID": SettingsFixtures.teamID],
                changes: credential,
                becomes: "key(\(files.keyFile), keyID: nil, teamID: \"\(SettingsFixtures.teamID)\")"
            ),
            SettingsExample("privateKey", KeyTexts.p256, together: pem, changes: credential),
            SettingsExample("keyID", "AUC9ZLQ8YW", with: pem, changes: credential),
            SettingsExample("teamID", "CBBM6U9RM5", with: token, changes: credential),
            SettingsExample(
                "certificateFile",
                files.certificateFile,
                together: ["certificateKeyFile": files.certificateKeyFile],
                changes: credential
            ),
            SettingsExample(
                "certificateKeyFile",
                files.certificateKeyFile,
                together: ["certificateFile": files.certificateFile],
                changes: credential
            ),
            SettingsExample(
                "certificate",
                files.certificatePEM,
                together: ["certificateKey": files.certificateKeyPEM],
                changes: credential
            ),
            SettingsExample(
                "certificateKey",
                files.certificateKeyPEM,
                together: ["certificate": files.certificatePEM],
                changes: credential
            ),
            SettingsExample(
                "certificatePasswordFile",
                files.passwordFile,
                together: ["certificateFile": files.pkcs12File],
                changes: credential
            ),
            SettingsExample(
                "pkcs12.data",
                Data(files.pkcs12).base64EncodedString(),
                together: ["passphrase": "open sesame"],
                changes: credential
            ),
            SettingsExample(
                "passphrase",
                "open sesame",
                with: ["certificateFile": files.certificateFile, "certificateKeyFile": files.certificateKeyFile],
                changes: credential
            ),
            SettingsExample(
                "tokenRefreshInterval",
                "30m",
                changes: ["authentication.tokenRefreshInterval"],
                becomes: "1800.0 seconds"
            ),
            SettingsExample(
                "tokenFile",
                "/run/fern/apns-token",
                with: token,
                changes: ["authentication.tokenSource"],
                becomes: "/run/fern/apns-token"
            ),
            SettingsExample(
                "fileCheckInterval",
                "never",
                changes: ["authentication.fileCheckInterval"],
                becomes: "never"
            ),
        ]
    }

    private static func service(_ files: SettingsFixtures) -> [SettingsExample] {
        let token = ["keyFile": files.keyFile, "teamID": SettingsFixtures.teamID]
        let environment: Set<String> = ["environment.host", "environment.managementHost", "environment.managementPort"]
        return [
            SettingsExample("environment", "development", with: token, changes: environment),
            SettingsExample(
                "topic",
                "com.grasscove.Fern",
                changes: ["defaultTopic"],
                becomes: #"Optional("com.grasscove.Fern")"#
            ),
            SettingsExample(
                "endpoint",
                "https://push.example.com:8443",
                with: token,
                changes: environment.union(["environment.port"])
            ),
            SettingsExample("port", "2197", with: token, changes: ["environment.port"], becomes: "2197"),
            SettingsExample(
                "managementHost",
                "manage.example.com",
                changes: ["environment.managementHost"],
                becomes: "manage.example.com"
            ),
            SettingsExample("managementPort", "2196", changes: ["environment.managementPort"], becomes: "2196"),
            SettingsExample(
                "proxy",
                "http://fern:hunter2@proxy.example.com:3128",
                changes: ["proxy.host", "proxy.port", "proxy.username", "proxy.password"]
            ),
        ]
    }

    private static let numbers: [SettingsExample] = [
        SettingsExample("pool.size", "2", becomes: "2"),
        SettingsExample("pool.maxOverflow", "7", becomes: "7"),
        SettingsExample("pool.strategy", "lifo"),
        SettingsExample("pool.maxQueued", "500", becomes: "500"),
        SettingsExample("pool.maxQueuedBytes", "64KiB", becomes: "65536"),
        SettingsExample("pool.maxConcurrentStreams", "100", becomes: "100"),
        SettingsExample("pool.idleTimeout", "90", becomes: "90.0 seconds"),
        SettingsExample("pool.maximumLifetime", "never", becomes: "nil"),
        SettingsExample("pool.connectSpacing", "0", becomes: "0.0 seconds"),
        SettingsExample("pool.unavailableAfter", "1.5s", becomes: "1.5 seconds"),
        SettingsExample("pool.whenUnavailable", "wait"),
        SettingsExample("timeouts.deadline", "5s", becomes: "5.0 seconds"),
        SettingsExample("timeouts.response", "500ms", becomes: "0.5 seconds"),
        SettingsExample("timeouts.connect", "3", becomes: "3.0 seconds"),
        SettingsExample("timeouts.drain", "1m", becomes: "60.0 seconds"),
        SettingsExample("retry.maxAttempts", "1", becomes: "1"),
        SettingsExample("retry.retriesInternalServerError", "false", becomes: "false"),
        SettingsExample("retry.resendsUnknown", "yes", becomes: "true"),
        SettingsExample("massRejection.window", "1000", becomes: "1000"),
        SettingsExample("massRejection.rejections", "off", becomes: "\(Int.max)"),
        SettingsExample("log.level", "trace", changes: ["logger.logLevel"], becomes: "trace"),
        SettingsExample("log.deviceTokens", "shortened", changes: ["logging"]),
    ]
}

// This folder builds the configuration from environment variables and files. One table names every setting.
// Client/APNSClientConfiguration.swift describes what each value means for the client.

import Logging
import SupervisedPool

/// Every setting that can be given as text, with its limits. Files and environment variables are read by this table,
/// `APNSClientConfiguration.validate()` checks the limits of the rows in `limited`, and `Docs/Configuration.md` is
/// generated from it. The defaults are those of the initialisers of `APNSClientConfiguration`.
@_spi(Relay) public enum SettingsTable {
    /// The groups in the order of the documentation.
    package static let groups: [(title: String, settings: [APNSSetting])] = [
        ("Authentication", authentication), ("Service", service), ("Proxy", proxy), ("Pool", pool),
        ("Timeouts", timeouts), ("Trust", trust), ("Retries", retry), ("The rest", rest),
    ]

    package static let settings: [APNSSetting] = groups.flatMap { $0.settings }

    /// The rows whose limits the client checks. An authentication checks its own when it is read.
    static let limited: [APNSSetting] = pool + timeouts + retry + rest

    /// The keys of a credential.
    @_spi(Relay) public static var credentialKeys: [String] { self.authentication.map(\.key) }

    /// The keys that clients with different credentials and servers can share.
    @_spi(Relay) public static var sharedKeys: [String] {
        let own = Set((self.authentication + self.service).map(\.key))
        return self.settings.map(\.key).filter { !own.contains($0) }
    }

    /// Settings of the tool `apns` only. They may appear in an environment or a file that the library and the tool
    /// share.
    package static let tool: [APNSSetting] = [
        .part("config", .path).meaning("A file with settings."),
        .part("inFlight", .integer(1...100_000)).meaning("The most pushes that are in flight or have no written row."),
        .part("verbose", .boolean).meaning("Whether the client's events are logged."),
    ]

    /// Whether a variable belongs to the relay, which shares the prefix `APNS_`.
    static func isForeign(_ variable: String) -> Bool { variable.hasPrefix("APNS_RELAY_") }

    static let authentication: [APNSSetting] = [
        .part("keyFile", .path, sets: "authentication.keyFile")
            .meaning("The `.p8` file with the key that signs provider tokens."),
        .part(
            "privateKey",
            .pem,
            sets: "authentication.privateKeyPEM",
            "authentication.privateKeyBytes",
            isSecret: true
        )
        .meaning(
            "The text of the key, instead of `keyFile`. Line breaks may be missing or written as `\\n`, "
                + "and the whole text may be in base64."
        ),
        .part("keyID", .string, sets: "authentication.keyID")
            .meaning(
                "The key's id, 10 characters. Not needed if `keyFile` has the name that the developer portal "
                    + "gave it, `AuthKey_XXXXXXXXXX.p8`."
            ),
        .part("teamID", .string, sets: "authentication.teamID")
            .meaning("The id of the developer account's team, 10 characters. Needed with a key for provider tokens."),
        .part("certificateFile", .path, sets: "authentication.certificateFile", "authentication.pkcs12File")
            .meaning(
                "A client certificate instead of provider tokens: PEM or DER, or PKCS#12 if its name ends in "
                    + "`.p12` or `.pfx`."
            ),
        .part("certificateKeyFile", .path, sets: "authentication.keyFile")
            .meaning("The certificate's private key, if it is in a separate file."),
        .part("certificate", .pem, sets: "authentication.certificateBytes", "authentication")
            .meaning("The text of the certificate, instead of `certificateFile`; `certificateKey` has its key."),
        .part("certificateKey", .pem, sets: "authentication.privateKeyBytes", isSecret: true)
            .meaning("The text of the certificate's private key."),
        .part("pkcs12.data", .base64, sets: "authentication.pkcs12Bytes", isSecret: true)
            .meaning("The content of a PKCS#12 file, instead of `certificateFile`."),
        .part("passphrase", .string, sets: "authentication.passphrase", isSecret: true)
            .meaning("The passphrase of the certificate's key or of the PKCS#12 file."),
        .part("certificatePasswordFile", .path, sets: "authentication.passphrase")
            .meaning("A file with the passphrase in its first line, instead of `passphrase`."),
        .duration(
            "tokenRefreshInterval",
            \.authentication.tokenRefreshInterval,
            TokenPolicy.refreshLimits,
            sets: "authentication.tokenRefreshInterval"
        )
        .meaning("How long one provider token is used."),
        .part("tokenFile", .path, sets: "authentication.tokenSource")
            .meaning(
                "Shares the provider token with the other processes of this machine through this file "
                    + "(`SharedFileTokenSource`)."
            ),
        .duration(
            "fileCheckInterval",
            orNever: \.authentication.fileCheckInterval,
            APNSAuthentication.fileCheckLimits,
            sets: "authentication.fileCheckInterval"
        )
        .meaning("How often key and certificate files are checked for changes. The client then uses a changed file."),
    ]

    static let service: [APNSSetting] = [
        .part("environment", .choice(["production", "development", "sandbox"]), sets: "environment") {
            $0.environment == .production ? "production" : $0.environment == .development ? "development" : nil
        }
        .meaning("The environment of APNs. `sandbox` means the same as `development`."),
        APNSSetting("topic", .string, sets: ["defaultTopic"]) { draft, value in
            draft.parts["topic"] = value
            draft.configuration.defaultTopic = value.text
        } get: {
            $0.defaultTopic
        }
        .meaning("The topic of notifications that name none: the app's bundle ID."),
        .part("endpoint", .endpoint, sets: "environment.host", "environment.port")
            .meaning(
                "Another server that speaks APNs' protocol, instead of `environment`. It needs no "
                    + "authentication."
            ),
        .part("port", .integer(APNSEnvironment.ports), sets: "environment.port") {
            "\($0.environment.port)"
        }
        .meaning(
            "The port. For APNs: 443, or 2197 if a firewall must distinguish APNs from other HTTPS. An "
                + "`endpoint` has its own."
        ),
        .part("managementHost", .host, sets: "environment.managementHost")
            .meaning("The host that manages broadcast channels. Default: that of `environment` or `endpoint`."),
        .part("managementPort", .integer(APNSEnvironment.ports), sets: "environment.managementPort")
            .meaning(
                "The port of `managementHost`. Default: 2196 in production, 2195 in development; with `endpoint`, its "
                    + "port."
            ),
    ]

    static let proxy: [APNSSetting] = [
        .part("proxy", .proxy, sets: "proxy.host", "proxy.port", "proxy.username", "proxy.password", isSecret: true)
            .meaning(
                "An HTTP proxy for all connections (CONNECT). A user and a password are optional and must be "
                    + "percent-encoded."
            )
    ]

    static let pool: [APNSSetting] = [
        .integer("pool.size", \.pool.size, 0...PoolConfiguration.maximumWorkers)
            .meaning("Connections that are kept open."),
        .integer("pool.maxOverflow", \.pool.maxOverflow, 0...PoolConfiguration.maximumWorkers)
            .meaning(
                "Connections opened above `pool.size` when pushes wait. The two together are 1 to "
                    + "\(PoolConfiguration.maximumWorkers)."
            ),
        .choice("pool.strategy", \.pool.strategy, [("leastLoaded", .leastLoaded), ("lifo", .lifo), ("fifo", .fifo)])
            .meaning(
                "Which connection gets the next push: the least loaded, the one used last, the one used longest "
                    + "ago."
            ),
        .integer("pool.maxQueued", \.pool.maxQueued, 1...1_000_000)
            .meaning("Pushes that may wait for a free stream."),
        .size("pool.maxQueuedBytes", \.pool.maxQueuedBytes, 8192...(1 << 40))
            .meaning("Bytes of payload that may wait."),
        .integer("pool.maxConcurrentStreams", \.pool.maxConcurrentStreams, 1...1000)
            .meaning("The maximum number of streams on one connection. APNs may allow fewer."),
        .duration("pool.idleTimeout", \.pool.idleTimeout, .seconds(1)...(.seconds(86_400)))
            .meaning("How long a connection above `pool.size` may idle."),
        .duration("pool.maximumLifetime", orNever: \.pool.maximumLifetime, .seconds(1)...(.seconds(86_400 * 365)))
            .meaning(
                "How long a connection is kept before a new one replaces it, plus or minus 10 %. With `never`, "
                    + "its age is no reason to replace it."
            ),
        .duration("pool.connectSpacing", \.pool.connectSpacing, .zero ... .seconds(3600))
            .meaning("The pause between two connects."),
        .duration("pool.unavailableAfter", \.pool.unavailableAfter, .milliseconds(100)...(.seconds(3600)))
            .meaning("After this long without any connection, `pool.whenUnavailable` applies."),
        .choice("pool.whenUnavailable", \.pool.whenUnavailable, [("fail", .fail), ("wait", .wait)])
            .meaning("Whether pushes then fail at once or wait until their deadlines."),
    ]

    static let timeouts: [APNSSetting] = [
        .duration("timeouts.deadline", \.timeouts.deadline, .milliseconds(1)...(.seconds(86_400)))
            .meaning(
                "The time limit for a push without its own deadline: queue, connect, all attempts and the response "
                    + "together."
            ),
        .duration("timeouts.response", \.timeouts.response, .milliseconds(1)...(.seconds(86_400)))
            .meaning("The time limit for the response to one attempt, from when the push is sent."),
        .duration("timeouts.connect", \.timeouts.connect, .milliseconds(1)...(.seconds(3600)))
            .meaning("The time limit for look-up, TCP, the tunnel of a proxy, TLS and APNs' first SETTINGS together."),
        .duration("timeouts.drain", \.timeouts.drain, .zero ... .seconds(86_400))
            .meaning("The time limit for a graceful shutdown."),
    ]

    static let trust: [APNSSetting] = [
        .part("caFile", .path, sets: "trust.caFile")
            .meaning("A PEM file with trust roots in addition to the system's."),
        .part("caPEM", .pem, sets: "trust.caPEM")
            .meaning("Additional trust roots as PEM text."),
    ]

    static let retry: [APNSSetting] = [
        .integer("retry.maxAttempts", \.retry.maxAttempts, 1...5)
            .meaning("The maximum number of attempts per push, including the first; 1 turns retries off."),
        .boolean("retry.retriesInternalServerError", \.retry.retriesInternalServerError)
            .meaning("Whether a push is retried after a response 500."),
        .boolean("retry.resendsUnknown", \.retry.resendsUnknown)
            .meaning(
                "Whether a push that was written and got no response, or a 5xx response without one of APNs' documented "
                    + "reasons, is sent again. It may then arrive twice."
            ),
    ]

    static let rest: [APNSSetting] = [
        APNSSetting("massRejection.window", .integer(1...100_000)) { draft, value in
            guard case .integer(let window?) = value else { return }
            let old = draft.configuration.massRejection
            draft.configuration.massRejection = MassRejectionLimits(window: window, rejections: old.rejections)
        } get: {
            "\($0.massRejection.window)"
        }
        .meaning("How many device tokens are examined together for mass rejection."),
        APNSSetting("massRejection.rejections", .integer(1...100_000, offIsAllowed: true)) { draft, value in
            guard case .integer(let rejections) = value else { return }
            let old = draft.configuration.massRejection
            draft.configuration.massRejection = MassRejectionLimits(
                window: old.window,
                rejections: rejections ?? MassRejectionLimits.off.rejections
            )
        } get: {
            $0.massRejection.rejections == MassRejectionLimits.off.rejections ? "off" : "\($0.massRejection.rejections)"
        }
        .meaning(
            "If this many of `massRejection.window` tokens are refused, the environment or the topic must be wrong. At "
                + "most `massRejection.window`."
        ),
        APNSSetting("log.level", .choice(Logger.Level.allCases.map(\.rawValue)), sets: ["logger"]) { draft, value in
            guard case .text(let name) = value, let level = Logger.Level(rawValue: name) else { return }
            draft.configuration.logger.logLevel = level
        } get: { _ in
            // The initial level of the program's logging backend is not a setting of the client.
            nil
        }
        .meaning("The lowest level that the client logs. Default: the logger's."),
        .choice("log.deviceTokens", \.logging.deviceTokens, [("never", .never), ("shortened", .shortened)])
            .meaning(
                "Whether `debug` lines and spans about pushes name the device: the first four and the last four "
                    + "digits of its token, or the first two of a token of 16 digits or fewer."
            ),
    ]
}

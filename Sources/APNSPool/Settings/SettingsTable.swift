// This folder builds the configuration from environment variables and files. One table names every setting.
// Client/APNSClientConfiguration.swift describes what each value means for the client.

import Logging

/// Every setting that can be given as text. Files and environment variables are read by this table, and
/// `Docs/Configuration.md` is generated from it.
///
/// Defaults come from `APNSClientConfiguration` itself. The limits are those of `APNSClientConfiguration.validate()`;
/// tests check that the two agree.
package enum SettingsTable {
    /// The groups in the order of the documentation.
    package static let groups: [(title: String, settings: [APNSSetting])] = [
        ("Authentication", authentication), ("Service", service), ("Proxy", proxy), ("Pool", pool),
        ("Timeouts", timeouts), ("Trust", trust), ("Retries", retry), ("The rest", rest),
    ]

    package static let settings: [APNSSetting] = groups.flatMap { $0.settings }

    /// Settings of the tool `apns` only. They may appear in an environment or a file that the library and the tool
    /// share.
    package static let toolKeys: Set<String> = ["config", "topic", "inFlight", "verbose"]

    /// Variables of this package's own build.
    static let buildVariables: Set<String> = ["APNS_MICROBENCHMARKS"]

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
            "Instead of `keyFile`: the text of the key. Its line ends may be written as `\\n` or be lost, "
                + "and the whole may be in base64."
        ),
        .part("keyID", .string, sets: "authentication.keyID")
            .meaning(
                "The key's id, 10 characters. Not needed where `keyFile` has the name that the developer portal "
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
            .meaning("The certificate's private key, if it is in a file of its own."),
        .part("certificate", .pem, sets: "authentication.certificateBytes", "authentication")
            .meaning("Instead of `certificateFile`: the text of the certificate; its key is in `certificateKey`."),
        .part("certificateKey", .pem, sets: "authentication.privateKeyBytes", isSecret: true)
            .meaning("The text of the certificate's private key."),
        .part("pkcs12.file", .path, sets: "authentication.pkcs12File")
            .meaning("A client certificate with its key as a PKCS#12 file, whatever its name."),
        .part("pkcs12.data", .base64, sets: "authentication.pkcs12Bytes", isSecret: true)
            .meaning("Instead of `pkcs12.file`: what is in that file."),
        .part("passphrase", .string, sets: "authentication.passphrase", isSecret: true)
            .meaning("Of the certificate's key or the PKCS#12 file."),
        .part("certificatePasswordFile", .path, sets: "authentication.passphrase")
            .meaning("Instead of `passphrase`: a file whose first line it is."),
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
            .seconds(1)...(.seconds(86_400)),
            sets: "authentication.fileCheckInterval"
        )
        .meaning("How often the files of keys and certificates are looked at; a changed one is taken into use."),
    ]

    static let service: [APNSSetting] = [
        .part("environment", .choice(["production", "development", "sandbox"]), sets: "environment") {
            $0.environment == .production ? "production" : $0.environment == .development ? "development" : nil
        }
        .meaning("Which of APNs' environments; `sandbox` is another word for `development`."),
        .part("endpoint", .endpoint, sets: "environment.host", "environment.port")
            .meaning(
                "Another server that speaks APNs' protocol, instead of `environment`; then no authentication is "
                    + "needed."
            ),
        .part("host", .host, sets: "environment.host")
            .meaning("Instead of `endpoint`: its host alone; `port` names its port. Default: that of `environment`."),
        .part("port", .integer(1...65535), sets: "environment.port") {
            "\($0.environment.port)"
        }
        .meaning(
            "For APNs 443, or 2197 where a firewall must tell APNs from other HTTPS. An `endpoint` has its "
                + "own."
        ),
        .part("managementHost", .host, sets: "environment.managementHost")
            .meaning("The host that broadcast channels are managed on. Default: that of `environment`, or `host`."),
        .part("managementPort", .integer(1...65535), sets: "environment.managementPort")
            .meaning("Its port. Default: 2196 in production, 2195 in development, with `host` the same as `port`."),
    ]

    static let proxy: [APNSSetting] = [
        .part("proxy", .proxy, sets: "proxy.host", "proxy.port", "proxy.username", "proxy.password", isSecret: true)
            .meaning(
                "An HTTP proxy that all connections go through (CONNECT); user and password, if any, "
                    + "percent-encoded."
            ),
        .part("proxy.host", .host, sets: "proxy.host")
            .meaning("Instead of `proxy`, in parts: the proxy's host."),
        .part("proxy.port", .integer(1...65535), sets: "proxy.port")
            .meaning("Its port. Needed with `proxy.host`."),
        .part("proxy.username", .string, sets: "proxy.username")
            .meaning("For Basic authentication with the proxy; without a colon."),
        .part("proxy.password", .string, sets: "proxy.password", isSecret: true)
            .meaning("Goes with `proxy.username`."),
    ]

    static let pool: [APNSSetting] = [
        .integer("pool.size", \.pool.size, 0...1000)
            .meaning("Connections that are kept open."),
        .integer("pool.maxOverflow", \.pool.maxOverflow, 0...1000)
            .meaning("Connections opened above `pool.size` when pushes wait. The two together are 1 to 1000."),
        .choice("pool.strategy", \.pool.strategy, [("leastLoaded", .leastLoaded), ("lifo", .lifo), ("fifo", .fifo)])
            .meaning(
                "Which connection gets the next push: the least loaded, the one used last, the one used longest "
                    + "ago."
            ),
        .integer("pool.maxQueued", \.pool.maxQueued, 1...1_000_000)
            .meaning("Pushes that may wait for a free stream."),
        .size("pool.maxQueuedBytes", \.pool.maxQueuedBytes, 8192...(1 << 40))
            .meaning("Bytes of payload that may wait."),
        .duration("pool.maxQueueAge", orNever: \.pool.maxQueueAge, .milliseconds(1)...(.seconds(86_400)))
            .meaning("How long a push may wait for a stream; `never`: only its deadline counts."),
        .integer("pool.maxConcurrentStreams", \.pool.maxConcurrentStreams, 1...1000)
            .meaning("Streams on one connection, if APNs allows as many."),
        .duration("pool.idleTimeout", \.pool.idleTimeout, .seconds(1)...(.seconds(86_400)))
            .meaning("How long a connection above `pool.size` may idle."),
        .duration("pool.maximumLifetime", orNever: \.pool.maximumLifetime, .seconds(1)...(.seconds(86_400 * 365)))
            .meaning(
                "How long a connection is kept before another one takes its place, 10 % more or less; `never`: "
                    + "for ever."
            ),
        .duration("pool.connectSpacing", \.pool.connectSpacing, .zero ... .seconds(3600))
            .meaning("The pause between two connects."),
        .duration("pool.unavailableAfter", \.pool.unavailableAfter, .milliseconds(100)...(.seconds(3600)))
            .meaning("Without any connection for this long, `pool.whenUnavailable` holds."),
        .choice("pool.whenUnavailable", \.pool.whenUnavailable, [("fail", .fail), ("wait", .wait)])
            .meaning("Whether pushes then fail at once or wait until their deadlines."),
    ]

    static let timeouts: [APNSSetting] = [
        .duration("timeouts.deadline", \.timeouts.deadline, .milliseconds(1)...(.seconds(86_400)))
            .meaning("For a push that names no deadline: queue, connect, every try and the response together."),
        .duration("timeouts.response", \.timeouts.response, .milliseconds(1)...(.seconds(86_400)))
            .meaning("For the response to one try."),
        .duration("timeouts.connect", \.timeouts.connect, .milliseconds(1)...(.seconds(3600)))
            .meaning("For look-up, TCP, TLS and APNs' first SETTINGS together."),
        .duration("timeouts.drain", \.timeouts.drain, .zero ... .seconds(86_400))
            .meaning("For a graceful shutdown."),
    ]

    static let trust: [APNSSetting] = [
        .part("caFile", .path, sets: "trust.caFile")
            .meaning("A PEM file with trust roots beside the system's."),
        .part("caPEM", .pem, sets: "trust.caPEM")
            .meaning("Further trust roots as a PEM text."),
    ]

    static let retry: [APNSSetting] = [
        .integer("retry.maxAttempts", \.retry.maxAttempts, 1...5)
            .meaning("Tries of one push, the first included; 1 turns retries off."),
        .boolean("retry.retriesInternalServerError", \.retry.retriesInternalServerError)
            .meaning("Whether a response 500 is tried again."),
        .integer("retry.budgetPercent", \.retry.budgetPercent, 0...100)
            .meaning("Retries of 503 and 500 as a share of the last ten seconds' responses, in per cent."),
        .boolean("retry.resendsUnknown", \.retry.resendsUnknown)
            .meaning("Whether a push that was written and got no response is sent again. It may then arrive twice."),
    ]

    static let rest: [APNSSetting] = [
        APNSSetting("massRejection.window", .integer(1...100_000)) { draft, value in
            guard case .integer(let window?) = value else { return }
            let old = draft.configuration.massRejection
            draft.configuration.massRejection = MassRejectionLimits(window: window, rejections: old.rejections)
        } get: {
            "\($0.massRejection.window)"
        }
        .meaning("Of so many device tokens, the last ones that were answered, …"),
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
            "… so many refused ones mean that the environment or topic is wrong. At most `massRejection.window`."
        ),
        .duration("broadcastSpacing", \.broadcastSpacing, .zero ... .seconds(3600))
            .meaning("The least time between two broadcasts to one channel; 0: they are not held back."),
        .choice("onEscalation", \.onEscalation, [("restart", .restart), ("throw", .throw)])
            .meaning("What `run()` does when the supervision tree gives up, which takes a bug in the library."),
        APNSSetting("log.level", .choice(Logger.Level.allCases.map(\.rawValue)), sets: ["logger"]) { draft, value in
            guard case .text(let name) = value, let level = Logger.Level(rawValue: name) else { return }
            draft.configuration.logger.logLevel = level
        } get: { _ in
            // The initial level of the program's logging backend is not a setting of the client.
            nil
        }
        .meaning("The least level that the client logs. Default: the logger's."),
        .choice("log.deviceTokens", \.logging.deviceTokens, [("never", .never), ("shortened", .shortened)])
            .meaning(
                "Whether `debug` lines and spans about pushes name the device: its first four digits and its "
                    + "last four."
            ),
    ]
}

import Logging

/// Every setting that a text can express: the one table from which files and environments are read and
/// `Docs/Configuration.md` is written.
///
/// Defaults come from `APNSClientConfiguration` itself. The limits are those that `APNSClientConfiguration.validate()`
/// has; the tests hold the two together.
package enum SettingsTable {
    /// In the order of the documentation.
    package static let groups: [(title: String, settings: [APNSSetting])] = [
        ("Authentication", authentication), ("Service", service), ("Proxy", proxy), ("Pool", pool),
        ("Timeouts", timeouts), ("Trust", trust), ("Retries", retry), ("The rest", rest),
    ]

    package static let settings: [APNSSetting] = groups.flatMap { $0.settings }

    static let authentication: [APNSSetting] = [
        .part(
            "keyFile",
            .path,
            properties: ["authentication.keyFile"],
            "The `.p8` file with the key that signs provider tokens. With `certificateFile`: the certificate's key, if "
                + "that is a file of its own."
        ),
        .part(
            "privateKey",
            .pem,
            properties: ["authentication.privateKeyPEM", "authentication.privateKeyBytes"],
            isSecret: true,
            "Instead of `keyFile`: the text of the key. Its line ends may be written as `\\n` or be lost, and the whole "
                + "may be in base64."
        ),
        .part(
            "keyID",
            .string,
            properties: ["authentication.keyID"],
            "The key's id, 10 characters. Not needed where `keyFile` has the name that the developer portal gave it, "
                + "`AuthKey_XXXXXXXXXX.p8`."
        ),
        .part(
            "teamID",
            .string,
            properties: ["authentication.teamID"],
            "The id of the developer account's team, 10 characters. Needed with a key for provider tokens."
        ),
        .part(
            "certificateFile",
            .path,
            properties: ["authentication.certificateFile"],
            "A client certificate (PEM or DER) instead of provider tokens; its key is in `keyFile` or in the same file."
        ),
        .part(
            "certificate",
            .pem,
            properties: ["authentication.certificateBytes", "authentication"],
            "Instead of `certificateFile`: the text of the certificate; its key is in `privateKey`."
        ),
        .part(
            "pkcs12.file",
            .path,
            properties: ["authentication.pkcs12File"],
            "A client certificate with its key as a `.p12` file."
        ),
        .part(
            "pkcs12.data",
            .base64,
            properties: ["authentication.pkcs12Bytes"],
            isSecret: true,
            "Instead of `pkcs12.file`: what is in that file."
        ),
        .part(
            "passphrase",
            .string,
            properties: ["authentication.passphrase"],
            isSecret: true,
            "Of the certificate's key or the `.p12` file."
        ),
        .duration(
            "tokenRefreshInterval",
            \.authentication.tokenRefreshInterval,
            TokenPolicy.refreshLimits,
            properties: ["authentication.tokenRefreshInterval"],
            "How long one provider token is used."
        ),
        .part(
            "tokenFile",
            .path,
            properties: ["authentication.tokenSource"],
            "Shares the provider token with the other processes of this machine through this file "
                + "(`SharedFileTokenSource`)."
        ),
        .duration(
            "fileCheckInterval",
            properties: ["authentication.fileCheckInterval"],
            orNever: \.authentication.fileCheckInterval,
            .seconds(1)...(.seconds(86_400)),
            "How often the files of keys and certificates are looked at; a changed one is taken into use."
        ),
    ]

    static let service: [APNSSetting] = [
        .part(
            "environment",
            .choice(["production", "development", "sandbox"]),
            properties: ["environment"],
            "Which of APNs' environments; `sandbox` is another word for `development`."
        ) {
            $0.environment == .production ? "production" : $0.environment == .development ? "development" : nil
        },
        .part(
            "host",
            .host,
            properties: ["environment.host"],
            "Another server that speaks APNs' protocol, instead of `environment`; then no authentication is needed. Default: "
                + "that of `environment`."
        ),
        .part(
            "port",
            .integer(1...65535),
            properties: ["environment.port"],
            "443, or 2197 where a firewall must tell APNs from other HTTPS."
        ) {
            "\($0.environment.port)"
        },
        .part(
            "managementHost",
            .host,
            properties: ["environment.managementHost"],
            "The host that broadcast channels are managed on. Default: that of `environment`, or `host`."
        ),
        .part(
            "managementPort",
            .integer(1...65535),
            properties: ["environment.managementPort"],
            "Its port. Default: 2196 in production, 2195 in development, with `host` the same as `port`."
        ),
    ]

    static let proxy: [APNSSetting] = [
        .part(
            "proxy.host",
            .host,
            properties: ["proxy.host"],
            "An HTTP proxy that all connections go through (CONNECT)."
        ),
        .part("proxy.port", .integer(1...65535), properties: ["proxy.port"], "Its port. Needed with `proxy.host`."),
        .part(
            "proxy.username",
            .string,
            properties: ["proxy.username"],
            "For Basic authentication with the proxy; without a colon."
        ),
        .part(
            "proxy.password",
            .string,
            properties: ["proxy.password"],
            isSecret: true,
            "Goes with `proxy.username`."
        ),
    ]

    static let pool: [APNSSetting] = [
        .integer("pool.size", \.pool.size, 0...1000, "Connections that are kept open."),
        .integer(
            "pool.maxOverflow",
            \.pool.maxOverflow,
            0...1000,
            "Connections opened above `pool.size` when pushes wait. The two together are 1 to 1000."
        ),
        .choice(
            "pool.strategy",
            \.pool.strategy,
            [("leastLoaded", .leastLoaded), ("lifo", .lifo), ("fifo", .fifo)],
            "Which connection gets the next push: the least loaded, the one used last, the one used longest ago."
        ),
        .integer("pool.maxQueued", \.pool.maxQueued, 1...1_000_000, "Pushes that may wait for a free stream."),
        .size("pool.maxQueuedBytes", \.pool.maxQueuedBytes, 8192...(1 << 40), "Bytes of payload that may wait."),
        .duration(
            "pool.maxQueueAge",
            orNever: \.pool.maxQueueAge,
            .milliseconds(1)...(.seconds(86_400)),
            "How long a push may wait for a stream; `never`: only its deadline counts."
        ),
        .integer(
            "pool.maxConcurrentStreams",
            \.pool.maxConcurrentStreams,
            1...1000,
            "Streams on one connection, if APNs allows as many."
        ),
        .duration(
            "pool.idleTimeout",
            \.pool.idleTimeout,
            .seconds(1)...(.seconds(86_400)),
            "How long a connection above `pool.size` may idle."
        ),
        .duration(
            "pool.maximumLifetime",
            orNever: \.pool.maximumLifetime,
            .seconds(1)...(.seconds(86_400 * 365)),
            "How long a connection is kept before another one takes its place, 10 % more or less; `never`: for ever."
        ),
        .duration(
            "pool.connectSpacing",
            \.pool.connectSpacing,
            .zero ... .seconds(3600),
            "The pause between two connects."
        ),
        .duration(
            "pool.unavailableAfter",
            \.pool.unavailableAfter,
            .milliseconds(100)...(.seconds(3600)),
            "Without any connection for this long, `pool.whenUnavailable` holds."
        ),
        .choice(
            "pool.whenUnavailable",
            \.pool.whenUnavailable,
            [("fail", .fail), ("wait", .wait)],
            "Whether pushes then fail at once or wait until their deadlines."
        ),
    ]

    static let timeouts: [APNSSetting] = [
        .duration(
            "timeouts.deadline",
            \.timeouts.deadline,
            .milliseconds(1)...(.seconds(86_400)),
            "For a push that names no deadline: queue, connect, every try and the answer together."
        ),
        .duration(
            "timeouts.answer",
            \.timeouts.answer,
            .milliseconds(1)...(.seconds(86_400)),
            "For the answer to one try."
        ),
        .duration(
            "timeouts.connect",
            \.timeouts.connect,
            .milliseconds(1)...(.seconds(3600)),
            "For look-up, TCP, TLS and APNs' first SETTINGS together."
        ),
        .duration(
            "timeouts.drain",
            \.timeouts.drain,
            .zero ... .seconds(86_400),
            "For a graceful shutdown."
        ),
    ]

    static let trust: [APNSSetting] = [
        .part("caFile", .path, properties: ["trust.caFile"], "A PEM file with trust roots beside the system's."),
        .part("caPEM", .pem, properties: ["trust.caPEM"], "Further trust roots as a PEM text."),
    ]

    static let retry: [APNSSetting] = [
        .integer(
            "retry.maxAttempts",
            \.retry.maxAttempts,
            1...5,
            "Tries of one push, the first included; 1 turns retries off."
        ),
        .boolean(
            "retry.retriesInternalServerError",
            \.retry.retriesInternalServerError,
            "Whether an answer 500 is tried again."
        ),
        .integer(
            "retry.budgetPercent",
            \.retry.budgetPercent,
            0...100,
            "Retries of 503 and 500 as a share of the last ten seconds' answers, in per cent."
        ),
        .boolean(
            "retry.resendsUnknown",
            \.retry.resendsUnknown,
            "Whether a push that was written and got no answer is sent again. It may then arrive twice."
        ),
    ]

    static let rest: [APNSSetting] = [
        APNSSetting(
            "massRejection.window",
            .integer(1...100_000),
            "Of so many device tokens, the last ones that were answered, …"
        ) { draft, value in
            guard case .integer(let window?) = value else { return }
            let old = draft.configuration.massRejection
            draft.configuration.massRejection = MassRejectionLimits(window: window, rejections: old.rejections)
        } get: {
            "\($0.massRejection.window)"
        },
        APNSSetting(
            "massRejection.rejections",
            .integer(1...100_000, offIsAllowed: true),
            "… so many refused ones mean that the environment or topic is wrong. At most `massRejection.window`."
        ) { draft, value in
            guard case .integer(let rejections) = value else { return }
            let old = draft.configuration.massRejection
            draft.configuration.massRejection = MassRejectionLimits(
                window: old.window,
                rejections: rejections ?? MassRejectionLimits.off.rejections
            )
        } get: {
            $0.massRejection.rejections == MassRejectionLimits.off.rejections ? "off" : "\($0.massRejection.rejections)"
        },
        .duration(
            "broadcastSpacing",
            \.broadcastSpacing,
            .zero ... .seconds(3600),
            "The least time between two broadcasts to one channel; 0: they are not held back."
        ),
        .choice(
            "onEscalation",
            \.onEscalation,
            [("restart", .restart), ("throw", .throw)],
            "What `run()` does when the supervision tree gives up, which takes a bug in the library."
        ),
        APNSSetting(
            "log.level",
            .choice(Logger.Level.allCases.map(\.rawValue)),
            properties: ["logger"],
            "The least level that the client logs. Default: the logger's."
        ) { draft, value in
            guard case .text(let name) = value, let level = Logger.Level(rawValue: name) else { return }
            draft.configuration.logger.logLevel = level
        } get: { _ in
            // What the program's logging backend begins with is not the client's.
            nil
        },
        .choice(
            "log.deviceTokens",
            \.logging.deviceTokens,
            [("never", .never), ("shortened", .shortened)],
            "Whether `debug` lines and spans about pushes name the device: its first four digits and its last four."
        ),
    ]
}

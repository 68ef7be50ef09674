import APNSPool
import ArgumentParser

/// What all commands that send have in common. Each option is also read from the environment.
struct CommonOptions: ParsableArguments {
    @OptionGroup var configuration: ConfigurationOptions
    @OptionGroup var keyOptions: KeyOptions
    @OptionGroup var certificateOptions: CertificateOptions

    @Option(
        help: ArgumentHelp(
            "production or development; default production. [env: APNS_ENVIRONMENT]",
            valueName: "name"
        ),
        completion: .list(["production", "development"])
    )
    var environment: String?

    @Option(
        help: ArgumentHelp(
            "Another server that speaks APNs' protocol, instead of --environment. [env: APNS_ENDPOINT]",
            valueName: "https://host:port"
        )
    )
    var endpoint: String?

    @Option(
        help: ArgumentHelp(
            "443 or 2197, for firewalls that tell APNs from other HTTPS; default 443. [env: APNS_PORT]",
            valueName: "n"
        ),
        completion: .list(["443", "2197"])
    )
    var port: String?

    @Option(
        help: ArgumentHelp(
            "Go through this HTTP proxy (CONNECT); user and password percent-encoded. [env: APNS_PROXY]",
            valueName: "http://user:password@host:port"
        )
    )
    var proxy: String?

    @Option(
        help: ArgumentHelp("Trust these roots too, beside the system's. [env: APNS_CA_FILE]", valueName: "pem"),
        completion: .file(extensions: ["pem", "crt", "cer"])
    )
    var caFile: String?

    @Option(
        help: ArgumentHelp(
            "The app's bundle id; the suffix of the push type is added. [env: APNS_TOPIC]",
            valueName: "bundle-id"
        )
    )
    var topic: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("Connections that are kept; default 1. [env: APNS_POOL_SIZE]", valueName: "n")
    )
    var poolSize: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Connections opened above that when pushes wait; default 3. [env: APNS_MAX_OVERFLOW]",
            valueName: "n"
        )
    )
    var maxOverflow: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("Pushes under way at once; default 1000. [env: APNS_IN_FLIGHT]", valueName: "n")
    )
    var inFlight: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "How long a push may take in all, with every try; default 30. [env: APNS_TIMEOUT]",
            valueName: "seconds"
        )
    )
    var timeout: String?

    @Flag(help: "Log on standard error what the client does. [env: APNS_VERBOSE=1]")
    var verbose = false

    /// The options, checked.
    struct Resolved: Sendable {
        var authentication: APNSAuthentication
        var environment: APNSEnvironment
        var proxy: APNSClientConfiguration.Proxy?
        var caFile: String?
        var topic: String?
        var poolSize: Int
        var maxOverflow: Int
        var inFlight: Int
        var timeout: Duration
        var isVerbose: Bool
        /// The key that signs; nil without one.
        var key: KeyOptions.Key?
        /// The file of the client certificate; nil without one.
        var certificate: Setting?
        /// All that was given, in the order of the help, without secrets.
        var given: [GivenSetting] = []
        /// Made of all that, and of the client's settings that are no options.
        var configuration: APNSClientConfiguration

        func requireTopic() throws -> String {
            guard let topic else {
                throw UsageError("--topic (or APNS_TOPIC) is missing: the bundle id of the app that is pushed to.")
            }
            return topic
        }
    }

    func validate() throws {
        _ = try self.resolved()
    }

    func resolved(_ variables: EnvironmentVariables = .process) throws -> Resolved {
        var sources = GivenSettings(try self.configuration.sources(variables))
        let server = try self.server(&sources)
        let (keyFile, certificateFile) = try Setting.choose(
            self.keyOptions.file(sources.sources),
            self.certificateOptions.file(sources.sources)
        )
        var authentication = APNSAuthentication.withoutToken
        var key: KeyOptions.Key?
        if let certificateFile {
            let certificate = try self.certificateOptions.resolved(certificateFile, sources.sources)
            authentication = certificate.authentication
            sources.note("--certificate", certificateFile)
        } else {
            key = try self.keyOptions.resolved(sources.sources)
            if let key {
                authentication = key.authentication
                sources.note("--key", key.file)
                sources.note("--key-id", key.id)
                sources.note("--team-id", key.team)
                sources.note("--token-file", key.tokenFile)
            }
        }
        if keyFile == nil, certificateFile == nil, server.isApples {
            throw UsageError(
                "--key (or APNS_KEY_FILE) is missing: APNs at \(server.environment.host) wants a provider token. Only "
                    + "with an --endpoint of your own may it be left out."
            )
        }
        let proxy = try sources.find("--proxy", self.proxy, "APNS_PROXY", "tool.proxy", isSecret: true)
            .map { try ProxyURL($0).proxy }
        let caFile = sources.find("--ca-file", self.caFile, "APNS_CA_FILE", "apns.caFile")
        let topic = sources.find("--topic", self.topic, "APNS_TOPIC", "tool.topic")
        let poolSize =
            try sources.find("--pool-size", self.poolSize, "APNS_POOL_SIZE", "apns.pool.size")?
            .integer(0...500) ?? 1
        let maxOverflow =
            try sources.find(
                "--max-overflow",
                self.maxOverflow,
                "APNS_MAX_OVERFLOW",
                "apns.pool.maxOverflow"
            )?.integer(0...500) ?? 3
        guard poolSize + maxOverflow > 0 else {
            throw UsageError("--pool-size and --max-overflow are both 0: with no connection nothing can be sent.")
        }
        let inFlight = sources.find("--in-flight", self.inFlight, "APNS_IN_FLIGHT", "tool.inFlight")
        let timeout = sources.find("--timeout", self.timeout, "APNS_TIMEOUT", "tool.timeout")
        let verbose = sources.find("--verbose", self.verbose ? "1" : nil, "APNS_VERBOSE", "tool.verbose")
        let time = try timeout?.seconds(atMost: 86_400) ?? .seconds(30)
        let isVerbose = try verbose?.boolean() ?? false
        var configuration = APNSClientConfiguration(
            authentication: authentication,
            environment: server.environment,
            pool: .init(size: poolSize, maxOverflow: maxOverflow),
            timeouts: .init(deadline: time),
            trust: .init(caFile: caFile?.text),
            proxy: proxy,
            logger: .plain(isVerbose: isVerbose)
        )
        try ClientSettings.apply(to: &configuration, from: &sources, hasDeadline: timeout != nil)
        return Resolved(
            authentication: authentication,
            environment: server.environment,
            proxy: proxy,
            caFile: caFile?.text,
            topic: topic?.text,
            poolSize: poolSize,
            maxOverflow: maxOverflow,
            inFlight: try inFlight?.integer(1...100_000) ?? 1000,
            timeout: configuration.timeouts.deadline,
            isVerbose: isVerbose,
            key: key,
            certificate: certificateFile,
            given: sources.given,
            configuration: configuration
        )
    }

    private func server(_ sources: inout GivenSettings) throws -> (environment: APNSEnvironment, isApples: Bool) {
        // The command line wins over the environment; in one place the two contradict each other.
        let (endpoint, name) = try Setting.choose(
            sources.sources.setting("--endpoint", self.endpoint, "APNS_ENDPOINT", "tool.endpoint"),
            sources.sources.setting("--environment", self.environment, "APNS_ENVIRONMENT", "apns.environment")
        )
        let port = sources.sources.setting("--port", self.port, "APNS_PORT", "apns.port")
        if let endpoint {
            if let port, port.isFromCommandLine {
                throw UsageError("\(port.name) goes with --environment: an --endpoint has its port in itself.")
            }
            let server = try Endpoint(endpoint)
            sources.note("--endpoint", endpoint)
            return (.custom(host: server.host, port: server.port), server.isApples)
        }
        sources.note("--environment", name)
        sources.note("--port", port)
        let number = try port?.integer(1...65535) ?? 443
        guard number == 443 || number == 2197 else {
            throw UsageError("\(port?.name ?? ""): APNs listens on the ports 443 and 2197, not on \(number).")
        }
        switch name?.text {
        case nil, "production": return (.production(port: number), true)
        case "development", "sandbox": return (.development(port: number), true)
        case .some(let text):
            throw UsageError("\(name?.name ?? ""): '\(text)' is neither production nor development.")
        }
    }
}

/// An option that was given, and where.
struct GivenSetting: Encodable, Sendable {
    /// `--pool-size`
    var option: String
    /// Not that of a secret.
    var value: String
    /// `command line`, the name of a variable, or a key with its file.
    var origin: String
}

/// Looks options up and keeps what was found.
struct GivenSettings {
    let sources: SettingSources
    private(set) var given: [GivenSetting] = []

    init(_ sources: SettingSources) {
        self.sources = sources
    }

    mutating func find(
        _ option: String,
        _ value: String?,
        _ variable: String,
        _ key: String,
        isSecret: Bool = false
    ) -> Setting? {
        let setting = self.sources.setting(option, value, variable, key)
        self.note(option, setting, isSecret: isSecret)
        return setting
    }

    mutating func note(_ option: String, _ setting: Setting?, isSecret: Bool = false) {
        guard let setting else { return }
        let origin =
            switch setting.origin {
            case .commandLine: "command line"
            case .environment: setting.name
            case .file: "\(setting.name) in \(self.sources.file?.path ?? "")"
            }
        self.given.append(
            GivenSetting(option: option, value: isSecret ? "(not shown)" : setting.text, origin: origin)
        )
    }
}

/// `https://HOST:PORT`
struct Endpoint {
    var host: String
    var port: Int

    var isApples: Bool {
        let name = self.host.lowercased()
        return name == "push.apple.com" || name.hasSuffix(".push.apple.com")
    }

    init(_ setting: Setting) throws {
        let text = setting.text
        func wrong(_ what: String) -> UsageError {
            UsageError("\(setting.name): '\(text)' \(what). It has the form https://HOST:PORT.")
        }
        guard text.lowercased().hasPrefix("https://") else { throw wrong("does not start with https://") }
        switch HostAndPort.parse(text.dropFirst("https://".count)) {
        case .failure(let error): throw wrong(error.what)
        case .success(let parts):
            self.host = parts.host
            self.port = parts.port ?? 443
        }
    }
}

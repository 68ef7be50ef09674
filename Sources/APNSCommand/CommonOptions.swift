import APNSPool
import ArgumentParser

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Where options come from when the command line does not have them.
struct EnvironmentVariables: Sendable {
    /// An empty variable is none.
    var value: @Sendable (String) -> String?

    static let process = EnvironmentVariables { name in
        guard let text = getenv(name) else { return nil }
        return String(cString: text)
    }

    /// The option's value from the command line, or else from the environment.
    func setting(_ option: String, _ value: String?, _ variable: String) -> Setting? {
        if let value { return Setting(name: option, text: value, isFromCommandLine: true) }
        guard let text = self.value(variable), !text.isEmpty else { return nil }
        return Setting(name: variable, text: text, isFromCommandLine: false)
    }
}

/// One option as text, with the name to complain about.
struct Setting {
    var name: String
    var text: String
    var isFromCommandLine: Bool

    func integer(_ range: ClosedRange<Int>) throws -> Int {
        guard let number = Int(self.text), range.contains(number) else {
            throw UsageError(
                "\(self.name): '\(self.text)' is not a whole number from \(range.lowerBound) to \(range.upperBound)."
            )
        }
        return number
    }

    /// Seconds, with a fraction if need be.
    func seconds(atMost limit: Double) throws -> Duration {
        guard let number = Double(self.text), number >= 0.001, number <= limit else {
            throw UsageError("\(self.name): '\(self.text)' is not a number of seconds above 0, at most \(Int(limit)).")
        }
        return .milliseconds(Int64((number * 1000).rounded()))
    }

    func boolean() throws -> Bool {
        switch self.text.lowercased() {
        case "1", "true", "yes", "on": return true
        case "0", "false", "no", "off": return false
        default: throw UsageError("\(self.name): '\(self.text)' is neither 1 nor 0.")
        }
    }
}

/// Which key signs provider tokens.
struct KeyOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("The .p8 file of the developer portal. [env: APNS_KEY_FILE]", valueName: "p8")
    )
    var key: String?

    @Option(
        help: ArgumentHelp(
            "The key's id; taken from the name AuthKey_XXXXXXXXXX.p8 if left out. [env: APNS_KEY_ID]",
            valueName: "id"
        )
    )
    var keyID: String?

    @Option(help: ArgumentHelp("The id of the developer account's team. [env: APNS_TEAM_ID]", valueName: "id"))
    var teamID: String?

    @Option(
        help: ArgumentHelp(
            "Share the signed token through this file, so that all processes present one. [env: APNS_TOKEN_FILE]",
            valueName: "file"
        )
    )
    var tokenFile: String?

    struct Key {
        var file: String
        var id: String?
        var teamID: String
        var tokenFile: String?

        var authentication: APNSAuthentication {
            var authentication = APNSAuthentication.token(keyFile: self.file, keyID: self.id, teamID: self.teamID)
            authentication.tokenSource = self.tokenFile.map { SharedFileTokenSource(path: $0) }
            return authentication
        }
    }

    /// Nil without a key.
    func resolved(_ environment: EnvironmentVariables) throws -> Key? {
        let file = environment.setting("--key", self.key, "APNS_KEY_FILE")
        let id = environment.setting("--key-id", self.keyID, "APNS_KEY_ID")
        let team = environment.setting("--team-id", self.teamID, "APNS_TEAM_ID")
        let tokenFile = environment.setting("--token-file", self.tokenFile, "APNS_TOKEN_FILE")
        guard let file else {
            // What stands in the environment may be meant for other calls.
            for given in [id, team, tokenFile] {
                if let given, given.isFromCommandLine {
                    throw UsageError("\(given.name) says whose key it is, but --key (or APNS_KEY_FILE) names none.")
                }
            }
            return nil
        }
        guard let team else {
            throw UsageError("--team-id (or APNS_TEAM_ID) is missing: the key in \(file.name) needs its team's id.")
        }
        return Key(file: file.text, id: id?.text, teamID: team.text, tokenFile: tokenFile?.text)
    }
}

/// What all commands that send have in common. Each option is also read from the environment.
struct CommonOptions: ParsableArguments {
    @OptionGroup var keyOptions: KeyOptions

    @Option(
        help: ArgumentHelp(
            "production or development; default production. [env: APNS_ENVIRONMENT]",
            valueName: "name"
        )
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
        )
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
        help: ArgumentHelp("Trust these roots too, beside the system's. [env: APNS_CA_FILE]", valueName: "pem")
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
    struct Resolved {
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

        var configuration: APNSClientConfiguration {
            APNSClientConfiguration(
                authentication: self.authentication,
                environment: self.environment,
                pool: .init(size: self.poolSize, maxOverflow: self.maxOverflow),
                timeouts: .init(deadline: self.timeout),
                trust: .init(caFile: self.caFile),
                proxy: self.proxy,
                logger: .plain(isVerbose: self.isVerbose)
            )
        }

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
        let server = try self.server(variables)
        let key = try self.keyOptions.resolved(variables)
        if key == nil, server.isApples {
            throw UsageError(
                "--key (or APNS_KEY_FILE) is missing: APNs at \(server.environment.host) wants a provider token. Only "
                    + "with an --endpoint of your own may it be left out."
            )
        }
        let poolSize = try variables.setting("--pool-size", self.poolSize, "APNS_POOL_SIZE")?.integer(0...500) ?? 1
        let overflow = variables.setting("--max-overflow", self.maxOverflow, "APNS_MAX_OVERFLOW")
        let maxOverflow = try overflow?.integer(0...500) ?? 3
        guard poolSize + maxOverflow > 0 else {
            throw UsageError("--pool-size and --max-overflow are both 0: with no connection nothing can be sent.")
        }
        let inFlight = variables.setting("--in-flight", self.inFlight, "APNS_IN_FLIGHT")
        let timeout = variables.setting("--timeout", self.timeout, "APNS_TIMEOUT")
        let verbose = variables.setting("--verbose", self.verbose ? "1" : nil, "APNS_VERBOSE")
        return Resolved(
            authentication: key?.authentication ?? .withoutToken,
            environment: server.environment,
            proxy: try variables.setting("--proxy", self.proxy, "APNS_PROXY").map { try ProxyURL($0).proxy },
            caFile: variables.setting("--ca-file", self.caFile, "APNS_CA_FILE")?.text,
            topic: variables.setting("--topic", self.topic, "APNS_TOPIC")?.text,
            poolSize: poolSize,
            maxOverflow: maxOverflow,
            inFlight: try inFlight?.integer(1...100_000) ?? 1000,
            timeout: try timeout?.seconds(atMost: 86_400) ?? .seconds(30),
            isVerbose: try verbose?.boolean() ?? false
        )
    }

    private func server(
        _ variables: EnvironmentVariables
    ) throws -> (environment: APNSEnvironment, isApples: Bool) {
        var endpoint = variables.setting("--endpoint", self.endpoint, "APNS_ENDPOINT")
        var name = variables.setting("--environment", self.environment, "APNS_ENVIRONMENT")
        if let first = endpoint, let second = name {
            // The command line wins over the environment; on one level the two contradict each other.
            guard first.isFromCommandLine != second.isFromCommandLine else {
                throw UsageError("\(first.name) and \(second.name) contradict each other: give one of them.")
            }
            if first.isFromCommandLine { name = nil } else { endpoint = nil }
        }
        let port = variables.setting("--port", self.port, "APNS_PORT")
        if let endpoint {
            if let port, port.isFromCommandLine {
                throw UsageError("\(port.name) goes with --environment: an --endpoint has its port in itself.")
            }
            let server = try Endpoint(endpoint)
            return (.custom(host: server.host, port: server.port), server.isApples)
        }
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

import APNSPool
public import Configuration
import NATSPushQueue
import PushQueue

extension RelaySettings {
    /// Reads all settings: environment variables, files, or whatever the reader's providers have. `Relay/README.md`
    /// lists the keys.
    ///
    /// The files of keys, certificates and tokens are read now; this blocks.
    ///
    /// - Parameter reader: read once.
    /// - Throws: `RelaySettingsError` with all errors.
    public init(_ reader: ConfigReader) throws(RelaySettingsError) {
        var settings = SettingsReader(reader)
        self.init(apps: [])
        self.group.client = Self.client(&settings)
        self.apps = Self.apps(&settings)
        self.callers = Self.callers(&settings, apps: Set(self.apps.map(\.name)))
        self.webhooks = Self.webhooks(&settings, apps: Set(self.apps.map(\.name)))
        settings.int("group.maxConnections", 1...100_000, into: &self.group.maxConnections)
        var budget = 0
        settings.int("fleet.maxConnections", FleetSettings.range, into: &budget)
        if budget > 0 { self.fleet.maxConnections = budget }
        settings.duration("group.idleTimeout", .seconds(1)...(.seconds(86_400)), into: &self.group.idleTimeout)
        switch settings.text("group.isolation") {
        case nil, "perKey": break
        case "perApp": self.group.isolation = .perApp
        case let text?: settings.fail("group.isolation", "\"\(text)\" is neither perKey nor perApp")
        }
        self.http.read(&settings)
        self.dispatch.read(&settings)
        self.storage.read(&settings)
        if self.callers.isEmpty, !OriginGuard.isLoopbackAddress(self.http.host) {
            settings.fail("callers", "without callers, http.host must be a loopback address, not \(self.http.host)")
        }
        if Set(self.callers.map(\.tokenDigest)).count < self.callers.count {
            settings.fail("callers", "two callers have the same token; give each its own")
        }
        if self.http.maxBufferedBytes < self.http.maxBodyBytes {
            settings.fail("http.maxBufferedBytes", "it is smaller than http.maxBodyBytes")
        }
        // The clients' pushes in flight end within the time that is left for a shutdown.
        let drain = self.dispatch.shutdownTimeout / 3
        self.group.client.timeouts.drain = min(self.group.client.timeouts.drain, drain)
        guard settings.problems.isEmpty else { throw RelaySettingsError(settings.problems) }
    }

    /// The settings that the clients of all apps share.
    private static func client(_ settings: inout SettingsReader) -> APNSClientConfiguration {
        // Each app has its own credential and servers. The placeholder server needs no credential.
        var client = APNSClientConfiguration(authentication: .withoutToken, environment: .custom(host: "localhost"))
        // The clients drain after half of dispatch.shutdownTimeout, and must finish within the other half (12.5 s).
        client.timeouts.drain = .seconds(8)
        do throws(APNSSettingsError) {
            try client.apply(settings: [.reader(settings.reader)], prefix: "client")
        } catch {
            settings.fail("client", "\(error)")
        }
        if client.retry.resendsUnknown {
            settings.fail(
                "client.retry.resendsUnknown",
                "it would send pushes again whose callers did not ask for it; remove it, and let callers set resendUnknown "
                    + "of a push"
            )
        }
        return client
    }

    private static func apps(_ settings: inout SettingsReader) -> [RelayApp] {
        let names = settings.list("apps") ?? []
        if names.isEmpty { settings.fail("apps", "name at least one app, for example apps = fern") }
        var servers: [String: APNSEnvironment] = ["production": .production, "development": .development]
        for name in servers.keys.sorted() {
            guard let text = settings.text("server.\(name)") else { continue }
            if let server = Self.server(text) {
                servers[name] = server
            } else {
                settings.fail("server.\(name)", "\"\(text)\" is not a host or host:port, such as localhost:2197")
            }
        }
        return Self.unique(names, "apps", &settings).compactMap { name in
            let prefix = "app.\(name)"
            guard let topic = settings.text("\(prefix).topic") else {
                settings.fail("\(prefix).topic", "the app's bundle ID is missing")
                return nil
            }
            var environments = servers
            if let chosen = settings.list("\(prefix).environments") {
                environments = servers.filter { chosen.contains($0.key) }
                if environments.count != Set(chosen).count || environments.isEmpty {
                    settings.fail("\(prefix).environments", "expected production, development, or both")
                }
            }
            do throws(APNSSettingsError) {
                // Apple's servers need a credential; others may not.
                let servers = environments.values
                let strictest = servers.first { $0 == .production || $0 == .development } ?? servers.first
                var client = APNSClientConfiguration(
                    authentication: .withoutToken,
                    environment: strictest ?? .production
                )
                try client.apply(settings: [.reader(settings.reader)], prefix: prefix)
                return RelayApp(
                    name: name,
                    topic: topic,
                    authentication: client.authentication,
                    environments: environments
                )
            } catch {
                settings.fail(prefix, "\(error)")
                return nil
            }
        }
    }

    private static func server(_ text: String) -> APNSEnvironment? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard let host = parts.first, !host.isEmpty, parts.count <= 2 else { return nil }
        guard parts.count == 2 else { return .custom(host: String(host)) }
        guard let port = Int(parts[1]), (1...65_535).contains(port) else { return nil }
        return .custom(host: String(host), port: port)
    }

    private static func callers(_ settings: inout SettingsReader, apps: Set<String>) -> [Caller] {
        let names = settings.list("callers") ?? []
        return Self.unique(names, "callers", &settings).compactMap { name in
            let prefix = "caller.\(name)"
            guard let token = SecretText.read("\(prefix).token", &settings) else {
                settings.fail("\(prefix).token", "the caller's token is missing; set it, or \(prefix).tokenFile")
                return nil
            }
            if token.utf8.count < 16 { settings.fail("\(prefix).token", "a token needs at least 16 characters") }
            var caller = Caller(name: name, tokenDigest: SecretText.digest(token))
            caller.apps = Self.apps("\(prefix).apps", &settings, among: apps)
            settings.bool("\(prefix).operator", into: &caller.isOperator)
            var rate = 0
            settings.int("\(prefix).pushesPerSecond", 1...10_000_000, into: &rate)
            if rate > 0 { caller.pushesPerSecond = rate }
            return caller
        }
    }

    private static func webhooks(_ settings: inout SettingsReader, apps: Set<String>) -> [WebhookSettings] {
        let names = settings.list("webhooks") ?? []
        return Self.unique(names, "webhooks", &settings).compactMap { name in
            let prefix = "webhook.\(name)"
            guard let url = settings.text("\(prefix).url"), url.hasPrefix("https://") || url.hasPrefix("http://") else {
                settings.fail("\(prefix).url", "the webhook needs a URL that begins with https:// or http://")
                return nil
            }
            guard let secret = SecretText.read("\(prefix).secret", &settings).flatMap(SecretText.signingKey),
                secret.count >= 24
            else {
                settings.fail(
                    "\(prefix).secret",
                    "the webhook needs a secret of at least 24 bytes, as text or as whsec_ with base64"
                )
                return nil
            }
            var webhook = WebhookSettings(name: name, url: url, secret: secret)
            webhook.apps = Self.apps("\(prefix).apps", &settings, among: apps)
            settings.bool("\(prefix).onlyInvalidTokens", into: &webhook.onlyInvalidTokens)
            settings.int("\(prefix).batch", 1...1_000, into: &webhook.batch)
            settings.duration("\(prefix).timeout", .seconds(1)...(.seconds(300)), into: &webhook.timeout)
            settings.duration("\(prefix).giveUpAfter", .zero...(.seconds(30 * 86_400)), into: &webhook.giveUpAfter)
            return webhook
        }
    }

    private static func apps(_ key: String, _ settings: inout SettingsReader, among apps: Set<String>) -> Set<String>? {
        guard let names = settings.list(key) else { return nil }
        for name in names where !apps.contains(name) {
            settings.fail(key, "there is no app \"\(name)\"")
        }
        return Set(names)
    }

    /// The names without repetitions and without those that cannot be part of a key.
    private static func unique(_ names: [String], _ key: String, _ settings: inout SettingsReader) -> [String] {
        var seen: Set<String> = []
        return names.filter { name in
            guard name.utf8.count <= 64, name.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") })
            else {
                settings.fail(key, "\"\(name)\" is not a name: use up to 64 letters, digits and underscores")
                return false
            }
            guard seen.insert(name).inserted else {
                settings.fail(key, "\"\(name)\" is listed twice")
                return false
            }
            return true
        }
    }
}

extension HTTPSettings {
    fileprivate mutating func read(_ settings: inout SettingsReader) {
        self.host = settings.text("http.host") ?? self.host
        settings.int("http.port", 0...65_535, into: &self.port)
        self.certificateChainFile = settings.text("http.certificateChainFile")
        self.privateKeyFile = settings.text("http.privateKeyFile")
        self.clientAuthoritiesFile = settings.text("http.clientAuthoritiesFile")
        if (self.certificateChainFile == nil) != (self.privateKeyFile == nil) {
            settings.fail("http.certificateChainFile", "TLS needs both this and http.privateKeyFile")
        }
        if self.clientAuthoritiesFile != nil, self.certificateChainFile == nil {
            settings.fail("http.clientAuthoritiesFile", "client certificates need TLS: set http.certificateChainFile")
        }
        settings.int("http.maxBodyBytes", 1_024...1_073_741_824, into: &self.maxBodyBytes)
        settings.int("http.maxBufferedBytes", 65_536...(1 << 40), into: &self.maxBufferedBytes)
        settings.duration("http.requestTimeout", .seconds(1)...(.seconds(3_600)), into: &self.requestTimeout)
        settings.duration("http.idleTimeout", .seconds(1)...(.seconds(3_600)), into: &self.idleTimeout)
        settings.int("http.maxConnections", 1...100_000, into: &self.maxConnections)
        var perAddress = 0
        settings.int("http.maxConnectionsPerAddress", 1...100_000, into: &perAddress)
        if perAddress > 0 { self.maxConnectionsPerAddress = perAddress }
    }
}

extension DispatchSettings {
    fileprivate mutating func read(_ settings: inout SettingsReader) {
        settings.int("dispatch.maxInFlight", 1...100_000, into: &self.maxInFlight)
        settings.int("dispatch.batch", 1...10_000, into: &self.batch)
        settings.duration("dispatch.attemptDeadline", .seconds(1)...(.seconds(600)), into: &self.attemptDeadline)
        settings.duration("dispatch.settleMargin", .seconds(1)...(.seconds(86_400)), into: &self.settleMargin)
        let deadlines = Duration.seconds(1)...(.seconds(366 * 86_400))
        settings.duration("dispatch.defaultDeadline", deadlines, into: &self.defaultDeadline)
        settings.duration("dispatch.maxDeadline", deadlines, into: &self.maxDeadline)
        settings.int("dispatch.maxAttempts", 1...1_000, into: &self.maxAttempts)
        settings.duration("dispatch.shutdownTimeout", .seconds(1)...(.seconds(600)), into: &self.shutdownTimeout)
        if self.defaultDeadline > self.maxDeadline {
            settings.fail("dispatch.defaultDeadline", "must not be longer than dispatch.maxDeadline")
        }
    }
}

extension StorageSettings {
    fileprivate mutating func read(_ settings: inout SettingsReader) {
        self.file = settings.text("storage.file") ?? self.file
        settings.int("storage.capacity", 1...1_000_000_000, into: &self.capacity)
        settings.duration("storage.maxClockJump", .seconds(60)...(.seconds(366 * 86_400)), into: &self.maxClockJump)
        let range = Duration.zero...(.seconds(366 * 86_400))
        settings.duration("retention.outcomes", range, into: &self.retention.outcomes)
        settings.duration("retention.payloads", range, into: &self.retention.payloads)
        settings.duration("retention.idempotencyKeys", range, into: &self.retention.idempotencyKeys)
        settings.duration("retention.parked", range, into: &self.retention.parked)
        self.brokers = NATSOptions(&settings)
        settings.duration("nats.timeout", .seconds(1)...(.seconds(600)), into: &self.brokerTimeout)
        if self.brokers != nil, self.retention.payloads > .zero {
            settings.fail("retention.payloads", "a queue in brokers keeps no payloads of settled pushes; set 0s")
        }
    }
}

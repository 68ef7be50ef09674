@_spi(Relay) public import APNSPool
import PostgresPushQueue
import PushQueue
import WebPushGateway

extension RelaySettings {
    /// Reads all settings. `Relay/Operating.md` and `Relay/WebPush.md` list the keys.
    ///
    /// This blocks, because it reads the files of keys, certificates and tokens. An unknown key is an error.
    ///
    /// - Parameter sources: each setting is taken from the first source that has it.
    /// - Throws: `RelaySettingsError` with all errors.
    public init(_ sources: [APNSSettingsSource]) throws(RelaySettingsError) {
        var reader = SettingsReader(sources)
        var draft = RelaySettingsTable.Draft()
        reader.read(RelaySettingsTable.rows, into: &draft)
        let apps = reader.names(draft.appNames, "apps")
        let callers = reader.names(draft.callerNames, "callers")
        let webhooks = reader.names(draft.webhookNames, "webhooks")
        reader.reportUnknownKeys(apps: apps, callers: callers, webhooks: webhooks)

        self = draft.settings
        self.group.client = Self.client(&reader, sources)
        self.apps = Self.apps(apps, draft, &reader, sources)
        // The names of all apps, so that an error in one app causes no further errors in its callers.
        let names = Set(apps)
        self.callers = callers.compactMap { Caller($0, &reader, apps: names) }
        self.webhooks = webhooks.compactMap { WebhookSettings($0, &reader, apps: names) }
        self.storage.postgres = draft.postgres.flatMap { ConnectionSettings($0, &reader) }
        self.webPush = WebPushSettings(draft.webPush, &reader)
        self.check(draft, &reader)
        // The clients must finish their pushes in flight within the time that remains for a shutdown.
        let drain = self.dispatch.shutdownTimeout / 3
        self.group.client.timeouts.drain = min(self.group.client.timeouts.drain, drain)
        guard reader.faults.isEmpty else { throw RelaySettingsError(reader.faults) }
    }

    /// Checks that the settings fit together.
    private func check(_ draft: RelaySettingsTable.Draft, _ reader: inout SettingsReader) {
        // An empty list is a decision, such as that of the package before anyone has configured it.
        if draft.appNames.isEmpty, !reader.isFound("apps") {
            reader.complain("apps", .missing, "it is missing: name your apps, for example fern")
        }
        if draft.callerNames.isEmpty, !OriginGuard.isLoopbackAddress(self.http.host) {
            reader.complain(
                "callers",
                .missing,
                "it is missing: without callers, \(reader.writtenName("http.host")) must be a loopback address, "
                    + "not \(self.http.host)"
            )
        }
        let digests = self.callers.flatMap(\.tokenDigests)
        if Set(digests).count < digests.count {
            reader.complain("callers", .conflict, "two callers have the same token; give each caller its own")
        }
        if (self.http.certificateChainFile == nil) != (self.http.privateKeyFile == nil) {
            let keys = ["http.certificateChainFile", "http.privateKeyFile"]
            let (missing, given) = self.http.privateKeyFile == nil ? (keys[1], keys[0]) : (keys[0], keys[1])
            reader.require(missing, with: given)
        }
        if self.http.clientAuthoritiesFile != nil, self.http.certificateChainFile == nil {
            reader.complain(
                "http.clientAuthoritiesFile",
                .conflict,
                "client certificates need TLS: set \(reader.writtenName("http.certificateChainFile"))"
            )
        }
        if self.http.maxBufferedBytes < self.http.maxBodyBytes {
            reader.complain(
                "http.maxBufferedBytes",
                .conflict,
                "it is smaller than \(reader.writtenName("http.maxBodyBytes")), \(self.http.maxBodyBytes) bytes"
            )
        }
        let capacities =
            self.callers.map { ("caller.\($0.name).capacity", $0.capacity) }
            + self.apps.map { ("app.\($0.name).capacity", $0.capacity) }
        for (key, capacity) in capacities where capacity ?? 0 > self.storage.capacity {
            reader.complain(
                key,
                .conflict,
                "it is larger than \(reader.writtenName("storage.capacity")), \(self.storage.capacity) pushes"
            )
        }
        self.webPush?.check(self, &reader)
        if self.dispatch.defaultDeadline > self.dispatch.maxDeadline {
            reader.complain(
                "dispatch.defaultDeadline",
                .conflict,
                "it is longer than \(reader.writtenName("dispatch.maxDeadline")), \(self.dispatch.maxDeadline)"
            )
        }
    }

    /// The settings that the clients of all apps share.
    private static func client(
        _ reader: inout SettingsReader,
        _ sources: [APNSSettingsSource]
    ) -> APNSClientConfiguration {
        // Each app has its own credential and servers. The placeholder server needs no credential.
        var client = APNSClientConfiguration(authentication: .withoutToken, environment: .custom(host: "localhost"))
        // The clients drain after half of dispatch.shutdownTimeout, and must finish within the other half (12.5 s).
        client.timeouts.drain = .seconds(8)
        do throws(APNSSettingsError) {
            let keys = Set(RelaySettingsTable.clientKeys)
            try client.apply(settings: sources.map { $0.only(keys) }, prefix: "client")
        } catch {
            reader.add(error.faults)
        }
        if client.retry.resendsUnknown {
            reader.complain(
                "client.retry.resendsUnknown",
                .conflict,
                "with it, the relay would resend pushes although their callers did not ask for that; remove it, and let "
                    + "callers set resendUnknown for each push"
            )
        }
        return client
    }

    private static func apps(
        _ names: [String],
        _ draft: RelaySettingsTable.Draft,
        _ reader: inout SettingsReader,
        _ sources: [APNSSettingsSource]
    ) -> [RelayApp] {
        var servers: [String: APNSEnvironment] = ["production": .production, "development": .development]
        for (name, text) in [("production", draft.production), ("development", draft.development)] {
            guard let text else { continue }
            if let server = Self.server(text) {
                servers[name] = server
            } else {
                reader.complain(
                    "server.\(name)",
                    .malformed,
                    "'\(text)' is not a host or host:port, such as localhost:2197"
                )
            }
        }
        return names.compactMap { RelayApp($0, &reader, sources, servers: servers) }
    }

    private static func server(_ text: String) -> APNSEnvironment? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard let host = parts.first, !host.isEmpty, parts.count <= 2 else { return nil }
        guard parts.count == 2 else { return .custom(host: String(host)) }
        guard let port = Int(parts[1]), (1...65_535).contains(port) else { return nil }
        return .custom(host: String(host), port: port)
    }
}

extension RelayApp {
    fileprivate init?(
        _ name: String,
        _ reader: inout SettingsReader,
        _ sources: [APNSSettingsSource],
        servers: [String: APNSEnvironment]
    ) {
        let prefix = "app.\(name)"
        var app = RelaySettingsTable.App()
        reader.read(RelaySettingsTable.App.rows, below: prefix, into: &app)
        var environments = servers
        if let chosen = app.environments {
            environments = servers.filter { chosen.contains($0.key) }
            if environments.count != Set(chosen).count || environments.isEmpty {
                reader.complain("\(prefix).environments", .malformed, "expected production, development, or both")
            }
        }
        // Apple's servers need a credential. Other servers may not need one.
        let strictest =
            environments.values.first { $0 == .production || $0 == .development } ?? environments.values.first
        var client = APNSClientConfiguration(
            authentication: .withoutToken,
            environment: strictest ?? .production
        )
        do throws(APNSSettingsError) {
            let keys = Set(SettingsTable.credentialKeys.map { "\(prefix).\($0)" })
            try client.apply(settings: sources.map { $0.only(keys) }, prefix: prefix)
        } catch {
            reader.add(error.faults)
        }
        if let id = app.appIDPrefix,
            id.utf8.count != 10 || !id.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber) })
        {
            reader.complain("\(prefix).appIDPrefix", .malformed, "expected the 10 characters before the bundle ID")
        }
        guard let topic = app.topic else {
            reader.complain("\(prefix).topic", .missing, "it is missing: set the app's bundle ID")
            return nil
        }
        self.init(
            name: name,
            topic: topic,
            authentication: client.authentication,
            environments: environments,
            capacity: app.capacity,
            pushesPerSecond: app.pushesPerSecond,
            appIDPrefix: app.appIDPrefix ?? reader.value("\(prefix).teamID", .string)?.text
        )
    }
}

extension Caller {
    fileprivate init?(_ name: String, _ reader: inout SettingsReader, apps: Set<String>) {
        let prefix = "caller.\(name)"
        var caller = RelaySettingsTable.Caller()
        reader.read(RelaySettingsTable.Caller.rows, below: prefix, into: &caller)
        reader.check(caller.apps, "\(prefix).apps", areAmong: apps)
        let roles = reader.roles(caller.roles, "\(prefix).roles")
        let token = reader.secret(caller.token, orIn: caller.tokenFile, "\(prefix).token")
        let next = reader.secret(
            caller.nextToken,
            orIn: caller.nextTokenFile,
            "\(prefix).nextToken",
            isRequired: false
        )
        for (key, token) in [("token", token), ("nextToken", next)] {
            guard let token else { continue }
            do {
                try SecretText.checkToken(token)
                if token.utf8.count < 16 {
                    reader.complain("\(prefix).\(key)", .outOfRange, "a token needs at least 16 characters")
                }
            } catch {
                reader.complain("\(prefix).\(key)", .malformed, error.message)
            }
        }
        guard let token else { return nil }
        reader.check(next, "\(prefix).nextToken", differsFrom: token, "\(prefix).token")
        self.init(
            name: name,
            tokenDigests: ([token] + [next].compactMap { $0 }.filter { $0 != token }).map(SecretText.digest),
            apps: caller.apps.map(Set.init),
            roles: roles,
            pushesPerSecond: caller.pushesPerSecond,
            capacity: caller.capacity
        )
    }
}

extension WebhookSettings {
    fileprivate init?(_ name: String, _ reader: inout SettingsReader, apps: Set<String>) {
        let prefix = "webhook.\(name)"
        var webhook = RelaySettingsTable.Webhook()
        reader.read(RelaySettingsTable.Webhook.rows, below: prefix, into: &webhook)
        reader.check(webhook.apps, "\(prefix).apps", areAmong: apps)
        let isURL = webhook.url.map(CurlClient.isValid) ?? false
        if !isURL {
            reader.complain(
                "\(prefix).url",
                webhook.url == nil ? .missing : .malformed,
                "the webhook needs a URL with https:// or http://, a host, and no port above 65535"
            )
        }
        let secret = reader.signingKey(webhook.secret, orIn: webhook.secretFile, "\(prefix).secret")
        let next = reader.signingKey(
            webhook.nextSecret,
            orIn: webhook.nextSecretFile,
            "\(prefix).nextSecret",
            isRequired: false
        )
        guard let secret else { return nil }
        reader.check(next, "\(prefix).nextSecret", differsFrom: secret, "\(prefix).secret")
        guard isURL, let url = webhook.url else { return nil }
        self = webhook.settings
        self.name = name
        self.url = url
        self.secrets = [secret] + (next.map { [$0] } ?? [])
        self.apps = webhook.apps.map(Set.init)
    }
}

extension ConnectionSettings {
    /// The setting `storage.postgres`; nil if it is invalid, which is then reported.
    fileprivate init?(_ string: String, _ reader: inout SettingsReader) {
        do throws(QueueError) {
            try self.init(string)
        } catch {
            reader.complain("storage.postgres", .malformed, error.message)
            return nil
        }
    }
}

extension SettingsReader {
    /// Reports a missing setting that another one needs.
    fileprivate mutating func require(_ key: String, with other: String) {
        // If the setting has an invalid value, that was already reported.
        guard !self.isFound(key) else { return }
        self.complain(key, .missing, "it is not set, and '\(self.writtenName(other))' needs it")
    }

    /// Removes repeated names and names that cannot be part of a key, and reports them.
    fileprivate mutating func names(_ names: [String], _ key: String) -> [String] {
        var seen: Set<String> = []
        var result: [String] = []
        for name in names {
            if name.utf8.count > 64 || !name.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") }) {
                self.complain(key, .malformed, "'\(name)' is not a name: use up to 64 letters, digits and underscores")
            } else if !seen.insert(name).inserted {
                self.complain(key, .conflict, "'\(name)' is listed twice")
            } else {
                result.append(name)
            }
        }
        return result
    }

    /// Reports names that are not names of apps.
    fileprivate mutating func check(_ names: [String]?, _ key: String, areAmong apps: Set<String>) {
        for name in names ?? [] where !apps.contains(name) {
            self.complain(key, .conflict, "there is no app '\(name)'")
        }
    }

    /// The key of a webhook's signature; nil if its setting is missing or invalid, which is reported.
    fileprivate mutating func signingKey(
        _ text: String?,
        orIn file: String?,
        _ key: String,
        isRequired: Bool = true
    ) -> [UInt8]? {
        guard let text = self.secret(text, orIn: file, key, isRequired: isRequired) else { return nil }
        do {
            return try SecretText.signingKey(text)
        } catch {
            self.complain(key, .malformed, error.message)
            return nil
        }
    }

    /// Reports a next secret that is the same as the current one.
    fileprivate mutating func check<Secret: Equatable>(
        _ next: Secret?,
        _ key: String,
        differsFrom current: Secret,
        _ currentKey: String
    ) {
        guard next == current else { return }
        self.complain(
            key,
            .conflict,
            "it is the same as \(self.writtenName(currentKey)); set the new one, or remove it"
        )
    }

    /// The roles with these names; the standard ones if the setting is missing. Reports names that are not roles.
    fileprivate mutating func roles(_ names: [String]?, _ key: String) -> Set<Role> {
        guard let names else { return Role.standard }
        let allowed = "use \(Role.allCases.map(\.rawValue).joined(separator: ", "))"
        if names.isEmpty { self.complain(key, .malformed, "a caller needs at least one role: \(allowed)") }
        var roles: Set<Role> = []
        for name in names {
            guard let role = Role(rawValue: name) else {
                self.complain(key, .malformed, "'\(name)' is not a role: \(allowed)")
                continue
            }
            roles.insert(role)
        }
        return roles
    }

    /// Reports unknown keys, and settings of apps, callers and webhooks that are not listed.
    fileprivate mutating func reportUnknownKeys(apps: [String], callers: [String], webhooks: [String]) {
        let sections = [("app", "apps", apps), ("caller", "callers", callers), ("webhook", "webhooks", webhooks)]
        self.reportUnknownKeys(
            known: RelaySettingsTable.keys(apps: apps, callers: callers, webhooks: webhooks),
            explain: { written, source in
                for name in callers where source.spelling("caller.\(name).operator") == written {
                    let roles = source.spelling("caller.\(name).roles") ?? "roles"
                    return "there is no such setting; set '\(roles)' to operate"
                }
                for (section, list, names) in sections {
                    guard let start = source.beginning(of: section), written.hasPrefix(start) else { continue }
                    let isListed = names.contains { name in
                        source.beginning(of: "\(section).\(name)").map { written.hasPrefix($0) } ?? false
                    }
                    if !isListed { return "the name after '\(start)' is not in '\(source.spelling(list) ?? list)'" }
                }
                return nil
            }
        )
    }
}

extension APNSSettingsSource {
    /// The spelling in this source of the beginning of all keys below a path.
    fileprivate func beginning(of path: String) -> String? {
        // `x` stands for any key; it is removed again.
        self.spelling("\(path).x").map { String($0.dropLast()) }
    }
}

/// The errors in the settings.
public struct RelaySettingsError: Error, Sendable, Hashable, CustomStringConvertible {
    /// All errors; at least one.
    public var faults: [APNSSettingsError.Fault]

    public init(_ faults: [APNSSettingsError.Fault]) {
        self.faults = faults
    }

    /// One line for each error.
    public var description: String { self.faults.map(\.description).joined(separator: "\n") }
}

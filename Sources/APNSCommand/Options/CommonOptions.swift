@_spi(Relay) import APNSPool
import ArgumentParser
import Logging

/// The options of a command that only needs a key.
struct KeyOptions: SettingOptions {
    static let options = SettingOption.ofKey
    var values: [String: String] = [:]
}

/// The options of all commands that send. Each option is also read from the environment and the file of `--config`.
struct CommonOptions: SettingOptions {
    static let options = SettingOption.all
    var values: [String: String] = [:]

    func validate() throws {
        _ = try self.resolved()
    }

    /// The settings as given; keys and certificates are not read.
    func resolved() throws -> ToolSettings { try ToolSettings(self) }

    /// The settings, after keys, certificates and trust roots have been checked.
    func checked() throws -> ToolSettings { try self.resolved().checked() }
}

/// All settings of a command that sends.
struct ToolSettings: Sendable {
    var configuration: APNSClientConfiguration
    let topic: String?
    let inFlight: Int
    /// All given settings without secrets, in the order of the table.
    let given: [GivenSetting]
    /// The file of the key or certificate; nil if there is none.
    let credentialFile: String?
    /// Whether a key signs provider tokens.
    var hasKey: Bool { self.has("keyFile", "privateKey") }
    /// Whether there is a key or a certificate.
    var hasCredential: Bool {
        self.hasKey || self.has("certificateFile", "certificate", "pkcs12.data")
    }
    /// Whether a certificate authenticates the connection.
    var hasCertificate: Bool { self.hasCredential && !self.hasKey }
    /// Whether the certificate and its key are in a PKCS#12 file.
    var hasPKCS12: Bool {
        let path = self.credentialFile?.lowercased() ?? ""
        return self.has("pkcs12.data") || path.hasSuffix(".p12") || path.hasSuffix(".pfx")
    }
    private let draft: SettingsDraft

    /// - Throws: `UsageError` with all errors found.
    init(_ options: some SettingOptions) throws {
        func path(_ key: String) -> String { "apns.\(key)" }
        let values = Dictionary(uniqueKeysWithValues: options.values.map { (path($0.key), $0.value) })
        let names = Dictionary(uniqueKeysWithValues: type(of: options).options.map { (path($0.key), $0.written) })
        let variables = ToolProcess.current.variables
        var sources: [APNSSettingsSource] = [
            .options(values, names: names), .environment(variables),
        ]
        let config = path("config")
        // An empty option counts as missing, as everywhere.
        let files = [values[config], variables[APNSSetting.variable(config)]].compactMap { $0 }
        if let file = files.first(where: { !$0.isEmpty }) {
            let source: APNSSettingsSource
            do throws(APNSSettingsError) {
                source = try .jsonFile(file)
            } catch {
                throw UsageError("--config: \(error.text)")
            }
            guard source.has(below: "apns") || !source.has(below: "") else {
                throw UsageError("--config: '\(file)' has no \"apns\": all settings must be below it")
            }
            sources.append(source)
        }
        let base = APNSClientConfiguration(authentication: .withoutToken, logger: .plain(isVerbose: false))
        var draft = SettingsDraft(base, rows: SettingsTable.tool)
        draft.read(sources)
        if let error = draft.error { throw UsageError(error.text) }
        self.draft = draft
        self.configuration = draft.configuration
        if draft.boolean("verbose") == true, !draft.found.contains(where: { $0.key == "log.level" }) {
            self.configuration.logger.logLevel = .debug
        }
        self.topic = draft.text("topic")
        self.inFlight = draft.integer("inFlight") ?? 1000
        self.credentialFile = draft.text("keyFile") ?? draft.text("certificateFile")
        let options = Dictionary(uniqueKeysWithValues: SettingOption.all.map { ($0.key, $0.written) })
        self.given = draft.found.map { found in
            let origin = found.source.map { $0 == "environment" ? found.written : "\(found.written) in \($0)" }
            return GivenSetting(
                option: options[found.key] ?? path(found.key),
                value: found.text,
                origin: origin ?? "command line"
            )
        }
    }

    /// The files of the settings that are only read, as the user wrote the settings.
    var inputs: [(option: String, path: String)] {
        self.draft.files.filter { $0.key != "tokenFile" }.map { ($0.written, $0.path) }
    }

    /// The file that processes share the provider token through, if there is one.
    var tokenFile: (option: String, path: String)? {
        self.draft.files.first { $0.key == "tokenFile" }.map { ($0.written, $0.path) }
    }

    private func has(_ keys: String...) -> Bool { self.draft.found.contains { keys.contains($0.key) } }

    /// Warns that APNs takes pushes of this type only with a provider token, if the credential is a certificate.
    ///
    /// Source: Apple, "Starting and updating Live Activities with ActivityKit push notifications".
    func warnAboutCertificate(_ type: PushType) {
        guard type == .liveactivity, self.hasCertificate else { return }
        Standard.error.print("apns: warning: \(Self.liveActivitiesNeedAKey)")
    }

    static let liveActivitiesNeedAKey =
        "APNs accepts Live Activities and broadcasts only with a provider token. Give --key instead of --certificate."

    func requireTopic() throws -> String {
        guard let topic else {
            throw UsageError("Missing --topic (or APNS_TOPIC): the app's bundle id.")
        }
        return topic
    }

    /// The bundle id of the topic, which may end with the suffix of Live Activities.
    func requireLiveActivityTopic() throws -> String {
        let topic = try self.requireTopic()
        let suffix = PushType.liveactivity.topicSuffix
        if topic.hasSuffix(suffix) { return String(topic.dropLast(suffix.count)) }
        // The other suffixes are plain words, which the bundle id of an app may end with.
        let other = PushType.known.first { $0.topicSuffix.hasPrefix(".push") && topic.hasSuffix($0.topicSuffix) }
        if let other {
            throw UsageError(
                "--topic: '\(topic)' is a topic of the push type \(other). Channels and broadcasts are for Live Activities: "
                    + "give '\(topic.dropLast(other.topicSuffix.count))'."
            )
        }
        return topic
    }

    /// - Throws: `APNSSettingsError`.
    func checked() throws -> ToolSettings {
        var draft = self.draft
        draft.readFiles()
        if let error = draft.error { throw error }
        return self
    }

    /// Expresses an error of the client in terms of options, variables and keys.
    func fault(for error: APNSConfigurationError) -> APNSSettingsError.Fault { self.draft.fault(for: error) }
}

extension APNSSettingsError {
    /// One line for each fault.
    var text: String { self.faults.map(\.description).joined(separator: "\n") }
}

/// An option that was given, with its origin.
struct GivenSetting: Encodable, Sendable {
    /// `--pool-size`
    var option: String
    /// The value; replaced for a secret.
    var value: String
    /// `command line`, the name of a variable, or a key and its file.
    var origin: String
}

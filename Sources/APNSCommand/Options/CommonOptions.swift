import APNSPool
import ArgumentParser
import Logging

/// The key that signs provider tokens, and the configuration file that may name it.
struct KeyOptions: ParsableArguments {
    @Option(.config) var config: String?
    @Option(.key) var key: String?
    @Option(.keyID) var keyID: String?
    @Option(.teamID) var teamID: String?
    @Option(.tokenFile) var tokenFile: String?

    var values: [(SettingOption, String?)] {
        [
            (.config, self.config), (.key, self.key), (.keyID, self.keyID), (.teamID, self.teamID),
            (.tokenFile, self.tokenFile),
        ]
    }
}

/// The options of all commands that send. Each option is also read from the environment and the file of `--config`.
///
/// It repeats the options of `KeyOptions`: in a debug build, the parser builds the options of a nested group four times
/// as often for each level of nesting. Therefore no group contains another.
struct CommonOptions: ParsableArguments {
    @Option(.config) var config: String?
    @Option(.key) var key: String?
    @Option(.keyID) var keyID: String?
    @Option(.teamID) var teamID: String?
    @Option(.tokenFile) var tokenFile: String?
    @Option(.certificate) var certificate: String?
    @Option(.certificateKey) var certificateKey: String?
    @Option(.certificatePasswordFile) var certificatePasswordFile: String?
    @Option(.environment) var environment: String?
    @Option(.endpoint) var endpoint: String?
    @Option(.port) var port: String?
    @Option(.proxy) var proxy: String?
    @Option(.caFile) var caFile: String?
    @Option(.topic) var topic: String?
    @Option(.poolSize) var poolSize: String?
    @Option(.maxOverflow) var maxOverflow: String?
    @Option(.inFlight) var inFlight: String?
    @Option(.timeout) var timeout: String?
    @Flag(help: "\(SettingOption.verbose.help) [env: \(SettingOption.verbose.variable)=1]") var verbose = false

    private var values: [(SettingOption, String?)] {
        [
            (.config, self.config), (.key, self.key), (.keyID, self.keyID), (.teamID, self.teamID),
            (.tokenFile, self.tokenFile), (.certificate, self.certificate), (.certificateKey, self.certificateKey),
            (.certificatePasswordFile, self.certificatePasswordFile), (.environment, self.environment),
            (.endpoint, self.endpoint), (.port, self.port), (.proxy, self.proxy), (.caFile, self.caFile),
            (.topic, self.topic), (.poolSize, self.poolSize), (.maxOverflow, self.maxOverflow),
            (.inFlight, self.inFlight), (.timeout, self.timeout), (.verbose, self.verbose ? "true" : nil),
        ]
    }

    func validate() throws {
        _ = try self.resolved()
    }

    /// The settings as given; keys and certificates are not read.
    func resolved() throws -> ToolSettings { try ToolSettings(self.values) }

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
        self.hasKey || self.has("certificateFile", "certificate", "pkcs12.file", "pkcs12.data")
    }
    private let draft: SettingsDraft

    /// - Throws: `UsageError` with all errors found.
    init(_ options: [(option: SettingOption, value: String?)]) throws {
        var values: [String: String] = [:]
        for (option, value) in options { values["apns.\(option.key)"] = value }
        let names = options.map { ("apns.\($0.option.key)", $0.option.written) }
        let variables = ToolProcess.current.variables
        var sources: [APNSSettingsSource] = [
            .options(values, names: Dictionary(uniqueKeysWithValues: names)), .environment(variables),
        ]
        let config = SettingOption.config
        // An empty option counts as missing, as everywhere.
        let files = [values["apns.\(config.key)"], variables[config.variable]].compactMap { $0 }
        if let file = files.first(where: { !$0.isEmpty }) {
            let source: APNSSettingsSource
            do throws(APNSSettingsError) {
                source = try .jsonFile(file)
            } catch {
                throw UsageError("\(config.written): \(error.text)")
            }
            guard source.has(below: "apns") || !source.has(below: "") else {
                throw UsageError("\(config.written): '\(file)' has no \"apns\": all settings must be below it")
            }
            sources.append(source)
        }
        let base = APNSClientConfiguration(authentication: .withoutToken, logger: .plain(isVerbose: false))
        var draft = SettingsDraft(base, rows: SettingOption.rows)
        draft.read(sources)
        if let error = draft.error { throw UsageError(error.text) }
        self.draft = draft
        self.configuration = draft.configuration
        if draft.boolean("verbose") == true, !draft.found.contains(where: { $0.key == "log.level" }) {
            self.configuration.logger.logLevel = .debug
        }
        self.topic = draft.text("topic")
        self.inFlight = draft.integer("inFlight") ?? 1000
        self.credentialFile = draft.text("keyFile") ?? draft.text("certificateFile") ?? draft.text("pkcs12.file")
        let options = Dictionary(uniqueKeysWithValues: SettingOption.all.map { ($0.key, $0.written) })
        self.given = draft.found.map { found in
            let origin = found.source.map { $0 == "environment" ? found.written : "\(found.written) in \($0)" }
            return GivenSetting(
                option: options[found.key] ?? "apns.\(found.key)",
                value: found.text,
                origin: origin ?? "command line"
            )
        }
    }

    private func has(_ keys: String...) -> Bool { self.draft.found.contains { keys.contains($0.key) } }

    func requireTopic() throws -> String {
        guard let topic else {
            throw UsageError("Missing --topic (or APNS_TOPIC): the app's bundle id.")
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

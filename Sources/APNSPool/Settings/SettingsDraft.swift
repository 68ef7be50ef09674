/// A configuration while its settings are read: the applied settings, the settings that can be applied only together
/// with others, and the errors.
///
/// Each setting is taken from the first source that has it: the tool's options, the environment, a file. Otherwise it
/// keeps the configuration's value.
package struct SettingsDraft {
    package typealias Fault = APNSSettingsError.Fault

    /// A setting in use and its location.
    package struct Found: Sendable {
        /// The key without the prefix.
        package var key: String
        package var written: String
        package var source: String?
        /// The value; hidden for a secret.
        package var text: String
    }

    package internal(set) var configuration: APNSClientConfiguration
    /// The settings that are parts of a combined value, by their keys.
    var parts: [String: SettingKind.Value] = [:]
    private var reader: SettingsReader
    private let prefix: String
    private let rows: [APNSSetting]
    private var hasUsableAuthentication = false

    /// - Parameters:
    ///   - configuration: The values of settings that no source has.
    ///   - prefix: The prefix of all keys.
    ///   - rows: Settings in addition to the client's. The code that adds them reads their values.
    package init(_ configuration: APNSClientConfiguration, prefix: String = "apns", rows: [APNSSetting] = []) {
        self.configuration = configuration
        self.prefix = prefix
        self.rows = SettingsTable.settings + rows
        self.reader = SettingsReader([], prefix: prefix)
    }

    var faults: [Fault] { self.reader.faults }

    /// All errors; nil if there are none.
    package var error: APNSSettingsError? { self.faults.isEmpty ? nil : APNSSettingsError(faults: self.faults) }

    // MARK: Reading

    /// Takes each setting from the first source that has it, then builds the configuration. The only file it reads is
    /// that of a passphrase (`certificatePasswordFile`).
    package mutating func read(_ sources: [APNSSettingsSource]) {
        self.reader = SettingsReader(sources, prefix: self.prefix) {
            $0.hasPrefix("certificate") ? "certificateKey" : "privateKey"
        }
        // One environment serves the library, the tool, the relay and this package's own build.
        let isShared = self.prefix == "apns"
        self.reader.reportUnknownKeys(
            known: self.rows.map(\.key) + (isShared ? SettingsTable.tool.map(\.key) : []),
            isForeign: { isShared && SettingsTable.isForeign($0) }
        )
        for setting in self.rows {
            if let value = self.reader.value(setting.key, setting.kind, isSecret: setting.isSecret) {
                setting.put(&self, value)
            }
        }
        self.setService()
        self.setProxy()
        self.setTrust()
        self.checkMassRejection()
        let count = self.faults.count
        self.setAuthentication()
        self.hasUsableAuthentication = self.faults.count == count
        // `validate()` checks the whole configuration. After an error that is incomplete, and checking it would cause
        // misleading errors.
        guard self.faults.isEmpty else { return }
        self.check { configuration throws(APNSConfigurationError) in try configuration.validate() }
    }

    /// Reads the files of keys, certificates and trust roots to detect errors in them. Blocks.
    package mutating func readFiles() {
        if self.hasUsableAuthentication {
            self.check { configuration throws(APNSConfigurationError) in
                _ = try configuration.authentication.resolve(wallNow: configuration.wallClock())
            }
        }
        guard self.hasValue("caFile") || self.hasValue("caPEM") else { return }
        self.check { configuration throws(APNSConfigurationError) in
            _ = try TLSContexts(trust: configuration.trust).context(for: nil)
        }
    }

    private mutating func check(_ body: (APNSClientConfiguration) throws(APNSConfigurationError) -> Void) {
        do throws(APNSConfigurationError) {
            try body(self.configuration)
        } catch {
            self.reader.add([self.fault(for: error)])
        }
    }

    // MARK: Found settings

    /// The settings that are in use, in the order of the table.
    package var found: [Found] {
        self.rows.compactMap { setting in
            self.reader.origins[setting.key].map {
                Found(key: setting.key, written: $0.written, source: $0.source, text: $0.text)
            }
        }
    }

    /// The paths of files that are in use, with their settings as they were written, in the order of the table.
    package var files: [(key: String, written: String, path: String)] {
        self.rows.filter { $0.kind == .path }.compactMap { setting in
            guard let path = self.text(setting.key), let origin = self.reader.origins[setting.key] else { return nil }
            return (setting.key, origin.written, path)
        }
    }

    /// Whether a source has the setting with a valid value. Only for settings that are parts of a combined value.
    func hasValue(_ key: String) -> Bool { self.parts[key] != nil }
    /// Whether the setting was given, even with an invalid value, which has already been reported.
    func isFound(_ key: String) -> Bool { self.reader.isFound(key) }
    package func text(_ key: String) -> String? { self.parts[key]?.text }
    package func integer(_ key: String) -> Int? { self.parts[key]?.integer }
    package func boolean(_ key: String) -> Bool? { self.parts[key]?.boolean }

    // MARK: Reporting errors

    mutating func complain(_ key: String, _ code: APNSConfigurationError.Code, _ message: String) {
        self.reader.complain(key, code, message)
    }

    /// Converts an error of the client, which names properties, to an error that names settings.
    package func fault(for error: APNSConfigurationError) -> Fault {
        let properties = error.setting.split(separator: " ").map(String.init)
        let candidates = self.rows.filter { !Set($0.properties).isDisjoint(with: properties) }
        let key = self.likeliest(candidates)?.key ?? error.setting
        // Replace words with a dot in them that are properties; keep all other words.
        let message = error.message.replacing(/[a-zA-Z][a-zA-Z0-9]*(\.[a-zA-Z0-9]+)+/) { match in
            let property = String(match.output.0)
            let rows = self.rows.filter { $0.properties.contains(property) }
            return self.likeliest(rows).map { self.reader.writtenName($0.key) } ?? property
        }
        return self.reader.fault(key, error.code, message)
    }

    /// Among settings of one property: the one that was given, or else one that goes with the credential and that the first
    /// source could have, such as an option.
    private func likeliest(_ rows: [APNSSetting]) -> APNSSetting? {
        if let found = rows.first(where: { self.isFound($0.key) }) { return found }
        // A certificate's key is not the key of provider tokens.
        let companions = self.companions
        let suitable = rows.filter { companions.contains($0.key) }
        let rows = suitable.isEmpty ? rows : suitable
        return rows.first { self.reader.isInFirstSource($0.key) } ?? rows.first
    }

    // MARK: Names

    func name(_ key: String) -> String { self.reader.name(key) }
    func writtenName(_ key: String) -> String { self.reader.writtenName(key) }

    // MARK: Mutually exclusive settings

    /// Returns the one from the earliest source among mutually exclusive settings, and excludes the others (`exclude`).
    mutating func chooseOne(of keys: [String]) -> String? {
        func layer(_ key: String) -> Int { self.reader.origins[key]?.layer ?? 0 }
        guard let winner = keys.filter({ self.hasValue($0) }).min(by: { layer($0) < layer($1) }) else { return nil }
        for other in keys where other != winner { self.exclude(other, by: winner) }
        return winner
    }

    /// Whether a setting comes from a later source than another one.
    func isLater(_ key: String, than other: String) -> Bool {
        guard self.hasValue(key), let origin = self.reader.origins[key], let other = self.reader.origins[other]
        else { return false }
        return origin.layer > other.layer
    }

    mutating func drop(_ key: String) {
        self.parts[key] = nil
        self.reader.forget(key)
    }

    /// Drops a setting that contradicts one of an earlier source. If it is in the same source or an earlier one,
    /// reports an error.
    mutating func exclude(_ key: String, by winner: String) {
        guard self.hasValue(key), let other = self.reader.origins[winner] else { return }
        if self.isLater(key, than: winner) {
            self.drop(key)
        } else {
            self.complain(key, .conflict, "it and '\(other.written)' exclude each other: give only one of them")
        }
    }
}

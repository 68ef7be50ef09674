/// A configuration while its settings are read: the applied settings, the settings that can be applied only together
/// with others, and the errors.
///
/// Each setting is taken from the first source that has it: the tool's options, the environment, a file. Otherwise it
/// keeps the configuration's value.
package struct SettingsDraft {
    package typealias Fault = APNSSettingsError.Fault

    /// The place where a setting was found.
    struct Origin {
        var written: String
        var source: String?
        /// The number of the source; lower numbers take precedence.
        var layer: Int
        /// The part of the value that may be shown.
        var text: String
    }

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
    private var origins: [String: Origin] = [:]
    private(set) var faults: [Fault] = []
    private let prefix: String
    private let rows: [APNSSetting]
    private var sources: [APNSSettingsSource] = []
    private var hasUsableAuthentication = false

    /// - Parameters:
    ///   - configuration: The values of settings that no source has.
    ///   - prefix: The prefix of all keys.
    ///   - rows: Settings in addition to the client's. The code that adds them reads their values.
    package init(_ configuration: APNSClientConfiguration, prefix: String = "apns", rows: [APNSSetting] = []) {
        self.configuration = configuration
        self.prefix = prefix
        self.rows = SettingsTable.settings + rows
    }

    /// All errors; nil if there are none.
    package var error: APNSSettingsError? { self.faults.isEmpty ? nil : APNSSettingsError(faults: self.faults) }

    // MARK: Reading

    /// Takes each setting from the first source that has it, then builds the configuration. The only file it reads is
    /// that of a passphrase (`certificatePasswordFile`).
    package mutating func read(_ sources: [APNSSettingsSource]) {
        self.sources = sources
        for source in sources { self.faults += source.faultsForUnknownKeys(in: self.rows, prefix: self.prefix) }
        for setting in self.rows {
            let path = APNSSetting.path(self.prefix, setting.key)
            for (layer, source) in sources.enumerated() {
                guard let finding = source.find(path, setting) else { continue }
                var shown = "(not shown)"
                if case .text(let text) = finding {
                    // Templates write empty text to omit a setting.
                    if text.withoutBlanksAround.isEmpty { continue }
                    if setting.isShown { shown = SettingKind.shown(text) }
                }
                let written = source.written(path) ?? path
                self.origins[setting.key] = Origin(written: written, source: source.name, layer: layer, text: shown)
                self.take(finding, for: setting)
                break
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
            self.faults.append(self.fault(for: error))
        }
    }

    private mutating func take(_ finding: APNSSettingsSource.Finding, for setting: APNSSetting) {
        guard case .text(let text) = finding else {
            if case .unusable(let what) = finding {
                self.complain(setting.key, .malformed, "it is \(what), not one value")
            }
            return
        }
        if !setting.isSecret, setting.kind != .pem, Self.isPrivateKey(text) {
            self.origins[setting.key]?.text = "(not shown)"
            let key = APNSSetting.path(self.prefix, "privateKey")
            return self.complain(setting.key, .malformed, "it is the text of a private key, which belongs to '\(key)'")
        }
        do throws(SettingKind.Mistake) {
            setting.put(&self, try setting.kind.value(text))
        } catch {
            // Text before an '@' may be a password.
            let isShown = setting.isShown && !text.contains("@")
            var message = setting.kind.message(text, error, isShown: isShown)
            if KubernetesService.isAddress(text), let origin = self.origins[setting.key] {
                message += ". \(KubernetesService.advice(origin.written))"
            }
            self.complain(setting.key, error.code, message)
        }
    }

    /// Detects a private key in a setting whose value is shown, so that it is hidden.
    private static func isPrivateKey(_ text: String) -> Bool {
        let text = text.withoutBlanksAround
        if text.contains("PRIVATE KEY") { return true }
        // Base64 of "-----BEGIN " and of the first bytes of a key in PKCS#8.
        return text.count > 60 && (text.hasPrefix("LS0tLS1CRUdJTi") || text.hasPrefix("MIG"))
    }

    // MARK: Found settings

    /// The settings that are in use, in the order of the table.
    package var found: [Found] {
        self.rows.compactMap { setting in
            self.origins[setting.key].map {
                Found(key: setting.key, written: $0.written, source: $0.source, text: $0.text)
            }
        }
    }

    /// Whether a source has the setting with a valid value. Only for settings that are parts of a combined value.
    func hasValue(_ key: String) -> Bool { self.parts[key] != nil }
    /// Whether the setting was given, even with an invalid value, which has already been reported.
    func isFound(_ key: String) -> Bool { self.origins[key] != nil }
    package func text(_ key: String) -> String? { self.parts[key]?.text }
    package func integer(_ key: String) -> Int? { self.parts[key]?.integer }
    package func boolean(_ key: String) -> Bool? { self.parts[key]?.boolean }

    // MARK: Reporting errors

    mutating func complain(_ key: String, _ code: APNSConfigurationError.Code, _ message: String) {
        self.faults.append(self.fault(key, code, message))
    }

    private func fault(_ key: String, _ code: APNSConfigurationError.Code, _ message: String) -> Fault {
        let origin = self.origins[key]
        return Fault(
            code: code,
            key: APNSSetting.path(self.prefix, key),
            written: origin?.written ?? self.name(key),
            source: origin?.source,
            message: message
        )
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
            return self.likeliest(rows).map { self.writtenName($0.key) } ?? property
        }
        return self.fault(key, error.code, message)
    }

    /// Among settings of one property: the one that was given, or else one that the first source could have, such as an
    /// option.
    private func likeliest(_ rows: [APNSSetting]) -> APNSSetting? {
        rows.first { self.isFound($0.key) }
            ?? rows.first { self.sources.first?.written(APNSSetting.path(self.prefix, $0.key)) != nil } ?? rows.first
    }

    /// The ways to write the setting: "--key (or APNS_KEY_FILE)".
    func name(_ key: String) -> String {
        let names = self.names(key)
        return names.count > 1 ? "\(names[0]) (or \(names[1]))" : names[0]
    }

    private func names(_ key: String) -> [String] {
        let path = APNSSetting.path(self.prefix, key)
        let names = self.sources.compactMap { $0.written(path) }
        return names.isEmpty ? [path] : names
    }

    /// The setting as it was written, or as it can be written.
    func writtenName(_ key: String) -> String { self.origins[key]?.written ?? self.names(key)[0] }

    // MARK: Mutually exclusive settings

    /// Returns the one from the earliest source among mutually exclusive settings, and excludes the others (`exclude`).
    mutating func chooseOne(of keys: [String]) -> String? {
        func layer(_ key: String) -> Int { self.origins[key]?.layer ?? 0 }
        guard let winner = keys.filter({ self.hasValue($0) }).min(by: { layer($0) < layer($1) }) else { return nil }
        for other in keys where other != winner { self.exclude(other, by: winner) }
        return winner
    }

    /// Whether a setting comes from a later source than another one.
    func isLater(_ key: String, than other: String) -> Bool {
        guard self.hasValue(key), let origin = self.origins[key], let other = self.origins[other] else { return false }
        return origin.layer > other.layer
    }

    mutating func drop(_ key: String) {
        self.parts[key] = nil
        self.origins[key] = nil
    }

    /// Drops a setting that contradicts one of an earlier source. If it is in the same source or an earlier one,
    /// reports an error.
    mutating func exclude(_ key: String, by winner: String) {
        guard self.hasValue(key), let other = self.origins[winner] else { return }
        if self.isLater(key, than: winner) {
            self.drop(key)
        } else {
            self.complain(key, .conflict, "it and '\(other.written)' exclude each other: give only one of them")
        }
    }
}

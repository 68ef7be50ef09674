/// A configuration while its settings are read: what is set already, what can be set only together with others, and what
/// is wrong.
///
/// Each setting is taken from the first source that has it: the tool's options, the environment, a file; else it keeps
/// what the configuration had.
package struct SettingsDraft {
    package typealias Fault = APNSSettingsError.Fault

    /// Where a setting was found.
    struct Origin {
        var written: String
        var source: String?
        /// The number of the source; the first one goes before all others.
        var layer: Int
        /// What may be shown of it.
        var text: String
    }

    /// A setting that is in use, and where it stands.
    package struct Found: Sendable {
        /// Without the prefix.
        package var key: String
        package var written: String
        package var source: String?
        /// Not that of a secret.
        package var text: String
    }

    package internal(set) var configuration: APNSClientConfiguration
    /// The settings that are parts of something, by their keys.
    var parts: [String: SettingKind.Value] = [:]
    private var origins: [String: Origin] = [:]
    private(set) var faults: [Fault] = []
    private let prefix: String
    private let rows: [APNSSetting]
    private var sources: [APNSSettingsSource] = []
    private var hasCredential = false

    /// - Parameters:
    ///   - configuration: What holds where no source has a setting.
    ///   - prefix: What the keys stand below.
    ///   - rows: Settings beside those of the client; whoever adds them asks for their values.
    package init(_ configuration: APNSClientConfiguration, prefix: String = "apns", rows: [APNSSetting] = []) {
        self.configuration = configuration
        self.prefix = prefix
        self.rows = SettingsTable.settings + rows
    }

    /// All that is wrong; nil: nothing is.
    package var error: APNSSettingsError? { self.faults.isEmpty ? nil : APNSSettingsError(faults: self.faults) }

    // MARK: Reading

    /// Takes each setting from the first source that has it, then makes the whole. Of files it reads that of a password
    /// only.
    package mutating func read(_ sources: [APNSSettingsSource]) {
        self.sources = sources
        for source in sources { self.faults += source.strangers(to: self.rows, prefix: self.prefix) }
        for setting in self.rows {
            let path = APNSSetting.path(self.prefix, setting.key)
            for (layer, source) in sources.enumerated() {
                guard let finding = source.find(path, setting) else { continue }
                var shown = "(not shown)"
                if case .text(let text) = finding {
                    // An empty text is how templates leave a setting out.
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
        self.hasCredential = self.faults.count == count
        // This looks at the configuration as a whole: half of one would be blamed for what is not there.
        guard self.faults.isEmpty else { return }
        self.check { configuration throws(APNSConfigurationError) in try configuration.validate() }
    }

    /// Reads the files of keys, certificates and trust roots, to find what is wrong with them. Blocks.
    package mutating func readFiles() {
        if self.hasCredential {
            self.check { configuration throws(APNSConfigurationError) in
                _ = try configuration.authentication.resolve(wallNow: configuration.wallClock())
            }
        }
        guard self.isGiven("caFile") || self.isGiven("caPEM") else { return }
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
            // A password may stand before an '@'.
            let isShown = setting.isShown && !text.contains("@")
            var message = setting.kind.message(text, error, isShown: isShown)
            if KubernetesService.isAddress(text), let origin = self.origins[setting.key] {
                message += ". \(KubernetesService.advice(origin.written))"
            }
            self.complain(setting.key, error.code, message)
        }
    }

    /// A key in the place of something that is shown must not be shown either.
    private static func isPrivateKey(_ text: String) -> Bool {
        let text = text.withoutBlanksAround
        if text.contains("PRIVATE KEY") { return true }
        // Base64 of "-----BEGIN " and of the first bytes of a key in PKCS#8.
        return text.count > 60 && (text.hasPrefix("LS0tLS1CRUdJTi") || text.hasPrefix("MIG"))
    }

    // MARK: What was found

    /// The settings that are in use, in the order of the table.
    package var found: [Found] {
        self.rows.compactMap { setting in
            self.origins[setting.key].map {
                Found(key: setting.key, written: $0.written, source: $0.source, text: $0.text)
            }
        }
    }

    func isGiven(_ key: String) -> Bool { self.parts[key] != nil }
    /// Also if its value was wrong, which has been complained about.
    func isNamed(_ key: String) -> Bool { self.origins[key] != nil }
    package func text(_ key: String) -> String? { self.parts[key]?.text }
    package func integer(_ key: String) -> Int? { self.parts[key]?.integer }
    package func boolean(_ key: String) -> Bool? { self.parts[key]?.boolean }

    // MARK: Complaining

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

    /// An error of the client, which names properties, in terms of the settings.
    package func fault(for error: APNSConfigurationError) -> Fault {
        let properties = error.setting.split(separator: " ").map(String.init)
        let candidates = self.rows.filter { !Set($0.properties).isDisjoint(with: properties) }
        let key = self.likeliest(candidates)?.key ?? error.setting
        // Words with a dot in them that are properties; all other words stay.
        let message = error.message.replacing(/[a-zA-Z][a-zA-Z0-9]*(\.[a-zA-Z0-9]+)+/) { match in
            let property = String(match.output.0)
            let rows = self.rows.filter { $0.properties.contains(property) }
            return self.likeliest(rows).map { self.given($0.key) } ?? property
        }
        return self.fault(key, error.code, message)
    }

    /// Of settings of one property the one that was given, else one that the first source could have, such as an option.
    private func likeliest(_ rows: [APNSSetting]) -> APNSSetting? {
        rows.first { self.isNamed($0.key) }
            ?? rows.first { self.sources.first?.written(APNSSetting.path(self.prefix, $0.key)) != nil } ?? rows.first
    }

    /// How the setting can be written: "--key (or APNS_KEY_FILE)".
    func name(_ key: String) -> String {
        let names = self.names(key)
        return names.count > 1 ? "\(names[0]) (or \(names[1]))" : names[0]
    }

    private func names(_ key: String) -> [String] {
        let path = APNSSetting.path(self.prefix, key)
        let names = self.sources.compactMap { $0.written(path) }
        return names.isEmpty ? [path] : names
    }

    /// As it was written, or as it can be.
    func given(_ key: String) -> String { self.origins[key]?.written ?? self.names(key)[0] }

    // MARK: What excludes each other

    /// Of settings that exclude each other the one of the earliest source.
    mutating func only(_ keys: [String]) -> String? {
        func layer(_ key: String) -> Int { self.origins[key]?.layer ?? 0 }
        guard let winner = keys.filter({ self.isGiven($0) }).min(by: { layer($0) < layer($1) }) else { return nil }
        for other in keys where other != winner { self.exclude(other, by: winner) }
        return winner
    }

    /// Whether a setting was given by a later source than another one.
    func isLater(_ key: String, than other: String) -> Bool {
        guard self.isGiven(key), let origin = self.origins[key], let other = self.origins[other] else { return false }
        return origin.layer > other.layer
    }

    mutating func drop(_ key: String) {
        self.parts[key] = nil
        self.origins[key] = nil
    }

    /// Drops a setting that contradicts one of an earlier source. If it stands in the same source or an earlier one, that
    /// is an error.
    mutating func exclude(_ key: String, by winner: String) {
        guard self.isGiven(key), let other = self.origins[winner] else { return }
        if self.isLater(key, than: winner) {
            self.drop(key)
        } else {
            self.complain(key, .conflict, "it and '\(other.written)' exclude each other: give one of them")
        }
    }
}

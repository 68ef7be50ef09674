@_spi(Relay) internal import APNSModel

/// Reads settings one at a time, each from the first source that has it, and collects the errors.
@_spi(Relay) public struct SettingsReader: Sendable {
    /// The place where a setting was found.
    struct Origin {
        var written: String
        var source: String?
        /// The number of the source; lower numbers take precedence.
        var layer: Int
        /// The part of the value that may be shown.
        var text: String
    }

    private let sources: [APNSSettingsSource]
    private let prefix: String
    private let textOfKey: (@Sendable (_ key: String) -> String)?
    private(set) var origins: [String: Origin] = [:]
    /// The errors so far.
    @_spi(Relay) public private(set) var faults: [APNSSettingsError.Fault] = []

    /// - Parameters:
    ///   - sources: Each setting is taken from the first source that has it.
    ///   - prefix: The prefix of all keys.
    ///   - textOfKey: Returns the setting that takes the text of a private key which was given as the value of another
    ///     setting; nil if there is none.
    @_spi(Relay) public init(
        _ sources: [APNSSettingsSource],
        prefix: String = "",
        textOfKey: (@Sendable (_ key: String) -> String)? = nil
    ) {
        self.sources = sources
        self.prefix = prefix
        self.textOfKey = textOfKey
    }

    /// Reads a setting.
    ///
    /// - Returns: Its value; nil if no source has it, or if its value is invalid, which is reported.
    @_spi(Relay) public mutating func value(
        _ key: String,
        _ kind: SettingKind,
        isSecret: Bool = false
    ) -> SettingKind.Value? {
        let path = APNSSetting.path(self.prefix, key)
        for (layer, source) in self.sources.enumerated() {
            guard let finding = source.find(path, kind, isSecret) else { continue }
            var shown = "(not shown)"
            if case .text(let text) = finding {
                // Templates write empty text to omit a setting.
                if text.withoutBlanksAround.isEmpty { continue }
                if kind.isShown, !isSecret { shown = SettingKind.shown(text) }
            }
            let written = source.written(path) ?? path
            self.origins[key] = Origin(written: written, source: source.name, layer: layer, text: shown)
            return self.value(of: finding, key, kind, isSecret)
        }
        return nil
    }

    private mutating func value(
        of finding: APNSSettingsSource.Finding,
        _ key: String,
        _ kind: SettingKind,
        _ isSecret: Bool
    ) -> SettingKind.Value? {
        let text: String
        switch finding {
        case .text(let found): text = found
        case .list(let texts):
            if kind == .list { return .texts(texts.flatMap(SettingKind.texts)) }
            self.complain(key, .malformed, "it is a list, not one value")
            return nil
        case .unusable(let what):
            self.complain(key, .malformed, "it is \(what), not \(kind == .list ? "a list of texts" : "one value")")
            return nil
        }
        if !isSecret, kind != .pem, Self.isPrivateKey(text) {
            self.origins[key]?.text = "(not shown)"
            let remedy =
                self.textOfKey.map { ", which belongs to '\(self.name($0(key), where: key))'" }
                ?? "; write the text to a file, and set the path of the file"
            self.complain(key, .malformed, "it is the text of a private key" + remedy)
            return nil
        }
        do throws(SettingKind.Mistake) {
            return try kind.value(text)
        } catch {
            // Text before an '@' may be a password.
            var message = kind.message(text, error, isShown: kind.isShown && !isSecret && !text.contains("@"))
            if KubernetesService.isAddress(text), let origin = self.origins[key] {
                message += ". \(KubernetesService.advice(origin.written))"
            }
            self.complain(key, error.code, message)
            return nil
        }
    }

    /// Detects a private key in a setting whose value is shown, so that it is hidden.
    private static func isPrivateKey(_ text: String) -> Bool {
        let text = text.withoutBlanksAround
        if text.contains("PRIVATE KEY") { return true }
        // Base64 of "-----BEGIN " and of the first bytes of a key in PKCS#8.
        return text.count > 60 && (text.hasPrefix("LS0tLS1CRUdJTi") || text.hasPrefix("MIG"))
    }

    // MARK: Reporting errors

    /// Reports an error in a setting.
    @_spi(Relay) public mutating func complain(
        _ key: String,
        _ code: APNSConfigurationError.Code,
        _ message: String
    ) {
        self.faults.append(self.fault(key, code, message))
    }

    /// Reports errors that were found elsewhere.
    @_spi(Relay) public mutating func add(_ faults: [APNSSettingsError.Fault]) { self.faults += faults }

    /// Reports the keys below the prefix that are not known, each with the known key that it most likely means.
    ///
    /// - Parameters:
    ///   - known: The keys of all settings.
    ///   - isForeign: Whether a key, as written in a source, belongs to another program that shares the prefix.
    ///   - explain: Returns what is wrong with a key as written in a source; nil for the usual message.
    @_spi(Relay) public mutating func reportUnknownKeys(
        known: [String],
        isForeign: (_ written: String) -> Bool = { _ in false },
        explain: (_ written: String, APNSSettingsSource) -> String? = { _, _ in nil }
    ) {
        for source in self.sources {
            let names = known.compactMap { source.written(APNSSetting.path(self.prefix, $0)) }
            let allowed = Set(names)
            for name in source.present(self.prefix) where !allowed.contains(name) && !isForeign(name) {
                self.faults.append(
                    APNSSettingsError.Fault(
                        code: .unknownSetting,
                        key: name,
                        written: SettingKind.shown(name),
                        source: source.name,
                        message: explain(name, source)
                            ?? "there is no such setting"
                            + (NearestKey.of(name, among: names).map { "; did you mean '\($0)'?" } ?? "")
                    )
                )
            }
        }
    }

    func fault(_ key: String, _ code: APNSConfigurationError.Code, _ message: String) -> APNSSettingsError.Fault {
        let origin = self.origins[key]
        return APNSSettingsError.Fault(
            code: code,
            key: APNSSetting.path(self.prefix, key),
            written: origin?.written ?? self.name(key),
            source: origin?.source,
            message: message
        )
    }

    // MARK: Names

    /// Whether the setting was given, even with an invalid value, which has already been reported.
    @_spi(Relay) public func isFound(_ key: String) -> Bool { self.origins[key] != nil }

    /// The ways to write the setting: "--key (or APNS_KEY_FILE)".
    func name(_ key: String) -> String {
        let names = self.names(key)
        return names.count > 1 ? "\(names[0]) (or \(names[1]))" : names[0]
    }

    /// The setting as it was written, or as it can be written.
    @_spi(Relay) public func writtenName(_ key: String) -> String {
        self.origins[key]?.written ?? self.names(key)[0]
    }

    /// The setting as it can be written in the source that has another one.
    private func name(_ key: String, where other: String) -> String {
        let source = self.origins[other].map { self.sources[$0.layer] }
        return source?.written(APNSSetting.path(self.prefix, key)) ?? self.names(key)[0]
    }

    /// Whether the first source, such as the options of a tool, can have the setting.
    func isInFirstSource(_ key: String) -> Bool {
        self.sources.first?.written(APNSSetting.path(self.prefix, key)) != nil
    }

    private func names(_ key: String) -> [String] {
        let path = APNSSetting.path(self.prefix, key)
        let names = self.sources.compactMap { $0.written(path) }
        return names.isEmpty ? [path] : names
    }

    /// Forgets a setting that another one replaces.
    mutating func forget(_ key: String) { self.origins[key] = nil }
}

extension SettingKind {
    /// Whether a value that is no secret may appear in an error: it is not a long text.
    var isShown: Bool {
        switch self {
        case .pem, .base64: false
        default: true
        }
    }
}

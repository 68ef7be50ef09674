@_spi(Relay) import APNSPool

/// All settings as they were read once, with the knowledge that is needed to compare them with a later reading.
public struct LoadedSettings: Sendable {
    public let settings: RelaySettings
    /// The files that are watched: those of the settings, tokens, secrets, and the listener's certificates. The clients
    /// watch the files of their credentials themselves.
    let files: [String]
    private let sources: [APNSSettingsSource]
    /// The values of the settings that cannot change while the relay runs.
    private let fixed: [String: SettingKind.Value]

    /// Reads the environment variables `APNS_RELAY_…`, which take precedence, and a JSON file. Blocks.
    ///
    /// - Parameter file: the path of the file; nil for the environment alone.
    /// - Throws: `RelaySettingsError` with all errors.
    public init(file: String?) throws(RelaySettingsError) {
        try self.init(try RelayProcess.sources(file: file), file: file)
    }

    init(_ sources: [APNSSettingsSource], file: String? = nil) throws(RelaySettingsError) {
        let settings = try RelaySettings(sources)
        self.settings = settings
        self.sources = sources
        var reader = SettingsReader(sources)
        var fixed: [String: SettingKind.Value] = [:]
        for (key, kind) in Self.fixedKeys { fixed[key] = reader.value(key, kind) }
        self.fixed = fixed
        self.files =
            [file].compactMap { $0 }
            + Self.fileKeys(settings).compactMap { reader.value($0, .path)?.text }
    }

    /// The settings that apply only from the start of a relay on.
    private static let fixedKeys: [(key: String, kind: SettingKind)] =
        RelaySettingsTable.rows.filter { !Self.changeable.contains($0.key) }.map { ($0.key, $0.kind) }
        // As lists, because that reads a value of any kind.
        + RelaySettingsTable.clientKeys.map { ($0, .list) }

    private static let listenerFiles = [
        "http.certificateChainFile", "http.privateKeyFile", "http.clientAuthoritiesFile",
    ]
    private static let changeable = Set(
        ["apps", "callers", "webhooks", "server.production", "server.development"] + Self.listenerFiles
    )

    private static func fileKeys(_ settings: RelaySettings) -> [String] {
        func keys<Target>(_ section: String, _ names: [String], _ rows: [SettingRow<Target>]) -> [String] {
            names.flatMap { name in rows.filter { $0.kind == .path }.map { "\(section).\(name).\($0.key)" } }
        }
        return Self.listenerFiles
            + keys("caller", settings.callers.map(\.name), RelaySettingsTable.Caller.rows)
            + keys("webhook", settings.webhooks.map(\.name), RelaySettingsTable.Webhook.rows)
    }

    /// Checks that a running relay can change from other settings to these.
    ///
    /// - Throws: `RelaySettingsError` with each setting that cannot change.
    func requireChange(from other: LoadedSettings) throws(RelaySettingsError) {
        var reader = SettingsReader(self.sources)
        for (key, kind) in Self.fixedKeys where self.fixed[key] != other.fixed[key] {
            _ = reader.value(key, kind)
            reader.complain(
                key,
                .conflict,
                "it cannot change while the relay runs: restart the relay, or undo the change"
            )
        }
        let (hasTLS, hadTLS) = (self.settings.http.hasTLS, other.settings.http.hasTLS)
        if hasTLS != hadTLS {
            let change = hasTLS ? "on" : "off"
            reader.complain("http.certificateChainFile", .conflict, "restart the relay to turn TLS \(change)")
        }
        guard reader.faults.isEmpty else { throw RelaySettingsError(reader.faults) }
    }
}

extension HTTPSettings {
    var hasTLS: Bool { self.certificateChainFile != nil }
}

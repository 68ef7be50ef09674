@_spi(Relay) import APNSPool

/// All settings as they were read once, with the knowledge that is needed to compare them with a later reading.
public struct LoadedSettings: Sendable {
    public let settings: RelaySettings
    /// The files that are watched, with their contents: those of the settings, tokens, secrets, and the listener's
    /// certificates. The clients watch the files of their credentials themselves, and try a new credential before they use it.
    let files: FileChanges.Contents
    private let sources: [APNSSettingsSource]
    private let values: [String: SettingKind.Value]

    /// Reads the environment variables `APNS_RELAY_…`, which take precedence, and a JSON file. Blocks.
    ///
    /// - Parameter file: the path of the file; nil for the environment alone.
    /// - Throws: `RelaySettingsError` with all errors.
    public init(file: String?) throws(RelaySettingsError) {
        // A file that changes meanwhile differs from these contents, and is read again.
        let contents = FileChanges.contents(of: [file].compactMap { $0 })
        try self.init(try RelayProcess.sources(file: file), contents)
    }

    init(_ sources: [APNSSettingsSource], _ contents: FileChanges.Contents = [:]) throws(RelaySettingsError) {
        let settings = try RelaySettings(sources)
        self.settings = settings
        self.sources = sources
        var reader = SettingsReader(sources)
        var values: [String: SettingKind.Value] = [:]
        for (key, kind) in Self.keys(settings) { values[key] = reader.value(key, kind) }
        self.values = values
        let files = Self.fileKeys(settings).compactMap { values[$0]?.text }
        self.files = contents.merging(FileChanges.contents(of: files)) { first, _ in first }
    }

    /// The keys of all settings, with their kinds.
    private static func keys(_ settings: RelaySettings) -> [(key: String, kind: SettingKind)] {
        // As lists, because that reads a value of any kind.
        RelaySettingsTable.rows.map { ($0.key, $0.kind) } + RelaySettingsTable.clientKeys.map { ($0, .list) }
            + settings.apps.flatMap { app in Self.keys(ofApp: app.name).map { ($0, .list) } }
            + Self.fileKeys(settings).map { ($0, .path) }
    }

    private static func keys(ofApp name: String) -> [String] {
        (RelaySettingsTable.App.rows.map(\.key) + SettingsTable.credentialKeys).map { "app.\(name).\($0)" }
    }

    private static func fileKeys(_ settings: RelaySettings) -> [String] {
        func keys<Target>(_ section: String, _ names: [String], _ rows: [SettingRow<Target>]) -> [String] {
            names.flatMap { name in rows.filter { $0.kind == .path }.map { "\(section).\(name).\($0.key)" } }
        }
        return RelaySettingsTable.rows.filter { $0.isLive && $0.kind == .path }.map(\.key)
            + keys("caller", settings.callers.map(\.name), RelaySettingsTable.Caller.rows)
            + keys("webhook", settings.webhooks.map(\.name), RelaySettingsTable.Webhook.rows)
    }

    /// What is set for an app: its own settings, and the servers of its environments.
    func values(of app: RelayApp) -> [String: String] {
        var values: [String: String] = [:]
        for key in Self.keys(ofApp: app.name) { values[key] = self.values[key].map { "\($0)" } }
        for (name, server) in app.environments { values["server.\(name)"] = "\(server)" }
        return values
    }

    /// Checks that a running relay can change from other settings to these.
    ///
    /// - Throws: `RelaySettingsError` with each setting that applies only from the start of a relay on.
    func requireChange(from other: LoadedSettings) throws(RelaySettingsError) {
        var reader = SettingsReader(self.sources)
        for row in RelaySettingsTable.rows where !row.isLive && !self.isSame(row, as: other) {
            _ = reader.value(row.key, row.kind)
            reader.complainAboutRestart(row.key)
        }
        for key in RelaySettingsTable.clientKeys where self.values[key] != other.values[key] {
            _ = reader.value(key, .list)
            reader.complainAboutRestart(key)
        }
        let names = Set(self.settings.apps.map(\.name)).intersection(other.settings.apps.map(\.name))
        // While an app has the same key, its client keeps the token source that it began with.
        for key in names.sorted().map({ "app.\($0).tokenFile" }) where self.values[key] != other.values[key] {
            _ = reader.value(key, .list)
            reader.complainAboutRestart(key)
        }
        let (hasTLS, hadTLS) = (self.settings.http.hasTLS, other.settings.http.hasTLS)
        if hasTLS != hadTLS {
            let change = hasTLS ? "on" : "off"
            reader.complain("http.certificateChainFile", .conflict, "restart the relay to turn TLS \(change)")
        }
        guard reader.faults.isEmpty else { throw RelaySettingsError(reader.faults) }
    }

    /// Whether a setting has the same effect. A value that is the default is the same as none.
    private func isSame(_ row: SettingRow<RelaySettingsTable.Draft>, as other: LoadedSettings) -> Bool {
        let (value, old) = (self.values[row.key], other.values[row.key])
        guard value != old else { return true }
        var (draft, oldDraft) = (RelaySettingsTable.Draft(), RelaySettingsTable.Draft())
        if let value { row.put(&draft, value) }
        if let old { row.put(&oldDraft, old) }
        return row.isSame(draft, oldDraft)
    }
}

extension SettingsReader {
    fileprivate mutating func complainAboutRestart(_ key: String) {
        self.complain(key, .conflict, "it cannot change while the relay runs: restart the relay, or undo the change")
    }
}

extension HTTPSettings {
    var hasTLS: Bool { self.certificateChainFile != nil }
}

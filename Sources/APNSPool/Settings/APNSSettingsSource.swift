#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Where settings come from: environment variables, a JSON file, or whatever can be asked for a key.
///
/// `Docs/Configuration.md` has the table of all keys.
public struct APNSSettingsSource: Sendable {
    /// What a source has for a key.
    enum Finding: Sendable, Hashable {
        case text(String)
        /// Not one value but `a list`.
        case unusable(String)
    }

    /// What it is called in errors.
    let name: String
    /// The key as this source writes it.
    let written: @Sendable (_ path: String) -> String
    /// Looks a key up.
    let find: @Sendable (_ path: String, APNSSetting) -> Finding?
    /// The keys below the prefix, as this source writes them, whether the table has them or not.
    let present: @Sendable (_ prefix: String) -> [String]
    /// Whether a key that the table does not have is an error; else it is a warning.
    let isStrict: Bool

    /// Environment variables: `APNS_POOL_SIZE` for `apns.pool.size`. An empty one counts as not set.
    ///
    /// A variable that begins with `APNS_` and is no setting is a warning in the client's log, not an error: it may be
    /// another program's.
    ///
    /// - Parameters:
    ///   - variables: Nil: those of this process.
    ///   - names: Variables that are known not to be settings.
    public static func environment(
        _ variables: [String: String]? = nil,
        ignoring names: Set<String> = []
    ) -> APNSSettingsSource {
        let variables = variables ?? ProcessInfo.processInfo.environment
        return APNSSettingsSource(
            name: "environment",
            written: { APNSSetting.variable($0) },
            find: { path, _ in variables[APNSSetting.variable(path)].map { Finding.text($0) } },
            present: { prefix in
                let start = APNSSetting.variable(prefix) + "_"
                guard start != "_" else { return [] }
                return variables.keys.filter { $0.hasPrefix(start) && !names.contains($0) }.sorted()
            },
            isStrict: false
        )
    }

    /// A JSON file: `{"apns": {"pool": {"size": 2}}}`. What stands beside `apns` is not looked at; what stands below it
    /// must be settings.
    ///
    /// Blocks while the file is read.
    ///
    /// - Parameter path: At most 1 MiB.
    /// - Throws: `fileUnreadable`; `malformed` when it is no JSON object.
    public static func jsonFile(_ path: String) throws(APNSSettingsError) -> APNSSettingsSource {
        try JSONSettings.source(file: path)
    }

    /// Keys with their values as texts: `["apns.pool.size": "2"]`. Keys below the prefix must be settings.
    ///
    /// - Parameters:
    ///   - values: the settings.
    ///   - name: what errors call it.
    public static func values(_ values: [String: String], name: String = "values") -> APNSSettingsSource {
        .flat(values.mapValues { Finding.text($0) }, name: name)
    }

    /// Whatever can be asked for a key.
    ///
    /// - Parameters:
    ///   - name: What errors call it.
    ///   - value: Is given keys with their prefix, as `apns.pool.size`; nil: it has none.
    public static func lookup(
        _ name: String,
        _ value: @escaping @Sendable (_ key: String) -> String?
    ) -> APNSSettingsSource {
        APNSSettingsSource(
            name: name,
            written: { $0 },
            find: { path, _ in value(path).map { Finding.text($0) } },
            present: { _ in [] },
            isStrict: false
        )
    }

    static func flat(_ values: [String: Finding], name: String) -> APNSSettingsSource {
        APNSSettingsSource(
            name: name,
            written: { $0 },
            find: { path, _ in values[path] },
            present: { prefix in values.keys.filter { prefix.isEmpty || $0.hasPrefix(prefix + ".") }.sorted() },
            isStrict: true
        )
    }

    /// The keys below the prefix that the table does not have.
    func strangers(prefix: String) -> [APNSSettingsError.Fault] {
        let known = SettingsTable.settings.map { self.written(APNSSetting.path(prefix, $0.key)) }
        let isKnown = Set(known)
        return self.present(prefix).filter { !isKnown.contains($0) }.map { name in
            let nearest = NearestKey.of(name, among: known)
            return APNSSettingsError.Fault(
                code: .unknownSetting,
                key: name,
                written: SettingsDraft.shown(name),
                source: self.name,
                message: "there is no such setting" + (nearest.map { "; did you mean '\($0)'?" } ?? "")
            )
        }
    }
}

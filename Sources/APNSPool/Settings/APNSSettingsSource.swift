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

    /// What it is called in errors; nil: its keys say enough.
    let name: String?
    /// The key as this source writes it; nil: it cannot have the key.
    let written: @Sendable (_ path: String) -> String?
    /// Looks a key up.
    let find: @Sendable (_ path: String, APNSSetting) -> Finding?
    /// The keys below the prefix, as this source writes them, whether the table has them or not.
    let present: @Sendable (_ prefix: String) -> [String]

    /// Environment variables: `APNS_POOL_SIZE` for `apns.pool.size`. An empty variable counts as not set.
    ///
    /// A variable that begins with `APNS_` and is no setting is an error, so that a misspelt host does not leave the client
    /// with Apple's servers. Not so the settings of the tool `apns`, the build's own variables, those that Kubernetes sets
    /// for a service (`APNS_SERVICE_HOST`, `APNS_PORT_443_TCP`), and `names`.
    ///
    /// - Parameters:
    ///   - variables: Nil: those of this process.
    ///   - names: Variables that begin with the prefix and belong to somebody else; they are not read.
    public static func environment(
        _ variables: [String: String]? = nil,
        ignoring names: Set<String> = []
    ) -> APNSSettingsSource {
        let variables = variables ?? ProcessInfo.processInfo.environment
        return APNSSettingsSource(
            name: "environment",
            written: { APNSSetting.variable($0) },
            find: { path, _ in
                let name = APNSSetting.variable(path)
                return names.contains(name) ? nil : variables[name].map { Finding.text($0) }
            },
            present: { prefix in
                let start = APNSSetting.variable(prefix) + "_"
                guard start != "_" else { return [] }
                return variables.filter { name, value in
                    name.hasPrefix(start) && !value.isEmpty && !names.contains(name)
                        && !KubernetesService.hasVariable(name, value)
                }.keys.sorted()
            }
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
            present: { _ in [] }
        )
    }

    /// Options of a command line.
    ///
    /// - Parameters:
    ///   - values: By the keys with their prefix.
    ///   - names: What each key is called as an option; a key that is not there is no option.
    package static func options(_ values: [String: String], names: [String: String]) -> APNSSettingsSource {
        APNSSettingsSource(
            name: nil,
            written: { names[$0] },
            find: { path, _ in values[path].map { Finding.text($0) } },
            present: { _ in [] }
        )
    }

    static func flat(_ values: [String: Finding], name: String) -> APNSSettingsSource {
        APNSSettingsSource(
            name: name,
            written: { $0 },
            find: { path, _ in values[path] },
            // The prefix itself, too: a text or a list in the place of the settings.
            present: { prefix in
                values.keys.filter { prefix.isEmpty || $0 == prefix || $0.hasPrefix(prefix + ".") }.sorted()
            }
        )
    }

    /// Whether anything stands below the prefix.
    package func has(below prefix: String) -> Bool { !self.present(prefix).isEmpty }

    /// The keys below the prefix that the table does not have.
    func strangers(to rows: [APNSSetting], prefix: String) -> [APNSSettingsError.Fault] {
        let known = rows.compactMap { self.written(APNSSetting.path(prefix, $0.key)) }
        // One environment serves both the library and the tool.
        let others = prefix == "apns" ? SettingsTable.toolKeys.compactMap { self.written("apns.\($0)") } : []
        let isKnown = Set(known + others).union(SettingsTable.buildVariables)
        return self.present(prefix).filter { !isKnown.contains($0) }.map { name in
            let nearest = NearestKey.of(name, among: known + others)
            return APNSSettingsError.Fault(
                code: .unknownSetting,
                key: name,
                written: SettingKind.shown(name),
                source: self.name,
                message: "there is no such setting" + (nearest.map { "; did you mean '\($0)'?" } ?? "")
            )
        }
    }
}

/// The variables that Kubernetes puts into the environment of each container, for each service of its namespace: a
/// service `apns` makes `APNS_SERVICE_HOST`, `APNS_SERVICE_PORT`, `APNS_PORT=tcp://10.0.0.7:443`, `APNS_PORT_443_TCP` and
/// more. Source: Kubernetes, "Service", "Discovering services". Pure.
enum KubernetesService {
    static func hasVariable(_ name: String, _ value: String) -> Bool {
        name.hasSuffix("_SERVICE_HOST") || name.hasSuffix("_SERVICE_PORT") || name.contains("_SERVICE_PORT_")
            || name.contains(/_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$/)
            || (name.hasSuffix("_PORT") && self.isAddress(value))
    }

    /// `tcp://10.0.0.7:443`
    static func isAddress(_ value: String) -> Bool {
        ["tcp://", "udp://", "sctp://"].contains { value.hasPrefix($0) }
    }

    /// What to do when a variable of Kubernetes stands in a setting's place.
    static func advice(_ name: String) -> String {
        let service = name.hasSuffix("_PORT") ? String(name.dropLast("_PORT".count)) : name
        return
            "Kubernetes has set it, for a service '\(service.lowercased().replacing("_", with: "-"))' of this namespace; "
            + "set enableServiceLinks: false in the pod's specification, or rename the service"
    }
}

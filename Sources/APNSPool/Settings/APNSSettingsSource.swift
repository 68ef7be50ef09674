#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A source of settings: environment variables, a JSON file, or any function that looks up a key.
///
/// `Docs/Configuration.md` lists all keys.
public struct APNSSettingsSource: Sendable {
    /// The result of looking up a key.
    enum Finding: Sendable, Hashable {
        case text(String)
        case list([String])
        /// A value of an unusable kind, such as `a list of objects`.
        case unusable(String)
    }

    /// The source's name in errors; nil if the written key shows the source, as the name of an option does.
    let name: String?
    /// The key as written in this source; nil if the source cannot have the key.
    let written: @Sendable (_ path: String) -> String?
    /// Looks a key up.
    let find: @Sendable (_ path: String, SettingKind, _ isSecret: Bool) -> Finding?
    /// All keys that the source has below the prefix, as written in it. A key that is not in the table is an error.
    /// Empty if the source cannot list its keys.
    let present: @Sendable (_ prefix: String) -> [String]

    /// Environment variables: `APNS_POOL_SIZE` for `apns.pool.size`. An empty variable counts as not set.
    ///
    /// A variable that begins with `APNS_` and is not a setting is an error, so that a misspelled host name variable
    /// does not make the client connect to Apple's servers. Exceptions are the settings of the tool `apns`, the
    /// variables of this package's own build, the variables that Kubernetes sets for a service (`APNS_SERVICE_HOST`,
    /// `APNS_PORT_443_TCP`), and `names`.
    ///
    /// - Parameters:
    ///   - variables: The variables; nil uses those of this process.
    ///   - names: Variables that begin with the prefix but belong to other software; they are not read.
    public static func environment(
        _ variables: [String: String]? = nil,
        ignoring names: Set<String> = []
    ) -> APNSSettingsSource {
        let variables = variables ?? ProcessInfo.processInfo.environment
        return APNSSettingsSource(
            name: "environment",
            written: { APNSSetting.variable($0) },
            find: { path, _, _ in
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

    /// A JSON file: `{"apns": {"pool": {"size": 2}}}`. Members beside `apns` are ignored; all members below it must be
    /// settings.
    ///
    /// Blocks while the file is read.
    ///
    /// - Parameter path: The path of the file.
    /// - Throws: `fileUnreadable`; `malformed` if the file is not a JSON object or has more than 1 MiB.
    public static func jsonFile(_ path: String) throws(APNSSettingsError) -> APNSSettingsSource {
        try JSONSettings.source(file: path)
    }

    /// Keys and their values as text: `["apns.pool.size": "2"]`. Keys below the prefix must be settings.
    ///
    /// - Parameters:
    ///   - values: The settings.
    ///   - name: The source's name in errors.
    public static func values(_ values: [String: String], name: String = "values") -> APNSSettingsSource {
        .flat(values.mapValues { Finding.text($0) }, name: name)
    }

    /// A function that looks up a key.
    ///
    /// - Parameters:
    ///   - name: The source's name in errors.
    ///   - value: Receives keys with their prefix, such as `apns.pool.size`, and returns nil for a key without a value.
    public static func lookup(
        _ name: String,
        _ value: @escaping @Sendable (_ key: String) -> String?
    ) -> APNSSettingsSource {
        APNSSettingsSource(
            name: name,
            written: { $0 },
            find: { path, _, _ in value(path).map { Finding.text($0) } },
            present: { _ in [] }
        )
    }

    /// Options of a command line.
    ///
    /// - Parameters:
    ///   - values: The values by their keys with the prefix.
    ///   - names: The option name of each key; a key that is absent has no option.
    package static func options(_ values: [String: String], names: [String: String]) -> APNSSettingsSource {
        APNSSettingsSource(
            name: nil,
            written: { names[$0] },
            find: { path, _, _ in values[path].map { Finding.text($0) } },
            present: { _ in [] }
        )
    }

    static func flat(_ values: [String: Finding], name: String) -> APNSSettingsSource {
        APNSSettingsSource(
            name: name,
            written: { $0 },
            find: { path, _, _ in values[path] },
            // Includes the prefix itself: in `{"apns": "x"}` it has text instead of settings, which is an error.
            present: { prefix in
                values.keys.filter { prefix.isEmpty || $0 == prefix || $0.hasPrefix(prefix + ".") }.sorted()
            }
        )
    }

    /// Whether the source has any key below the prefix.
    package func has(below prefix: String) -> Bool { !self.present(prefix).isEmpty }

    /// The settings below a root, as a source of their own.
    ///
    /// - Parameter root: What every key in this source begins with: with `apns.relay`, the environment has
    ///   `APNS_RELAY_HTTP_PORT` for `http.port`.
    @_spi(Relay) public func below(_ root: String) -> APNSSettingsSource {
        APNSSettingsSource(
            name: self.name,
            written: { self.written(APNSSetting.path(root, $0)) },
            find: { self.find(APNSSetting.path(root, $0), $1, $2) },
            present: { self.present($0.isEmpty ? root : APNSSetting.path(root, $0)) }
        )
    }

    /// Some settings of the source, for a program that detects unknown keys itself.
    ///
    /// - Parameter keys: The keys that remain.
    @_spi(Relay) public func only(_ keys: Set<String>) -> APNSSettingsSource {
        APNSSettingsSource(
            name: self.name,
            written: self.written,
            find: { keys.contains($0) ? self.find($0, $1, $2) : nil },
            present: { _ in [] }
        )
    }

    /// The key as written in this source.
    @_spi(Relay) public func spelling(_ path: String) -> String? { self.written(path) }
}

/// Detects the variables that Kubernetes sets in each container for each service of its namespace. A service `apns`
/// creates `APNS_SERVICE_HOST`, `APNS_SERVICE_PORT`, `APNS_PORT=tcp://10.0.0.7:443`, `APNS_PORT_443_TCP` and more.
/// Source: Kubernetes, "Service", "Discovering services". Pure.
enum KubernetesService {
    static func hasVariable(_ name: String, _ value: String) -> Bool {
        name.hasSuffix("_SERVICE_HOST") || name.hasSuffix("_SERVICE_PORT") || name.contains("_SERVICE_PORT_")
            || name.contains(/_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$/)
            || (name.hasSuffix("_PORT") && self.isAddress(value))
    }

    /// Whether the value is an address such as `tcp://10.0.0.7:443`.
    static func isAddress(_ value: String) -> Bool {
        ["tcp://", "udp://", "sctp://"].contains { value.hasPrefix($0) }
    }

    /// The remedy if a Kubernetes variable has the name of a setting.
    static func advice(_ name: String) -> String {
        let service = name.hasSuffix("_PORT") ? String(name.dropLast("_PORT".count)) : name
        return
            "Kubernetes has set it, for a service '\(service.lowercased().replacing("_", with: "-"))' of this "
            + "namespace; set enableServiceLinks: false in the pod's specification, or rename the service"
    }
}

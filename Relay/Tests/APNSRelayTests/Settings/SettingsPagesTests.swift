@_spi(Relay) import APNSPool
import Foundation
import Testing

@testable import APNSRelay

/// Compares the settings that pages name with those that the relay reads.
struct SettingsPagesTests {
    /// Every setting, with NAME for the name of an app, a caller or a webhook.
    private static func known() -> Set<String> {
        Set(RelaySettingsTable.keys(apps: ["NAME"], callers: ["NAME"], webhooks: ["NAME"]))
    }

    private static let pages = [
        "Relay/README.md", "Relay/API.md", "Relay/SQL.md", "Relay/Operating.md", "Relay/Monitoring/README.md",
        "Relay/WebPush.md",
    ]

    /// The settings in the first column of the tables of settings.
    private static func table() throws -> Set<String> {
        var settings: Set<String> = []
        for page in ["Relay/Operating.md", "Relay/WebPush.md"] {
            var isTable = false
            for line in try Repository.text(page).split(separator: "\n", omittingEmptySubsequences: false) {
                if line == "| setting | default | meaning |" { isTable = true }
                if !line.hasPrefix("|") { isTable = false }
                guard isTable, let cell = line.dropFirst().split(separator: "|").first else { continue }
                var prefix = ""
                for name in cell.matches(of: /`([A-Za-z.*]+)`/).map({ String($0.1) }) {
                    let full = name.hasPrefix(".") ? prefix + name : name
                    prefix = full.split(separator: ".").dropLast().joined(separator: ".")
                    settings.insert(full)
                }
            }
        }
        return settings
    }

    /// Whether a name, possibly with `*` at its end, is that of a setting.
    private static func exists(_ name: String, in known: Set<String>) -> Bool {
        var parts = name.split(separator: ".").map(String.init)
        if parts.count > 2, ["app", "caller", "webhook"].contains(parts[0]) { parts[1] = "NAME" }
        guard parts.last != "*" else {
            let prefix = parts.dropLast().joined(separator: ".") + "."
            return known.contains { $0.hasPrefix(prefix) }
        }
        return known.contains(parts.joined(separator: "."))
    }

    @Test("The tables have every setting, and no other one")
    func tables() throws {
        let (known, table) = (Self.known(), try Self.table())
        #expect(table.filter { !Self.exists($0, in: known) } == [])
        // Those of the library are in Docs/Configuration.md.
        let credentials = Set(SettingsTable.credentialKeys.map { "app.NAME.\($0)" })
        let own = known.filter { !$0.hasPrefix("client.") && !credentials.contains($0) }
        #expect(own.subtracting(table) == [])
        #expect(own.count > 50)
    }

    /// The stored properties of a value that is a structure, with those of its own structures.
    private static func properties(_ value: Any, _ path: String = "") -> [String: String] {
        let mirror = Mirror(reflecting: value)
        guard mirror.displayStyle == .struct, !mirror.children.isEmpty, !(value is Duration) else {
            return [path: String(describing: value)]
        }
        return mirror.children.reduce(into: [:]) { properties, child in
            let label = (path.isEmpty ? "" : path + ".") + (child.label ?? "")
            properties.merge(Self.properties(child.value, label)) { $1 }
        }
    }

    /// Two values of a setting.
    private static func values(_ kind: SettingKind) -> [SettingKind.Value] {
        switch kind {
        case .integer(let range, _), .size(let range): [.integer(range.lowerBound), .integer(range.upperBound)]
        case .boolean: [.boolean(false), .boolean(true)]
        case .duration(let range, _): [.duration(range.lowerBound), .duration(range.upperBound)]
        case .choice(let words): [.text(words.first ?? ""), .text(words.last ?? "")]
        case .list: [.texts(["a"]), .texts(["b"])]
        default: [.text("a"), .text("b")]
        }
    }

    /// The properties that no row of a table sets.
    private static func unset<Target>(_ target: Target, _ rows: [SettingRow<Target>]) -> Set<String> {
        var targets = [target, target]
        for row in rows {
            for (index, value) in Self.values(row.kind).enumerated() { row.put(&targets[index], value) }
        }
        let (one, other) = (Self.properties(targets[0]), Self.properties(targets[1]))
        return Set(one.keys.filter { one[$0] == other[$0] })
    }

    @Test("Every property of the settings has a row in a table, unless the properties of several rows become one")
    func rows() {
        let unset = Self.unset(RelaySettingsTable.Draft(), RelaySettingsTable.rows)
        let others: Set = [
            "settings.apps", "settings.callers", "settings.webhooks", "settings.webPush", "settings.storage.postgres",
            "webPush.settings.key", "webPush.settings.oldKeys", "webPush.settings.registration",
        ]
        #expect(Set(unset.filter { !$0.hasPrefix("settings.group.client.") }) == others)
        #expect(Self.unset(RelaySettingsTable.App(), RelaySettingsTable.App.rows) == [])
        #expect(Self.unset(RelaySettingsTable.Caller(), RelaySettingsTable.Caller.rows) == [])
        #expect(
            Self.unset(RelaySettingsTable.Webhook(), RelaySettingsTable.Webhook.rows) == [
                "settings.name", "settings.url", "settings.secrets", "settings.apps",
            ]
        )
    }

    @Test("Every setting that a page names exists", arguments: Self.pages)
    func named(_ page: String) throws {
        let known = Self.known()
        let groups = Set(
            known.compactMap { key in key.contains(".") ? key.split(separator: ".").first.map(String.init) : nil }
        )
        let names = try Repository.text(page).matches(of: /`([A-Za-z]+)\.([A-Za-z.*_]+)`/)
            .filter { groups.contains(String($0.1)) && !["conf", "yaml"].contains($0.2) }
            .map { "\($0.1).\($0.2)" }
        #expect(names.filter { !Self.exists($0, in: known) } == [])
    }

    @Test(
        "Every environment variable that a page or a file names is that of a setting",
        arguments: Self.pages + [
            "Relay/demo.sh", "Relay/demo-fleet.sh", "Relay/Deploy/compose.yaml", "Relay/Deploy/Dockerfile",
            "Relay/Deploy/apns-relay.service", "Relay/Deploy/kubernetes/relay.yaml",
            "Relay/Deploy/kubernetes/one-relay.yaml",
        ]
    )
    func variables(_ file: String) throws {
        let variables = Self.known().map { key -> String in
            // teamID is TEAM_ID.
            let words = key.replacing("NAME", with: "*").replacing(/([a-z])([A-Z])/) { "\($0.1)_\($0.2)" }
            return "APNS_RELAY_" + words.replacing(".", with: "_").uppercased()
        }
        let named = Set(
            try Repository.text(file).matches(of: /\bAPNS_RELAY_[A-Z][A-Z0-9_]*[A-Z0-9]\b/).map { String($0.output) }
        )
        let unknown = named.filter { name in
            !variables.contains { variable in
                let parts = variable.split(separator: "*", omittingEmptySubsequences: false)
                return parts.count == 1
                    ? name == variable
                    : name.hasPrefix(parts[0]) && name.hasSuffix(parts[1]) && name.utf8.count > variable.utf8.count - 1
            }
        }
        #expect(unknown == [])
    }
}

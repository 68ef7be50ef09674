/// The differences between two readings of the settings, by name.
struct SettingsChanges: Sendable, Hashable, Encodable {
    struct Names: Sendable, Hashable, Encodable {
        var added: [String] = []
        var removed: [String] = []
        var changed: [String] = []

        init() {}

        /// - Parameters:
        ///   - old: the earlier values by name.
        ///   - new: the present values by name.
        init<Value: Equatable>(_ old: [String: Value], _ new: [String: Value]) {
            self.added = new.keys.filter { old[$0] == nil }.sorted()
            self.removed = old.keys.filter { new[$0] == nil }.sorted()
            self.changed = new.filter { old[$0.key] != nil && old[$0.key] != $0.value }.keys.sorted()
        }

        /// - Parameter name: the name of a value.
        init<Value: Equatable>(_ old: [Value], _ new: [Value], by name: (Value) -> String) {
            func named(_ values: [Value]) -> [String: Value] {
                Dictionary(values.map { (name($0), $0) }) { first, _ in first }
            }
            self.init(named(old), named(new))
        }

        var isEmpty: Bool { self == Names() }

        fileprivate var text: String {
            let groups = [("added", self.added), ("removed", self.removed), ("changed", self.changed)]
            return groups.filter { !$0.1.isEmpty }.map { "\($0.0) \($0.1.joined(separator: ", "))" }
                .joined(separator: "; ")
        }
    }

    var apps = Names()
    var callers = Names()
    var webhooks = Names()
    /// Whether the listener has other certificates.
    var certificates = false

    var isEmpty: Bool { self == SettingsChanges() }

    /// One entry for each kind that has changes, for the log.
    var texts: [String: String] {
        var texts: [String: String] = [:]
        for (kind, names) in [("apps", self.apps), ("callers", self.callers), ("webhooks", self.webhooks)]
        where !names.isEmpty {
            texts[kind] = names.text
        }
        if self.certificates { texts["certificates"] = "changed" }
        return texts
    }
}

@_spi(Relay) import APNSPool

/// One setting: its key, its kind, and the property that it sets.
struct SettingRow<Target>: Sendable {
    /// The key below the name, for settings of an app, a caller or a webhook.
    let key: String
    let kind: SettingKind
    let isSecret: Bool
    /// Whether a relay applies a change while it runs. Otherwise a change needs a restart.
    private(set) var isLive = false
    /// Applies a valid value.
    let put: @Sendable (inout Target, SettingKind.Value) -> Void
    /// Whether two targets have the same value.
    let isSame: @Sendable (Target, Target) -> Bool

    /// - Parameter read: the value of the property; nil if it stays.
    private init<Value: Equatable & Sendable>(
        _ key: String,
        _ kind: SettingKind,
        _ path: any Path<Value>,
        isSecret: Bool = false,
        read: @escaping @Sendable (SettingKind.Value) -> Value?
    ) {
        self.key = key
        self.kind = kind
        self.isSecret = isSecret
        self.put = { target, value in if let value = read(value) { target[keyPath: path] = value } }
        self.isSame = { $0[keyPath: path] == $1[keyPath: path] }
    }

    typealias Path<Value> = WritableKeyPath<Target, Value> & Sendable

    /// The same setting, with changes that a running relay applies.
    var live: SettingRow {
        var row = self
        row.isLive = true
        return row
    }

    static func text(_ key: String, _ path: any Path<String?>, isSecret: Bool = false) -> SettingRow {
        SettingRow(key, .string, path, isSecret: isSecret) { $0.text }
    }

    static func text(_ key: String, _ path: any Path<String>) -> SettingRow {
        SettingRow(key, .string, path) { $0.text }
    }

    static func file(_ key: String, _ path: any Path<String?>) -> SettingRow {
        SettingRow(key, .path, path) { $0.text }
    }

    static func file(_ key: String, _ path: any Path<String>) -> SettingRow {
        SettingRow(key, .path, path) { $0.text }
    }

    static func list(_ key: String, _ path: any Path<[String]?>) -> SettingRow {
        SettingRow(key, .list, path) { $0.texts }
    }

    static func list(_ key: String, _ path: any Path<[String]>) -> SettingRow {
        SettingRow(key, .list, path) { $0.texts }
    }

    static func integer(_ key: String, _ path: any Path<Int>, _ range: ClosedRange<Int>) -> SettingRow {
        SettingRow(key, .integer(range), path) { $0.integer }
    }

    static func integer(_ key: String, _ path: any Path<Int?>, _ range: ClosedRange<Int>) -> SettingRow {
        SettingRow(key, .integer(range), path) { $0.integer }
    }

    static func size(_ key: String, _ path: any Path<Int>, _ range: ClosedRange<Int>) -> SettingRow {
        SettingRow(key, .size(range), path) { $0.integer }
    }

    static func boolean(_ key: String, _ path: any Path<Bool>) -> SettingRow {
        SettingRow(key, .boolean, path) { $0.boolean }
    }

    static func duration(_ key: String, _ path: any Path<Duration>, _ range: ClosedRange<Duration>) -> SettingRow {
        SettingRow(key, .duration(range), path) { $0.duration }
    }

    static func choice<Value: Equatable & Sendable>(
        _ key: String,
        _ path: any Path<Value>,
        _ words: KeyValuePairs<String, Value>
    ) -> SettingRow {
        let values = words.map { (word: $0.key, value: $0.value) }
        return SettingRow(key, .choice(values.map(\.word)), path) { value in
            values.first { $0.word == value.text }?.value
        }
    }
}

extension SettingsReader {
    /// Reads the settings of a table.
    ///
    /// - Parameters:
    ///   - rows: the table.
    ///   - prefix: the beginning of all keys of the table, such as `app.fern`; empty if the table has whole keys.
    ///   - target: receives the values.
    mutating func read<Target>(_ rows: [SettingRow<Target>], below prefix: String = "", into target: inout Target) {
        for row in rows {
            let key = prefix.isEmpty ? row.key : "\(prefix).\(row.key)"
            if let value = self.value(key, row.kind, isSecret: row.isSecret) { row.put(&target, value) }
        }
    }
}

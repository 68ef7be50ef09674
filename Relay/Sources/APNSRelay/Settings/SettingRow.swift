@_spi(Relay) import APNSPool

/// One setting: its key, its kind, and the property that it sets.
struct SettingRow<Target>: Sendable {
    /// The key below the name, for settings of an app, a caller or a webhook.
    let key: String
    let kind: SettingKind
    let isSecret: Bool
    /// Applies a valid value.
    let put: @Sendable (inout Target, SettingKind.Value) -> Void

    private init(
        _ key: String,
        _ kind: SettingKind,
        isSecret: Bool = false,
        put: @escaping @Sendable (inout Target, SettingKind.Value) -> Void
    ) {
        self.key = key
        self.kind = kind
        self.isSecret = isSecret
        self.put = put
    }

    typealias Path<Value> = WritableKeyPath<Target, Value> & Sendable

    static func text(_ key: String, _ path: any Path<String?>, isSecret: Bool = false) -> SettingRow {
        SettingRow(key, .string, isSecret: isSecret) { $0[keyPath: path] = $1.text }
    }

    static func text(_ key: String, _ path: any Path<String>) -> SettingRow {
        SettingRow(key, .string) { $0[keyPath: path] = $1.text ?? $0[keyPath: path] }
    }

    static func file(_ key: String, _ path: any Path<String?>) -> SettingRow {
        SettingRow(key, .path) { $0[keyPath: path] = $1.text }
    }

    static func file(_ key: String, _ path: any Path<String>) -> SettingRow {
        SettingRow(key, .path) { $0[keyPath: path] = $1.text ?? $0[keyPath: path] }
    }

    static func list(_ key: String, _ path: any Path<[String]?>) -> SettingRow {
        SettingRow(key, .list) { $0[keyPath: path] = $1.texts }
    }

    static func list(_ key: String, _ path: any Path<[String]>) -> SettingRow {
        SettingRow(key, .list) { $0[keyPath: path] = $1.texts ?? [] }
    }

    static func integer(_ key: String, _ path: any Path<Int>, _ range: ClosedRange<Int>) -> SettingRow {
        SettingRow(key, .integer(range)) { $0[keyPath: path] = $1.integer ?? $0[keyPath: path] }
    }

    static func integer(_ key: String, _ path: any Path<Int?>, _ range: ClosedRange<Int>) -> SettingRow {
        SettingRow(key, .integer(range)) { $0[keyPath: path] = $1.integer }
    }

    static func size(_ key: String, _ path: any Path<Int>, _ range: ClosedRange<Int>) -> SettingRow {
        SettingRow(key, .size(range)) { $0[keyPath: path] = $1.integer ?? $0[keyPath: path] }
    }

    static func size(_ key: String, _ path: any Path<Int64?>, _ range: ClosedRange<Int>) -> SettingRow {
        SettingRow(key, .size(range)) { $0[keyPath: path] = $1.integer.map { Int64($0) } }
    }

    static func boolean(_ key: String, _ path: any Path<Bool>) -> SettingRow {
        SettingRow(key, .boolean) { $0[keyPath: path] = $1.boolean ?? $0[keyPath: path] }
    }

    static func duration(_ key: String, _ path: any Path<Duration>, _ range: ClosedRange<Duration>) -> SettingRow {
        SettingRow(key, .duration(range)) { $0[keyPath: path] = $1.duration ?? $0[keyPath: path] }
    }

    static func choice<Value: Sendable>(
        _ key: String,
        _ path: any Path<Value>,
        _ words: KeyValuePairs<String, Value>
    ) -> SettingRow {
        let values = words.map { (word: $0.key, value: $0.value) }
        return SettingRow(key, .choice(values.map(\.word))) { target, value in
            guard let match = values.first(where: { $0.word == value.text }) else { return }
            target[keyPath: path] = match.value
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

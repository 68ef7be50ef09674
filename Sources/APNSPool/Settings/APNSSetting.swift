/// One setting that a variable, a file or an option can give: a row of the table in `Docs/Configuration.md`.
package struct APNSSetting: Sendable {
    /// The key without the prefix: `pool.size`.
    package let key: String
    package let kind: SettingKind
    /// Whether its value must never be shown.
    package let isSecret: Bool
    /// The paths of the properties that it sets, as used in the client's errors.
    let properties: [String]
    /// Applies a value to a draft.
    let put: @Sendable (inout SettingsDraft, SettingKind.Value) -> Void
    /// Returns its value in a configuration, in the format of a text setting; nil if there is none.
    let get: @Sendable (APNSClientConfiguration) -> String?
    /// Whether its value in a configuration is within the limits of `kind`.
    let isWithinLimits: @Sendable (APNSClientConfiguration) -> Bool
    /// A readable description in Markdown.
    package private(set) var meaning = ""

    init(
        _ key: String,
        _ kind: SettingKind,
        sets properties: [String]? = nil,
        isSecret: Bool = false,
        put: @escaping @Sendable (inout SettingsDraft, SettingKind.Value) -> Void,
        get: @escaping @Sendable (APNSClientConfiguration) -> String?,
        isWithinLimits: @escaping @Sendable (APNSClientConfiguration) -> Bool = { _ in true }
    ) {
        self.key = key
        self.kind = kind
        self.isSecret = isSecret
        self.properties = properties ?? [key]
        self.put = put
        self.get = get
        self.isWithinLimits = isWithinLimits
    }

    /// Checks the limits of the value in a configuration.
    ///
    /// - Throws: `outOfRange`, with the property and its limits.
    func check(_ configuration: APNSClientConfiguration) throws(APNSConfigurationError) {
        guard !self.isWithinLimits(configuration) else { return }
        throw .outOfRange(self.properties.first ?? self.key, self.get(configuration) ?? "", self.kind.limits)
    }

    /// Returns this row with a description.
    package func meaning(_ text: String) -> APNSSetting {
        var row = self
        row.meaning = text
        return row
    }

    /// The default value as text; nil if there is none.
    package var defaultText: String? { self.get(Self.defaults) }

    private static let defaults = APNSClientConfiguration(authentication: .withoutToken)

    /// The environment variable of a key with its prefix: `APNS_POOL_MAX_OVERFLOW` for `apns.pool.maxOverflow`.
    ///
    /// This is the rule of swift-configuration's provider of environment variables.
    package static func variable(_ key: String) -> String {
        var name = ""
        var last: Character?
        for character in key {
            if let last, last.isLowercase, character.isUppercase { name += "_" }
            name += character.isLetter || character.isNumber ? character.uppercased() : "_"
            last = character
        }
        return name
    }

    /// The key with its prefix. An empty prefix adds nothing.
    package static func path(_ prefix: String, _ key: String) -> String {
        prefix.isEmpty ? key : "\(prefix).\(key)"
    }
}

// MARK: - Rows

extension APNSSetting {
    typealias Path<Value> = WritableKeyPath<APNSClientConfiguration, Value> & Sendable

    /// A row that sets one property.
    private static func property<Value: Sendable>(
        _ key: String,
        _ kind: SettingKind,
        _ path: any Path<Value>,
        sets property: String? = nil,
        isWithinLimits: @escaping @Sendable (Value) -> Bool = { _ in true },
        read: @escaping @Sendable (SettingKind.Value) -> Value?,
        write: @escaping @Sendable (Value) -> String?
    ) -> APNSSetting {
        APNSSetting(key, kind, sets: [property ?? key]) { draft, value in
            if let value = read(value) { draft.configuration[keyPath: path] = value }
        } get: {
            write($0[keyPath: path])
        } isWithinLimits: {
            isWithinLimits($0[keyPath: path])
        }
    }

    static func integer(_ key: String, _ path: any Path<Int>, _ range: ClosedRange<Int>) -> APNSSetting {
        self.property(key, .integer(range), path, isWithinLimits: { range.contains($0) }) {
            $0.integer
        } write: {
            "\($0)"
        }
    }

    static func size(_ key: String, _ path: any Path<Int>, _ range: ClosedRange<Int>) -> APNSSetting {
        self.property(key, .size(range), path, isWithinLimits: { range.contains($0) }) {
            $0.integer
        } write: {
            SettingKind.text(bytes: $0)
        }
    }

    static func boolean(_ key: String, _ path: any Path<Bool>) -> APNSSetting {
        self.property(key, .boolean, path) {
            $0.boolean
        } write: {
            "\($0)"
        }
    }

    static func duration(
        _ key: String,
        _ path: any Path<Duration>,
        _ range: ClosedRange<Duration>,
        sets property: String? = nil
    ) -> APNSSetting {
        self.property(key, .duration(range), path, sets: property, isWithinLimits: { range.contains($0) }) {
            $0.duration
        } write: {
            SettingKind.text($0)
        }
    }

    static func duration(
        _ key: String,
        orNever path: any Path<Duration?>,
        _ range: ClosedRange<Duration>,
        sets property: String? = nil
    ) -> APNSSetting {
        self.property(
            key,
            .duration(range, neverIsAllowed: true),
            path,
            sets: property,
            isWithinLimits: { $0.map { range.contains($0) } ?? true }
        ) { value in
            if case .duration(let time) = value { .some(time) } else { nil }
        } write: {
            $0.map { SettingKind.text($0) } ?? "never"
        }
    }

    static func choice<Value: Hashable & Sendable>(
        _ key: String,
        _ path: any Path<Value>,
        _ words: [(String, Value)]
    ) -> APNSSetting {
        self.property(key, .choice(words.map(\.0)), path) { value in
            words.first { $0.0 == value.text }?.1
        } write: { value in
            words.first { $0.1 == value }?.0
        }
    }

    /// A row whose value is combined with others, or is read by the code that added the row to the table.
    package static func part(
        _ key: String,
        _ kind: SettingKind,
        sets properties: String...,
        isSecret: Bool = false
    ) -> APNSSetting {
        APNSSetting(key, kind, sets: properties, isSecret: isSecret) {
            $0.parts[key] = $1
        } get: { _ in
            nil
        }
    }

    static func part(
        _ key: String,
        _ kind: SettingKind,
        sets property: String,
        get: @escaping @Sendable (APNSClientConfiguration) -> String?
    ) -> APNSSetting {
        APNSSetting(key, kind, sets: [property], isSecret: false) {
            $0.parts[key] = $1
        } get: {
            get($0)
        }
    }
}

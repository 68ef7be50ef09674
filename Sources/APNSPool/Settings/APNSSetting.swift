/// One setting of the client as files and environments have it: a row of the table in `Docs/Configuration.md`.
package struct APNSSetting: Sendable {
    /// Without the prefix: `pool.size`.
    package let key: String
    package let kind: SettingKind
    /// Whether its value must never be shown.
    package let isSecret: Bool
    /// For people, in Markdown.
    package let meaning: String
    /// The paths of the properties that it sets, as the errors of the client name them.
    let properties: [String]
    /// Sets it.
    let put: @Sendable (inout SettingsDraft, SettingKind.Value) -> Void
    /// Its value in a configuration, in the form in which it could be written; nil: none.
    let get: @Sendable (APNSClientConfiguration) -> String?

    init(
        _ key: String,
        _ kind: SettingKind,
        properties: [String]? = nil,
        isSecret: Bool = false,
        _ meaning: String,
        put: @escaping @Sendable (inout SettingsDraft, SettingKind.Value) -> Void,
        get: @escaping @Sendable (APNSClientConfiguration) -> String?
    ) {
        self.key = key
        self.kind = kind
        self.properties = properties ?? [key]
        self.isSecret = isSecret
        self.meaning = meaning
        self.put = put
        self.get = get
    }

    /// What a configuration has that nobody changed; nil: nothing.
    package var defaultText: String? { self.get(Self.defaults) }

    private static let defaults = APNSClientConfiguration(authentication: .withoutToken)

    /// The name of the environment variable: `pool.maxOverflow` below `apns` is `APNS_POOL_MAX_OVERFLOW`.
    ///
    /// The rule is that of swift-configuration's provider of environment variables.
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

    /// The key below a prefix; an empty prefix is none.
    package static func path(_ prefix: String, _ key: String) -> String {
        prefix.isEmpty ? key : "\(prefix).\(key)"
    }

    /// Whether its value may be shown in an error: no secret, and no long text.
    var isShown: Bool {
        switch self.kind {
        case .pem, .base64: false
        default: !self.isSecret
        }
    }
}

// MARK: - Rows

/// The rows of one property each.
extension APNSSetting {
    typealias Path<Value> = WritableKeyPath<APNSClientConfiguration, Value> & Sendable

    static func integer(
        _ key: String,
        _ path: any Path<Int>,
        _ range: ClosedRange<Int>,
        _ meaning: String
    ) -> APNSSetting {
        APNSSetting(key, .integer(range), meaning) { draft, value in
            if case .integer(let number?) = value { draft.configuration[keyPath: path] = number }
        } get: {
            "\($0[keyPath: path])"
        }
    }

    static func size(
        _ key: String,
        _ path: any Path<Int>,
        _ range: ClosedRange<Int>,
        _ meaning: String
    ) -> APNSSetting {
        APNSSetting(key, .size(range), meaning) { draft, value in
            if case .integer(let number?) = value { draft.configuration[keyPath: path] = number }
        } get: {
            SettingKind.text(bytes: $0[keyPath: path])
        }
    }

    static func boolean(_ key: String, _ path: any Path<Bool>, _ meaning: String) -> APNSSetting {
        APNSSetting(key, .boolean, meaning) { draft, value in
            if case .boolean(let isSo) = value { draft.configuration[keyPath: path] = isSo }
        } get: {
            "\($0[keyPath: path])"
        }
    }

    static func duration(
        _ key: String,
        _ path: any Path<Duration>,
        _ range: ClosedRange<Duration>,
        properties: [String]? = nil,
        _ meaning: String
    ) -> APNSSetting {
        APNSSetting(key, .duration(range), properties: properties, meaning) { draft, value in
            if case .duration(let time?) = value { draft.configuration[keyPath: path] = time }
        } get: {
            SettingKind.text($0[keyPath: path])
        }
    }

    static func duration(
        _ key: String,
        properties: [String]? = nil,
        orNever path: any Path<Duration?>,
        _ range: ClosedRange<Duration>,
        _ meaning: String
    ) -> APNSSetting {
        APNSSetting(key, .duration(range, neverIsAllowed: true), properties: properties, meaning) { draft, value in
            if case .duration(let time) = value { draft.configuration[keyPath: path] = time }
        } get: {
            $0[keyPath: path].map { SettingKind.text($0) } ?? "never"
        }
    }

    static func choice<Value: Hashable & Sendable>(
        _ key: String,
        _ path: any Path<Value>,
        _ words: [(String, Value)],
        _ meaning: String
    ) -> APNSSetting {
        APNSSetting(key, .choice(words.map(\.0)), meaning) { draft, value in
            guard case .text(let word) = value, let found = words.first(where: { $0.0 == word }) else { return }
            draft.configuration[keyPath: path] = found.1
        } get: { configuration in
            words.first { $0.1 == configuration[keyPath: path] }?.0
        }
    }

    /// A row of which something is made only together with others.
    static func part(
        _ key: String,
        _ kind: SettingKind,
        properties: [String],
        isSecret: Bool = false,
        _ meaning: String,
        get: @escaping @Sendable (APNSClientConfiguration) -> String? = { _ in nil }
    ) -> APNSSetting {
        APNSSetting(key, kind, properties: properties, isSecret: isSecret, meaning) { draft, value in
            draft.parts[key] = value
        } get: {
            get($0)
        }
    }
}

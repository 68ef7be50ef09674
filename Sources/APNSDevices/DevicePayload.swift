internal import APNSModel

/// A payload as a device reads it: the members of `aps`, each of the type that Apple documents.
///
/// Source: Apple, "Generating a remote notification" and the articles of the frameworks.
struct DevicePayload {
    enum Kind {
        case text
        case whole
        case number
        /// The number 1. A device also accepts `true`, because Foundation reads both as an equal `NSNumber`.
        case flag
        case boolean
        case object
        case texts
        case textOrObject

        func fits(_ value: JSONValue) -> Bool {
            switch (self, value) {
            case (.text, .string), (.textOrObject, .string), (.textOrObject, .object), (.object, .object): true
            case (.number, .integer), (.number, .unsigned), (.number, .decimal), (.number, .double): true
            case (.whole, .integer), (.flag, .integer), (.boolean, .bool): true
            case (.whole, .double(let number)): Int64(exactly: number) != nil
            case (.texts, .array(let values)): values.allSatisfy { if case .string = $0 { true } else { false } }
            default: false
            }
        }

        var name: String {
            switch self {
            case .text: "a string"
            case .whole: "a whole number"
            case .number: "a number"
            case .flag: "the number 1"
            case .boolean: "true or false"
            case .object: "an object"
            case .texts: "a list of strings"
            case .textOrObject: "a string or an object"
            }
        }
    }

    /// The keys of `aps` that Apple documents.
    static let kinds: [String: Kind] = [
        "alert": .textOrObject, "badge": .whole, "sound": .textOrObject, "thread-id": .text, "category": .text,
        "content-available": .flag, "mutable-content": .flag, "target-content-id": .text,
        "interruption-level": .text, "relevance-score": .number, "filter-criteria": .text, "stale-date": .number,
        "content-state": .object, "timestamp": .number, "event": .text, "dismissal-date": .number,
        "attributes-type": .text, "attributes": .object, "input-push-token": .flag, "input-push-channel": .text,
        "content-changed": .boolean, "ptt-push-type": .text, "encryptedData": .text,
        "sessionIdentifier": .text, "keyID": .text, "messageIndex": .text,
    ]

    /// The keys of `aps.alert` that a device shows.
    static let alertKinds: [String: Kind] = [
        "title": .text, "subtitle": .text, "body": .text, "title-loc-key": .text, "title-loc-args": .texts,
        "subtitle-loc-key": .text, "subtitle-loc-args": .texts, "loc-key": .text, "loc-args": .texts,
    ]

    /// The keys of the alert in a push to a Live Activity.
    static let activityAlertKinds: [String: Kind] = ["title": .textOrObject, "body": .textOrObject]

    /// The keys of a sound that is an object.
    static let soundKinds: [String: Kind] = ["critical": .flag, "name": .text, "volume": .number]

    let root: [String: JSONValue]
    let aps: [String: JSONValue]

    /// - Throws: `notJSON`, or `wrongType` for an `aps` that is not an object.
    init(_ bytes: [UInt8]) throws(DeliveryFault) {
        guard let root = JSONValue(json: bytes)?.members else { throw DeliveryFault(.notJSON) }
        self.root = root
        switch root["aps"] {
        case nil, .null: self.aps = [:]
        case .some(let value):
            guard let aps = value.members else { throw DeliveryFault(.wrongType, "aps must be an object.") }
            self.aps = aps
        }
    }

    /// The keys whose values do not have the documented type, sorted by name. A null counts as a missing key.
    static func wrongTypes(_ object: [String: JSONValue], _ kinds: [String: Kind]) -> [(key: String, kind: Kind)] {
        object.compactMap { key, value -> (key: String, kind: Kind)? in
            guard value != .null, let kind = kinds[key], !kind.fits(value) else { return nil }
            return (key, kind)
        }.sorted { $0.key < $1.key }
    }

    /// - Throws: `wrongType` for a key whose value a device cannot read.
    ///
    /// - Parameter kinds: the documented keys of the alert, with their types.
    func checkTypes(ofAlert kinds: [String: Kind] = Self.alertKinds) throws(DeliveryFault) {
        try Self.check(self.aps, Self.kinds, "aps")
        if let alert = self.aps["alert"]?.members { try Self.check(alert, kinds, "aps.alert") }
        if let sound = self.aps["sound"]?.members { try Self.check(sound, Self.soundKinds, "aps.sound") }
    }

    private static func check(
        _ object: [String: JSONValue],
        _ kinds: [String: Kind],
        _ path: String
    ) throws(DeliveryFault) {
        for (key, kind) in self.wrongTypes(object, kinds) {
            if kind.name == Kind.flag.name, case .bool = object[key] { continue }
            throw DeliveryFault(.wrongType, "\(path).\(key) must be \(kind.name).")
        }
    }

    func text(_ key: String) -> String? { self.aps[key]?.text }

    func flag(_ key: String) -> Bool { self.aps[key]?.isSet ?? false }

    /// A number without its fraction, limited to 64 bits.
    func whole(_ key: String) -> Int64? { self.aps[key]?.whole }

    /// Whether `aps` has an alert, badge or sound, even an empty one.
    var isVisible: Bool {
        ["alert", "badge", "sound"].contains { self.aps[$0] != nil && self.aps[$0] != .null }
    }

    /// Whether a flag is `true` instead of 1.
    var hasBooleanFlag: Bool {
        Self.kinds.contains { key, kind in
            if case .flag = kind, case .bool = self.aps[key] { true } else { false }
        }
    }
}

extension JSONValue {
    var text: String? { if case .string(let text) = self { text } else { nil } }

    /// Whether this is 1, or true.
    var isSet: Bool { self == .integer(1) || self == .bool(true) }

    var whole: Int64? {
        switch self {
        case .integer(let number): number
        case .unsigned: .max
        case .decimal(let number): "\(number)".hasPrefix("-") ? .min : .max
        case .double(let number): Int64(exactly: number.rounded(.down)) ?? (number > 0 ? .max : .min)
        default: nil
        }
    }
}

/// The visible part of a notification.
struct NotificationContent {
    var title: String?
    var subtitle: String?
    var body: String?
    var badge: Int64?
    var sound: String?
    var isCritical = false
    var notes: [DeviceNote] = []

    /// - Parameter payload: a payload whose types were checked.
    init(_ payload: DevicePayload) {
        switch payload.aps["alert"] {
        case .string(let text): self.body = text.isEmpty ? nil : text
        case .some(let value):
            let alert = value.members ?? [:]
            self.title = self.line(alert, "title", "title-loc")
            self.subtitle = self.line(alert, "subtitle", "subtitle-loc")
            self.body = self.line(alert, "body", "loc")
        case nil: break
        }
        self.badge = payload.whole("badge")
        switch payload.aps["sound"] {
        case .string(let name): self.sound = name
        case .some(let value):
            self.sound = value.members?["name"]?.text
            self.isCritical = value.members?["critical"]?.isSet ?? false
        case nil: break
        }
    }

    /// Whether there is a text to show.
    var isVisible: Bool { self.title != nil || self.subtitle != nil || self.body != nil }

    private mutating func line(_ alert: [String: JSONValue], _ key: String, _ prefix: String) -> String? {
        let text = alert[key]?.text ?? ""
        let localized = Self.localized(alert["\(prefix)-key"], alert["\(prefix)-args"])
        if localized != nil { self.notes.append(text.isEmpty ? .localizedText : .textAndLocalization) }
        return text.isEmpty ? localized : text
    }

    /// A key of the app's strings with its arguments; nil if there is no key.
    static func localized(_ key: JSONValue?, _ arguments: JSONValue?) -> String? {
        guard let key = key?.text, !key.isEmpty else { return nil }
        guard case .array(let values) = arguments, !values.isEmpty else { return key }
        return "\(key) (\(values.compactMap(\.text).joined(separator: ", ")))"
    }
}

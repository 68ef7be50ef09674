/// One notification as a value: what to show and how to deliver it, without the device it goes to.
///
/// It is built without `try`, by an initialiser and modifiers that each give a changed copy:
///
///     let notification = PushNotification(topic: "com.grasscove.Fern", alert: Alert(title: "Hey There"))
///         .badge(1)
///         .sound("cow.wav")
///         .custom(Acme(acme2: ["bang", "whiz"]))
///
/// Everything is checked by `prepared()`, which is also what a client calls before it sends. Prepare once to send the
/// same notification to many devices.
///
/// Coded form, stable, read by all later versions; keys that are nil are left out:
///
///     {"topic": string, "pushType": string, "priority": number, "collapseID": string,
///      "expiration": seconds since 1970 | "system-default",
///      "payload": the JSON object | "payloadBase64": string}
///
/// A notification that was decoded has a raw payload: it equals the original one as JSON, its whole numbers are exact,
/// its keys are sorted. `payloadBase64` stands for raw bytes that are not a JSON object or that a foreign coder would
/// change (repeated keys, numbers of more than 15 digits with a fraction).
public struct PushNotification: Sendable {
    enum Custom: Sendable {
        case merged(any Encodable & Sendable)
        case member(String, any Encodable & Sendable)
    }

    /// The topic as given: the app's bundle ID, with or without the push type's suffix.
    public let topic: String

    var type: PushType
    var aps = APSContent()
    var customs: [Custom] = []
    /// The whole payload if it was given as bytes; then `aps` and `customs` must be empty.
    var raw: [UInt8]?
    var urgency: Priority?
    /// Nil for the push type's own default.
    var storage: Expiration?
    var collapse: String?

    /// A notification without content, for pushes that show a badge or make a sound only, or that consist of custom
    /// values (`voip`, `location`, `mdm` and others).
    ///
    /// - Parameter topic: the app's bundle ID. The suffix of the push type is added where it is missing.
    public init(topic: String, pushType: PushType = .alert) {
        self.topic = topic
        type = pushType
    }

    public init(topic: String, alert: Alert) {
        self.init(topic: topic)
        aps.alert = .dictionary(alert)
    }

    /// The short form of an alert: only a text, which becomes the body.
    public init(topic: String, alert: String) {
        self.init(topic: topic)
        aps.alert = .text(alert)
    }

    /// A payload of JSON bytes, sent untouched. Only its size is checked; modifiers that would change it make
    /// `prepared()` throw `payloadIsRaw`.
    public init(topic: String, pushType: PushType = .alert, rawPayload: [UInt8]) {
        self.init(topic: topic, pushType: pushType)
        raw = rawPayload
    }

    /// As the form with an array; for `Data`, `ByteBufferView` and others.
    public init(topic: String, pushType: PushType = .alert, rawPayload: some Sequence<UInt8>) {
        self.init(topic: topic, pushType: pushType, rawPayload: Array(rawPayload))
    }

    /// A background push: `content-available` and nothing the user notices, priority 5. Custom values may be added.
    ///
    /// Source: Apple, "Pushing background updates to your App".
    public static func background(topic: String) -> PushNotification {
        PushNotification(topic: topic, pushType: .background).contentAvailable()
    }
}

// Consuming, so that a chain of modifiers changes one value in place.
extension PushNotification {
    /// The number on the app's icon; 0 removes it, below 0 is refused. Absent, it stays as it is.
    public consuming func badge(_ number: Int) -> PushNotification {
        aps.badge = number
        return self
    }

    /// A sound file by name, or `default`.
    public consuming func sound(_ name: String) -> PushNotification {
        aps.sound = .named(name)
        return self
    }

    public consuming func sound(_ sound: Sound) -> PushNotification {
        aps.sound = sound
        return self
    }

    /// Notifications with the same thread id are grouped.
    public consuming func threadID(_ id: String) -> PushNotification {
        aps.threadID = id
        return self
    }

    /// A category that the app registered, which gives the notification its buttons.
    public consuming func category(_ identifier: String) -> PushNotification {
        aps.category = identifier
        return self
    }

    /// Whether the app's service extension runs and may change the notification before it is shown.
    public consuming func mutableContent(_ enabled: Bool = true) -> PushNotification {
        aps.mutableContent = enabled
        return self
    }

    /// Whether the app is woken in the background. In an alert push it may go along with the alert.
    public consuming func contentAvailable(_ enabled: Bool = true) -> PushNotification {
        aps.contentAvailable = enabled
        return self
    }

    /// Whether WidgetKit reloads: the content of `widgets` and `controls` pushes.
    public consuming func contentChanged(_ enabled: Bool = true) -> PushNotification {
        aps.contentChanged = enabled
        return self
    }

    /// The window or scene that is brought forward.
    public consuming func targetContentID(_ id: String) -> PushNotification {
        aps.targetContentID = id
        return self
    }

    public consuming func interruptionLevel(_ level: InterruptionLevel) -> PushNotification {
        aps.interruptionLevel = level
        return self
    }

    /// The rank in a summary, from 0 to 1; for Live Activities any finite number.
    public consuming func relevanceScore(_ score: Double) -> PushNotification {
        aps.relevanceScore = score
        return self
    }

    /// What a Focus filter decides by.
    public consuming func filterCriteria(_ criteria: String) -> PushNotification {
        aps.filterCriteria = criteria
        return self
    }

    /// The header `apns-priority`. Absent, APNs assumes 10; background pushes get 5.
    public consuming func priority(_ priority: Priority) -> PushNotification {
        urgency = priority
        return self
    }

    /// The header `apns-expiration`. Absent, it is `immediate` for `voip` and `pushtotalk`, else `systemDefault`.
    public consuming func expiration(_ expiration: Expiration) -> PushNotification {
        storage = expiration
        return self
    }

    /// The header `apns-collapse-id`, at most 64 bytes, checked by `prepared()`.
    public consuming func collapseID(_ id: String) -> PushNotification {
        collapse = id
        return self
    }

    public consuming func collapseID(_ id: CollapseID) -> PushNotification {
        collapse = id.rawValue
        return self
    }

    public consuming func pushType(_ pushType: PushType) -> PushNotification {
        type = pushType
        return self
    }

    /// Adds the fields of a value beside `aps`. It must encode as a JSON object; its keys must differ from `aps` and
    /// from those of other custom values. May be used more than once.
    ///
    /// Encoded as Foundation's `JSONEncoder` does by default: `Date` as seconds since 2001, `Data` as base64.
    public consuming func custom(_ value: some Encodable & Sendable) -> PushNotification {
        customs.append(.merged(value))
        return self
    }

    /// Adds one value under a key beside `aps`.
    public consuming func custom(key: String, _ value: some Encodable & Sendable) -> PushNotification {
        customs.append(.member(key, value))
        return self
    }
}

extension PushNotification {
    /// Encodes and checks the notification. The work is done here, on the caller's thread, once.
    ///
    /// - Parameter skippingValidation: leaves out the checks of sizes, ranges and rules, for the day on which Apple
    ///   relaxes one. What JSON or a header cannot hold is refused all the same.
    public func prepared(skippingValidation: Bool = false) throws(ValidationError) -> PreparedPush {
        let rule = type.rule
        let payload = try payload(rule, skippingValidation: skippingValidation)
        var identifier: CollapseID?
        if let collapse {
            identifier = try CollapseID(collapse)
        }
        return try PreparedPush(
            checking: skippingValidation ? nil : rule,
            topic: Self.topic(topic, suffix: rule.topicSuffix),
            pushType: type,
            payload: payload,
            priority: urgency ?? rule.defaultPriority,
            expiration: storage ?? rule.defaultExpiration,
            collapseID: identifier
        )
    }

    /// The suffix exactly once, whether the caller gave it or not.
    private static func topic(_ topic: String, suffix: String) -> String {
        suffix.isEmpty || topic.isEmpty || topic.hasSuffix(suffix) ? topic : topic + suffix
    }

    private func payload(_ rule: PushType.Rule, skippingValidation: Bool) throws(ValidationError) -> [UInt8] {
        if let raw {
            guard aps.isEmpty, customs.isEmpty else {
                throw ValidationError(code: .payloadIsRaw, field: customs.isEmpty ? "aps" : "custom")
            }
            return raw
        }
        if !skippingValidation {
            try aps.validate(for: type)
        }
        let omitsAPS = rule.omitsEmptyAPS && aps.isEmpty
        var writer = PayloadWriter(capacity: 256)
        if !omitsAPS {
            try writer.aps(aps)
        }
        guard !customs.isEmpty else {
            return writer.finished()
        }
        let encoder = JSONBytesEncoder(writer: writer.taken())
        encoder.continueRoot(after: omitsAPS ? nil : "aps")
        for custom in customs {
            switch custom {
            case .merged(let value): try encoder.merge(value)
            case .member(let key, let value): try encoder.member(key, value)
            }
        }
        encoder.closeRoot()
        return encoder.writer.bytes
    }
}

extension PushNotification: Codable {
    private enum CodingKeys: String, CodingKey {
        case topic, pushType, priority, expiration, collapseID
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            topic: try container.decode(String.self, forKey: .topic),
            pushType: try container.decode(PushType.self, forKey: .pushType),
            rawPayload: try CodedPayload(from: decoder).bytes
        )
        urgency = try container.decodeIfPresent(Priority.self, forKey: .priority)
        storage = try container.decodeIfPresent(Expiration.self, forKey: .expiration)
        collapse = try container.decodeIfPresent(String.self, forKey: .collapseID)
    }

    /// Throws a `ValidationError` if a custom value cannot be encoded. Other faults stay for `prepared()` to report.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(topic, forKey: .topic)
        try container.encode(type, forKey: .pushType)
        try container.encodeIfPresent(urgency, forKey: .priority)
        try container.encodeIfPresent(storage, forKey: .expiration)
        try container.encodeIfPresent(collapse, forKey: .collapseID)
        try CodedPayload(bytes: payload(type.rule, skippingValidation: true)).encode(to: encoder)
    }
}

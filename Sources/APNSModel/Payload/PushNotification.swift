#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

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
/// A Live Activity's push without a timestamp is coded with the time of its coding. A notification that was decoded has a
/// raw payload: it equals the original one as JSON, its whole numbers are exact,
/// its keys are sorted. `payloadBase64` stands for raw bytes that are not a JSON object or that a foreign coder would
/// change (repeated keys, numbers of more than 15 digits with a fraction).
public struct PushNotification: Sendable {
    enum Custom: Sendable {
        case merged(any Encodable & Sendable)
        case member(String, any Encodable & Sendable)
        /// By the user's own encoder; without a key, the members of an object.
        case encoded(key: String?, EncodedCustom)
    }

    /// The topic as given: the app's bundle ID, with or without the push type's suffix.
    public let topic: String

    var type: PushType
    package var pushType: PushType { self.type }
    var content: APSContent
    var customs: [Custom] = []
    /// The whole payload if it was given as bytes; then `content` and `customs` must be empty.
    var raw: [UInt8]?
    var urgency: Priority?
    /// Nil for the push type's own default.
    var storage: Expiration?
    var collapse: String?
}

// Outside, so that the compiler's own initialiser is there to be called: assigning the fields one by one copies them all
// once more in the end.
extension PushNotification {
    /// A notification without content, for pushes that show a badge or make a sound only, or that consist of custom
    /// values. For each push type there is also a function that says what it needs: `background`, `voip`,
    /// `liveActivityUpdate`, `fileProvider`, `mdm` and others.
    ///
    /// - Parameters:
    ///   - topic: the app's bundle ID. The suffix of the push type is added where it is missing.
    ///   - pushType: what kind of push it is.
    public init(topic: String, pushType: PushType = .alert) {
        self.init(topic: topic, type: pushType, content: APSContent())
    }

    /// A notification of the type `alert`.
    ///
    /// - Parameters:
    ///   - topic: the app's bundle ID.
    ///   - alert: what it says.
    public init(topic: String, alert: Alert) {
        self.init(topic: topic, type: .alert, content: APSContent(alert: .dictionary(alert)))
    }

    /// The short form of an alert: only a text, which becomes the body.
    public init(topic: String, alert: String) {
        self.init(topic: topic, type: .alert, content: APSContent(alert: .text(alert)))
    }

    /// A payload of JSON bytes, sent untouched. Only its size is checked; modifiers that would change it make
    /// `prepared()` throw `payloadIsRaw`.
    public init(topic: String, pushType: PushType = .alert, rawPayload: [UInt8]) {
        self.init(topic: topic, type: pushType, content: APSContent(), raw: rawPayload)
    }

    /// As the form with an array; for `Data`, `ByteBufferView` and others.
    public init(topic: String, pushType: PushType = .alert, rawPayload: some Sequence<UInt8>) {
        self.init(topic: topic, pushType: pushType, rawPayload: Array(rawPayload))
    }
}

extension PushNotification {
    /// Encodes and checks the notification. The work is done here, on the caller's thread, once.
    ///
    /// - Parameters:
    ///   - skippingValidation: leaves out the checks of sizes, ranges and rules, for the day on which Apple relaxes one.
    ///     What JSON or a header cannot hold is refused all the same.
    ///   - now: becomes the timestamp of a Live Activity's push that has none; not asked for otherwise.
    /// - Returns: checked bytes and headers, for one device or a million.
    /// - Throws: the first thing that is wrong, with its field and, where there is one, the limit: a size
    ///   (`payloadTooLarge`: 4,096 bytes, 5,120 for `voip`; `collapseIDTooLong`), content that contradicts the push type or
    ///   that it lacks (`contentNotAllowed`, `contentMissing`, `contentContradictory`), a value out of its range, a custom
    ///   value that cannot be encoded (`notEncodable`) or whose key is taken (`customKeyReserved`, `customKeyDuplicate`).
    public func prepared(
        skippingValidation: Bool = false,
        now: @autoclosure () -> Date = Date()
    ) throws(ValidationError) -> PreparedPush {
        try self.prepared(self.type.rule, skippingValidation: skippingValidation) { LiveActivityContent.seconds(now()) }
    }

    /// The same with the timestamp in seconds since 1970, for senders that see to it that it never goes backwards.
    package func prepared(timestamp: Int64) throws(ValidationError) -> PreparedPush {
        try self.prepared(self.type.rule, skippingValidation: false) { timestamp }
    }

    /// Whether preparing fills in a timestamp: a Live Activity's push without one of its own.
    package var takesTimestamp: Bool {
        guard self.raw == nil, let activity = self.content.rare?.liveActivity else { return false }
        return activity.event != nil && activity.timestamp == nil
    }

    func prepared(
        _ rule: PushType.Rule,
        skippingValidation: Bool,
        timestamp: () -> Int64
    ) throws(ValidationError) -> PreparedPush {
        var badge = PreparedPush.BadgePlace.unsearched
        let payload = try self.payload(
            rule,
            skippingValidation: skippingValidation,
            timestamp: timestamp,
            badge: &badge
        )
        var identifier: CollapseID?
        if let collapse {
            identifier = try CollapseID(collapse)
        }
        return try PreparedPush(
            checking: skippingValidation ? nil : rule,
            topic: Self.topic(self.topic, suffix: rule.topicSuffix),
            pushType: self.type,
            payload: payload,
            badge: badge,
            priority: self.urgency ?? rule.defaultPriority,
            expiration: self.storage ?? rule.defaultExpiration,
            collapseID: identifier
        )
    }

    /// The suffix exactly once, whether the caller gave it or not.
    private static func topic(_ topic: String, suffix: String) -> String {
        suffix.isEmpty || topic.isEmpty || topic.hasSuffix(suffix) ? topic : topic + suffix
    }

    private func payload(
        _ rule: PushType.Rule,
        skippingValidation: Bool,
        timestamp: () -> Int64,
        badge: inout PreparedPush.BadgePlace
    ) throws(ValidationError) -> [UInt8] {
        if let raw {
            guard self.content.isEmpty, self.customs.isEmpty else {
                throw ValidationError(code: .payloadIsRaw, field: self.customs.isEmpty ? "aps" : "custom")
            }
            return raw
        }
        if !skippingValidation {
            try self.content.validate(rule)
            if let rootKey = rule.rootKey, self.customs.isEmpty {
                throw ValidationError(
                    code: .contentMissing,
                    field: rootKey,
                    value: ValidationError.shortened(self.type.rawValue)
                )
            }
        }
        let omitsAPS = rule.rootKey != nil && self.content.isEmpty
        var writer = PayloadWriter(capacity: 256)
        badge = .nowhere
        if !omitsAPS {
            try writer.aps(self.content, rule, timestamp: timestamp)
            // A raw key may be the badge.
            badge = self.content.hasMembers ? .unsearched : .at(writer.badge)
        }
        guard !self.customs.isEmpty else {
            writer.closeRoot()
            return writer.json.bytes()
        }
        let encoder = JSONBytesEncoder.reused(writer: writer.taken())
        encoder.continueRoot(after: omitsAPS ? nil : "aps")
        for custom in self.customs {
            switch custom {
            case .merged(let value): try encoder.merge(value)
            case .member(let key, let value): try encoder.member(key, value)
            case .encoded(let key?, let value): try encoder.member(key, encoded: value.json.get())
            case .encoded(nil, let value): try encoder.merge(encoded: value.json.get())
            }
        }
        encoder.closeRoot()
        let bytes = encoder.writer.bytes()
        JSONBytesEncoder.reuse(encoder)
        return bytes
    }

    /// The payload as it would be sent now, unchecked: for the coded form.
    fileprivate func uncheckedPayload() throws(ValidationError) -> [UInt8] {
        var badge = PreparedPush.BadgePlace.unsearched
        return try self.payload(
            self.type.rule,
            skippingValidation: true,
            timestamp: { LiveActivityContent.seconds(Date()) },
            badge: &badge
        )
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
        self.urgency = try container.decodeIfPresent(Priority.self, forKey: .priority)
        self.storage = try container.decodeIfPresent(Expiration.self, forKey: .expiration)
        self.collapse = try container.decodeIfPresent(String.self, forKey: .collapseID)
    }

    /// Throws a `ValidationError` if a custom value cannot be encoded. Other faults stay for `prepared()` to report.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(self.topic, forKey: .topic)
        try container.encode(self.type, forKey: .pushType)
        try container.encodeIfPresent(self.urgency, forKey: .priority)
        try container.encodeIfPresent(self.storage, forKey: .expiration)
        try container.encodeIfPresent(self.collapse, forKey: .collapseID)
        try CodedPayload(bytes: self.uncheckedPayload()).encode(to: encoder)
    }
}

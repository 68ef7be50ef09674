#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// One notification as a value: its content and delivery headers, without a device.
///
/// Build it without `try`, with an initialiser and modifiers that each return a changed copy:
///
/// ```swift
/// let notification = PushNotification(topic: "com.grasscove.Fern", alert: Alert(title: "Hey There"))
///     .badge(1)
///     .sound("cow.wav")
///     .custom(key: "acme2", ["bang", "whiz"])
/// ```
///
/// `prepared()` checks everything; a client also calls it before it sends. To send one notification to many devices,
/// prepare it once.
///
/// Coded form, stable, read by all later versions; keys that are nil are left out:
///
///     {"topic": string, "pushType": string, "priority": number, "collapseID": string,
///      "expiration": seconds since 1970 | "system-default",
///      "payload": the JSON object | "payloadBase64": string}
///
/// A notification without a topic is coded without one. A Live Activity's push without a timestamp is coded with the time of coding.
///
/// A decoded notification has a raw payload. The payload equals the original one as JSON, with exact whole numbers and
/// sorted keys. `payloadBase64` is used for raw bytes that are not a JSON object or that a foreign coder would change
/// (repeated keys, numbers of more than 15 digits with a fraction).
public struct PushNotification: Sendable {
    /// A custom value. With a key, it is one member of the payload. Without a key, it is an object, and its members are
    /// added to the payload.
    ///
    /// A struct, because matching an enum's case copies its value.
    struct Custom: Sendable {
        let key: String?
        /// The value; `false` if `encoded` is set.
        let value: any Encodable & Sendable
        /// The output of the user's encoder; nil if this library encodes the value.
        let encoded: EncodedCustom?

        init(_ key: String?, _ value: some Encodable & Sendable, _ encoder: JSONEncoder?) {
            self.key = key
            if let encoder {
                self.value = false
                self.encoded = EncodedCustom(value, field: key ?? "custom", encoder)
            } else {
                self.value = value
                self.encoded = nil
            }
        }

        /// Not inlined: the inlined code would copy the value.
        @inline(never)
        borrowing func write(to encoder: JSONBytesEncoder) throws(ValidationError) {
            if let encoded = self.encoded {
                try encoded.write(as: self.key, to: encoder)
            } else if let key = self.key {
                try encoder.member(key, self.value)
            } else {
                try encoder.merge(self.value)
            }
        }
    }

    /// The topic as given: the app's bundle ID, with or without the push type's suffix. Nil: the sender's
    /// ``PushSender/defaultTopic``.
    public package(set) var topic: String?

    var type: PushType
    package var pushType: PushType { self.type }
    var content: APSContent
    var customs: [Custom] = []
    /// The whole payload if it was given as bytes. In that case `content` and `customs` must be empty.
    var raw: [UInt8]?
    var ownPriority: Priority?
    /// The explicitly set expiration; nil for the push type's default.
    var ownExpiration: Expiration?
    var ownCollapseID: String?
}

// In an extension, to keep the compiler's memberwise initialiser. Assigning the fields one by one copies all of them
// once more at the end.
extension PushNotification {
    /// A notification without content, for pushes that only show a badge or play a sound, or that consist of custom
    /// values.
    ///
    /// Each push type also has a function whose parameters are its required fields: `background`, `voip`,
    /// `liveActivityUpdate`, `fileProvider`, `mdm` and others.
    ///
    /// - Parameters:
    ///   - topic: the app's bundle ID. The suffix of the push type is added if it is missing. Nil: the sender's
    ///     ``PushSender/defaultTopic``.
    ///   - pushType: the type of the push.
    public init(topic: String? = nil, pushType: PushType = .alert) {
        self.init(topic: topic, type: pushType, content: APSContent())
    }

    /// A notification of the type `alert`.
    ///
    /// - Parameters:
    ///   - topic: the app's bundle ID. Nil: the sender's ``PushSender/defaultTopic``.
    ///   - alert: the visible text.
    public init(topic: String? = nil, alert: Alert) {
        self.init(topic: topic, type: .alert, content: APSContent(alert: .dictionary(APSContent.AlertBox(alert))))
    }

    /// The short form of an alert: a text that becomes the body.
    public init(topic: String? = nil, alert: String) {
        self.init(topic: topic, type: .alert, content: APSContent(alert: .text(alert)))
    }

    /// A payload of JSON bytes, sent unchanged. Only its size is checked. Modifiers that would change it make
    /// `prepared()` throw `payloadIsRaw`.
    public init(topic: String? = nil, pushType: PushType = .alert, rawPayload: [UInt8]) {
        self.init(topic: topic, type: pushType, content: APSContent(), raw: rawPayload)
    }

    /// A payload of JSON bytes from `Data`, `ByteBufferView` and other sequences, sent unchanged.
    public init(topic: String? = nil, pushType: PushType = .alert, rawPayload: some Sequence<UInt8>) {
        self.init(topic: topic, pushType: pushType, rawPayload: Array(rawPayload))
    }
}

extension PushNotification {
    /// Encodes and checks the notification once, on the caller's thread.
    ///
    /// - Parameters:
    ///   - skippingValidation: skips the checks of sizes, ranges and rules, in case Apple relaxes one of them. Values
    ///     that JSON or a header cannot hold are still rejected.
    ///   - now: the timestamp of a Live Activity's push that has none; not evaluated otherwise.
    /// - Returns: checked bytes and headers, for any number of devices.
    /// - Throws: the first error found, with its field and, if there is one, the limit: a size (`payloadTooLarge`:
    ///   4,096 bytes, 5,120 for `voip`; `collapseIDTooLong`), content that contradicts the push type or is missing for
    ///   it (`contentNotAllowed`, `contentMissing`, `contentContradictory`), a value out of its range, a custom value
    ///   that cannot be encoded (`notEncodable`) or whose key is already used (`customKeyReserved`,
    ///   `customKeyDuplicate`), or no topic (`topicMissing`).
    public func prepared(
        skippingValidation: Bool = false,
        now: @autoclosure () -> Date = Date()
    ) throws(ValidationError) -> PreparedPush {
        try self.prepared(self.type.rule, skippingValidation: skippingValidation) { LiveActivityContent.seconds(now()) }
    }

    func prepared(
        _ rule: PushType.Rule,
        skippingValidation: Bool,
        timestamp: () -> Int64
    ) throws(ValidationError) -> PreparedPush {
        var badge = PreparedPush.BadgeLookup.unsearched
        let payload = try self.payload(
            rule,
            skippingValidation: skippingValidation,
            timestamp: timestamp,
            badge: &badge
        )
        var identifier: CollapseID?
        if let ownCollapseID {
            identifier = try CollapseID(ownCollapseID)
        }
        return try PreparedPush(
            checking: skippingValidation ? nil : rule,
            topic: Self.topic(self.topic ?? "", suffix: rule.topicSuffix),
            pushType: self.type,
            payload: payload,
            badge: badge,
            priority: self.ownPriority ?? rule.defaultPriority,
            expiration: self.ownExpiration ?? rule.defaultExpiration,
            collapseID: identifier
        )
    }

    /// Returns the topic with the suffix exactly once, whether or not the caller included it.
    private static func topic(_ topic: String, suffix: String) -> String {
        suffix.isEmpty || topic.isEmpty || topic.hasSuffix(suffix) ? topic : topic + suffix
    }

    private func payload(
        _ rule: PushType.Rule,
        skippingValidation: Bool,
        timestamp: () -> Int64,
        badge: inout PreparedPush.BadgeLookup
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
        var shared = self.customs.isEmpty ? nil : JSONBytesEncoder.reused()
        var writer = PayloadWriter()
        if let shared { writer.exchangeText(with: shared) }
        writer.openRoot()
        badge = .nowhere
        if !omitsAPS {
            try writer.aps(self.content, rule, timestamp: timestamp)
            // A raw key may be the badge.
            badge = self.content.hasMembers ? .unsearched : .at(writer.badge)
        }
        // Taken: only an encoder without another reference is reused.
        guard let encoder = shared.take() else {
            writer.closeRoot()
            return writer.json.bytes()
        }
        writer.exchangeText(with: encoder)
        encoder.continueRoot(after: omitsAPS ? nil : "aps")
        for index in self.customs.indices { try self.customs[index].write(to: encoder) }
        encoder.closeRoot()
        let bytes = encoder.writer.bytes()
        JSONBytesEncoder.reuse(encoder)
        return bytes
    }

    /// The payload as it would be sent now, without checks, for the coded form.
    fileprivate func uncheckedPayload() throws(ValidationError) -> [UInt8] {
        var badge = PreparedPush.BadgeLookup.unsearched
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
            topic: try container.decodeIfPresent(String.self, forKey: .topic),
            pushType: try container.decode(PushType.self, forKey: .pushType),
            rawPayload: try CodedPayload(from: decoder).bytes
        )
        self.ownPriority = try container.decodeIfPresent(Priority.self, forKey: .priority)
        self.ownExpiration = try container.decodeIfPresent(Expiration.self, forKey: .expiration)
        self.ownCollapseID = try container.decodeIfPresent(String.self, forKey: .collapseID)
    }

    /// Throws a `ValidationError` if a custom value cannot be encoded. `prepared()` reports all other errors.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encodeIfPresent(self.topic, forKey: .topic)
        try container.encode(self.type, forKey: .pushType)
        try container.encodeIfPresent(self.ownPriority, forKey: .priority)
        try container.encodeIfPresent(self.ownExpiration, forKey: .expiration)
        try container.encodeIfPresent(self.ownCollapseID, forKey: .collapseID)
        try CodedPayload(bytes: self.uncheckedPayload()).encode(to: encoder)
    }
}

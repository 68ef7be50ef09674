#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A notification that is ready to be sent to any number of devices: the exact bytes of its payload, and checked
/// headers.
///
/// ```swift
/// let push = try PushNotification(topic: "com.grasscove.Fern", alert: "Hey There").prepared()
/// for device in devices {
///     _ = await client.deliver(try push.badge(device.unread), to: device.token)
/// }
/// ```
///
/// Coded form, stable, read by all later versions; keys that are nil are left out:
///
///     {"topic": string with suffix, "pushType": string, "priority": number, "collapseID": string,
///      "expiration": seconds since 1970 | "system-default",
///      "payload": the JSON object | "payloadBase64": string}
///
/// A payload coded as `payload` is preserved as JSON, but not byte for byte.
public struct PreparedPush: Sendable, Hashable {
    /// One reference, so that sending a push to a million devices copies only one word each time.
    private final class Storage: Sendable, Hashable {
        let payload: [UInt8]
        let badge: BadgeLookup
        let topic: String
        let pushType: PushType
        let priority: Priority?
        let expiration: Expiration
        let collapseID: CollapseID?
        /// The push from which this one was created with another badge. Both have equal headers.
        let origin: Storage?

        init(
            _ payload: [UInt8],
            _ badge: BadgeLookup,
            _ topic: String,
            _ pushType: PushType,
            _ priority: Priority?,
            _ expiration: Expiration,
            _ collapseID: CollapseID?
        ) {
            self.payload = payload
            self.badge = badge
            self.topic = topic
            self.pushType = pushType
            self.priority = priority
            self.expiration = expiration
            self.collapseID = collapseID
            self.origin = nil
        }

        init(_ payload: [UInt8], _ badge: BadgeLookup, of other: Storage) {
            self.payload = payload
            self.badge = badge
            self.topic = other.topic
            self.pushType = other.pushType
            self.priority = other.priority
            self.expiration = other.expiration
            self.collapseID = other.collapseID
            self.origin = other.first
        }

        var first: Storage { self.origin ?? self }

        static func == (left: Storage, right: Storage) -> Bool {
            left === right
                || (left.payload == right.payload && left.topic == right.topic && left.pushType == right.pushType
                    && left.priority == right.priority && left.expiration == right.expiration
                    && left.collapseID == right.collapseID)
        }

        func hash(into hasher: inout Hasher) {
            hasher.combine(self.payload)
            hasher.combine(self.topic)
            hasher.combine(self.pushType)
            hasher.combine(self.priority)
            hasher.combine(self.expiration)
            hasher.combine(self.collapseID)
        }
    }

    private let storage: Storage

    /// The body of the request, at most 4,096 bytes (5,120 for `voip` and broadcasts).
    public var payload: [UInt8] { self.storage.payload }
    /// The header `apns-topic`, with the suffix of the push type.
    public var topic: String { self.storage.topic }
    /// The header `apns-push-type`.
    public var pushType: PushType { self.storage.pushType }
    /// The header `apns-priority`; nil leaves it out.
    public var priority: Priority? { self.storage.priority }
    /// The header `apns-expiration`; `systemDefault` leaves it out.
    public var expiration: Expiration { self.storage.expiration }
    /// The header `apns-collapse-id`; nil leaves it out.
    public var collapseID: CollapseID? { self.storage.collapseID }

    /// Creates a push from raw parts, for relays and queues. Nothing is added; the topic must already have its suffix.
    ///
    /// - Parameters:
    ///   - topic: the topic with the suffix of the push type.
    ///   - pushType: the type of the push.
    ///   - payload: JSON, sent byte for byte.
    ///   - priority: the priority; nil leaves the header out.
    ///   - expiration: the expiration; `systemDefault` leaves the header out.
    ///   - collapseID: the collapse id; nil leaves the header out.
    ///   - skippingValidation: skips the checks of size, suffix, priority and expiration. The check that each value
    ///     fits into a single header is never skipped.
    /// - Throws: `topicMissing`, `topicInvalid`, `topicSuffixMissing`, `pushTypeInvalid`, `payloadEmpty`,
    ///   `payloadTooLarge`, `priorityNotAllowed`, `expirationInvalid`.
    public init(
        topic: String,
        pushType: PushType,
        payload: [UInt8],
        priority: Priority? = nil,
        expiration: Expiration = .systemDefault,
        collapseID: CollapseID? = nil,
        skippingValidation: Bool = false
    ) throws(ValidationError) {
        let rule = skippingValidation ? nil : pushType.rule
        if let suffix = rule?.topicSuffix, !suffix.isEmpty, !topic.isEmpty, !topic.hasSuffix(suffix) {
            throw ValidationError(code: .topicSuffixMissing, field: "apns-topic", value: suffix)
        }
        try self.init(
            checking: rule,
            topic: topic,
            pushType: pushType,
            payload: payload,
            badge: .unsearched,
            priority: priority,
            expiration: expiration,
            collapseID: collapseID
        )
    }

    init(
        checking rule: PushType.Rule?,
        topic: String,
        pushType: PushType,
        payload: [UInt8],
        badge: BadgeLookup,
        priority: Priority?,
        expiration: Expiration,
        collapseID: CollapseID?
    ) throws(ValidationError) {
        try HeaderRules.checkTopic(topic)
        try HeaderRules.checkPushType(pushType)
        if let rule {
            try Self.check(payload: payload, priority: priority, expiration: expiration, rule)
        }
        self.storage = Storage(payload, badge, topic, pushType, priority, expiration, collapseID)
    }

    /// Checks size, priority and expiration against the table of push types.
    static func check(
        payload: [UInt8],
        priority: Priority?,
        expiration: Expiration,
        _ rule: PushType.Rule
    ) throws(ValidationError) {
        guard !payload.isEmpty else {
            throw ValidationError(code: .payloadEmpty, field: "payload")
        }
        guard payload.count <= rule.payloadLimit else {
            throw ValidationError(
                code: .payloadTooLarge,
                field: "payload",
                limit: rule.payloadLimit,
                actual: payload.count
            )
        }
        if let priority, !rule.priorities.contains(priority) {
            throw ValidationError(
                code: .priorityNotAllowed,
                field: "apns-priority",
                value: "\(priority) for \(rule.type)"
            )
        }
        try expiration.validate()
    }

    private init(_ storage: Storage) {
        self.storage = storage
    }

    /// Whether both are one object, and therefore equal. Compares no contents.
    package func isIdentical(to other: PreparedPush) -> Bool { self.storage === other.storage }

    /// Whether both share one set of headers, as pushes that differ only by their badge do. True only if the headers
    /// are equal.
    package func sharesHeaders(with other: PreparedPush) -> Bool {
        self.isIdentical(to: other) || self.storage.first === other.storage.first
    }

    /// Whether the push has this topic, type and priority. Unlike the properties, this copies nothing.
    package func matches(topic: String, pushType: PushType, priority: Priority?) -> Bool {
        self.storage.topic == topic && self.storage.pushType == pushType && self.storage.priority == priority
    }

    /// Whether the push has expired, so that APNs would drop it. False without a date, and for `immediate`.
    public func isExpired(atSecondsSince1970 now: Int64) -> Bool {
        switch self.expiration {
        case .systemDefault, .immediate, .at(secondsSince1970: 0): false
        case .at(let seconds): seconds <= now
        }
    }
}

extension PreparedPush {
    /// Returns the push with another badge number, or with a badge if it had none.
    ///
    /// The bytes are copied and not encoded again. Use it to send one notification to many devices, each with its own
    /// badge:
    ///
    ///     let push = try notification.prepared()
    ///     for device in devices {
    ///         try await client.send(push.badge(device.unread), to: device.token)
    ///     }
    ///
    /// A payload given as raw bytes is first searched for its `aps`.
    ///
    /// - Parameters:
    ///   - number: the badge; 0 removes it.
    ///   - skippingValidation: skips the checks of the number, the push type and the size.
    /// - Throws: `badgeInvalid` below 0; `contentNotAllowed` if the push type has no badge; `payloadTooLarge` if the
    ///   number does not fit into the payload's limit; `payloadIsRaw` if the payload is not a JSON object with an
    ///   `aps`.
    public func badge(_ number: Int, skippingValidation: Bool = false) throws(ValidationError) -> PreparedPush {
        let rule = self.pushType.rule
        if !skippingValidation {
            guard number >= 0 else {
                throw ValidationError(code: .badgeInvalid, field: "aps.badge", value: String(number))
            }
            guard rule.allowed.contains(.badge) else {
                throw ValidationError(
                    code: .contentNotAllowed,
                    field: "aps.badge",
                    value: ValidationError.shortened(self.pushType.rawValue)
                )
            }
        }
        guard let position = self.storage.badge.position(in: self.storage.payload) else {
            throw ValidationError(code: .payloadIsRaw, field: "aps.badge")
        }
        let (patched, newPosition) = position.patched(self.storage.payload, number)
        // If the payload was too large before, the caller intended it.
        if !skippingValidation, patched.count > rule.payloadLimit, patched.count > self.storage.payload.count {
            throw ValidationError(
                code: .payloadTooLarge,
                field: "payload",
                limit: rule.payloadLimit,
                actual: patched.count
            )
        }
        return PreparedPush(Storage(patched, .at(newPosition), of: self.storage))
    }
}

extension PreparedPush: Codable {
    private enum CodingKeys: String, CodingKey {
        case topic, pushType, priority, expiration, collapseID
    }

    /// Checks only that headers can hold the values: the push may come from a version with other limits.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        try self.init(
            topic: try container.decode(String.self, forKey: .topic),
            pushType: try container.decode(PushType.self, forKey: .pushType),
            payload: try CodedPayload(from: decoder).bytes,
            priority: try container.decodeIfPresent(Priority.self, forKey: .priority),
            expiration: try container.decodeIfPresent(Expiration.self, forKey: .expiration) ?? .systemDefault,
            collapseID: try container.decodeIfPresent(CollapseID.self, forKey: .collapseID),
            skippingValidation: true
        )
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(self.topic, forKey: .topic)
        try container.encode(self.pushType, forKey: .pushType)
        try container.encodeIfPresent(self.priority, forKey: .priority)
        if self.expiration != .systemDefault {
            try container.encode(self.expiration, forKey: .expiration)
        }
        try container.encodeIfPresent(self.collapseID, forKey: .collapseID)
        try CodedPayload(bytes: self.payload).encode(to: encoder)
    }
}

/// The payload inside another coder's document: as a JSON object, or as base64 if it is not one.
struct CodedPayload: Codable {
    var bytes: [UInt8]

    private enum CodingKeys: String, CodingKey {
        case payload, payloadBase64
    }

    init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        if let value = try container.decodeIfPresent(JSONValue.self, forKey: .payload) {
            self.bytes = value.bytes
            return
        }
        let text = try container.decode(String.self, forKey: .payloadBase64)
        guard let data = Data(base64Encoded: text) else {
            throw DecodingError.dataCorruptedError(
                forKey: .payloadBase64,
                in: container,
                debugDescription: "not base64"
            )
        }
        self.bytes = Array(data)
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        if let object = try? JSONValue(parsing: self.bytes, limits: .exact), case .object = object {
            try container.encode(object, forKey: .payload)
        } else {
            try container.encode(Data(self.bytes).base64EncodedString(), forKey: .payloadBase64)
        }
    }
}

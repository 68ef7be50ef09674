#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// APNs' response to a push that it rejected, or a 5xx response of a server before APNs.
///
/// ```swift
/// if let rejection = outcome.error?.rejection {
///     print(rejection.status, rejection.meaning)  // 410 the device token is no longer active for the topic
/// }
/// ```
///
/// Coded form, stable; keys that are nil or empty are left out: `{"status", "reason", "timestamp", "rawBodyBase64",
/// "apnsID", "apnsUniqueID"}`, the timestamp in milliseconds since 1970.
public struct Rejection: Sendable, Hashable {
    /// The most bytes of a body that are kept.
    public static let maximumBodySize = 4_096

    /// The HTTP status. Status 200 is not a rejection.
    public var status: Int
    /// The reason; nil if the body has none, as in responses of proxies.
    public var reason: RejectionReason?
    /// With status 410: when APNs learned that the device token is no longer valid, in milliseconds since 1970.
    public var timestamp: Int64?
    /// The body as received, at most `maximumBodySize` bytes.
    public var rawBody: [UInt8]
    /// The id of the push in APNs' response.
    public var apnsID: APNSID?
    /// The id of the push in the delivery log of the Push Notifications Console. Development environment only.
    public var apnsUniqueID: String?

    /// Creates a response, for your own senders and tests. `rawBody` is empty.
    ///
    /// - Parameters:
    ///   - status: the HTTP status.
    ///   - reason: the reason; nil if the response has none.
    ///   - timestamp: with status 410, when APNs learned that the token is invalid, in milliseconds since 1970.
    ///   - apnsID: the id of the push.
    ///   - apnsUniqueID: APNs' own id, in the development environment only.
    public init(
        status: Int,
        reason: RejectionReason?,
        timestamp: Int64? = nil,
        apnsID: APNSID? = nil,
        apnsUniqueID: String? = nil
    ) {
        self.status = status
        self.reason = reason
        self.timestamp = timestamp
        self.rawBody = []
        self.apnsID = apnsID
        self.apnsUniqueID = apnsUniqueID
    }

    /// Parses a response's body, `{"reason": string, "timestamp": milliseconds}`.
    ///
    /// Parsing never fails. Whatever the body is (empty, HTML, truncated), the status and the bytes are kept, together
    /// with any of the two fields that could be parsed. Source: Apple, "Handling notification responses from APNs".
    public init(
        status: Int,
        body: some Sequence<UInt8>,
        apnsID: APNSID? = nil,
        apnsUniqueID: String? = nil
    ) {
        self.init(status: status, reason: nil, apnsID: apnsID, apnsUniqueID: apnsUniqueID)
        self.rawBody = Array(body.prefix(Self.maximumBodySize))
        for member in JSONParser.leadingMembers(self.rawBody) {
            switch (member.key, member.value) {
            case ("reason", .string(let text)): self.reason = RejectionReason(rawValue: text)
            case ("timestamp", .integer(let number)): self.timestamp = number
            case ("timestamp", .double(let number)): self.timestamp = Int64(exactly: number.rounded(.down))
            default: break
            }
        }
    }

    /// The kind of action that the rejection calls for.
    public var disposition: RejectionReason.Disposition {
        RejectionReason.disposition(of: self.reason, status: self.status)
    }

    /// The meaning of the response, in one sentence.
    public var meaning: String {
        if let meaning = self.reason?.meaning { return meaning }
        if let reason { return "APNs gave the reason \(ValidationError.shortened(reason.rawValue))" }
        return "the response named no reason"
    }

    /// Whether the response proves that the push had no effect. A 5xx response without one of APNs' documented reasons
    /// may come from a proxy or gateway that had already passed the push on.
    package var provesNoEffect: Bool { self.status < 500 || self.reason?.entry != nil }

    /// What the response is about. APNs names a reason in every response other than 200, so a response without one comes
    /// from a server before it; only a 410 is taken as APNs' own.
    var subject: RejectionReason.Subject {
        if let entry = self.reason?.entry { return entry.subject }
        switch self.status {
        case 403: return .credential
        case 410: return .deviceTokenAndTopic
        case 429, 500...: return .service
        default: return self.reason == nil ? .service : .request
        }
    }

    /// Whether the response says nothing about the push: any other push would meet it now. The opposite is a verdict on the
    /// push.
    package var isWeather: Bool {
        switch self.subject {
        case .service, .credential, .connection: true
        case .request, .deviceToken, .deviceTokenAndTopic: false
        }
    }

    /// Whether it is weather that concerns the credential alone.
    package var isCredentialWeather: Bool { self.subject == .credential }

    /// Whether the response proves that APNs accepts the credential.
    package var provesCredential: Bool { self.subject == .deviceToken || self.provesTopic }

    /// Whether the response proves that APNs accepts the credential for the push's topic.
    package var provesTopic: Bool { self.subject == .deviceTokenAndTopic }

    /// Whether a resend may succeed without any correction.
    var mayBeResent: Bool {
        self.reason?.entry?.mayBeResent ?? (self.disposition == .retryLater || self.disposition == .pauseDevice)
    }

    /// How long to wait before a resend; nil if no time is known.
    var delay: Duration? { self.reason?.entry?.delay }

    /// The invalidation of the device token; nil unless the status is 410 and APNs declared the token invalid.
    public var invalidation: TokenInvalidation? {
        guard self.status == 410, self.disposition == .tokenInvalid else { return nil }
        return TokenInvalidation(millisecondsSince1970: self.timestamp)
    }
}

extension Rejection: CustomStringConvertible {
    /// The status, the reason and its meaning, for example
    /// `410 Unregistered: the device token is no longer active for the topic`.
    public var description: String {
        "\(self.status) \(self.reason?.rawValue ?? "without a reason"): \(self.meaning)"
    }
}

extension Rejection: Codable {
    private enum CodingKeys: String, CodingKey {
        case status, reason, timestamp, rawBodyBase64, apnsID, apnsUniqueID
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.status = try container.decode(Int.self, forKey: .status)
        self.reason = try container.decodeIfPresent(RejectionReason.self, forKey: .reason)
        self.timestamp = try container.decodeIfPresent(Int64.self, forKey: .timestamp)
        self.apnsID = try container.decodeIfPresent(APNSID.self, forKey: .apnsID)
        self.apnsUniqueID = try container.decodeIfPresent(String.self, forKey: .apnsUniqueID)
        let text = try container.decodeIfPresent(String.self, forKey: .rawBodyBase64) ?? ""
        self.rawBody = Array(Data(base64Encoded: text) ?? Data())
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(self.status, forKey: .status)
        try container.encodeIfPresent(self.reason, forKey: .reason)
        try container.encodeIfPresent(self.timestamp, forKey: .timestamp)
        try container.encodeIfPresent(self.apnsID, forKey: .apnsID)
        try container.encodeIfPresent(self.apnsUniqueID, forKey: .apnsUniqueID)
        if !self.rawBody.isEmpty {
            try container.encode(Data(self.rawBody).base64EncodedString(), forKey: .rawBodyBase64)
        }
    }
}

/// APNs' statement, with status 410, that a device token is no longer valid.
///
/// ```swift
/// if let end = outcome.invalidation, end.shouldRemove(registeredAt: device.registeredAt) {
///     print("forget", device.token)
/// }
/// ```
public struct TokenInvalidation: Sendable, Hashable {
    /// When APNs learned that the token is invalid, in milliseconds since 1970; nil if the response has no time.
    public var millisecondsSince1970: Int64?

    /// - Parameter millisecondsSince1970: when APNs learned that the token is invalid; nil if the response has no time.
    public init(millisecondsSince1970: Int64?) {
        self.millisecondsSince1970 = millisecondsSince1970
    }

    /// When APNs learned that the token is invalid, in seconds since 1970.
    public var secondsSince1970: Double? {
        self.millisecondsSince1970.map { Double($0) / 1_000 }
    }

    /// When APNs learned that the token is invalid, as a date.
    public var since: Date? {
        self.secondsSince1970.map { Date(timeIntervalSince1970: $0) }
    }

    /// Whether you may delete the token: APNs learned that it is invalid after the device last registered it.
    ///
    /// A token that the device registered again later is valid. If APNs gave no time, the result is false, and the
    /// decision is yours.
    ///
    /// - Parameter registeredAt: when the app last reported this token. If nil, the result is true whenever APNs gave a
    ///   time.
    ///
    /// Source: Apple, "Handling notification responses from APNs", `timestamp`.
    public func shouldRemove(registeredAt: Date?) -> Bool {
        guard let since else { return false }
        guard let registeredAt else { return true }
        return registeredAt <= since
    }
}

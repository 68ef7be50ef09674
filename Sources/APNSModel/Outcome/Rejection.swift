#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// APNs' response to a push that it refused.
///
/// Coded form, stable; keys that are nil or empty are left out: `{"status", "reason", "timestamp", "rawBodyBase64",
/// "apnsID", "apnsUniqueID"}`, the timestamp in milliseconds since 1970.
public struct Rejection: Sendable, Hashable {
    /// The most bytes of a body that are kept.
    public static let maximumBodySize = 4_096

    /// The HTTP status; 200 is no rejection.
    public var status: Int
    /// Nil if the body names none, as answers of proxies do.
    public var reason: RejectionReason?
    /// With status 410: when APNs learned that the device token is no longer valid, in milliseconds since 1970.
    public var timestamp: Int64?
    /// The body as it came, at most `maximumBodySize` bytes.
    public var rawBody: [UInt8]
    /// The id of the push, as APNs answered it.
    public var apnsID: APNSID?
    /// The key to the delivery log of the Push Notifications Console; in development only.
    public var apnsUniqueID: String?

    /// For senders and tests that make a response up; `rawBody` is empty.
    ///
    /// - Parameters:
    ///   - status: the HTTP status.
    ///   - reason: nil if the response names none.
    ///   - timestamp: milliseconds since 1970, with status 410.
    ///   - apnsID: the id of the push.
    ///   - apnsUniqueID: APNs' own id, in development only.
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

    /// Reads a response's body, `{"reason": string, "timestamp": milliseconds}`.
    ///
    /// It never fails: whatever the body is (empty, HTML, cut off), the status stands, the bytes are kept, and what could
    /// be read of the two fields is taken. Source: Apple, "Handling notification responses from APNs".
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

    /// What is to be done about it.
    public var disposition: RejectionReason.Disposition {
        RejectionReason.disposition(of: self.reason, status: self.status)
    }

    /// What the response means, in a sentence.
    public var meaning: String {
        if let meaning = self.reason?.meaning { return meaning }
        if let reason { return "APNs gave the reason \(ValidationError.shortened(reason.rawValue))" }
        return "the response named no reason"
    }

    /// Whether the same push, sent again, may be accepted without anybody fixing anything.
    var mayBeResent: Bool {
        self.reason?.entry?.mayBeResent ?? (self.disposition == .retryLater || self.disposition == .pauseDevice)
    }

    /// How long to wait before that; nil where nothing is known.
    var delay: Duration? { self.reason?.entry?.delay }

    /// That the device token is dead; nil unless APNs said so with status 410.
    public var invalidation: TokenInvalidation? {
        guard self.status == 410, self.disposition == .tokenInvalid else { return nil }
        return TokenInvalidation(millisecondsSince1970: self.timestamp)
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

/// APNs said, with status 410, that a device token is no longer valid.
public struct TokenInvalidation: Sendable, Hashable {
    /// When APNs learned of it, in milliseconds since 1970; nil if the response did not say.
    public var millisecondsSince1970: Int64?

    /// - Parameter millisecondsSince1970: when APNs learned of it; nil if it did not say.
    public init(millisecondsSince1970: Int64?) {
        self.millisecondsSince1970 = millisecondsSince1970
    }

    /// The same in seconds.
    public var secondsSince1970: Double? {
        self.millisecondsSince1970.map { Double($0) / 1_000 }
    }

    /// The same as a date.
    public var since: Date? {
        self.secondsSince1970.map { Date(timeIntervalSince1970: $0) }
    }

    /// Whether the token may be deleted: APNs learned of its end after the device last registered it.
    ///
    /// A device that registered the same token again afterwards is alive. Without a time from APNs the response is false,
    /// and the caller decides.
    ///
    /// - Parameter registeredAt: when the app last reported this token; nil if nobody knows, then APNs is believed.
    /// Source: Apple, "Handling notification responses from APNs", `timestamp`.
    public func shouldRemove(registeredAt: Date?) -> Bool {
        guard let since else { return false }
        guard let registeredAt else { return true }
        return registeredAt <= since
    }
}

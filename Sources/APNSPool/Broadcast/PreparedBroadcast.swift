public import APNSModel

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A broadcast to a channel's Live Activities, encoded and checked: to be sent to any number of channels of one app.
///
/// Source of the rules: Apple, "Sending broadcast push notification requests to APNs".
public struct PreparedBroadcast: Sendable, Hashable {
    /// The most bytes of payload that APNs takes for a broadcast.
    public static let payloadLimit = 5_120

    /// The app, without the suffix of a push type: it stands in the path.
    public let bundleID: String
    public let payload: [UInt8]
    /// 10 where the push named none: the header is required.
    public let priority: Priority
    public let expiration: Expiration

    /// The header `apns-expiration`, which a broadcast always has: 0 where the push named none.
    var expirationSeconds: Int64 { self.expiration.headerValue ?? 0 }

    /// Takes a push of the type `liveactivity` that was prepared before.
    ///
    /// - Parameter push: its topic may have the suffix `.push-type.liveactivity`. A channel without storage takes only the
    ///   expirations `immediate` and `systemDefault`, which both are sent as 0.
    /// - Throws: `pushTypeInvalid` for another push type; `topicInvalid` for a topic that cannot stand in a path;
    ///   `payloadTooLarge` above 5,120 bytes; `payloadEmpty`; `priorityNotAllowed` for others than 10, 5 and 1;
    ///   `expirationInvalid`; `contentNotAllowed` for a collapse id and for the event `start`, which no broadcast has.
    public init(_ push: PreparedPush) throws(ValidationError) {
        guard push.pushType == .liveactivity else {
            throw ValidationError(
                code: .pushTypeInvalid,
                field: "apns-push-type",
                value: "\(push.pushType) for a broadcast"
            )
        }
        let suffix = PushType.liveactivity.topicSuffix
        let bundleID = push.topic.hasSuffix(suffix) ? String(push.topic.dropLast(suffix.count)) : push.topic
        try BundleID.check(bundleID)
        guard !push.payload.isEmpty else { throw ValidationError(code: .payloadEmpty, field: "payload") }
        guard push.payload.count <= Self.payloadLimit else {
            throw ValidationError(
                code: .payloadTooLarge,
                field: "payload",
                limit: Self.payloadLimit,
                actual: push.payload.count
            )
        }
        let priority = push.priority ?? .immediate
        guard [.immediate, .conserve, .low].contains(priority) else {
            throw ValidationError(
                code: .priorityNotAllowed,
                field: "apns-priority",
                value: "\(priority) for a broadcast"
            )
        }
        if let seconds = push.expiration.headerValue, seconds < 0 || seconds > 99_999_999_999 {
            throw ValidationError(code: .expirationInvalid, field: "apns-expiration", value: "\(seconds)")
        }
        guard push.collapseID == nil else {
            throw ValidationError(code: .contentNotAllowed, field: "apns-collapse-id", value: "in a broadcast")
        }
        if Self.event(of: push.payload) == "start" {
            throw ValidationError(code: .contentNotAllowed, field: "aps.event", value: "start in a broadcast")
        }
        self.bundleID = bundleID
        self.payload = push.payload
        self.priority = priority
        self.expiration = push.expiration
    }

    /// Encodes and checks a notification of the type `liveactivity`.
    ///
    /// - Throws: as the form with a `PreparedPush`; as `PushNotification.prepared()` does.
    public init(_ notification: PushNotification) throws(ValidationError) {
        let push: PreparedPush
        do {
            push = try notification.prepared()
        } catch {
            // A broadcast may be larger than a push to a device, and have the lowest priority.
            guard error.code == .payloadTooLarge || error.code == .priorityNotAllowed else { throw error }
            push = try notification.prepared(skippingValidation: true)
        }
        try self.init(push)
    }

    /// Whether the date is over until which APNs should keep it.
    func isExpired(atSecondsSince1970 now: Int64) -> Bool {
        self.expirationSeconds > 0 && self.expirationSeconds <= now
    }

    private struct Envelope: Decodable {
        struct APS: Decodable { var event: String? }
        var aps: APS?
    }

    private static func event(of payload: [UInt8]) -> String? {
        // What is no such JSON is for APNs to judge, as in all raw payloads.
        (try? JSONDecoder().decode(Envelope.self, from: Data(payload)))?.aps?.event
    }
}

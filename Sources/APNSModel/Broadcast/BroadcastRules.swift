#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

// Source of the rules: Apple, "Sending broadcast push notification requests to APNs".
extension PushNotification {
    /// Encodes and checks a Live Activity's `update` or `end` for a broadcast channel, which takes up to 5,120 bytes.
    /// Left out, the priority is 10 and the expiration `immediate`: both headers must be there.
    ///
    /// - Parameters:
    ///   - storagePolicy: the channel's, to check the expiration by; nil if it is not known.
    ///   - skippingValidation: as in `prepared`.
    ///   - now: becomes the timestamp if there is none.
    /// - Throws: what `prepared` and `PreparedPush.validateForBroadcast` throw.
    public func preparedForBroadcast(
        storagePolicy: MessageStoragePolicy? = nil,
        skippingValidation: Bool = false,
        now: @autoclosure () -> Date = Date()
    ) throws(ValidationError) -> PreparedPush {
        let push = try preparedForBroadcast(skippingValidation: skippingValidation) {
            LiveActivityContent.seconds(now())
        }
        if !skippingValidation {
            try push.validateForBroadcast(storagePolicy: storagePolicy)
        }
        return push
    }

    /// The same with the timestamp in seconds since 1970, for senders that see to it that it never goes backwards.
    package func preparedForBroadcast(timestamp: Int64) throws(ValidationError) -> PreparedPush {
        let push = try preparedForBroadcast(skippingValidation: false) { timestamp }
        try push.validateForBroadcast()
        return push
    }

    private func preparedForBroadcast(
        skippingValidation: Bool,
        timestamp: () -> Int64
    ) throws(ValidationError) -> PreparedPush {
        // Of another type, it fails by that type's own rule or by its type.
        let rule = type == .liveactivity ? PushType.broadcastRule : type.rule
        return try prepared(rule, skippingValidation: skippingValidation, timestamp: timestamp)
    }
}

extension PreparedPush {
    /// Checks what APNs would refuse in a broadcast of this push. A missing priority or expiration is no fault: what sends
    /// it adds `broadcastPriority` and `broadcastExpiration`.
    ///
    /// - Parameter storagePolicy: the channel's; nil if it is not known.
    /// - Throws: `contentNotAllowed` for a type other than `liveactivity`, the event `start`, or a collapse id;
    ///   `payloadTooLarge` above 5,120 bytes; `priorityNotAllowed`; `expirationInvalid`, also for one that is not
    ///   `immediate` where the channel stores nothing.
    public func validateForBroadcast(storagePolicy: MessageStoragePolicy? = nil) throws(ValidationError) {
        let rule = PushType.broadcastRule
        guard pushType == rule.type else {
            throw ValidationError(
                code: .contentNotAllowed,
                field: "apns-push-type",
                value: "\(ValidationError.shortened(pushType.rawValue)) in a broadcast"
            )
        }
        guard collapseID == nil else {
            throw ValidationError(code: .contentNotAllowed, field: "apns-collapse-id", value: "broadcast")
        }
        try Self.check(payload: payload, priority: priority, expiration: expiration, rule)
        if storagePolicy == .noMessage, broadcastExpiration != 0 {
            throw ValidationError(
                code: .expirationInvalid,
                field: "apns-expiration",
                value: "\(broadcastExpiration) for a channel that stores nothing"
            )
        }
        if JSONParser.apsEvent(payload) == LiveActivityEvent.start.rawValue {
            throw ValidationError(code: .contentNotAllowed, field: "aps.event", value: "start in a broadcast")
        }
    }

    /// The header `apns-expiration` of a broadcast, which must be there: without it APNs answers `BadExpirationDate`.
    package var broadcastExpiration: Int64 { expiration.headerValue ?? 0 }

    /// The header `apns-priority` of a broadcast, which must be there.
    package var broadcastPriority: Priority { priority ?? .immediate }

    /// The topic without its suffix, for the path of a broadcast: with the suffix APNs answers `TopicDisallowed`.
    package var bundleID: String {
        let suffix = pushType.topicSuffix
        return !suffix.isEmpty && topic.hasSuffix(suffix) ? String(topic.dropLast(suffix.count)) : topic
    }
}

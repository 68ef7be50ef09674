#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

// `PushType.broadcastRule` holds the rules that differ from those of a push to a device.
// Source of the rules: Apple, "Sending broadcast push notification requests to APNs".
extension PushNotification {
    /// Encodes and checks a Live Activity's `update` or `end` for a broadcast channel, which accepts up to 5,120 bytes.
    ///
    /// A broadcast requires the headers for priority and expiration. They default to 10 and `immediate`.
    ///
    /// - Parameters:
    ///   - storagePolicy: the channel's storage policy, against which the expiration is checked; nil if unknown.
    ///   - skippingValidation: as in `prepared`. The topic must be a bundle id even so, because it is part of the path.
    ///   - now: the timestamp of a notification that has none.
    /// - Throws: the errors of `prepared` and `PreparedPush.validateForBroadcast`.
    public func preparedForBroadcast(
        storagePolicy: MessageStoragePolicy? = nil,
        skippingValidation: Bool = false,
        now: @autoclosure () -> Date = Date()
    ) throws(ValidationError) -> PreparedPush {
        try self.preparedForBroadcast(storagePolicy, skippingValidation: skippingValidation) {
            LiveActivityContent.seconds(now())
        }
    }

    /// Prepares a broadcast with a timestamp in seconds since 1970, for senders that ensure that timestamps never
    /// decrease.
    package func preparedForBroadcast(timestamp: Int64) throws(ValidationError) -> PreparedPush {
        try self.preparedForBroadcast(nil, skippingValidation: false) { timestamp }
    }

    private func preparedForBroadcast(
        _ storagePolicy: MessageStoragePolicy?,
        skippingValidation: Bool,
        timestamp: () -> Int64
    ) throws(ValidationError) -> PreparedPush {
        if !skippingValidation { try PreparedPush.checkBroadcast(self.type) }
        let rule = self.type == PushType.broadcastRule.type ? PushType.broadcastRule : self.type.rule
        // These checks cover size, priority and expiration.
        let push = try self.prepared(rule, skippingValidation: skippingValidation, timestamp: timestamp)
        try BundleID.check(push.bundleID)
        if !skippingValidation { try push.checkBroadcast(storagePolicy) }
        return push
    }
}

extension PreparedPush {
    /// Checks everything that APNs would reject in a broadcast of this push.
    ///
    /// A missing priority or expiration is allowed: the sender fills in `broadcastPriority` and `broadcastExpiration`.
    ///
    /// - Parameter storagePolicy: the channel's storage policy; nil if unknown.
    /// - Throws: `contentNotAllowed` for a type other than `liveactivity`, the event `start`, or a collapse id;
    ///   `payloadTooLarge` above 5,120 bytes; `priorityNotAllowed`; `expirationInvalid`, also for an expiration other
    ///   than `immediate` if the channel stores nothing; `topicInvalid` for a topic that cannot be part of a path.
    public func validateForBroadcast(storagePolicy: MessageStoragePolicy? = nil) throws(ValidationError) {
        try Self.checkBroadcast(self.pushType)
        try BundleID.check(self.bundleID)
        try Self.check(
            payload: self.payload,
            priority: self.priority,
            expiration: self.expiration,
            PushType.broadcastRule
        )
        try self.checkBroadcast(storagePolicy)
    }

    static func checkBroadcast(_ type: PushType) throws(ValidationError) {
        guard type == PushType.broadcastRule.type else {
            throw ValidationError(
                code: .contentNotAllowed,
                field: "apns-push-type",
                value: "\(ValidationError.shortened(type.rawValue)) in a broadcast"
            )
        }
    }

    /// The checks that apply to broadcasts only.
    fileprivate func checkBroadcast(_ storagePolicy: MessageStoragePolicy?) throws(ValidationError) {
        let rule = PushType.broadcastRule
        guard rule.takesCollapseID || self.collapseID == nil else {
            throw ValidationError(code: .contentNotAllowed, field: "apns-collapse-id", value: "in a broadcast")
        }
        if storagePolicy == .noMessage, self.broadcastExpiration != 0 {
            throw ValidationError(
                code: .expirationInvalid,
                field: "apns-expiration",
                value: "\(self.broadcastExpiration) for a channel that stores nothing"
            )
        }
        if let event = JSONParser.apsEvent(self.payload),
            rule.refusedEvents.contains(LiveActivityEvent(rawValue: event))
        {
            throw ValidationError(code: .contentNotAllowed, field: "aps.event", value: "\(event) in a broadcast")
        }
    }

    /// The value of `apns-expiration` for a broadcast. The header is required: without it APNs responds
    /// `BadExpirationDate`.
    package var broadcastExpiration: Int64 { self.expiration.headerValue ?? 0 }

    /// The value of `apns-priority` for a broadcast. The header is required.
    package var broadcastPriority: Priority { self.priority ?? .immediate }

    /// The topic without its suffix, for the path of a broadcast. With the suffix APNs responds `TopicDisallowed`.
    package var bundleID: String {
        let suffix = self.pushType.topicSuffix
        return !suffix.isEmpty && self.topic.hasSuffix(suffix) ? String(self.topic.dropLast(suffix.count)) : self.topic
    }
}

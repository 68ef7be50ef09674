#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

// What differs from a push to a device stands in `PushType.broadcastRule`.
// Source of the rules: Apple, "Sending broadcast push notification requests to APNs".
extension PushNotification {
    /// Encodes and checks a Live Activity's `update` or `end` for a broadcast channel, which takes up to 5,120 bytes.
    /// Left out, the priority is 10 and the expiration `immediate`: both headers must be there.
    ///
    /// - Parameters:
    ///   - storagePolicy: the channel's, to check the expiration by; nil if it is not known.
    ///   - skippingValidation: as in `prepared`. The topic must be a bundle id all the same, since it stands in a path.
    ///   - now: becomes the timestamp if there is none.
    /// - Throws: what `prepared` and `PreparedPush.validateForBroadcast` throw.
    public func preparedForBroadcast(
        storagePolicy: MessageStoragePolicy? = nil,
        skippingValidation: Bool = false,
        now: @autoclosure () -> Date = Date()
    ) throws(ValidationError) -> PreparedPush {
        try self.preparedForBroadcast(storagePolicy, skippingValidation: skippingValidation) {
            LiveActivityContent.seconds(now())
        }
    }

    /// The same with the timestamp in seconds since 1970, for senders that see to it that it never goes backwards.
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
        // Size, priority and expiration are checked here.
        let push = try self.prepared(rule, skippingValidation: skippingValidation, timestamp: timestamp)
        try BundleID.check(push.bundleID)
        if !skippingValidation { try push.checkBroadcast(storagePolicy) }
        return push
    }
}

extension PreparedPush {
    /// Checks what APNs would refuse in a broadcast of this push. A missing priority or expiration is no fault: what sends
    /// it adds `broadcastPriority` and `broadcastExpiration`.
    ///
    /// - Parameter storagePolicy: the channel's; nil if it is not known.
    /// - Throws: `contentNotAllowed` for a type other than `liveactivity`, the event `start`, or a collapse id;
    ///   `payloadTooLarge` above 5,120 bytes; `priorityNotAllowed`; `expirationInvalid`, also for one that is not
    ///   `immediate` where the channel stores nothing; `topicInvalid` for a topic that cannot stand in a path.
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

    /// What the checks of all pushes leave open.
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

    /// The header `apns-expiration` of a broadcast, which must be there: without it APNs answers `BadExpirationDate`.
    package var broadcastExpiration: Int64 { self.expiration.headerValue ?? 0 }

    /// The header `apns-priority` of a broadcast, which must be there.
    package var broadcastPriority: Priority { self.priority ?? .immediate }

    /// The topic without its suffix, for the path of a broadcast: with the suffix APNs answers `TopicDisallowed`.
    package var bundleID: String {
        let suffix = self.pushType.topicSuffix
        return !suffix.isEmpty && self.topic.hasSuffix(suffix) ? String(self.topic.dropLast(suffix.count)) : self.topic
    }
}

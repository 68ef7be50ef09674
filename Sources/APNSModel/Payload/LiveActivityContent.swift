#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// What happens to a Live Activity: `aps.event`. Open.
///
/// Source: Apple, "Starting and updating Live Activities with ActivityKit push notifications".
public struct LiveActivityEvent: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
    public let rawValue: String

    public init(rawValue: String) {
        self.rawValue = rawValue
    }

    public var description: String { self.rawValue }

    /// Sent to the push-to-start token of the app (iOS 17.2).
    public static let start = LiveActivityEvent(rawValue: "start")
    /// Sent to the token of the activity.
    public static let update = LiveActivityEvent(rawValue: "update")
    /// Sent to the token of the activity.
    public static let end = LiveActivityEvent(rawValue: "end")
}

/// The keys of `aps` that only Live Activities have.
struct LiveActivityContent: Sendable {
    var event: LiveActivityEvent?
    /// All times are seconds since 1970. Nil: the time at which the push is prepared.
    var timestamp: Int64?
    var contentState: (any Encodable & Sendable)?
    var attributesType: String?
    var attributes: (any Encodable & Sendable)?
    var staleDate: Int64?
    var dismissalDate: Int64?
    var inputPushToken = false
    var inputPushChannel: ChannelID?

    /// Seconds since 1970, the fraction dropped; out of range it becomes a value that validation refuses.
    static func seconds(_ date: Date) -> Int64 {
        Int64(exactly: date.timeIntervalSince1970.rounded(.down)) ?? .max
    }

    /// Checks what the device would ignore without a word.
    func validate(hasAlert: Bool) throws(ValidationError) {
        func require(_ isThere: Bool, _ key: String) throws(ValidationError) {
            if !isThere {
                throw ValidationError(code: .contentMissing, field: "aps.\(key)", value: self.event?.rawValue)
            }
        }
        func only(_ allowed: LiveActivityEvent, _ isThere: Bool, _ key: String) throws(ValidationError) {
            // An event this library does not know may have any key.
            if isThere, self.event != allowed, self.event == .start || self.event == .update || self.event == .end {
                throw ValidationError(code: .contentNotAllowed, field: "aps.\(key)", value: self.event?.rawValue)
            }
        }
        if self.event == .start {
            try require(self.attributesType != nil, "attributes-type")
            try require(self.attributes != nil, "attributes")
            try require(hasAlert, "alert")
        }
        if self.event == .start || self.event == .update {
            try require(self.contentState != nil, "content-state")
        }
        try only(.start, self.attributesType != nil, "attributes-type")
        try only(.start, self.attributes != nil, "attributes")
        try only(.start, self.inputPushToken, "input-push-token")
        try only(.start, self.inputPushChannel != nil, "input-push-channel")
        try only(.end, self.dismissalDate != nil, "dismissal-date")
        if self.inputPushToken, self.inputPushChannel != nil {
            throw ValidationError(
                code: .contentContradictory,
                field: "aps.input-push-token",
                value: "input-push-token and input-push-channel"
            )
        }
        try Self.checkTime(self.timestamp, "timestamp")
        try Self.checkTime(self.staleDate, "stale-date")
        try Self.checkTime(self.dismissalDate, "dismissal-date")
    }

    private static func checkTime(_ seconds: Int64?, _ key: String) throws(ValidationError) {
        guard let seconds else { return }
        guard seconds >= 0, seconds <= Expiration.latestSeconds else {
            throw ValidationError(code: .timeInvalid, field: "aps.\(key)", value: String(seconds))
        }
    }
}

// Source of the rules: Apple, "Starting and updating Live Activities with ActivityKit push notifications".
extension PushNotification {
    /// Starts a Live Activity on devices whose app has none (iOS 17.2), addressed by the app's push-to-start token.
    ///
    /// The device decodes `attributes` and `contentState` as the app's `ActivityAttributes` and its `ContentState`, with
    /// a plain `JSONDecoder`: the property names are the keys, a `Date` is seconds since 2001 (what `Encodable` writes
    /// here, too). What does not decode is dropped there without a word, while APNs answers 200.
    ///
    ///     let push = PushNotification.liveActivityStart(
    ///         topic: "com.grasscove.Fern",
    ///         attributesType: "DeliveryAttributes",
    ///         attributes: DeliveryAttributes(order: 7),
    ///         contentState: DeliveryState(stop: "Elm Street"),
    ///         alert: Alert(title: "On its way", body: "Your order has left the shop.")
    ///     ).inputPushToken()
    ///
    /// - Parameters:
    ///   - topic: the app's bundle ID; the suffix is added.
    ///   - attributesType: the name of the app's Swift type.
    ///   - attributes: what stays the same for the whole activity; must encode as an object.
    ///   - contentState: what changes; must encode as an object.
    ///   - alert: must be there. Only title and body are shown.
    public static func liveActivityStart(
        topic: String,
        attributesType: String,
        attributes: some Encodable & Sendable,
        contentState: some Encodable & Sendable,
        alert: Alert
    ) -> PushNotification {
        self.liveActivity(topic: topic, event: .start)
            .attributes(attributes, type: attributesType)
            .contentState(contentState)
            .alert(alert)
    }

    /// Changes what a Live Activity shows. Silent, unless it is given an `alert`.
    ///
    ///     PushNotification.liveActivityUpdate(topic: "com.grasscove.Fern", contentState: DeliveryState(stop: "Oak Street"))
    ///         .staleDate(.now.addingTimeInterval(900))
    ///         .priority(.conserve)
    ///
    /// Priority 10 counts against the device's hourly budget, 5 does not.
    public static func liveActivityUpdate(topic: String, contentState: some Encodable & Sendable) -> PushNotification {
        self.liveActivity(topic: topic, event: .update).contentState(contentState)
    }

    /// Ends a Live Activity with what it shows last. `dismissalDate` says how long it stays; by default the system
    /// decides, at most four hours.
    public static func liveActivityEnd(topic: String, contentState: some Encodable & Sendable) -> PushNotification {
        self.liveActivity(topic: topic, event: .end).contentState(contentState)
    }

    /// Ends a Live Activity as it is. Apple advises to send the last content state along.
    public static func liveActivityEnd(topic: String) -> PushNotification {
        self.liveActivity(topic: topic, event: .end)
    }

    /// A push to a Live Activity with any event, also one that Apple adds later.
    public static func liveActivity(topic: String, event: LiveActivityEvent) -> PushNotification {
        var notification = PushNotification(topic: topic, pushType: .liveactivity)
        notification.content.changeLiveActivity { $0.event = event }
        return notification
    }

    /// What the Live Activity shows: must encode as an object that decodes as the app's `ContentState`.
    public consuming func contentState(_ state: some Encodable & Sendable) -> PushNotification {
        self.content.changeLiveActivity { $0.contentState = state }
        return consume self
    }

    /// What stays the same for the whole activity, and the name of the app's Swift type for it. With `start` only.
    public consuming func attributes(_ attributes: some Encodable & Sendable, type: String) -> PushNotification {
        self.content.changeLiveActivity {
            $0.attributes = attributes
            $0.attributesType = type
        }
        return consume self
    }

    /// When this state was true: of two pushes the device keeps the one with the later timestamp, whichever comes last.
    /// Whole seconds. Left out, it is the time at which the push is prepared (or coded).
    public consuming func timestamp(_ date: Date) -> PushNotification {
        self.timestamp(secondsSince1970: LiveActivityContent.seconds(date))
    }

    /// As `timestamp(_:)`, in seconds since 1970. Below 0 and in milliseconds it is refused (`timeInvalid`).
    public consuming func timestamp(secondsSince1970 seconds: Int64) -> PushNotification {
        self.content.changeLiveActivity { $0.timestamp = seconds }
        return consume self
    }

    /// From when on the Live Activity counts as outdated. Whole seconds.
    public consuming func staleDate(_ date: Date) -> PushNotification {
        self.staleDate(secondsSince1970: LiveActivityContent.seconds(date))
    }

    /// As `staleDate(_:)`, in seconds since 1970. Below 0 and in milliseconds it is refused (`timeInvalid`).
    public consuming func staleDate(secondsSince1970 seconds: Int64) -> PushNotification {
        self.content.changeLiveActivity { $0.staleDate = seconds }
        return consume self
    }

    /// When an ended Live Activity leaves the Lock Screen: at once if the date has passed, then if it lies within four
    /// hours. With `end` only. Whole seconds.
    public consuming func dismissalDate(_ date: Date) -> PushNotification {
        self.dismissalDate(secondsSince1970: LiveActivityContent.seconds(date))
    }

    /// As `dismissalDate(_:)`, in seconds since 1970. Below 0 and in milliseconds it is refused (`timeInvalid`).
    public consuming func dismissalDate(secondsSince1970 seconds: Int64) -> PushNotification {
        self.content.changeLiveActivity { $0.dismissalDate = seconds }
        return consume self
    }

    /// Whether the app is asked for the token of the activity that starts, for updates (iOS 18). With `start` only.
    public consuming func inputPushToken(_ enabled: Bool = true) -> PushNotification {
        self.content.changeLiveActivity { $0.inputPushToken = enabled }
        return consume self
    }

    /// The broadcast channel that the starting activity takes its updates from (iOS 18; older devices do not start it).
    /// The channel must exist. With `start` only, and not together with `inputPushToken`.
    public consuming func inputPushChannel(_ channel: ChannelID) -> PushNotification {
        self.content.changeLiveActivity { $0.inputPushChannel = channel }
        return consume self
    }
}

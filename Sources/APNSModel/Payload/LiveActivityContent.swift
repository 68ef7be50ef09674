#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// The event of a Live Activity's push: `aps.event`. Open: later versions may add values.
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

/// The keys of `aps` that only Live Activities have. All times are in seconds since 1970.
struct LiveActivityContent: Sendable {
    var event: LiveActivityEvent?
    /// Nil: the time at which the push is prepared.
    var timestamp: Int64?
    var contentState: (any Encodable & Sendable)?
    var attributesType: String?
    var attributes: (any Encodable & Sendable)?
    var staleDate: Int64?
    var dismissalDate: Int64?
    var inputPushToken = false
    var inputPushChannel: ChannelID?

    /// Seconds since 1970, without the fraction. A date out of range becomes a value that validation rejects.
    static func seconds(_ date: Date) -> Int64 {
        Int64(exactly: date.timeIntervalSince1970.rounded(.down)) ?? .max
    }

    /// Checks for content that the device would silently ignore.
    func validate(hasAlert: Bool) throws(ValidationError) {
        func require(_ isThere: Bool, _ key: String) throws(ValidationError) {
            if !isThere {
                throw ValidationError(code: .contentMissing, field: "aps.\(key)", value: self.event?.rawValue)
            }
        }
        func only(_ allowed: LiveActivityEvent, _ isThere: Bool, _ key: String) throws(ValidationError) {
            // An event that this library does not know may have any key.
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
    /// Starts a Live Activity on devices where the app has none (iOS 17.2). Send it to the app's push-to-start token.
    ///
    /// The device decodes `attributes` and `contentState` as the app's `ActivityAttributes` and its `ContentState`,
    /// with a plain `JSONDecoder`: the property names are the keys, and a `Date` is seconds since 2001, which is also
    /// what `Encodable` writes here. The device silently drops a push that it cannot decode, although APNs responds
    /// with 200.
    ///
    /// ```swift
    /// let start = PushNotification.liveActivityStart(
    ///     topic: "com.grasscove.Fern",
    ///     attributesType: "RideAttributes",
    ///     attributes: RideAttributes(order: 7),
    ///     contentState: RideState(stop: "Elm Street"),
    ///     alert: Alert(title: "On its way", body: "Your order has left the shop.")
    /// ).inputPushToken()
    /// ```
    ///
    /// - Parameters:
    ///   - topic: the app's bundle ID; the suffix is added. Nil: the sender's default.
    ///   - attributesType: the name of the app's Swift type.
    ///   - attributes: the values that stay constant during the activity; must encode as an object.
    ///   - contentState: the values that change; must encode as an object.
    ///   - alert: the required alert. Only title and body are shown.
    public static func liveActivityStart(
        topic: String? = nil,
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

    /// Changes the content of a Live Activity. Silent unless you add an `alert`.
    ///
    /// ```swift
    /// let state = RideState(stop: "Oak Street")
    /// let update = PushNotification.liveActivityUpdate(topic: "com.grasscove.Fern", contentState: state)
    ///     .staleDate(.now.addingTimeInterval(900))
    ///     .priority(.conserve)
    /// ```
    ///
    /// Pushes with priority 10 count against the device's hourly budget; those with priority 5 do not.
    public static func liveActivityUpdate(topic: String? = nil, contentState: some Encodable & Sendable)
        -> PushNotification
    {
        self.liveActivity(topic: topic, event: .update).contentState(contentState)
    }

    /// Ends a Live Activity and sets its final content. `dismissalDate` sets how long it stays visible; by default the
    /// system decides, at most four hours.
    ///
    /// ```swift
    /// let state = RideState(stop: "Arrived")
    /// let end = PushNotification.liveActivityEnd(topic: "com.grasscove.Fern", contentState: state)
    ///     .dismissalDate(.now.addingTimeInterval(600))
    /// ```
    public static func liveActivityEnd(topic: String? = nil, contentState: some Encodable & Sendable)
        -> PushNotification
    {
        self.liveActivity(topic: topic, event: .end).contentState(contentState)
    }

    /// Ends a Live Activity without changing its content. Apple advises sending the final content state as well.
    public static func liveActivityEnd(topic: String? = nil) -> PushNotification {
        self.liveActivity(topic: topic, event: .end)
    }

    /// A push to a Live Activity with any event, including events that Apple adds later.
    public static func liveActivity(topic: String? = nil, event: LiveActivityEvent) -> PushNotification {
        var notification = PushNotification(topic: topic, pushType: .liveactivity)
        notification.content.changeLiveActivity { $0.event = event }
        return notification
    }

    /// The content of the Live Activity. Must encode as an object that decodes as the app's `ContentState`.
    public consuming func contentState(_ state: some Encodable & Sendable) -> PushNotification {
        self.content.changeLiveActivity { $0.contentState = state }
        return consume self
    }

    /// The values that stay constant during the activity, and the name of the app's Swift type for them. With `start`
    /// only.
    public consuming func attributes(_ attributes: some Encodable & Sendable, type: String) -> PushNotification {
        self.content.changeLiveActivity {
            $0.attributes = attributes
            $0.attributesType = type
        }
        return consume self
    }

    /// When this state was valid, in whole seconds. Of two pushes the device keeps the one with the later timestamp, in
    /// whatever order they arrive. Default: the time at which the push is prepared (or coded).
    public consuming func timestamp(_ date: Date) -> PushNotification {
        self.timestamp(secondsSince1970: LiveActivityContent.seconds(date))
    }

    /// Sets the timestamp in seconds since 1970. A negative value or one in milliseconds is rejected (`timeInvalid`).
    public consuming func timestamp(secondsSince1970 seconds: Int64) -> PushNotification {
        self.content.changeLiveActivity { $0.timestamp = seconds }
        return consume self
    }

    /// The time from which the Live Activity is considered outdated, in whole seconds.
    public consuming func staleDate(_ date: Date) -> PushNotification {
        self.staleDate(secondsSince1970: LiveActivityContent.seconds(date))
    }

    /// Sets the stale date in seconds since 1970. A negative value or one in milliseconds is rejected (`timeInvalid`).
    public consuming func staleDate(secondsSince1970 seconds: Int64) -> PushNotification {
        self.content.changeLiveActivity { $0.staleDate = seconds }
        return consume self
    }

    /// When an ended Live Activity leaves the Lock Screen: immediately if the date has passed, or at the date if it is
    /// within four hours. With `end` only. Whole seconds.
    public consuming func dismissalDate(_ date: Date) -> PushNotification {
        self.dismissalDate(secondsSince1970: LiveActivityContent.seconds(date))
    }

    /// Sets the dismissal date in seconds since 1970. A negative value or one in milliseconds is rejected
    /// (`timeInvalid`).
    public consuming func dismissalDate(secondsSince1970 seconds: Int64) -> PushNotification {
        self.content.changeLiveActivity { $0.dismissalDate = seconds }
        return consume self
    }

    /// Whether the app is asked for the push token of the new activity, which later updates need (iOS 18). With `start`
    /// only.
    public consuming func inputPushToken(_ enabled: Bool = true) -> PushNotification {
        self.content.changeLiveActivity { $0.inputPushToken = enabled }
        return consume self
    }

    /// The broadcast channel from which the new activity gets its updates (iOS 18; older devices do not start the
    /// activity). The channel must exist. With `start` only, and not together with `inputPushToken`.
    public consuming func inputPushChannel(_ channel: ChannelID) -> PushNotification {
        self.content.changeLiveActivity { $0.inputPushChannel = channel }
        return consume self
    }
}

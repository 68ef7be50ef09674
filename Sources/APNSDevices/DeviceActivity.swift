internal import APNSModel

/// A push to a Live Activity, as the device reads it. Times are in seconds since 1970.
///
/// Source: Apple, "Starting and updating Live Activities with ActivityKit push notifications".
struct ActivityPush {
    var order: Int
    var event: LiveActivityEvent
    var timestamp: Int64
    var contentState: VirtualDevice.PayloadObject?
    var staleDate: Int64?
    var dismissalDate: Int64?
    var alert: VirtualDevice.ActivityAlert?
    var attributesType: String?
    var attributes: VirtualDevice.PayloadObject?
    /// The channel that a started activity subscribes to.
    var inputPushChannel: String?

    /// The keys of `aps` that an event needs. Each also needs `event`.
    static func requiredKeys(_ event: LiveActivityEvent) -> [String] {
        switch event {
        case .start: ["timestamp", "content-state", "attributes-type", "attributes", "alert"]
        case .update: ["timestamp", "content-state"]
        default: ["timestamp"]
        }
    }

    init(order: Int, _ payload: DevicePayload) throws(DeliveryFault) {
        try payload.checkTypes(ofAlert: DevicePayload.activityAlertKinds)
        guard let event = payload.text("event").map(LiveActivityEvent.init(rawValue:)) else {
            throw DeliveryFault(.incompleteActivity, "aps.event is missing.")
        }
        guard event == .start || event == .update || event == .end else { throw DeliveryFault(.unknownEvent) }
        let missing = Self.requiredKeys(event).filter { payload.aps[$0] == nil || payload.aps[$0] == .null }
        guard missing.isEmpty, let timestamp = payload.whole("timestamp") else {
            let keys = missing.map { "aps.\($0)" }.joined(separator: ", ")
            throw DeliveryFault(.incompleteActivity, "The event \(event) needs \(keys).")
        }
        self.order = order
        self.event = event
        self.timestamp = timestamp
        self.contentState = VirtualDevice.PayloadObject(payload.aps["content-state"])
        self.staleDate = payload.whole("stale-date")
        self.dismissalDate = payload.whole("dismissal-date")
        self.attributesType = payload.text("attributes-type")
        self.attributes = VirtualDevice.PayloadObject(payload.aps["attributes"])
        self.inputPushChannel = payload.text("input-push-channel")
        switch payload.aps["alert"] {
        case .string(let text): self.alert = VirtualDevice.ActivityAlert(body: text)
        case .some(let value):
            let title = Self.line(value.members?["title"])
            let body = Self.line(value.members?["body"])
            if title != nil || body != nil { self.alert = VirtualDevice.ActivityAlert(title: title, body: body) }
        case nil: break
        }
    }

    /// A text, or an object with `loc-key` and `loc-args`.
    private static func line(_ value: JSONValue?) -> String? {
        if let text = value?.text { return text }
        let object = value?.members ?? [:]
        return NotificationContent.localized(object["loc-key"], object["loc-args"])
    }
}

/// One Live Activity on a device: its content, and the states that follow from the time. Pure. Times are in seconds
/// since 1970.
struct DeviceActivity: Sendable {
    /// How long an activity may be active before the system ends it. Source: Apple, "Displaying live data with Live
    /// Activities".
    static let longestActive: Int64 = 8 * 3600
    /// How long an ended activity may stay on the Lock Screen: with the time above, twelve hours.
    static let longestEnded: Int64 = 4 * 3600
    static let historyLimit = 100

    /// The bundle ID.
    let topic: String
    /// When it started: at its push-to-start, otherwise when its token was linked or its channel was added.
    let startedAt: Int64
    var token: String?
    var channelID: String?
    private var attributesType: String?
    private var attributes: VirtualDevice.PayloadObject?
    private var contentState: VirtualDevice.PayloadObject?
    private var timestamp: Int64?
    private var staleDate: Int64?
    private var dismissalDate: Int64?
    private var alert: VirtualDevice.ActivityAlert?
    /// When a push ended it.
    private var endedAt: Int64?
    private var history = BoundedList<VirtualDevice.ActivityEvent>(limit: Self.historyLimit)

    init(topic: String, token: String? = nil, channelID: String? = nil, startedAt: Int64) {
        self.topic = topic
        self.token = token
        self.channelID = channelID
        self.startedAt = startedAt
    }

    /// The activity that a push-to-start started.
    init(topic: String, _ push: ActivityPush, startedAt: Int64) {
        self.init(topic: topic, channelID: push.inputPushChannel, startedAt: startedAt)
        self.attributesType = push.attributesType
        self.attributes = push.attributes
        self.apply(push)
        self.record(push, ignored: nil)
    }

    /// Whether its app started it, without a push.
    var isStartedByApp: Bool { self.attributesType == nil }

    /// Whether pushes still change it.
    func isRunning(now: Int64) -> Bool { self.endedAt == nil && now < self.startedAt + Self.longestActive }

    /// Applies an update or an end, or records why it is ignored. Returns the notes about it.
    mutating func receive(_ push: ActivityPush, now: Int64) -> [DeviceNote] {
        var notes: [DeviceNote] = []
        guard self.isRunning(now: now) else {
            let reason = self.endedAt == nil ? "The system ended the activity after eight hours." : "It has ended."
            self.record(push, ignored: reason)
            return notes
        }
        if let timestamp, push.timestamp < timestamp {
            self.record(push, ignored: "Its timestamp is older than \(timestamp), that of an earlier push.")
            return push.event == .end ? [.olderEnd] : []
        }
        if push.timestamp == self.timestamp { notes.append(.sameTimestamp) }
        self.apply(push)
        self.record(push, ignored: nil)
        guard push.event == .end else { return notes }
        self.endedAt = now
        if let date = push.dismissalDate {
            if date > now + Self.longestEnded { notes.append(.lateDismissal) }
        } else {
            notes.append(.defaultDismissal)
        }
        return notes
    }

    private mutating func apply(_ push: ActivityPush) {
        self.timestamp = push.timestamp
        self.alert = push.alert
        if let state = push.contentState { self.contentState = state }
        self.staleDate = push.staleDate
        if push.event == .end { self.dismissalDate = push.dismissalDate }
    }

    private mutating func record(_ push: ActivityPush, ignored reason: String?) {
        self.history.append(
            VirtualDevice.ActivityEvent(
                order: push.order,
                event: push.event.rawValue,
                timestamp: push.timestamp,
                contentState: push.contentState,
                isIgnored: reason != nil,
                reason: reason
            )
        )
    }

    func state(now: Int64) -> VirtualDevice.ActivityState {
        if let ended = self.endedAt ?? (self.isRunning(now: now) ? nil : self.startedAt + Self.longestActive) {
            // A date in the past removes the activity at once.
            let removal = min(self.dismissalDate ?? .max, ended + Self.longestEnded)
            return now >= removal ? .dismissed : .ended
        }
        if let staleDate, staleDate <= now { return .stale }
        return .active
    }

    func snapshot(now: Int64) -> VirtualDevice.Activity {
        VirtualDevice.Activity(
            token: self.token,
            channelID: self.channelID,
            topic: self.topic,
            state: self.state(now: now),
            attributesType: self.attributesType,
            attributes: self.attributes,
            contentState: self.contentState,
            timestamp: self.timestamp,
            staleDate: self.staleDate,
            dismissalDate: self.dismissalDate,
            alert: self.alert,
            history: Array(self.history.elements),
            historyTotal: self.history.total
        )
    }
}

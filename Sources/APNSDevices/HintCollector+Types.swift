internal import APNSModel

/// The hints for the payloads of single push types.
extension HintCollector {
    mutating func checkAlert(_ payload: DevicePayload) {
        if let alert = payload.aps["alert"]?.members {
            self.checkTypes(alert, DevicePayload.alertKinds, "aps.alert")
        }
        let content = NotificationContent(payload)
        let wakes = payload.flag("content-available")
        if !payload.isVisible {
            let advice =
                wakes ? "Use apns-push-type background and apns-priority 5 to wake the app." : "Add one of them."
            self.add(
                "A push of type alert has an alert, a badge or a sound, and this one has none. \(advice)",
                ApplePage.sending
            )
        } else if wakes {
            self.add(
                "content-available in a visible push also wakes the app in the background. The system may limit these "
                    + "wakes, so do not depend on them.",
                ApplePage.background
            )
        }
        if payload.flag("mutable-content"), !content.isVisible {
            self.add(
                "mutable-content has no effect without an alert with a title, subtitle or body: the service extension "
                    + "does not run.",
                ApplePage.serviceExtension
            )
        }
        if !content.isVisible { self.checkPresentation(payload) }
        if let level = payload.text("interruption-level"),
            !VirtualDevice.interruptionLevels.contains(InterruptionLevel(rawValue: level))
        {
            let levels = VirtualDevice.interruptionLevels.map(\.rawValue).joined(separator: ", ")
            self.add(
                "The interruption-level \(level.prefix(100)) is unknown. It is one of \(levels).",
                ApplePage.payload
            )
        }
        if let score = payload.aps["relevance-score"], score.isOutsideUnitRange {
            self.add("relevance-score must be between 0 and 1.", ApplePage.payload)
        }
        if let volume = payload.aps["sound"]?.members?["volume"], volume.isOutsideUnitRange {
            self.add("The volume of a sound must be between 0 and 1.", ApplePage.payload)
        }
    }

    /// Adds a hint for keys that say how an alert looks, in a push that shows none.
    private mutating func checkPresentation(_ payload: DevicePayload) {
        let keys = ["category", "interruption-level", "relevance-score", "thread-id"].filter { payload.aps[$0] != nil }
        guard !keys.isEmpty else { return }
        self.add("\(keys.joined(separator: ", ")) has no effect without an alert with a text.", ApplePage.payload)
    }

    mutating func checkBackground(_ payload: DevicePayload) {
        if !payload.flag("content-available") {
            self.add(
                "A background push needs content-available: 1 in aps, or it does not wake the app.",
                ApplePage.background
            )
        }
        if payload.isVisible {
            self.add(
                "A background push must not have an alert, badge or sound: APNs may delay or drop it. Use "
                    + "apns-push-type alert for what the user notices.",
                ApplePage.background
            )
        }
    }

    mutating func checkActivity(_ payload: DevicePayload) {
        let name = payload.text("event")
        let event = LiveActivityEvent(rawValue: name ?? "")
        if name == nil {
            self.add("A push to a Live Activity needs aps.event: start, update or end.", ApplePage.activityPushes)
        } else if ![.start, .update, .end].contains(event) {
            self.add(
                "The event \(event.rawValue.prefix(100)) is unknown. Use start, update or end.",
                ApplePage.activityPushes
            )
        }
        for key in ActivityPush.requiredKeys(event) where payload.aps[key] == nil {
            self.add("A push to a Live Activity with this event needs aps.\(key).", ApplePage.activityPushes)
        }
        if event == .end, payload.aps["content-state"] == nil {
            self.add(
                "Send the final content-state with the event end, or the activity shows the last one.",
                ApplePage.activityPushes
            )
        }
        if event != .end, payload.aps["dismissal-date"] != nil {
            self.add("dismissal-date has an effect only with the event end.", ApplePage.activityPushes)
        }
        if event == .start, payload.aps["input-push-token"] != nil, payload.aps["input-push-channel"] != nil {
            self.add("Send either input-push-token or input-push-channel, not both.", ApplePage.activityPushes)
        }
        let starting = ["attributes", "attributes-type", "input-push-channel", "input-push-token"]
            .filter { payload.aps[$0] != nil }
        if event != .start, !starting.isEmpty {
            self.add(
                "\(starting.joined(separator: ", ")) has an effect only with the event start.",
                ApplePage.activityPushes
            )
        }
        self.checkActivityTimes(payload, event)
        self.checkActivityAlert(payload, event)
    }

    private mutating func checkActivityTimes(_ payload: DevicePayload, _ event: LiveActivityEvent) {
        for key in ["timestamp", "stale-date", "dismissal-date"] {
            guard let time = payload.whole(key) else { continue }
            if time > Expiration.latestSeconds {
                self.add(
                    "aps.\(key) looks like milliseconds, but it is in seconds since 1970.",
                    ApplePage.activityPushes
                )
            } else if case .double = payload.aps[key] {
                self.add("aps.\(key) has a fraction. Use whole seconds since 1970.", ApplePage.activityPushes)
            }
        }
        if let time = payload.whole("timestamp"), time <= Expiration.latestSeconds {
            // Some minutes are allowed for a queue and for clocks that differ.
            if time < self.seconds.clampedSum(-300) {
                self.add(
                    "aps.timestamp is in the past. Use the current time: the device ignores content that is older "
                        + "than what it has.",
                    ApplePage.activityPushes
                )
            } else if time > self.seconds.clampedSum(300) {
                self.add(
                    "aps.timestamp is in the future. Use the current time, or the device ignores later pushes with an "
                        + "earlier timestamp.",
                    ApplePage.activityPushes
                )
            }
        }
        if let time = payload.whole("timestamp"), let end = payload.whole("dismissal-date"), event == .end,
            end <= Expiration.latestSeconds, end > time.clampedSum(DeviceActivity.longestEnded)
        {
            self.add(
                "dismissal-date is more than four hours after timestamp, and the system removes the activity after four.",
                ApplePage.activityPushes
            )
        }
        if event != .end, let time = payload.whole("stale-date"), time <= self.seconds {
            self.add("stale-date is in the past, so the content is stale at once.", ApplePage.activityPushes)
        }
    }

    private mutating func checkActivityAlert(_ payload: DevicePayload, _ event: LiveActivityEvent) {
        for key in ["badge", "thread-id", "category", "interruption-level"] where payload.aps[key] != nil {
            self.add("aps.\(key) has no effect on a Live Activity.", ApplePage.activityPushes)
        }
        if payload.aps["sound"] != nil {
            self.add(
                "aps.sound has no effect on a Live Activity. Put sound into aps.alert.",
                ApplePage.activityPushes
            )
        }
        if payload.text("alert") != nil {
            let rule =
                event == .start
                ? "The event start needs an alert with title and body"
                : "A Live Activity has an alert "
                    + "with title and body"
            self.add("\(rule), and this one is a text.", ApplePage.activityPushes)
        }
        guard let alert = payload.aps["alert"]?.members else { return }
        self.checkTypes(alert, DevicePayload.activityAlertKinds, "aps.alert")
        let flat = alert.keys.filter { $0.hasSuffix("loc-key") || $0.hasSuffix("loc-args") }.sorted()
        if !flat.isEmpty {
            self.add(
                "Live Activities ignore \(flat.joined(separator: ", ").prefix(200)) in aps.alert. Make title and body "
                    + "objects with loc-key and loc-args.",
                ApplePage.activityPushes
            )
        }
    }
}

extension JSONValue {
    /// Whether this is a number below 0 or above 1.
    fileprivate var isOutsideUnitRange: Bool {
        switch self {
        case .integer(let number): !(0...1).contains(number)
        case .double(let number): !(0...1).contains(number)
        case .unsigned, .decimal: true
        default: false
        }
    }
}

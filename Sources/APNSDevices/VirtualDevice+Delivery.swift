internal import APNSModel

/// The effects of a push that reaches a device.
extension VirtualDevice {
    /// - Parameter now: when the device receives the push, in milliseconds since 1970.
    mutating func deliver(_ push: AcceptedPush, now: Int64) {
        do throws(DeliveryFault) {
            let payload = try DevicePayload(push.payload)
            let type = push.pushType ?? self.inferredType(push, payload)
            if push.pushType == nil { self.note(.missingPushType, push) }
            guard PushType.known.contains(type) else { throw DeliveryFault(.unknownPushType) }
            if type == .liveactivity { return try self.deliverToActivity(push, payload, now: now) }
            guard case .token(let digits) = push.target, self.token(digits)?.kind == .app else {
                throw DeliveryFault(.otherKind, "This push has the type \(type).")
            }
            // The app itself reads the payloads of the other types.
            guard type == .alert || type == .background else { return self.wake(push, type) }
            try payload.checkTypes()
            if payload.hasBooleanFlag { self.note(.booleanFlag, push) }
            if type == .alert {
                try self.show(push, payload, now: now)
            } else {
                try self.wakeInBackground(push, payload)
            }
        } catch {
            self.fail(push, error)
        }
    }

    private func inferredType(_ push: AcceptedPush, _ payload: DevicePayload) -> PushType {
        let isBackground = payload.flag("content-available") && !payload.isVisible
        return AcceptedPush.type(ofTopic: push.topic) ?? (isBackground ? .background : .alert)
    }

    /// Changes the state of the push's app.
    private mutating func updateApp(_ push: AcceptedPush, _ type: PushType, _ change: (inout AppState) -> Void) {
        let topic = AcceptedPush.bundleID(push.topic, type)
        if self.apps[topic] == nil, self.apps.count >= Self.appLimit,
            let oldest = self.apps.min(by: { ($0.value.lastOrder, $0.key) < ($1.value.lastOrder, $1.key) })?.key
        {
            self.apps[oldest] = nil
        }
        change(&self.apps[topic, default: AppState()])
        self.apps[topic]?.lastOrder = push.order
    }

    // MARK: Notifications

    private mutating func show(_ push: AcceptedPush, _ payload: DevicePayload, now: Int64) throws(DeliveryFault) {
        let content = NotificationContent(payload)
        let wakes = payload.flag("content-available")
        let hasEffect = content.badge != nil || content.sound != nil
        guard content.isVisible || hasEffect || wakes else { throw DeliveryFault(.nothingToShow) }
        for note in content.notes { self.note(note, push) }
        if let badge = content.badge, badge < 0 { self.note(.negativeBadge, push) }
        self.updateApp(push, .alert) { app in
            if let badge = content.badge, badge >= 0 { app.badge = badge == 0 ? nil : badge }
            if wakes { app.backgroundWakes += 1 }
        }
        if content.isVisible {
            self.counts.shown += 1
            if payload.flag("mutable-content") { self.note(.mutableContent, push) }
            self.append(content, push, payload, now: now)
        } else if hasEffect {
            self.counts.badgesAndSounds += 1
        } else {
            self.note(.alertWithoutContent, push)
            self.wake(push, .alert)
        }
    }

    private mutating func append(
        _ content: NotificationContent,
        _ push: AcceptedPush,
        _ payload: DevicePayload,
        now: Int64
    ) {
        var replaced = 0
        // The newest notification with the same id replaces the older one, so there is at most one.
        if let id = push.collapseID,
            let old = self.notifications.removeLast(where: {
                $0.notification.collapseID == id && $0.topic == push.topic
            })
        {
            replaced = old.notification.replaced + 1
        }
        let level = InterruptionLevel(rawValue: payload.text("interruption-level") ?? "active")
        if !Self.interruptionLevels.contains(level) { self.note(.unknownInterruptionLevel, push) }
        let notification = Notification(
            order: push.order,
            title: content.title,
            subtitle: content.subtitle,
            body: content.body,
            threadID: payload.text("thread-id"),
            interruptionLevel: level.rawValue,
            category: payload.text("category"),
            sound: content.sound,
            isCritical: content.isCritical,
            collapseID: push.collapseID,
            deliveredMilliseconds: now,
            replaced: replaced,
            webPush: payload.flag("mutable-content") ? VirtualDevice.PayloadObject(payload.root["webpush"]) : nil
        )
        self.notifications.append(ShownNotification(topic: push.topic, notification: notification))
    }

    static let interruptionLevels: [InterruptionLevel] = [.passive, .active, .timeSensitive, .critical]

    // MARK: Wakes

    private mutating func wakeInBackground(_ push: AcceptedPush, _ payload: DevicePayload) throws(DeliveryFault) {
        guard payload.flag("content-available") else { throw DeliveryFault(.noContentAvailable) }
        if payload.isVisible { self.note(.backgroundWithContent, push) }
        self.updateApp(push, .background) { $0.backgroundWakes += 1 }
        self.wake(push, .background)
    }

    private mutating func wake(_ push: AcceptedPush, _ type: PushType) {
        self.counts.wakes += 1
        self.updateApp(push, type) { $0.wakes[type, default: 0] += 1 }
        switch type {
        case .background: self.note(.backgroundBudget, push)
        case .voip: self.note(.voip, push)
        case .pushtotalk: self.note(.pushToTalk, push)
        case .complication, .widgets, .controls, .location: self.note(.budget, push)
        default: break
        }
    }

    // MARK: Live Activities

    private mutating func deliverToActivity(
        _ push: AcceptedPush,
        _ payload: DevicePayload,
        now: Int64
    ) throws(DeliveryFault) {
        let event = try ActivityPush(order: push.order, payload)
        let seconds = Self.seconds(now)
        if push.priority != .conserve, push.priority != .low { self.note(.activityBudget, push) }
        switch push.target {
        case .token(let digits):
            let kind = self.token(digits)?.kind
            guard kind == (event.event == .start ? .pushToStart : .activity) else {
                throw DeliveryFault(.otherKind, "This push has the event \(event.event).")
            }
            guard kind == .activity else { return self.start(push, event, now: now) }
            try self.update(push, event, now: seconds) { $0.token == digits }
        case .channel(let id, _):
            guard event.event != .start else { throw DeliveryFault(.otherKind, "A broadcast starts no activity.") }
            try self.update(push, event, now: seconds) { $0.channelID == id }
        }
    }

    private mutating func start(_ push: AcceptedPush, _ event: ActivityPush, now: Int64) {
        self.counts.activityEvents += 1
        let topic = AcceptedPush.bundleID(push.topic, .liveactivity)
        self.activities.append(DeviceActivity(topic: topic, event, startedAt: Self.seconds(now)))
        if let channelID = event.inputPushChannel {
            // Beyond the limit, or for an id that no header can hold, the activity gets no broadcasts.
            try? self.subscribe(Subscription(channelID: channelID, topic: topic), now: now)
        } else {
            self.note(.linkActivityToken, push)
        }
    }

    /// Passes an update or an end to the activities that use its token or channel.
    private mutating func update(
        _ push: AcceptedPush,
        _ event: ActivityPush,
        now: Int64,
        where matches: (DeviceActivity) -> Bool
    ) throws(DeliveryFault) {
        var notes: [DeviceNote] = []
        let count = self.activities.update(where: matches) { activity in
            if activity.isStartedByApp { notes.append(.startedByApp) }
            notes += activity.receive(event, now: now)
        }
        guard count > 0 else { throw DeliveryFault(.noActivity) }
        self.counts.activityEvents += 1
        for note in notes { self.note(note, push) }
    }
}

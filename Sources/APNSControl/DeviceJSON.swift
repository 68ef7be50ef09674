import APNSModel
import APNSSimulator

/// Virtual devices as JSON, for the control API.
enum DeviceJSON {
    /// The form in lists.
    static func device(_ device: VirtualDevice) -> JSONValue {
        .object([
            "id": .string(device.id), "name": .string(device.name), "isOnline": .bool(device.isOnline),
            "tokens": .array(device.tokens.map(self.token)),
            "subscriptions": .array(device.subscriptions.map(self.subscription)),
        ])
    }

    static func snapshot(_ snapshot: VirtualDevice.Snapshot) -> JSONValue {
        let counts = snapshot.counts
        return .object([
            "id": .string(snapshot.id), "name": .string(snapshot.name), "isOnline": .bool(snapshot.isOnline),
            "nowMilliseconds": .integer(snapshot.nowMilliseconds),
            "tokens": .array(snapshot.tokens.map(self.token)),
            "subscriptions": .array(snapshot.subscriptions.map(self.subscription)),
            "webPushKeys": .array(
                snapshot.webPushKeys.map { keys in
                    .object([
                        "subscription": .string(keys.subscription), "privateKey": .string(keys.privateKey),
                        "publicKey": .string(keys.publicKey), "auth": .string(keys.auth),
                    ])
                }
            ),
            "apps": .array(snapshot.apps.map(self.app)),
            "activities": .array(snapshot.activities.map(self.activity)),
            "waiting": .array(
                snapshot.waiting.map { waiting in
                    self.object([
                        "order": self.integer(waiting.order), "topic": .string(waiting.topic),
                        "channelID": self.string(waiting.channelID), "expiration": .integer(waiting.expiration),
                    ])
                }
            ),
            "undelivered": .array(
                snapshot.undelivered.map { undelivered in
                    .object([
                        "order": self.integer(undelivered.order), "rule": .string(undelivered.rule),
                        "message": .string(undelivered.message), "source": .string(undelivered.source),
                    ])
                }
            ),
            "notes": .array(
                snapshot.notes.map {
                    .object(["order": self.integer($0.order), "message": .string($0.message)])
                }
            ),
            "counts": .object([
                "received": self.integer(counts.received), "shown": self.integer(counts.shown),
                "badgesAndSounds": self.integer(counts.badgesAndSounds), "wakes": self.integer(counts.wakes),
                "activityEvents": self.integer(counts.activityEvents),
                "undelivered": self.integer(counts.undelivered),
            ]),
        ])
    }

    private static func token(_ token: VirtualDevice.Token) -> JSONValue {
        .object([
            "token": .string(token.token), "kind": .string(token.kind.rawValue), "topic": .string(token.topic),
        ])
    }

    private static func subscription(_ subscription: VirtualDevice.Subscription) -> JSONValue {
        .object(["channelID": .string(subscription.channelID), "topic": .string(subscription.topic)])
    }

    private static func app(_ app: VirtualDevice.App) -> JSONValue {
        let wakes = app.wakes.map { (key: $0.key.rawValue, value: self.integer($0.value)) }
        return self.object([
            "topic": .string(app.topic),
            "badge": app.badge.map { .integer($0) },
            "notifications": .array(app.notifications.map(self.notification)),
            "backgroundWakes": self.integer(app.backgroundWakes),
            "wakes": .object(Dictionary(wakes, uniquingKeysWith: { first, _ in first })),
        ])
    }

    private static func notification(_ notification: VirtualDevice.Notification) -> JSONValue {
        self.object([
            "order": self.integer(notification.order), "title": self.string(notification.title),
            "subtitle": self.string(notification.subtitle), "body": self.string(notification.body),
            "threadID": self.string(notification.threadID),
            "interruptionLevel": .string(notification.interruptionLevel),
            "category": self.string(notification.category), "sound": self.string(notification.sound),
            "isCritical": .bool(notification.isCritical), "collapseID": self.string(notification.collapseID),
            "deliveredMilliseconds": .integer(notification.deliveredMilliseconds),
            "replaced": self.integer(notification.replaced), "webPush": self.json(notification.webPush),
        ])
    }

    private static func activity(_ activity: VirtualDevice.Activity) -> JSONValue {
        let alert = activity.alert.map { alert in
            self.object(["title": self.string(alert.title), "body": self.string(alert.body)])
        }
        return self.object([
            "token": self.string(activity.token), "channelID": self.string(activity.channelID),
            "topic": .string(activity.topic), "state": .string(activity.state.rawValue),
            "attributesType": self.string(activity.attributesType), "attributes": self.json(activity.attributes),
            "contentState": self.json(activity.contentState), "timestamp": activity.timestamp.map { .integer($0) },
            "staleDate": activity.staleDate.map { .integer($0) },
            "dismissalDate": activity.dismissalDate.map { .integer($0) },
            "alert": alert,
            "history": .array(activity.history.map(self.event)),
            "historyTotal": self.integer(activity.historyTotal),
        ])
    }

    private static func event(_ event: VirtualDevice.ActivityEvent) -> JSONValue {
        self.object([
            "order": self.integer(event.order), "event": .string(event.event),
            "timestamp": event.timestamp.map { .integer($0) }, "contentState": self.json(event.contentState),
            "isIgnored": .bool(event.isIgnored), "reason": self.string(event.reason),
        ])
    }

    /// An object without the members that are nil.
    private static func object(_ members: [String: JSONValue?]) -> JSONValue {
        .object(members.compactMapValues { $0 })
    }

    private static func integer(_ number: Int) -> JSONValue { .integer(Int64(number)) }

    private static func string(_ text: String?) -> JSONValue? { text.map { .string($0) } }

    private static func json(_ bytes: [UInt8]?) -> JSONValue? { bytes.flatMap { JSONValue(json: $0) } }
}

public import APNSModel

extension VirtualDevice {
    /// Everything that a device holds at one moment. Coded with its properties as keys, without those that are nil.
    public struct Snapshot: Sendable, Hashable, Encodable {
        /// The id of the device.
        public var id: String
        /// The name of the device.
        public var name: String
        /// Whether the device reaches APNs.
        public var isOnline: Bool
        /// The time of the snapshot, in milliseconds since 1970.
        public var nowMilliseconds: Int64
        /// The tokens of the device, in the order in which they were linked.
        public var tokens: [Token]
        /// The channels that the device listens to.
        public var subscriptions: [Subscription]
        /// The keys for Web Push, in the order in which they were added.
        public var webPushKeys: [WebPushKeys]
        /// The apps that received a push, by bundle ID.
        public var apps: [App]
        /// The Live Activities, the newest first.
        public var activities: [Activity]
        /// The pushes that APNs stores until the device is online, the oldest first.
        public var waiting: [Waiting]
        /// The pushes that had no effect, the oldest first.
        public var undelivered: [Undelivered]
        /// How this result may differ from a real device, in the order of the pushes.
        public var notes: [Note]
        /// Totals since the device was created.
        public var counts: Counts
    }

    /// An object of a payload, such as the content of a Live Activity. Coded as that object.
    public struct PayloadObject: Sendable, Hashable, Encodable {
        /// The object as JSON.
        public let json: [UInt8]

        /// Nil for a value that is not an object.
        init?(_ value: JSONValue?) {
            guard let value, case .object = value else { return nil }
            self.json = value.bytes
        }

        public func encode(to encoder: any Encoder) throws {
            try JSONValue(json: self.json).encode(to: encoder)
        }
    }

    /// What the device holds for one app.
    public struct App: Sendable, Hashable, Encodable {
        /// The bundle ID.
        public var topic: String
        /// The number on the app's icon; nil if there is none.
        public var badge: Int64?
        /// The notifications in Notification Center, the newest first.
        public var notifications: [Notification]
        /// How often `content-available` woke the app, also with a visible notification.
        public var backgroundWakes: Int
        /// How many pushes woke the app or an extension and showed nothing, by push type.
        public var wakes: [PushType: Int]
    }

    /// One notification in Notification Center.
    public struct Notification: Sendable, Hashable, Encodable {
        /// The push that is shown.
        public var order: Int
        /// The title; nil if there is none.
        public var title: String?
        /// The subtitle; nil if there is none.
        public var subtitle: String?
        /// The body; nil if there is none.
        public var body: String?
        /// The group in Notification Center (`thread-id`).
        public var threadID: String?
        /// The interruption level; `active` by default.
        public var interruptionLevel: String
        /// The category; nil if there is none.
        public var category: String?
        /// The name of the sound; nil if there is none.
        public var sound: String?
        /// Whether the sound is critical: it plays even if the device is muted.
        public var isCritical: Bool
        /// The collapse id; nil if there is none.
        public var collapseID: String?
        /// When the device received the push, in milliseconds since 1970.
        public var deliveredMilliseconds: Int64
        /// How many earlier notifications it replaced.
        public var replaced: Int
        /// The member `webpush` of the payload, an encrypted Web Push message for the app's notification service extension;
        /// nil if there is none, or if `mutable-content` is missing.
        public var webPush: PayloadObject?
    }

    /// The state of a Live Activity.
    public enum ActivityState: String, Sendable, Hashable, CaseIterable, Encodable {
        /// Shown with current content.
        case active
        /// Its stale date has passed.
        case stale
        /// Ended, and still on the Lock Screen.
        case ended
        /// No longer shown.
        case dismissed
    }

    /// One Live Activity. Its times are in seconds since 1970, as in the payload.
    public struct Activity: Sendable, Hashable, Encodable {
        /// The token for updates; nil if none is linked.
        public var token: String?
        /// The channel for updates; nil if it has none.
        public var channelID: String?
        /// The bundle ID.
        public var topic: String
        /// Whether it is shown, and how.
        public var state: ActivityState
        /// The type of its attributes; nil if its app started it.
        public var attributesType: String?
        /// The attributes; nil if its app started it.
        public var attributes: PayloadObject?
        /// The content; nil before the first push.
        public var contentState: PayloadObject?
        /// The timestamp of its content.
        public var timestamp: Int64?
        /// When its content becomes stale.
        public var staleDate: Int64?
        /// When it leaves the Lock Screen after its end.
        public var dismissalDate: Int64?
        /// The alert of the last push; nil if it had none.
        public var alert: ActivityAlert?
        /// The last pushes, the oldest first.
        public var history: [ActivityEvent]
        /// How many pushes it has received.
        public var historyTotal: Int
    }

    /// The alert in a push to a Live Activity.
    public struct ActivityAlert: Sendable, Hashable, Encodable {
        /// The title; nil if there is none.
        public var title: String?
        /// The body; nil if there is none.
        public var body: String?
    }

    /// One push to a Live Activity.
    public struct ActivityEvent: Sendable, Hashable, Encodable {
        /// The push.
        public var order: Int
        /// The event: `start`, `update` or `end`.
        public var event: String
        /// The timestamp in the payload.
        public var timestamp: Int64?
        /// The content; nil if the push had none.
        public var contentState: PayloadObject?
        /// Whether the activity did not change.
        public var isIgnored: Bool
        /// Why it was ignored; nil if it was not.
        public var reason: String?
    }

    /// A push that APNs stores for the device.
    public struct Waiting: Sendable, Hashable, Encodable {
        /// The push.
        public var order: Int
        /// Its topic, with the suffix.
        public var topic: String
        /// The channel of a broadcast; nil for a push to a token.
        public var channelID: String?
        /// When APNs discards it, in seconds since 1970.
        public var expiration: Int64
    }

    /// A push that APNs accepted and that had no effect.
    public struct Undelivered: Sendable, Hashable, Encodable {
        /// The push.
        public var order: Int
        /// The rule, such as `replaced-while-offline`.
        public var rule: String
        /// What the rule is, and what to do.
        public var message: String
        /// The page that states the rule.
        public var source: String
    }

    /// How the effect of a push may differ on a real device, or what the app must do.
    public struct Note: Sendable, Hashable, Encodable {
        /// The newest push that it concerns.
        public var order: Int
        /// The text.
        public var message: String
    }

    /// Totals since the device was created. Each push counts once: `received` is the sum of the others and the waiting
    /// pushes.
    public struct Counts: Sendable, Hashable, Encodable {
        /// Pushes to the device.
        public var received = 0
        /// Pushes that became a notification on the screen.
        public var shown = 0
        /// Pushes that changed only the badge, or only played a sound.
        public var badgesAndSounds = 0
        /// Pushes that woke the app or an extension and showed nothing.
        public var wakes = 0
        /// Pushes to Live Activities, including those that an activity ignored.
        public var activityEvents = 0
        /// Pushes without an effect.
        public var undelivered = 0
    }

    /// What the device holds at a time, in milliseconds since 1970.
    public func snapshot(now: Int64) -> Snapshot {
        var device = self
        device.discardExpired(now: now)
        return device.contents(now: now)
    }

    private func contents(now: Int64) -> Snapshot {
        let shown = Dictionary(grouping: self.notifications.elements.reversed(), by: \.topic)
        let apps = self.apps.sorted { $0.key < $1.key }.map { topic, app in
            App(
                topic: topic,
                badge: app.badge,
                notifications: shown[topic, default: []].map(\.notification),
                backgroundWakes: app.backgroundWakes,
                wakes: app.wakes
            )
        }
        let seconds = Self.seconds(now)
        return Snapshot(
            id: self.id,
            name: self.name,
            isOnline: self.isOnline,
            nowMilliseconds: now,
            tokens: self.tokens,
            subscriptions: self.subscriptions,
            webPushKeys: self.webPushKeys,
            apps: apps,
            activities: self.activities.elements.reversed().map { $0.snapshot(now: seconds) },
            waiting: self.waiting.map { entry in
                var channelID: String?
                if case .channel(let id, _) = entry.push.target { channelID = id }
                return Waiting(
                    order: entry.push.order,
                    topic: entry.push.topic,
                    channelID: channelID,
                    expiration: entry.deadline
                )
            },
            undelivered: Array(self.undelivered.elements),
            notes: self.notes.map { Note(order: $0.value, message: $0.key.rawValue) }.sorted {
                ($0.order, $0.message) < ($1.order, $1.message)
            },
            counts: self.counts
        )
    }
}

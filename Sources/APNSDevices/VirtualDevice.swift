internal import APNSModel

/// A simulated Apple device: what it holds after a series of pushes. Pure: time is a parameter, in milliseconds since
/// 1970.
///
/// It follows what Apple documents. Where Apple is silent, it does the simplest thing, and a note says so. Each list is
/// bounded: it drops its oldest elements.
public struct VirtualDevice: Sendable {
    /// What a token is for.
    public enum TokenKind: String, Sendable, Hashable, CaseIterable, Encodable {
        /// A token for all push types except `liveactivity`.
        case app
        /// A token for updates of one Live Activity.
        case activity
        /// A token that starts Live Activities of one type.
        case pushToStart = "push-to-start"
    }

    /// An address of the device.
    public struct Token: Sendable, Hashable, Encodable {
        /// Hexadecimal digits in lower case.
        public var token: String
        /// What the token is for.
        public var kind: TokenKind
        /// The topic of the token: the bundle ID of the app, with or without a suffix.
        public var topic: String

        /// A token of an app on the device.
        public init(token: String, kind: TokenKind, topic: String) {
            self.token = token
            self.kind = kind
            self.topic = topic
        }
    }

    /// A broadcast channel that the device listens to.
    public struct Subscription: Sendable, Hashable, Encodable {
        /// The channel, as in `apns-channel-id`.
        public var channelID: String
        /// The bundle ID.
        public var topic: String

        /// A channel of an app on the device.
        public init(channelID: String, topic: String) {
            self.channelID = channelID
            self.topic = topic
        }
    }

    /// The keys with which an app on the device opens the Web Push messages of one subscription (RFC 8291). The device only
    /// keeps them: whoever shows the device decrypts.
    public struct WebPushKeys: Sendable, Hashable, Encodable {
        /// The subscription, as messages name it.
        public var subscription: String
        /// The private key on the curve P-256: 32 bytes as base64url.
        public var privateKey: String
        /// The public key: an uncompressed point, 65 bytes as base64url.
        public var publicKey: String
        /// The secret that the sender knows: 16 bytes as base64url.
        public var auth: String

        /// The keys of a subscription of an app on the device.
        public init(subscription: String, privateKey: String, publicKey: String, auth: String) {
            self.subscription = subscription
            self.privateKey = privateKey
            self.publicKey = publicKey
            self.auth = auth
        }
    }

    struct AppState: Sendable {
        var badge: Int64?
        var backgroundWakes = 0
        var wakes: [PushType: Int] = [:]
        /// The newest push.
        var lastOrder = 0
    }

    struct ShownNotification: Sendable {
        var topic: String
        var notification: Notification
    }

    struct WaitingPush: Sendable {
        var push: AcceptedPush
        /// When APNs discards it, in seconds since 1970.
        var deadline: Int64
    }

    static let addressLimit = 200
    static let keyLimit = 200
    static let appLimit = 200
    static let notificationLimit = 1_000
    static let activityLimit = 100
    static let undeliveredLimit = 1_000
    static let waitingLimit = 1_000
    /// How long APNs stores a push. Source: Apple, "Sending notification requests to APNs".
    static let longestStorage: Int64 = 30 * 24 * 3600
    /// How long APNs stores a broadcast. Source: Apple, "Sending channel management requests to APNs".
    static let longestChannelStorage: Int64 = 8 * 3600

    /// The id, such as `d1`.
    public let id: String
    /// A name for people.
    public var name: String
    /// Whether the device reaches APNs.
    public internal(set) var isOnline = true
    /// The tokens in the order in which they were linked.
    public internal(set) var tokens: [Token] = []
    /// The channels in the order in which they were added.
    public internal(set) var subscriptions: [Subscription] = []
    /// The keys for Web Push in the order in which they were added.
    public internal(set) var webPushKeys: [WebPushKeys] = []

    var apps: [String: AppState] = [:]
    var notifications = BoundedList<ShownNotification>(limit: Self.notificationLimit)
    var activities = BoundedList<DeviceActivity>(limit: Self.activityLimit)
    var undelivered = BoundedList<Undelivered>(limit: Self.undeliveredLimit)
    /// The oldest first.
    var waiting: [WaitingPush] = []
    var notes: [DeviceNote: Int] = [:]
    var counts = Counts()

    /// A device that is online and has no tokens.
    public init(id: String, name: String) {
        self.id = id
        self.name = name
    }

    static func seconds(_ milliseconds: Int64) -> Int64 { milliseconds / 1000 }

    // MARK: Addresses

    /// Adds a token. A token of the kind `activity` is assigned to the app's oldest running activity that has neither
    /// token nor channel. If there is none, adds an activity, as if the app had started it.
    ///
    /// - Throws: `invalid`, `limitReached`, or `tokenTaken` if the device already has the token.
    public mutating func link(_ token: Token, now: Int64) throws(VirtualDeviceError) {
        guard let digits = try? DeviceToken(token.token).hexadecimal, !token.topic.isEmpty else {
            throw VirtualDeviceError(.invalid, "A token needs hexadecimal digits, an even number of them, and a topic.")
        }
        guard self.token(digits) == nil else {
            throw VirtualDeviceError(
                .tokenTaken,
                "The token already belongs to device \(self.id). Remove it there first."
            )
        }
        guard self.tokens.count < Self.addressLimit else {
            throw VirtualDeviceError(
                .limitReached,
                "A device has at most \(Self.addressLimit) tokens. Remove one first."
            )
        }
        self.tokens.append(Token(token: digits, kind: token.kind, topic: token.topic))
        guard token.kind == .activity else { return }
        let seconds = Self.seconds(now)
        let topic = AcceptedPush.bundleID(token.topic, .liveactivity)
        var isLinked = false
        _ = self.activities.update {
            $0.topic == topic && $0.token == nil && $0.channelID == nil && $0.isRunning(now: seconds)
        } _: { activity in
            if !isLinked { activity.token = digits }
            isLinked = true
        }
        if !isLinked { self.activities.append(DeviceActivity(topic: topic, token: digits, startedAt: seconds)) }
    }

    /// Removes a token and discards its stored push. Earlier pushes keep their effects. Its activity may get another
    /// token.
    public mutating func unlink(_ token: String) {
        let token = token.lowercased()
        self.tokens.removeAll { $0.token == token }
        _ = self.activities.update {
            $0.token == token
        } _: {
            $0.token = nil
        }
        self.discardWaiting(DeliveryFault(.tokenRemoved)) { $0.push.target == .token(token) }
    }

    /// Adds a channel. If no running activity uses it, adds an activity, as if the app had started it.
    ///
    /// - Throws: `invalid` or `limitReached`. Nothing changes for a channel that the device listens to already.
    public mutating func subscribe(_ subscription: Subscription, now: Int64) throws(VirtualDeviceError) {
        let id = subscription.channelID
        guard !id.isEmpty, id.utf8.count <= ChannelID.maximumBytes, !subscription.topic.isEmpty else {
            throw VirtualDeviceError(.invalid, "A subscription needs a channel id and a topic.")
        }
        if self.subscription(id) != nil { return }
        guard self.subscriptions.count < Self.addressLimit else {
            throw VirtualDeviceError(
                .limitReached,
                "A device listens to at most \(Self.addressLimit) channels. Unsubscribe from one first."
            )
        }
        let topic = AcceptedPush.bundleID(subscription.topic, .liveactivity)
        self.subscriptions.append(Subscription(channelID: id, topic: topic))
        let seconds = Self.seconds(now)
        if !self.activities.elements.contains(where: { $0.channelID == id && $0.isRunning(now: seconds) }) {
            self.activities.append(DeviceActivity(topic: topic, channelID: id, startedAt: seconds))
        }
    }

    /// Removes a channel and discards its stored broadcast. Its activities stay.
    public mutating func unsubscribe(_ channelID: String) {
        self.subscriptions.removeAll { $0.channelID == channelID }
        self.discardWaiting(DeliveryFault(.unsubscribed)) {
            if case .channel(channelID, _) = $0.push.target { true } else { false }
        }
    }

    /// Adds keys for Web Push, or replaces those of the same subscription.
    ///
    /// - Throws: `invalid` if a text is not base64url of 1 to 200 characters, or `limitReached`.
    public mutating func add(_ keys: WebPushKeys) throws(VirtualDeviceError) {
        let texts = [keys.subscription, keys.privateKey, keys.publicKey, keys.auth]
        guard texts.allSatisfy(Self.isBase64URL) else {
            throw VirtualDeviceError(
                .invalid,
                "subscription, privateKey, publicKey and auth must be base64url, 1 to \(Self.keyLimit) characters each."
            )
        }
        if let index = self.webPushKeys.firstIndex(where: { $0.subscription == keys.subscription }) {
            self.webPushKeys[index] = keys
            return
        }
        guard self.webPushKeys.count < Self.addressLimit else {
            throw VirtualDeviceError(
                .limitReached,
                "A device has the keys of at most \(Self.addressLimit) subscriptions."
            )
        }
        self.webPushKeys.append(keys)
    }

    private static func isBase64URL(_ text: String) -> Bool {
        (1...self.keyLimit).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"): true
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"): true
                default: false
                }
            }
    }

    func token(_ digits: String) -> Token? { self.tokens.first { $0.token == digits } }

    func subscription(_ channelID: String) -> Subscription? { self.subscriptions.first { $0.channelID == channelID } }

    // MARK: Receiving

    /// Takes the device online or offline. A device that comes online receives the stored pushes, the oldest first.
    public mutating func setOnline(_ isOnline: Bool, now: Int64) {
        self.isOnline = isOnline
        self.discardExpired(now: now)
        guard isOnline else { return }
        let stored = self.waiting
        self.waiting.removeAll()
        for entry in stored { self.deliver(entry.push, now: now) }
    }

    /// Takes a push that APNs accepted. Does nothing if the device has neither its token nor its channel.
    ///
    /// - Parameters:
    ///   - push: the push or broadcast.
    ///   - rule: what APNs stores if the device is offline.
    public mutating func receive(_ push: AcceptedPush, storing rule: OfflineStorage = .latest) {
        var token: Token?
        let topic: String
        switch push.target {
        case .token(let digits):
            token = self.token(digits)
            guard let token else { return }
            topic = token.topic
        case .channel(let id, _):
            guard let subscription = self.subscription(id) else { return }
            topic = subscription.topic
        }
        self.counts.received += 1
        self.discardExpired(now: push.time)
        if push.priority == .conserve || push.priority == .low { self.note(.lowPriority, push) }
        let bundleID = push.bundleID
        if topic == bundleID, topic != push.topic, push.pushType != .liveactivity { self.note(.ownToken, push) }
        if topic != push.topic, topic != bundleID, AcceptedPush.bundleID(topic, push.pushType) != bundleID {
            self.fail(push, DeliveryFault(.otherTopic, "Its topic is \(topic)."))
        } else if self.isOnline {
            self.deliver(push, now: push.time)
        } else {
            self.store(push, rule)
        }
    }

    /// Stores a push at APNs until the device is online.
    private mutating func store(_ push: AcceptedPush, _ rule: OfflineStorage) {
        let now = Self.seconds(push.time)
        var deadline = now + Self.longestStorage
        if case .channel(_, let storage) = push.target {
            guard storage == .mostRecentMessage else { return self.fail(push, DeliveryFault(.channelStoresNothing)) }
            deadline = now + Self.longestChannelStorage
        }
        if let expiration = push.expiration {
            guard expiration != 0 else { return self.fail(push, DeliveryFault(.notStored)) }
            guard expiration > now else { return self.fail(push, DeliveryFault(.expired)) }
            deadline = min(deadline, expiration)
        }
        if self.waiting.contains(where: { Self.replaces($0.push, by: push, rule) }) {
            self.note(.storageNotGuaranteed, push)
        }
        self.discardWaiting(Self.replacement(of: push, rule)) { Self.replaces($0.push, by: push, rule) }
        let topics = self.waiting.lazy.filter { Self.sharesApp($0.push, push) }.map(\.push.topic)
        if topics.contains(push.topic) { self.note(.severalStored, push) }
        if rule != .all, topics.contains(where: { $0 != push.topic }) { self.note(.storedPerTopic, push) }
        self.waiting.append(WaitingPush(push: push, deadline: deadline))
        if self.waiting.count > Self.waitingLimit {
            self.fail(self.waiting.removeFirst().push, DeliveryFault(.storageFull))
        }
    }

    /// Whether two pushes are for tokens of one app.
    private static func sharesApp(_ first: AcceptedPush, _ second: AcceptedPush) -> Bool {
        guard case (.token, .token) = (first.target, second.target) else { return false }
        return first.bundleID == second.bundleID
    }

    /// Whether APNs stores only the later one of two pushes.
    private static func replaces(_ earlier: AcceptedPush, by later: AcceptedPush, _ rule: OfflineStorage) -> Bool {
        switch (earlier.target, later.target) {
        case (.token, .token): rule.replaces(earlier, by: later)
        case (.channel(let id, _), .channel(let other, _)): id == other
        default: false
        }
    }

    /// Why a push that `push` replaced was not delivered.
    private static func replacement(of push: AcceptedPush, _ rule: OfflineStorage) -> DeliveryFault {
        guard case .channel = push.target else {
            return DeliveryFault(.replacedWhileOffline, rule.message, source: rule.source)
        }
        let message = "For a channel, APNs stores the most recent broadcast."
        return DeliveryFault(.replacedWhileOffline, message, source: ApplePage.broadcast)
    }

    mutating func discardExpired(now: Int64) {
        guard !self.waiting.isEmpty else { return }
        let seconds = Self.seconds(now)
        self.discardWaiting(DeliveryFault(.expired)) { $0.deadline <= seconds }
    }

    private mutating func discardWaiting(_ fault: DeliveryFault, where matches: (WaitingPush) -> Bool) {
        for entry in self.waiting where matches(entry) { self.fail(entry.push, fault) }
        self.waiting.removeAll(where: matches)
    }

    mutating func fail(_ push: AcceptedPush, _ fault: DeliveryFault) {
        self.counts.undelivered += 1
        let message = [fault.rule.message, fault.detail].compactMap(\.self).joined(separator: " ")
        self.undelivered.append(
            Undelivered(order: push.order, rule: fault.rule.rawValue, message: message, source: fault.source)
        )
    }

    mutating func note(_ note: DeviceNote, _ push: AcceptedPush) {
        self.notes[note] = max(self.notes[note] ?? 0, push.order)
    }
}

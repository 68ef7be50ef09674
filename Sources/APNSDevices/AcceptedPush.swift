public import APNSModel

/// A push or a broadcast that APNs accepted, as a virtual device receives it.
public struct AcceptedPush: Sendable, Hashable {
    /// The address of a push.
    public enum Target: Sendable, Hashable {
        /// A device token, in lower case.
        case token(String)
        /// A broadcast channel, and how many broadcasts it stores for devices that are offline.
        case channel(String, storage: MessageStoragePolicy)
    }

    /// The position in the simulator's record; it identifies the push in a snapshot.
    public var order: Int
    /// The device token or channel.
    public var target: Target
    /// The topic, with its suffix. For a broadcast, the bundle ID.
    public var topic: String
    /// The value of `apns-push-type`; nil if the header is missing.
    public var pushType: PushType?
    /// The value of `apns-priority`; nil if the header is missing.
    public var priority: Priority?
    /// The value of `apns-expiration` in seconds since 1970; nil if the header is missing.
    public var expiration: Int64?
    /// The value of `apns-collapse-id`; nil if the header is missing.
    public var collapseID: String?
    /// The whole payload.
    public var payload: [UInt8]
    /// The time at which APNs accepted the push, in milliseconds since 1970.
    public var time: Int64

    /// A push with these headers. `time` is in milliseconds since 1970.
    public init(
        order: Int,
        target: Target,
        topic: String,
        pushType: PushType? = nil,
        priority: Priority? = nil,
        expiration: Int64? = nil,
        collapseID: String? = nil,
        payload: [UInt8],
        time: Int64
    ) {
        self.order = order
        self.target = target
        self.topic = topic
        self.pushType = pushType
        self.priority = priority
        self.expiration = expiration
        self.collapseID = collapseID
        self.payload = payload
        self.time = time
    }

    /// The topic without the suffix of the push type.
    var bundleID: String { Self.bundleID(self.topic, self.pushType) }

    /// The topic without the suffix of the type. Without a type, the suffix of any type is removed.
    static func bundleID(_ topic: String, _ type: PushType?) -> String {
        guard let type = type ?? self.type(ofTopic: topic), topic.hasSuffix(type.topicSuffix) else { return topic }
        return String(topic.dropLast(type.topicSuffix.count))
    }

    /// The type whose suffix the topic has; nil if it has none.
    static func type(ofTopic topic: String) -> PushType? {
        PushType.known.first { !$0.topicSuffix.isEmpty && topic.hasSuffix($0.topicSuffix) }
    }
}

public import APNSModel

/// Where pushes go: an app, an environment and a lane. Each route is sent by one bulk call.
public struct Route: Sendable, Hashable, CustomStringConvertible {
    /// The app's name in the relay's settings.
    public var app: String
    /// `production` or `development`.
    public var environment: String
    /// The priority among routes.
    public var lane: PushLane

    public init(app: String, environment: String, lane: PushLane) {
        self.app = app
        self.environment = environment
        self.lane = lane
    }

    public var description: String {
        "\(self.app)/\(self.environment)/\(self.lane == .interactive ? "interactive" : "bulk")"
    }
}

/// A push to store in a queue.
public struct NewPush: Sendable {
    /// The push's `apns-id`, which is its id in the queue, too.
    public var id: APNSID
    /// Where the push goes.
    public var route: Route
    /// The device.
    public var token: DeviceToken
    /// Headers and payload.
    public var push: PreparedPush
    /// The caller who submitted the push.
    public var caller: String
    /// The push is not sent before this time.
    public var notBefore: QueueTime
    /// No attempt begins at this time or later. A push that is queued until then ends as `deadlineExceeded`, not sent.
    public var deadline: QueueTime
    /// Whether to send the push again if it may already have been processed. The device may then show it twice.
    public var resendsUnknown: Bool
    /// Among pushes with equal key, device token, app and environment, a newer one replaces those not yet written.
    public var supersedes: SupersedeKey?
    /// Identifies the push if its caller submits it again.
    public var idempotency: IdempotencyKey?

    public init(
        id: APNSID,
        route: Route,
        token: DeviceToken,
        push: PreparedPush,
        caller: String,
        notBefore: QueueTime,
        deadline: QueueTime,
        resendsUnknown: Bool = false,
        supersedes: SupersedeKey? = nil,
        idempotency: IdempotencyKey? = nil
    ) {
        self.id = id
        self.route = route
        self.token = token
        self.push = push
        self.caller = caller
        self.notBefore = notBefore
        self.deadline = deadline
        self.resendsUnknown = resendsUnknown
        self.supersedes = supersedes
        self.idempotency = idempotency
    }
}

/// A key that lets a caller submit a push again without sending it twice. Keys of different callers are independent.
public struct IdempotencyKey: Sendable, Hashable {
    /// The caller's key.
    public var key: String
    /// A digest of the push as the caller submitted it. The same key with another digest is a conflict.
    public var digest: [UInt8]

    public init(key: String, digest: [UInt8]) {
        self.key = key
        self.digest = digest
    }
}

/// The result of enqueueing one push.
public enum EnqueueResult: Sendable, Hashable {
    /// The push is stored.
    case queued
    /// The push is already known under this id. It was not stored again.
    case duplicate(of: APNSID)
    /// Another push has the same idempotency key or id, and was submitted with another digest or without a key. This one
    /// was not stored.
    case conflict(with: APNSID)
}

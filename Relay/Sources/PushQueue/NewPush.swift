public import APNSModel

/// Pushes that have the same app, environment, lane, caller and batch. One bulk call sends the pushes of a route, and each
/// route is independent of the others. So a caller with many pushes does not delay those of another caller.
public struct Route: Sendable, Hashable, CustomStringConvertible {
    /// The app's name in the relay's settings.
    public var app: String
    /// `production` or `development`.
    public var environment: String
    /// Interactive pushes take precedence over bulk pushes.
    public var lane: PushLane
    /// The name of the caller who submitted the pushes.
    public var caller: String
    /// The id of the batch; nil for pushes that belong to none.
    public var batch: APNSID?

    public init(app: String, environment: String, lane: PushLane, caller: String, batch: APNSID? = nil) {
        self.app = app
        self.environment = environment
        self.lane = lane
        self.caller = caller
        self.batch = batch
    }

    /// The app, the environment and the lane alone.
    public var destination: Destination {
        Destination(app: self.app, environment: self.environment, lane: self.lane)
    }

    public var description: String {
        "\(self.destination)/\(self.caller)" + (self.batch.map { "/\($0)" } ?? "")
    }

    /// Where pushes go: an app, an environment and a lane.
    public struct Destination: Sendable, Hashable, CustomStringConvertible {
        /// The app's name in the relay's settings.
        public var app: String
        /// `production` or `development`.
        public var environment: String
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
}

/// A push to store in a queue.
public struct NewPush: Sendable {
    /// The maximum number of pushes in one call of ``PushQueue/enqueue(_:isPartial:)``.
    public static let maximumPerCall = 10_000

    /// The push's `apns-id`, which is also its id in the queue.
    public var id: APNSID
    /// Where the push goes, and who submitted it.
    public var route: Route
    /// The device.
    public var token: DeviceToken
    /// Headers and payload.
    public var push: PreparedPush
    /// The push is not sent before this time.
    public var notBefore: QueueTime
    /// No attempt begins at or after this time. A push that is still queued then ends as not sent, with the code
    /// `deadlineExceeded`.
    public var deadline: QueueTime
    /// Whether to send the push again if it may already have been processed. The device may then show it twice.
    public var resendsUnknown: Bool
    /// A newer push replaces older ones that have the same key, device token, app and environment, and are queued or
    /// parked.
    public var supersedes: SupersedeKey?
    /// Identifies the push if its caller submits it again.
    public var idempotency: IdempotencyKey?
    /// What the caller wants to find in the push's status and outcome: the text of a JSON object. It is not sent.
    public var metadata: String?

    public init(
        id: APNSID,
        route: Route,
        token: DeviceToken,
        push: PreparedPush,
        notBefore: QueueTime,
        deadline: QueueTime,
        resendsUnknown: Bool = false,
        supersedes: SupersedeKey? = nil,
        idempotency: IdempotencyKey? = nil,
        metadata: String? = nil
    ) {
        self.id = id
        self.route = route
        self.token = token
        self.push = push
        self.notBefore = notBefore
        self.deadline = deadline
        self.resendsUnknown = resendsUnknown
        self.supersedes = supersedes
        self.idempotency = idempotency
        self.metadata = metadata
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
    /// This other push has the same idempotency key or id, but another digest or no key. The new push was not stored.
    case conflict(with: APNSID)
}

import APNSModel
import PushQueue

/// The status of a push, as the API and the webhooks report it.
struct PushStatusJSON: Encodable, Sendable {
    var id: String
    var app: String
    var environment: String
    var lane: String
    var token: String
    var caller: String
    var state: String
    var queuedAt: Double
    var notBefore: Double
    var deadline: Double
    var attempts: Int
    @OrNull var outcome: OutcomeJSON?
    @OrNull var settledAt: Double?
    @OrNull var idempotencyKey: String?
    @OrNull var metadata: JSONText?
    /// The id of its batch.
    @OrNull var batch: String?
    /// The push's position in the feed. Only elements of a feed have it.
    var cursor: String?

    init(_ status: PushStatus, cursor: FeedCursor? = nil) {
        self.id = status.id.description
        self.app = status.route.app
        self.environment = status.route.environment
        self.lane = status.route.lane.text
        self.token = status.token.hexadecimal
        self.caller = status.route.caller
        self.state = status.state.rawValue
        self.queuedAt = status.queuedAt.seconds
        self.notBefore = status.notBefore.seconds
        self.deadline = status.deadline.seconds
        self.attempts = status.attempts
        self.outcome = status.outcome.map { OutcomeJSON($0) }
        self.settledAt = status.settledAt?.seconds
        // A push with an id of its caller and without a key has the id as its key.
        self.idempotencyKey = status.idempotencyKey == self.id ? nil : status.idempotencyKey
        self.metadata = status.metadata.map { JSONText($0) }
        self.batch = status.route.batch.map { "\($0)" }
        self.cursor = cursor?.text
    }
}

/// The outcome of a push.
struct OutcomeJSON: Encodable, Sendable {
    var outcome: String
    /// The HTTP status of APNs' response.
    @OrNull var status: Int?
    /// The reason in APNs' response.
    @OrNull var reason: String?
    @OrNull var code: String?
    @OrNull var message: String?
    @OrNull var apnsUniqueID: String?
    var attempts: Int
    @OrNull var tokenInvalidSince: Double?
    var advice: String
    @OrNull var retryAfterSeconds: Double?

    init(_ outcome: PushOutcome) {
        self.outcome = outcome.certainty.rawValue
        self.status = outcome.status
        self.reason = outcome.error?.reason?.rawValue
        self.code = outcome.error?.code.rawValue
        self.message = outcome.error?.message
        self.apnsUniqueID = outcome.receipt?.apnsUniqueID ?? outcome.error?.rejection?.apnsUniqueID
        self.attempts = outcome.attempts
        self.tokenInvalidSince = outcome.invalidation?.secondsSince1970
        self.advice = outcome.advice.rawValue
        self.retryAfterSeconds = outcome.retryAfter.map { ($0 / .milliseconds(1)).rounded() / 1_000 }
    }
}

extension PushLane {
    /// The name in requests and responses.
    var text: String { self == .interactive ? "interactive" : "bulk" }
}

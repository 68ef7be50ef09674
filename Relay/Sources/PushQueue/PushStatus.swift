public import APNSModel

/// The status of one push in a queue.
public struct PushStatus: Sendable {
    /// The states of a push.
    public enum State: String, Sendable, Hashable, CaseIterable {
        /// Waits for its `notBefore`, for its turn, or for the next attempt.
        case queued
        /// Claimed, but not yet marked as written.
        case claimed
        /// Marked as written. It is in flight, or is about to be, and has no outcome yet.
        case written
        /// Cannot be sent. An operator must retry or drop it.
        case parked
        /// Has its outcome.
        case settled
    }

    /// The push's `apns-id`.
    public var id: APNSID
    public var state: State
    public var route: Route
    public var token: DeviceToken
    public var queuedAt: QueueTime
    /// The push is not sent before this time, which is the caller's `notBefore` or the time of the next attempt.
    public var notBefore: QueueTime
    public var deadline: QueueTime
    /// How many times the push was marked as written since it was stored, or since an operator retried it.
    public var attempts: Int
    /// The outcome of a settled push; otherwise the outcome of the attempts so far, if there is one.
    public var outcome: PushOutcome?
    /// When it was settled.
    public var settledAt: QueueTime?
    /// The idempotency key, while it is kept; nil if the push has none.
    public var idempotencyKey: String?
    /// ``NewPush/metadata``.
    public var metadata: String?

    public init(
        id: APNSID,
        state: State,
        route: Route,
        token: DeviceToken,
        queuedAt: QueueTime,
        notBefore: QueueTime,
        deadline: QueueTime,
        attempts: Int,
        outcome: PushOutcome?,
        settledAt: QueueTime?,
        idempotencyKey: String? = nil,
        metadata: String? = nil
    ) {
        self.id = id
        self.state = state
        self.route = route
        self.token = token
        self.queuedAt = queuedAt
        self.notBefore = notBefore
        self.deadline = deadline
        self.attempts = attempts
        self.outcome = outcome
        self.settledAt = settledAt
        self.idempotencyKey = idempotencyKey
        self.metadata = metadata
    }
}

/// Whether a push was cancelled.
public enum CancelResult: Sendable, Hashable {
    case cancelled
    /// The push is being sent, or was sent. Nothing was changed.
    case written
    /// The push already has this outcome.
    case settled(PushOutcome)
    case notFound
}

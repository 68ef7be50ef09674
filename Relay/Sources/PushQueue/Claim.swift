public import APNSModel

/// A worker's right to send one push.
public struct Claim: Sendable, Hashable {
    /// The push.
    public var id: APNSID
    /// Increases with each claim of the push.
    public var epoch: Int64
    /// Where the engine finds the push. Only the engine reads it.
    public var position: Int64

    public init(id: APNSID, epoch: Int64, position: Int64) {
        self.id = id
        self.epoch = epoch
        self.position = position
    }
}

/// A push that a worker has claimed.
public struct ClaimedPush: Sendable {
    public var claim: Claim
    /// The device.
    public var token: DeviceToken
    /// Headers and payload.
    public var push: PreparedPush
    /// No attempt begins at this time or later.
    public var deadline: QueueTime
    /// When the push was stored.
    public var queuedAt: QueueTime
    /// The number of earlier marks as written.
    public var attempts: Int
    /// Whether to send the push again if it may already have been processed.
    public var resendsUnknown: Bool
    /// Whether an earlier attempt may have been processed. Such a push can no longer end as not sent.
    public var mayBeProcessed: Bool

    public init(
        claim: Claim,
        token: DeviceToken,
        push: PreparedPush,
        deadline: QueueTime,
        queuedAt: QueueTime,
        attempts: Int,
        resendsUnknown: Bool,
        mayBeProcessed: Bool
    ) {
        self.claim = claim
        self.token = token
        self.push = push
        self.deadline = deadline
        self.queuedAt = queuedAt
        self.attempts = attempts
        self.resendsUnknown = resendsUnknown
        self.mayBeProcessed = mayBeProcessed
    }
}

/// The outcome of a claimed push.
public struct Settlement: Sendable {
    public var claim: Claim
    public var outcome: PushOutcome

    public init(claim: Claim, outcome: PushOutcome) {
        self.claim = claim
        self.outcome = outcome
    }
}

/// Whether an outcome was stored.
public enum SettleResult: Sendable, Hashable {
    /// It is the push's outcome, merged with those of earlier attempts.
    case settled
    /// The push already had an outcome, which stays.
    case alreadySettled(PushOutcome)
    /// The claim has ended, or the queue no longer knows the push. Nothing was stored.
    case stale
}

/// A push that returns to the queue.
public struct Release: Sendable {
    public var claim: Claim
    /// When the next attempt is due.
    public var notBefore: QueueTime
    /// The outcome of the attempt; nil if there was none.
    public var outcome: PushOutcome?
    /// Whether the mark counts as an attempt of the push (``ClaimedPush/attempts``). False if the push was not at fault.
    public var countsAttempt: Bool

    public init(
        claim: Claim,
        notBefore: QueueTime,
        outcome: PushOutcome? = nil,
        countsAttempt: Bool = true
    ) {
        self.claim = claim
        self.notBefore = notBefore
        self.outcome = outcome
        self.countsAttempt = countsAttempt
    }

    /// Whether the attempt may have been processed.
    public var isUnknown: Bool { self.outcome?.certainty == .unknown }
}

/// The numbers of claims whose lease expired, by their end.
public struct ExpiredLeases: Sendable, Hashable {
    /// Pushes without a mark, queued again.
    public var queued = 0
    /// Pushes with a mark that ended as `unknown`.
    public var unknown = 0
    /// Pushes with a mark whose owner wants them sent again.
    public var resent = 0

    public init() {}
}

public import APNSModel

/// The right to send one push. It belongs to the caller of `claim`, the claimant.
public struct Claim: Sendable, Hashable {
    /// The push.
    public var id: APNSID
    /// Increases with each claim of the push.
    public var epoch: Int64
    /// The place of the push in the engine's storage. Only the engine reads it.
    public var position: Int64

    public init(id: APNSID, epoch: Int64, position: Int64) {
        self.id = id
        self.epoch = epoch
        self.position = position
    }
}

/// A claimed push, with everything that is needed to send it.
public struct ClaimedPush: Sendable {
    public var claim: Claim
    /// The device.
    public var token: DeviceToken
    /// Headers and payload.
    public var push: PreparedPush
    /// No attempt begins at or after this time.
    public var deadline: QueueTime
    /// When the push was stored.
    public var queuedAt: QueueTime
    /// How many times the push was marked as written before.
    public var attempts: Int
    /// Whether to send the push again if it may already have been processed.
    public var resendsUnknown: Bool
    /// Whether APNs may have processed an earlier attempt. Such a push can no longer end as not sent.
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
    /// The outcome was stored, merged with the outcomes of earlier attempts.
    case settled
    /// The push already had this outcome, which stays. Nothing was stored.
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

    /// Whether APNs may have processed the attempt.
    public var isUnknown: Bool { self.outcome?.certainty == .unknown }
}

/// The number of claims whose lease expired, by what happened to their pushes.
public struct ExpiredLeases: Sendable, Hashable {
    /// Pushes without a mark, queued again.
    public var queued = 0
    /// Pushes with a mark that ended as `unknown`.
    public var unknown = 0
    /// Pushes with a mark that were queued again, because their owner asked for that.
    public var resent = 0

    public init() {}
}

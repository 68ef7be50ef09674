public import APNSModel

/// A queue whose contents can be moved to a queue of another engine. See ``QueueMove``.
public protocol MovablePushQueue: PushQueue {
    /// Tests whether the caller may seal the queue.
    ///
    /// - Throws: `QueueError`: `unusable` if it may not.
    func checkMovable() async throws(QueueError)

    /// Whether nothing was ever stored.
    func isUnused() async throws(QueueError) -> Bool

    /// Refuses changes that other processes make, until ``unseal()``. Without effect if no other process can use the queue.
    /// Nothing may be claimed or written when everything is sealed.
    func seal(_ extent: SealExtent) async throws(QueueError)

    /// Ends the seal.
    func unseal() async throws(QueueError)

    /// Where the feed begins and ends, and its histories.
    func feedBounds() async throws(QueueError) -> FeedBounds

    /// Gives an unused queue the bounds and histories of another queue's feed, so that the other queue's cursors stay valid.
    /// A new history begins after them.
    func adopt(_ bounds: FeedBounds) async throws(QueueError)

    /// The pushes without an outcome, in the order in which they were stored. None of them may be claimed.
    ///
    /// - Parameters:
    ///   - position: the last push of the previous part; 0 for the first part.
    ///   - limit: the maximum number of pushes to return.
    /// - Throws: `QueueError`: `unusable` if a stored push cannot be read.
    func unsettledPushes(after position: Int64, limit: Int) async throws(QueueError) -> [UnsettledPush]

    /// The idempotency keys that are kept of settled pushes.
    ///
    /// - Parameters:
    ///   - position: the last key of the previous part; 0 for the first part.
    ///   - limit: the maximum number of keys to return.
    func settledKeys(after position: Int64, limit: Int) async throws(QueueError) -> [SettledKey]

    /// Stores a part of another queue, and a value, in one transaction. The outcomes keep their positions in the feed. A
    /// capacity has no effect. If the stored value is already this one, the call does nothing. So a call whose answer was
    /// lost can be repeated.
    ///
    /// - Parameters:
    ///   - part: outcomes, pushes and keys that the queue does not have, all of one kind.
    ///   - value: the value to store.
    ///   - key: its key.
    func store(_ part: QueuePart, value: [UInt8], forKey key: String) async throws(QueueError)
}

/// What a sealed queue refuses.
public enum SealExtent: Sendable, Hashable {
    /// New pushes and claims. Pushes in flight get their outcomes.
    case newWork
    /// Every change of pushes and outcomes.
    case everything
}

/// The bounds of a feed.
public struct FeedBounds: Sendable, Hashable {
    /// The position of the next outcome.
    public var next: Int64
    /// The last position that was deleted; 0 if none was.
    public var deleted: Int64
    package var generations: [FeedGenerations.Generation]

    package init(next: Int64, deleted: Int64, generations: [FeedGenerations.Generation]) {
        self.next = next
        self.deleted = deleted
        self.generations = generations
    }
}

/// A push without an outcome, as a queue stores it.
public struct UnsettledPush: Sendable {
    /// Its place in the order in which pushes were stored.
    public var position: Int64
    /// The push; its `notBefore` is when its next attempt is due.
    public var push: NewPush
    public var queuedAt: QueueTime
    /// How many times it was marked as written since it was stored, or since an operator retried it.
    public var attempts: Int
    /// The outcome of the attempts so far, if there is one.
    public var outcome: PushOutcome?
    /// When it was parked; nil if it is queued.
    public var parkedAt: QueueTime?

    public init(
        position: Int64,
        push: NewPush,
        queuedAt: QueueTime,
        attempts: Int,
        outcome: PushOutcome?,
        parkedAt: QueueTime?
    ) {
        self.position = position
        self.push = push
        self.queuedAt = queuedAt
        self.attempts = attempts
        self.outcome = outcome
        self.parkedAt = parkedAt
    }
}

/// An idempotency key of a settled push.
public struct SettledKey: Sendable, Hashable {
    /// The place of its push in the order in which pushes were stored.
    public var position: Int64
    public var caller: String
    public var key: IdempotencyKey
    /// The push, whose outcome may have been deleted.
    public var id: APNSID
    public var settledAt: QueueTime
    /// Whether the push still has its outcome. If not, the id may belong to a newer push.
    public var hasOutcome: Bool

    public init(
        position: Int64,
        caller: String,
        key: IdempotencyKey,
        id: APNSID,
        settledAt: QueueTime,
        hasOutcome: Bool
    ) {
        self.position = position
        self.caller = caller
        self.key = key
        self.id = id
        self.settledAt = settledAt
        self.hasOutcome = hasOutcome
    }
}

/// A part of what a queue stores.
public struct QueuePart: Sendable {
    public var outcomes: [FeedEntry]
    public var pushes: [UnsettledPush]
    public var keys: [SettledKey]

    public init(outcomes: [FeedEntry] = [], pushes: [UnsettledPush] = [], keys: [SettledKey] = []) {
        self.outcomes = outcomes
        self.pushes = pushes
        self.keys = keys
    }

    public var isEmpty: Bool { self.outcomes.isEmpty && self.pushes.isEmpty && self.keys.isEmpty }
}

public import APNSModel

/// A durable queue of pushes. An engine guarantees that every push it accepted ends in one outcome, and that none is
/// silently sent twice.
///
/// A push is in one of these states:
///
/// ```
/// queued ──claim──▶ claimed ──markWritten──▶ written ──settle──▶ settled
///    ▲                 │                        │
///    └──── release, or the lease expires ◀──────┘ release: the push was provably not processed
///
/// claimed or written ──park──▶ parked ──retryParked──▶ queued
/// ```
/// A claim belongs to one worker until its lease expires, and carries an epoch, which increases with each claim of the
/// push. `markWritten` compares the epoch: if another worker has claimed the push since then, the mark fails, and the
/// worker must not send the push. A push with a mark and an expired lease may have been sent, so it is not sent again:
/// it ends as `unknown`, or is queued again if its owner asked for that (``NewPush/resendsUnknown``).
///
/// A push that returns to the queue or is parked keeps the outcome of the attempt, if there was one. Its final outcome is
/// merged with it (``APNSModel/PushOutcome/merged(with:)``): the stronger certainty wins. For example, a push that may
/// have been processed by an earlier attempt never ends as not sent, whatever the last attempt, `cancel` or a deadline
/// says. The outcomes that an engine decides itself are functions of `PushOutcome`, such as
/// ``APNSModel/PushOutcome/superseded(_:attempts:)``.
///
/// When a function returns, its effect is durable: it survives the death of the process. `claim` is the exception,
/// because a lost claim does no harm. Every function throws `QueueError`. After an error, nothing of the call has
/// happened, unless its code is `undecided`.
///
/// A push whose deadline or expiration has passed is never sent. Whether it ends, and what is pruned, follows from
/// ``QueueClock/expiry``: a push that is overdue by `now` alone stays queued, and does not delay the pushes behind it.
///
/// No text that is passed to a queue has the character U+0000.
///
/// Several processes may share a queue, if the engine allows it. A process then always reads the effects of its own
/// calls. The effects of other processes' calls may be missing for a moment.
///
/// `PushQueueConformance` tests an implementation.
public protocol PushQueue: Sendable {
    /// Whether several processes can use the queue at the same time. If not, one process at a time uses it.
    var isShared: Bool { get }

    // MARK: Enqueueing

    /// Stores pushes.
    ///
    /// The pushes are stored in order, all or none of them. Calls that concern pushes in flight wait at most 200 ms for a
    /// large call. A push whose idempotency key or id is known is not stored again: it is a duplicate if the digest of
    /// the stored push's idempotency key is the same, and otherwise in conflict. An id is known until the push is pruned.
    /// A key is known until its push is settled, and for a retention of its own after that.
    ///
    /// A push with a ``NewPush/supersedes`` key settles the older ones with that key, device token, app and environment
    /// that are not marked as written, including parked ones: they end as not sent, with the code `superseded`. An
    /// older one that is marked as written is settled as `superseded` when it would return to the queue or be parked.
    ///
    /// - Parameters:
    ///   - pushes: any number.
    ///   - isPartial: whether to store the other pushes if some are in conflict with stored ones. If false, a conflict
    ///     means that none is stored; the results then say `queued` for pushes that could have been stored.
    /// - Returns: a result for each push, in order.
    /// - Throws: `QueueError`: `full` if the pushes that are to be stored do not fit in the queue, also if the call is
    ///   partial; `unavailable` if they cannot be stored now.
    func enqueue(_ pushes: [NewPush], isPartial: Bool) async throws(QueueError) -> [EnqueueResult]

    // MARK: Sending

    /// Claims pushes of one route that are due, in the order in which they became due.
    ///
    /// A push with a ``NewPush/supersedes`` key is not due while another one with the same key, device token, app and
    /// environment is claimed or written. A push whose deadline or expiration has passed is not claimed; the call may
    /// settle it as ``settleOverdue(limit:)`` does.
    ///
    /// - Parameters:
    ///   - route: whose pushes to claim.
    ///   - limit: the most pushes to return.
    ///   - lease: the duration of the claims.
    /// - Returns: the claimed pushes, sometimes fewer than `limit` although more are due; empty only if none is due.
    func claim(_ route: Route, limit: Int, lease: Duration) async throws(QueueError) -> [ClaimedPush]

    /// Marks claimed pushes as written, before they are sent. A compare-and-set on the claim's epoch.
    ///
    /// - Parameters:
    ///   - claims: claims of this worker.
    ///   - lease: the time within which the outcomes must be stored. It must be longer than an attempt can take.
    /// - Returns: for each claim, in order, whether this call has marked it. If false, the claim has ended (its lease
    ///   expired, or the push was released, parked, cancelled, superseded or settled) or was marked before: the push must
    ///   not be sent.
    func markWritten(_ claims: [Claim], lease: Duration) async throws(QueueError) -> [Bool]

    /// Stores the final outcomes of pushes.
    ///
    /// The first outcome of a push is final. The outcome of a claim that has ended (its lease expired, or the push was
    /// released or parked) counts only if it is `accepted`, and then also ends the claim that the push has now.
    ///
    /// - Parameter settlements: outcomes and the claims that they belong to.
    /// - Returns: for each, in order, whether it was stored.
    func settle(_ settlements: [Settlement]) async throws(QueueError) -> [SettleResult]

    /// Returns claimed or written pushes to the queue, and clears their marks. Only for pushes that were provably not
    /// processed, or whose owner wants them sent again (``Release/isUnknown``).
    ///
    /// - Parameter releases: claims with the time of the next attempt. A claim that has ended is ignored.
    func release(_ releases: [Release]) async throws(QueueError)

    /// Parks pushes that cannot be sent until an operator decides. A parked push is never overdue.
    ///
    /// - Parameter settlements: claims with the outcome of the last attempt, which becomes the push's outcome if the
    ///   push is dropped. A claim that has ended is ignored.
    func park(_ settlements: [Settlement]) async throws(QueueError)

    /// Ends the claims whose lease has expired: pushes without a mark are queued again; pushes with a mark end as
    /// `unknown`, or are queued again if their owner asked for that. An engine that knows that a worker has died may
    /// end its claims earlier.
    ///
    /// - Returns: the numbers of ended claims.
    func expireLeases() async throws(QueueError) -> ExpiredLeases

    /// Settles queued pushes whose deadline or expiration has passed (`deadlineExceeded` or `expired`, not sent).
    ///
    /// - Parameter limit: the most pushes to settle in this call.
    /// - Returns: the number of settled pushes.
    func settleOverdue(limit: Int) async throws(QueueError) -> Int

    // MARK: One push

    /// The status of a push; nil if it is unknown or was pruned.
    func status(of id: APNSID) async throws(QueueError) -> PushStatus?

    /// Cancels a push that is not marked as written, also a parked one. Its outcome is `cancelled`, not sent.
    func cancel(_ id: APNSID) async throws(QueueError) -> CancelResult

    // MARK: Feeds

    /// Settled pushes in the order in which they were settled.
    ///
    /// - Parameters:
    ///   - cursor: the end of the previous page; nil to begin with the oldest.
    ///   - apps: only pushes of these apps; nil for all.
    ///   - kind: all outcomes, or only those that invalidate a device token.
    ///   - limit: the most outcomes to return.
    /// - Returns: a page. A page may have fewer entries than `limit`, even none, although outcomes follow it: the end of
    ///   the feed is reached when its position is the one that was passed. The cursor of the last page is the end of the
    ///   feed of all outcomes, also if `apps` or `kind` exclude the last ones, so a reader who polls misses nothing when
    ///   others are deleted. If outcomes after the cursor were deleted, or if the engine finds that the cursor belongs to
    ///   another history of the queue, the page says so and begins where a reader can go on (``FeedPage/gap``).
    func outcomes(
        after cursor: FeedCursor?,
        apps: Set<String>?,
        kind: FeedKind,
        limit: Int
    ) async throws(QueueError) -> FeedPage

    // MARK: Parked pushes

    /// Parked pushes in the order in which they were stored.
    ///
    /// - Parameters:
    ///   - id: the last push of the previous page, even if it is no longer parked; nil to begin.
    ///   - limit: the most pushes to return.
    func parked(after id: APNSID?, limit: Int) async throws(QueueError) -> [PushStatus]

    /// Queues parked pushes again, due now, with their attempts counted from zero. Their deadlines and expirations count
    /// again.
    ///
    /// - Returns: for each, in order, whether it was parked.
    func retryParked(_ ids: [APNSID]) async throws(QueueError) -> [Bool]

    /// Settles parked pushes, each with the outcome of its last attempt.
    ///
    /// - Returns: for each, in order, whether it was parked.
    func dropParked(_ ids: [APNSID]) async throws(QueueError) -> [Bool]

    // MARK: State

    /// The number of pushes in each state.
    func counts() async throws(QueueError) -> QueueCounts

    /// The routes that have queued pushes, each with the time at which its first push is due. A push that waits for
    /// another one with the same supersede key does not count.
    func queuedRoutes() async throws(QueueError) -> [QueuedRoute]

    /// Tests whether the queue can be used, for probes: whether pushes can be stored durably, and whether there is room for
    /// more. It must not read the whole storage.
    ///
    /// - Throws: `QueueError`: what is wrong and what to do about it. A queue that was found to be damaged throws
    ///   `unusable`.
    func checkStorage() async throws(QueueError)

    /// A small durable value, for the positions of webhooks and for what processes that share the queue agree on.
    func value(forKey key: String) async throws(QueueError) -> [UInt8]?

    /// The small durable values whose keys begin with a prefix, compared byte by byte.
    func values(withPrefix prefix: String) async throws(QueueError) -> [String: [UInt8]]

    /// Stores a small durable value; nil removes it.
    func setValue(_ value: [UInt8]?, forKey key: String) async throws(QueueError)

    /// Stores a small durable value if the present one is the expected one: a compare-and-set.
    ///
    /// - Parameters:
    ///   - value: the new value; nil removes it.
    ///   - key: its key.
    ///   - expected: the value that must be there; nil if there must be none.
    /// - Returns: whether the value was stored.
    func exchangeValue(_ value: [UInt8]?, forKey key: String, expecting expected: [UInt8]?) async throws(QueueError)
        -> Bool

    /// Deletes outcomes, payloads and keys whose retention is over, and drops parked pushes that are too old. An engine
    /// may keep them longer if the clock was set back in the meantime.
    ///
    /// - Parameters:
    ///   - retention: the retention of each of them.
    ///   - limit: the most outcomes, payloads, keys and parked pushes together to delete or drop in this call.
    /// - Returns: the number of deleted rows; `limit` if there may be more.
    func prune(_ retention: Retention, limit: Int) async throws(QueueError) -> Int

    /// Waits for running calls and closes the queue. Later calls throw `closed`.
    func close() async
}

extension PushQueue {
    /// Queues a parked push again.
    ///
    /// - Returns: whether it was parked.
    public func retryParked(_ id: APNSID) async throws(QueueError) -> Bool {
        try await self.retryParked([id]).first ?? false
    }

    /// Settles a parked push with the outcome of its last attempt.
    ///
    /// - Returns: whether it was parked.
    public func dropParked(_ id: APNSID) async throws(QueueError) -> Bool {
        try await self.dropParked([id]).first ?? false
    }
}

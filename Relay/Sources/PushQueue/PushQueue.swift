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
///
/// queued, claimed or written ──after a restore──▶ parked
/// ```
/// A claim belongs to one claimant, the caller of `claim`, until its lease expires. It carries an epoch, which
/// increases with each claim of the push. `markWritten` compares the epoch: if another claimant has claimed the push
/// since then, the mark fails, and the first claimant must not send the push.
///
/// A push with a mark and an expired lease may have been sent, so it is not sent again: it ends as `unknown`. If its
/// owner asked for that (``NewPush/resendsUnknown``), it is queued again instead.
///
/// A push that returns to the queue or is parked keeps the outcome of its attempt, if there was one. Its final outcome
/// is merged with the kept one (``APNSModel/PushOutcome/merged(with:)``), and the stronger certainty wins. For example,
/// if an earlier attempt may have been processed, the push never ends as not sent, not even after `cancel` or its
/// deadline. The outcomes that an engine decides itself are functions of `PushOutcome`, such as
/// ``APNSModel/PushOutcome/superseded(_:attempts:)``.
///
/// When a function returns, its effect is durable: it survives the death of the process. `claim` is the exception,
/// because losing a claim is harmless. Every function throws `QueueError`. A call that throws has had no effect, unless
/// the code is `undecided`.
///
/// A push whose deadline or expiration has passed is never sent. ``QueueClock/expiry`` decides when it is settled as
/// overdue, and when rows are pruned. While that clock is behind `now`, a push that is overdue only by `now` stays
/// queued, and does not delay the pushes behind it.
///
/// No text that is passed to a queue has the character U+0000.
///
/// After a restore or the promotion of a standby, an engine parks the pushes that may have been sent in the lost time: those
/// that are due, and those in flight. See ``AfterFailover``.
///
/// Several processes may share a queue if the engine allows it. Each process then sees the effects of its own calls at
/// once. It may see the effects of other processes' calls a moment later.
///
/// `Tests/PushQueueConformance` tests both implementations.
public protocol PushQueue: Sendable {
    /// Whether several processes can use the queue at the same time. If false, only one process at a time can.
    var isShared: Bool { get }

    /// How far this process has seen the queue come; nil if it has not seen it yet. An engine that is opened with it later
    /// notices if the queue has come less far, because a backup was restored. Returns at once.
    var progress: QueueProgress? { get }

    // MARK: Enqueueing

    /// Stores pushes.
    ///
    /// The pushes are stored in order, all or none of them. A call with ``NewPush/maximumPerCall`` pushes delays calls about
    /// pushes in flight by at most 200 ms.
    ///
    /// A push whose idempotency key or id is known is not stored again. It is a duplicate if the stored push has an
    /// idempotency key with the same digest, and a conflict otherwise. An id is known until the push is pruned. A key
    /// is known until its push is settled, and then for its own retention.
    ///
    /// - Parameters:
    ///   - pushes: at most ``NewPush/maximumPerCall``.
    ///   - isPartial: whether to store the other pushes if some are in conflict with stored ones. If false, one
    ///     conflict prevents the whole call. The result of a push that could have been stored is then `queued`.
    /// - Returns: a result for each push, in order.
    /// - Throws: `QueueError`: `full` if the new pushes do not fit in the queue, even if the call is partial. A call that
    ///   is not partial and has a conflict, too, may return the conflict instead;
    ///   `unavailable` if they cannot be stored now.
    func enqueue(_ pushes: [NewPush], isPartial: Bool) async throws(QueueError) -> [EnqueueResult]

    // MARK: Sending

    /// Claims due pushes of one route, in the order in which they became due.
    ///
    /// Pushes compete if they have the same ``NewPush/supersedes`` key, device token, app and environment. At most one of
    /// them is claimed or written. When the turn of another one comes, it waits if an older one is claimed or written. It
    /// ends as not sent, with the code `superseded`, if there is a newer one. Otherwise it is claimed, and the older ones,
    /// queued or parked, end as `superseded`.
    ///
    /// A push whose deadline or expiration has passed is not claimed; the call may settle it as ``settleOverdue(limit:)``
    /// does.
    ///
    /// - Parameters:
    ///   - route: the route of the pushes.
    ///   - limit: the maximum number of pushes to return.
    ///   - lease: the duration of the claims.
    /// - Returns: the claimed pushes. There may be fewer than `limit` even if more are due, but none only if none can be
    ///   claimed.
    func claim(_ route: Route, limit: Int, lease: Duration) async throws(QueueError) -> [ClaimedPush]

    /// Marks claimed pushes as written. Call it before you send them. It is a compare-and-set on each claim's epoch.
    ///
    /// - Parameters:
    ///   - claims: claims that belong to the caller.
    ///   - lease: the time within which the outcomes must be stored. It must be longer than an attempt can take.
    /// - Returns: for each claim, in order, whether this call has marked it. Do not send a push whose result is false.
    ///   Its claim was marked before or has ended: its lease expired, or the push was released, parked, cancelled or
    ///   settled.
    func markWritten(_ claims: [Claim], lease: Duration) async throws(QueueError) -> [Bool]

    /// Stores the final outcomes of pushes.
    ///
    /// The first outcome of a push is final. A claim may have ended already, because its lease expired or the push was
    /// released or parked. Its outcome then counts only if it is `accepted`, and also ends the push's present claim.
    ///
    /// - Parameter settlements: outcomes and the claims that they belong to.
    /// - Returns: for each outcome, in order, whether it was stored.
    func settle(_ settlements: [Settlement]) async throws(QueueError) -> [SettleResult]

    /// Returns claimed or written pushes to the queue, and clears their marks. Use it only for pushes that APNs
    /// provably did not process, or whose owner asked for a resend (``Release/isUnknown``).
    ///
    /// - Parameter releases: claims with the time of the next attempt. A claim that has ended is ignored.
    func release(_ releases: [Release]) async throws(QueueError)

    /// Parks pushes, so that they wait for an operator's decision. A parked push is never overdue.
    ///
    /// - Parameter settlements: claims with the outcome of the last attempt, which becomes the push's outcome if the
    ///   push is dropped. A claim that has ended is ignored.
    func park(_ settlements: [Settlement]) async throws(QueueError)

    /// Ends the claims whose lease has expired.
    ///
    /// Pushes without a mark are queued again. Pushes with a mark end as `unknown`, or are queued again if their owner
    /// asked for that. If an engine knows that a process has died, it may end the claims of that process earlier.
    ///
    /// - Returns: the number of ended claims.
    func expireLeases() async throws(QueueError) -> ExpiredLeases

    /// Settles queued pushes whose deadline or expiration has passed as not sent, with the code `deadlineExceeded` or
    /// `expired`.
    ///
    /// - Parameter limit: the maximum number of pushes to settle in this call.
    /// - Returns: the number of settled pushes.
    func settleOverdue(limit: Int) async throws(QueueError) -> Int

    // MARK: Batches

    /// Cancels queued and parked pushes of a route. They end as not sent, with the code `cancelled`.
    ///
    /// - Parameters:
    ///   - route: the route.
    ///   - limit: the maximum number of pushes to cancel in this call.
    /// - Returns: the number of cancelled pushes. If it is less than `limit`, no queued or parked push is left.
    func cancelAll(_ route: Route, limit: Int) async throws(QueueError) -> Int

    /// The number of pushes of batches, in each state and with each outcome, all at one moment: each stored push counts once.
    /// Settled pushes that were pruned count, too.
    ///
    /// - Parameter routes: the routes of the batches.
    /// - Returns: the counts, in the order of the routes.
    func batchCounts(of routes: [Route]) async throws(QueueError) -> [BatchCounts]

    /// Forgets the route of a batch and its counts. Does nothing if the route has pushes. It may have no outcomes that are kept.
    func forget(_ route: Route) async throws(QueueError)

    // MARK: One push

    /// The status of a push; nil if it is unknown or was pruned.
    func status(of id: APNSID) async throws(QueueError) -> PushStatus?

    /// The push that a caller submitted with an idempotency key; nil if the key is unknown or was pruned.
    ///
    /// - Returns: the id of the push, whose status may have been pruned.
    func id(ofKey key: String, caller: String) async throws(QueueError) -> APNSID?

    /// Cancels a queued, claimed or parked push. It ends as not sent, with the code `cancelled`.
    func cancel(_ id: APNSID) async throws(QueueError) -> CancelResult

    // MARK: Feeds

    /// Settled pushes in the order in which they were settled.
    ///
    /// - Parameters:
    ///   - cursor: the end of the previous page; nil to begin with the oldest.
    ///   - apps: only pushes of these apps; nil for all.
    ///   - kind: all outcomes, or only those that invalidate a device token.
    ///   - limit: the maximum number of outcomes to return.
    /// - Returns: a page.
    ///
    ///   - A page may have fewer entries than `limit`, or none, even if more outcomes follow. ``FeedPage/isEnd`` says
    ///     whether the reader has reached the end of the feed.
    ///   - The cursor of the last page is the end of the feed of all outcomes, even if `apps` or `kind` exclude the
    ///     last ones. So a reader who polls has no gap when outcomes that it does not read are deleted.
    ///   - If outcomes after the cursor were deleted, or if the cursor belongs to another history of the queue, the
    ///     page has a ``FeedPage/gap`` and begins after it.
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
    ///   - id: the last push of the previous page, even if it is no longer parked; nil for the first page.
    ///   - limit: the maximum number of pushes to return.
    func parked(after id: APNSID?, limit: Int) async throws(QueueError) -> [PushStatus]

    /// Queues parked pushes again. They are due now, their attempts are counted from zero, and their deadlines and
    /// expirations count again.
    ///
    /// - Returns: for each push, in order, whether it was parked.
    func retryParked(_ ids: [APNSID]) async throws(QueueError) -> [Bool]

    /// Settles parked pushes, each with the outcome of its last attempt.
    ///
    /// - Returns: for each push, in order, whether it was parked.
    func dropParked(_ ids: [APNSID]) async throws(QueueError) -> [Bool]

    // MARK: State

    /// The number of pushes in each state.
    func counts() async throws(QueueError) -> QueueCounts

    /// The routes with queued pushes, and when the first push of each is due. It may have to wait for another one with the
    /// same supersede key.
    func queuedRoutes() async throws(QueueError) -> [QueuedRoute]

    /// Tests whether the queue can store more pushes durably. Readiness probes call it, so it must not read the whole
    /// storage.
    ///
    /// - Throws: `QueueError` with the problem and the remedy. The code is `full` at the capacity, which may be noticed a
    ///   second late, and `unusable` once damage was found.
    func checkStorage() async throws(QueueError)

    /// Checks that there is room for new data besides pushes, such as a batch or a subscription. ``enqueue(_:isPartial:)``
    /// checks it itself. The last of the room is reserved for outcomes, cancellations and settings.
    ///
    /// - Throws: `QueueError`: `unavailable` if there is no room.
    func requireRoom() async throws(QueueError)

    /// A small durable value. The relay keeps the positions of webhooks and the shared state of its processes in such
    /// values.
    func value(forKey key: String) async throws(QueueError) -> [UInt8]?

    /// The small durable values whose keys begin with a prefix, in the order of their keys. Keys are compared byte by byte.
    ///
    /// - Parameters:
    ///   - prefix: the beginning of the keys.
    ///   - key: the last key of the page before; nil for the first page.
    ///   - limit: the maximum number of values to return.
    func values(withPrefix prefix: String, after key: String?, limit: Int) async throws(QueueError)
        -> [(key: String, value: [UInt8])]

    /// Stores a small durable value; nil removes it.
    func setValue(_ value: [UInt8]?, forKey key: String) async throws(QueueError)

    /// Stores a small durable value if the present value is the expected one (compare-and-set).
    ///
    /// - Parameters:
    ///   - value: the new value; nil removes it.
    ///   - key: its key.
    ///   - expected: the present value that is required; nil if there must be none.
    /// - Returns: whether the value was stored.
    func exchangeValue(_ value: [UInt8]?, forKey key: String, expecting expected: [UInt8]?) async throws(QueueError)
        -> Bool

    /// Deletes outcomes and keys whose retention is over, and drops parked pushes that are too old. An engine
    /// may keep them longer if the clock was set back.
    ///
    /// - Parameters:
    ///   - retention: how long each kind is kept.
    ///   - limit: the maximum number of rows and pushes, of all kinds together, to delete or drop in this call.
    /// - Returns: the number of deleted rows; `limit` if there may be more.
    func prune(_ retention: Retention, limit: Int) async throws(QueueError) -> Int

    /// Waits for running calls and closes the queue. Later calls throw `closed`.
    func close() async
}

extension PushQueue {
    /// All small durable values whose keys begin with a prefix. Use it where they are few.
    public func values(withPrefix prefix: String) async throws(QueueError) -> [String: [UInt8]] {
        let values = try await self.values(withPrefix: prefix, after: nil, limit: .max)
        return Dictionary(values.map { ($0.key, $0.value) }) { $1 }
    }

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

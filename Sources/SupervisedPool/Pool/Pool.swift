/// Hands out the stream slots of a few workers that connect and reconnect by themselves: poolboy for HTTP/2.
///
/// The pool is one object for one run; a supervisor makes a new one at each start. It never waits for a worker, so all
/// its answers are quick. Reports and check-ins come by a mailbox, in the order in which they were posted.
///
/// Its state lives in an actor; this is the typed door to it.
public final class Pool<Worker: PoolWorker>: Sendable {
    private let core: PoolCore

    /// - Parameters:
    ///   - configuration: Checked by ``run(_:)``.
    ///   - clock: The time.
    ///   - seed: Makes the jitter repeatable; random when `nil`.
    ///   - onEvent: Told what happens, on the pool's thread; it must return at once.
    public init(
        configuration: PoolConfiguration,
        clock: any MonotonicClock = SystemMonotonicClock(),
        seed: UInt64? = nil,
        onEvent: @escaping @Sendable (PoolEvent) -> Void = { _ in }
    ) {
        core = PoolCore(configuration: configuration, clock: clock, seed: seed, onEvent: onEvent)
    }

    /// Serves until the supervisor asks for an end or the task is cancelled. However it ends, all waiting checkouts are
    /// answered, and later ones fail at once with `poolStopped`. Checkouts before it wait within their deadline.
    ///
    /// - Throws: ``PoolConfigurationError``; ``PoolError`` with `alreadyRunning` or `invariantBroken`;
    ///   `CancellationError` when the task was cancelled.
    public func run(_ context: ChildContext) async throws {
        try await core.run(context)
    }

    // MARK: What workers say

    /// A worker is there and can be asked to connect. Its `run` calls this first, then ``report(_:from:)``. Never waits;
    /// from any thread.
    public func register(_ worker: Worker, id: WorkerID) {
        core.mailbox.post(.register(worker, id), isUrgent: true)
    }

    /// A worker tells how it is. Reports of an earlier generation are dropped. Never waits; from any thread.
    public func report(_ report: WorkerReport, from id: WorkerID) {
        core.mailbox.post(.report(report, id), isUrgent: true)
    }

    // MARK: Slots

    /// Leases a slot, or several of one worker.
    ///
    /// - Parameters:
    ///   - wanted: How many slots would be useful. At least one is leased, more as far as the others who wait get their
    ///     part.
    ///   - deadline: Until when to wait; a deadline that has passed fails at once.
    ///   - bytes: What the caller holds in memory meanwhile, counted against ``PoolConfiguration/maxQueuedBytes``.
    ///   - block: Whether to wait. If not, the error is `full`.
    ///   - atFront: Goes before the others, whatever the queue's bounds and also while the pool drains: for work that
    ///     was here before and is sent again.
    /// - Throws: ``PoolError``; its code says why.
    public func checkout(
        wanted: Int = 1,
        deadline: MonotonicInstant,
        bytes: Int = 0,
        block: Bool = true,
        atFront: Bool = false
    ) async throws(PoolError) -> PoolLease<Worker> {
        let granted = try await core.checkout(
            PoolStateMachine.Request(
                wanted: wanted,
                deadline: deadline,
                bytes: bytes,
                mayWait: block,
                atFront: atFront
            )
        )
        // The core has its workers from `register` alone, which takes nothing but a `Worker`. A checked cast would cost
        // as much as the rest of the checkout.
        let worker = unsafeDowncast(granted.worker, to: Worker.self)
        return PoolLease(worker: worker, grant: granted.grant, count: granted.count, mailbox: core.mailbox)
    }

    /// Returns slots that ``PoolLease/take(_:)`` moved out of a lease. Never waits; from any thread.
    ///
    /// Returning more than was leased is a defect that ends the pool.
    public func checkin(_ grant: SlotGrant, count: Int) {
        guard count > 0 else { return }
        core.mailbox.post(.checkin(grant, count))
    }

    /// Returns when a worker is ready.
    ///
    /// - Throws: ``PoolError`` when none is by the deadline, or it is known before that none will be.
    public func waitUntilAvailable(deadline: MonotonicInstant) async throws(PoolError) {
        try await core.waitUntilAvailable(deadline: deadline)
    }

    // MARK: Stopping and looking

    /// From now on checkouts fail with `shuttingDown`, resent work (`atFront`) excepted. Those that wait go on.
    public func drain() async {
        await core.drain()
    }

    /// Ends the waiting of all checkouts with `shuttingDown`.
    public func failWaiters() async {
        await core.failWaiters()
    }

    /// The pool as it is now. Never waits for a worker.
    public func status() async -> PoolStatus {
        await core.status()
    }
}

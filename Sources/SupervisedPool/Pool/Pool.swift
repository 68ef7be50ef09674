/// Leases the streams of a few workers that connect and reconnect by themselves: poolboy for HTTP/2.
///
/// A pool runs only once; a supervisor creates a new one at each start. The pool itself never waits for a worker, so a
/// worker that connects slowly delays only the callers that wait for it. Reports and check-ins arrive through a
/// mailbox, in the order in which they were posted.
///
/// The state lives in an actor. This class adds the worker's type to it.
public final class Pool<Worker: PoolWorker>: Sendable {
    private let core: PoolCore

    /// Creates a pool.
    ///
    /// - Parameters:
    ///   - configuration: The pool's configuration. ``run(_:)`` validates it.
    ///   - clock: The clock.
    ///   - seed: Makes the jitter repeatable. `nil` means a random seed.
    ///   - onEvent: Receives each event. It is called inside the pool's actor, so it must return immediately.
    public init(
        configuration: PoolConfiguration,
        clock: any MonotonicClock = SystemMonotonicClock(),
        seed: UInt64? = nil,
        onEvent: @escaping @Sendable (PoolEvent) -> Void = { _ in }
    ) {
        self.core = PoolCore(configuration: configuration, clock: clock, seed: seed, onEvent: onEvent)
    }

    /// Runs the pool until the supervisor asks it to stop or the task is cancelled. At the end, all waiting checkouts
    /// fail, and later ones fail immediately, with `poolStopped`. Checkouts made before `run` wait within their
    /// deadline.
    ///
    /// - Throws: ``PoolConfigurationError``; ``PoolError`` with `alreadyRunning` or `invariantBroken`;
    ///   `CancellationError` if the task was cancelled.
    public func run(_ context: ChildContext) async throws {
        try await self.core.run(context)
    }

    // MARK: Worker registration and reports

    /// Registers a worker. The pool may ask it to connect from now on, and monitors it: when the child's run ends for
    /// any reason, the pool removes the worker and writes off its leases.
    ///
    /// The worker's `run` calls this first, then ``report(_:from:)``. Never blocks, and may be called from any thread.
    ///
    /// - Parameters:
    ///   - worker: The worker.
    ///   - id: Its index in the pool, and the generation of its context. A worker whose index is `size + maxOverflow`
    ///     or above is surplus; see ``reconfigure(_:)``.
    ///   - context: The context that was passed to the worker's `run`.
    public func register(_ worker: Worker, id: WorkerID, for context: ChildContext) {
        self.register(worker, id: id)
        context.onEnd { [mailbox = core.mailbox] in mailbox.post(.workerEnded(id), isUrgent: true) }
    }

    /// Registers a worker without monitoring it: the worker must report its own end.
    func register(_ worker: Worker, id: WorkerID) {
        self.core.mailbox.post(.register(worker, id), isUrgent: true)
    }

    /// Reports a change of a worker's state. Reports from an earlier generation are published as events, but have no
    /// effect. Never blocks, and may be called from any thread.
    public func report(_ report: WorkerReport, from id: WorkerID) {
        self.core.mailbox.post(.report(report, id), isUrgent: true)
    }

    // MARK: Checkout and check-in

    /// Leases one stream, or several streams of one worker.
    ///
    /// - Parameters:
    ///   - wanted: How many streams the caller can use. The lease has at least one. It has more only as far as the
    ///     other waiting checkouts still get their share.
    ///   - deadline: Until when to wait. If the deadline has passed, the checkout fails immediately.
    ///   - bytes: The memory that the caller holds while it waits, in bytes, counted against
    ///     ``PoolConfiguration/maxQueuedBytes``.
    ///   - block: Whether to wait. If `false` and no stream is free, the checkout fails with `full`.
    ///   - lane: The lane to wait in. Interactive work takes precedence over bulk work.
    ///   - atFront: Puts the checkout before the others of its lane, exempts it from the queue's bounds, and accepts it
    ///     while the pool drains. For work that was accepted before and is being resent.
    /// - Throws: ``PoolError``, whose code gives the reason.
    public func checkout(
        wanted: Int = 1,
        deadline: MonotonicInstant,
        bytes: Int = 0,
        block: Bool = true,
        lane: PoolLane = .interactive,
        atFront: Bool = false
    ) async throws(PoolError) -> PoolLease<Worker> {
        let leased = try await self.core.checkout(
            PoolStateMachine.Request(
                wanted: wanted,
                deadline: deadline,
                bytes: bytes,
                mayWait: block,
                lane: lane,
                atFront: atFront
            )
        )
        // The core's workers come from `register` only, which accepts nothing but a `Worker`. A checked cast would cost
        // as much as the rest of the checkout.
        let worker = unsafeDowncast(leased.worker, to: Worker.self)
        return PoolLease(worker: worker, origin: leased.origin, count: leased.count, mailbox: self.core.mailbox)
    }

    /// Leases one stream or several, calls `body`, and returns the streams whether `body` returns or throws: poolboy's
    /// `transaction`.
    ///
    /// - Parameters:
    ///   - wanted: How many streams the caller can use; see ``checkout(wanted:deadline:bytes:block:lane:atFront:)``.
    ///   - deadline: Until when to wait for a stream. `body` may take longer.
    ///   - block: Whether to wait. If `false` and no stream is free, the checkout fails with `full`.
    ///   - lane: The lane to wait in. Interactive work takes precedence over bulk work.
    ///   - body: Uses the lease's worker, and must not store it.
    /// - Throws: ``PoolError`` if no stream could be leased; otherwise the error that `body` throws.
    public func withLease<Value>(
        wanted: Int = 1,
        deadline: MonotonicInstant,
        block: Bool = true,
        lane: PoolLane = .interactive,
        _ body: (inout PoolLease<Worker>) async throws -> Value
    ) async throws -> Value {
        var lease = try await self.checkout(wanted: wanted, deadline: deadline, block: block, lane: lane)
        let value = try await body(&lease)
        lease.release()
        return value
    }

    /// Returns streams that ``PoolLease/take(_:)`` moved out of a lease. Never blocks, and may be called from any
    /// thread.
    ///
    /// Returning more streams than were leased is a bug that ends the pool.
    public func checkin(_ origin: LeaseOrigin, count: Int) {
        guard count > 0 else { return }
        self.core.mailbox.post(.checkin(origin, count))
    }

    /// Waits until a number of workers are ready.
    ///
    /// - Parameters:
    ///   - workers: How many; 1 by default, at most `size + maxOverflow`.
    ///   - deadline: Until when to wait.
    /// - Throws: ``PoolError`` if the workers are not ready by the deadline, or as soon as it is certain that they will
    ///   not be.
    public func waitUntilReady(_ workers: Int = 1, deadline: MonotonicInstant) async throws(PoolError) {
        try await self.core.waitUntilReady(workers, deadline: deadline)
    }

    // MARK: Prewarming

    /// Connects workers before they are needed, one at a time, and returns when they are ready. Workers above
    /// ``PoolConfiguration/size`` are disconnected again after ``PoolConfiguration/idleTimeout`` without work.
    ///
    /// - Parameters:
    ///   - workers: How many workers should be ready, including those that already are; at most `size + maxOverflow`.
    ///   - deadline: Until when to wait. Connecting continues after it.
    /// - Throws: ``PoolError``, as in ``waitUntilReady(_:deadline:)``.
    public func prewarm(_ workers: Int, deadline: MonotonicInstant) async throws(PoolError) {
        await self.core.prewarm(workers)
        try await self.core.waitUntilReady(workers, deadline: deadline)
    }

    // MARK: Reconfiguration

    /// Changes the pool's configuration while it runs. No checkout is lost:
    ///
    /// - With more workers, the owner starts the additional ones. They register like the first ones, and those below
    ///   the new ``PoolConfiguration/size`` are asked to connect.
    /// - With fewer workers, those above the new number become surplus: they get no more work and give up their
    ///   connections (``PoolWorkerDisconnectReason/surplus``), while their leases stay valid. They stay registered, and
    ///   serve again if the pool grows.
    /// - Waiting checkouts keep waiting, even if they exceed a reduced bound of the queue.
    /// - The ``PoolConfiguration/maximumLifetime`` of a connection is recalculated from the connection's start.
    ///
    /// Never blocks, and may be called from any thread. Later calls see the new configuration.
    ///
    /// - Throws: The error of ``PoolConfiguration/validate()``. In that case nothing is changed.
    public func reconfigure(_ configuration: PoolConfiguration) throws(PoolConfigurationError) {
        try configuration.validate()
        self.core.mailbox.post(.reconfigure(configuration), isUrgent: true)
    }

    // MARK: Drain and status

    /// Stops accepting checkouts: new ones fail with `shuttingDown`, except resent work (`atFront`). Waiting checkouts
    /// keep waiting.
    public func drain() async {
        await self.core.drain()
    }

    /// Stops accepting checkouts, and returns when nothing is leased and no checkout is waiting. If the time runs out
    /// first, the waiting checkouts fail with `shuttingDown`. The workers keep running; they end when the tree is
    /// stopped.
    ///
    /// - Parameter time: How long the drain may take.
    /// - Returns: Whether no checkout failed and every stream was returned in time.
    @discardableResult
    public func drain(within time: Duration) async -> Bool {
        await self.core.drain(until: self.core.clock.now.advanced(by: time))
    }

    /// Fails all waiting checkouts with `shuttingDown`.
    ///
    /// - Returns: The number of failed checkouts.
    @discardableResult
    public func failWaiters() async -> Int {
        await self.core.failWaiters()
    }

    /// The current status of the pool. Never waits for a worker.
    public func status() async -> PoolStatus {
        await self.core.status()
    }
}

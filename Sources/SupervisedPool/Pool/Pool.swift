/// Hands out the streams of a few workers that connect and reconnect by themselves: poolboy for HTTP/2.
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
        self.core = PoolCore(configuration: configuration, clock: clock, seed: seed, onEvent: onEvent)
    }

    /// Serves until the supervisor asks for an end or the task is cancelled. However it ends, all waiting checkouts are
    /// answered, and later ones fail at once with `poolStopped`. Checkouts before it wait within their deadline.
    ///
    /// - Throws: ``PoolConfigurationError``; ``PoolError`` with `alreadyRunning` or `invariantBroken`;
    ///   `CancellationError` when the task was cancelled.
    public func run(_ context: ChildContext) async throws {
        try await self.core.run(context)
    }

    // MARK: What workers say

    /// Makes a worker known to the pool, which asks it to connect from now on, and monitors it: when the child's run ends,
    /// however it ends, the pool takes the worker out, and what is leased of it counts as lost.
    ///
    /// The worker's `run` calls this first, then ``report(_:from:)``. Never waits; from any thread.
    ///
    /// - Parameters:
    ///   - worker: The worker.
    ///   - id: Its place in the pool, and the generation of its context. A place beyond those that the pool has makes the
    ///     worker surplus; see ``reconfigure(_:)``.
    ///   - context: The context that the worker's `run` was given.
    public func register(_ worker: Worker, id: WorkerID, for context: ChildContext) {
        self.register(worker, id: id)
        context.onEnd { [mailbox = core.mailbox] in mailbox.post(.workerEnded(id), isUrgent: true) }
    }

    /// Without a monitor: the worker must report its end.
    func register(_ worker: Worker, id: WorkerID) {
        self.core.mailbox.post(.register(worker, id), isUrgent: true)
    }

    /// A worker tells how it is. Reports of an earlier generation are dropped. Never waits; from any thread.
    public func report(_ report: WorkerReport, from id: WorkerID) {
        self.core.mailbox.post(.report(report, id), isUrgent: true)
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
    ///   - lane: Who waits for this work; interactive work goes before bulk work.
    ///   - atFront: Goes before the others of its lane, whatever the queue's bounds and also while the pool drains: for
    ///     work that was here before and is sent again.
    /// - Throws: ``PoolError``; its code says why.
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
        // The core has its workers from `register` alone, which takes nothing but a `Worker`. A checked cast would cost
        // as much as the rest of the checkout.
        let worker = unsafeDowncast(leased.worker, to: Worker.self)
        return PoolLease(worker: worker, origin: leased.origin, count: leased.count, mailbox: self.core.mailbox)
    }

    /// Leases a slot, calls `body` and returns the slot, however `body` ends: poolboy's `transaction`.
    ///
    /// - Parameters:
    ///   - wanted: How many slots would be useful; see ``checkout(wanted:deadline:bytes:block:lane:atFront:)``.
    ///   - deadline: Until when to wait for the slot. `body` may take longer.
    ///   - block: Whether to wait. If not, the error is `full`.
    ///   - lane: Who waits for this work; interactive work goes before bulk work.
    ///   - body: Uses the lease's worker, and must not keep it. It may call ``PoolLease/markBroken()``, also before it
    ///     throws.
    /// - Throws: ``PoolError`` when there was no slot; what `body` throws.
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

    /// Leases slots now, or later by a call; for callers that have more to do than to wait.
    ///
    /// - Parameter onCompletion: Called once if the answer is `waiting`, on the pool's thread: it must return at once.
    package func startCheckout(
        wanted: Int,
        deadline: MonotonicInstant,
        lane: PoolLane,
        onCompletion: @escaping @Sendable (Result<UnownedLease<Worker>, PoolError>) -> Void
    ) async -> PoolCheckoutStart<Worker> {
        let request = PoolStateMachine.Request(wanted: wanted, deadline: deadline, lane: lane)
        let start = await self.core.startCheckout(request) { result in
            switch result {
            case .success(let leased?): onCompletion(.success(UnownedLease(leased)))
            case .success(nil): break  // Observers only.
            case .failure(let error): onCompletion(.failure(error))
            }
        }
        switch start {
        case .leased(let leased): return .leased(UnownedLease(leased))
        case .failed(let error): return .failed(error)
        case .waiting(let id): return .waiting(PoolTicket(id: id))
        }
    }

    /// Gives a waiting checkout up. It is answered all the same, with `cancelled` unless something else was first.
    package func withdraw(_ ticket: PoolTicket) {
        self.core.mailbox.post(.cancel(ticket.id), isUrgent: true)
    }

    /// Returns slots that ``PoolLease/take(_:)`` moved out of a lease. Never waits; from any thread.
    ///
    /// Returning more than was leased is a defect that ends the pool.
    public func checkin(_ origin: LeaseOrigin, count: Int) {
        guard count > 0 else { return }
        self.core.mailbox.post(.checkin(origin, count))
    }

    /// Returns when so many workers are ready.
    ///
    /// - Parameters:
    ///   - workers: How many; 1 by default, at most `size + maxOverflow`.
    ///   - deadline: Until when to wait.
    /// - Throws: ``PoolError`` when they are not by the deadline, or it is known before that they will not be.
    public func waitUntilReady(_ workers: Int = 1, deadline: MonotonicInstant) async throws(PoolError) {
        try await self.core.waitUntilReady(workers, deadline: deadline)
    }

    // MARK: Opening and replacing

    /// Connects workers before they are needed, one at a time, and returns when they are ready. Those above
    /// ``PoolConfiguration/size`` are disconnected again after ``PoolConfiguration/idleTimeout`` without work.
    ///
    /// - Parameters:
    ///   - workers: How many are to be ready, counted with those that already are; at most `size + maxOverflow`.
    ///   - deadline: Until when to wait. Connects go on after it.
    /// - Throws: ``PoolError`` as ``waitUntilReady(_:deadline:)``.
    public func prewarm(_ workers: Int, deadline: MonotonicInstant) async throws(PoolError) {
        await self.core.prewarm(workers)
        try await self.core.waitUntilReady(workers, deadline: deadline)
    }

    /// Has every session that exists replaced by a fresh one, one worker after another,
    /// ``PoolConfiguration/connectSpacing`` apart, while the pool goes on serving: after a change of key, or to see new
    /// addresses. Does not wait; ``PoolStatus/Worker/age`` shows how far it is.
    public func replaceAll() {
        self.core.mailbox.post(.replaceAll, isUrgent: true)
    }

    // MARK: Changing

    /// Gives the pool another configuration while it runs. Never waits; from any thread. Calls that come after it see it.
    ///
    /// No checkout is lost. With more workers the owner starts the further ones, which register as the first ones did, and
    /// those below the new ``PoolConfiguration/size`` are asked to connect. With fewer the ones above the new number become
    /// surplus: they get no further work, give up their connections (``PoolWorkerDisconnectReason/surplus``), and what is
    /// leased of them goes on; ``retireSurplus()`` tells their owner when they may be ended. Checkouts that wait go on
    /// waiting, also beyond a bound of the queue that has become smaller, and for as long as
    /// ``PoolConfiguration/maxQueueAge`` was when they came. A session's ``PoolConfiguration/maximumLifetime`` is counted
    /// anew from its beginning.
    ///
    /// - Throws: What ``PoolConfiguration/validate()`` throws. Nothing is changed then.
    public func reconfigure(_ configuration: PoolConfiguration) throws(PoolConfigurationError) {
        try configuration.validate()
        self.core.mailbox.post(.reconfigure(configuration), isUrgent: true)
    }

    /// Waits until surplus workers have nothing to do any more, or there are none.
    ///
    /// - Returns: The places (``WorkerID/index``) of those that the caller must end now, and then say so by ``ended(_:)``:
    ///   until then the pool does not use them, even if it grows meanwhile. Empty: there is no surplus (any more), or the
    ///   pool has ended. Call it again until it is empty.
    /// - Throws: ``PoolError`` with `cancelled`.
    public func retireSurplus() async throws(PoolError) -> [Int] {
        try await self.core.retireSurplus()
    }

    /// The workers of these places have been ended, as ``retireSurplus()`` asked for, or there were none. Others may be started in their
    /// places if the pool has grown again. Never waits; from any thread.
    public func ended(_ places: [Int]) {
        self.core.mailbox.post(.ended(places), isUrgent: true)
    }

    // MARK: Stopping and looking

    /// From now on checkouts fail with `shuttingDown`, resent work (`atFront`) excepted. Those that wait go on.
    public func drain() async {
        await self.core.drain()
    }

    /// The same, and returns when nothing is leased and nobody waits. When the time is over first, those who wait fail
    /// with `shuttingDown`. The workers are left as they are: stopping the tree ends them.
    ///
    /// - Parameter time: How long that may take.
    /// - Returns: What was not done.
    public func drain(within time: Duration) async -> PoolDrainReport {
        await self.core.drain(until: self.core.clock.now.advanced(by: time))
    }

    /// Ends the waiting of all checkouts with `shuttingDown`.
    ///
    /// - Returns: how many there were.
    @discardableResult
    public func failWaiters() async -> Int {
        await self.core.failWaiters()
    }

    /// The pool as it is now. Never waits for a worker.
    public func status() async -> PoolStatus {
        await self.core.status()
    }

    /// What happens, as an asynchronous sequence for logs and metrics. Each call makes another one; it holds the events
    /// from the call on and ends when ``run(_:)`` has ended.
    ///
    /// - Parameter bufferingNewest: How many events wait for a slow reader, at least 1. Older ones are dropped, and
    ///   ``PoolEvent/missed(_:)`` tells how many.
    public func events(bufferingNewest: Int = 256) -> EventStream<PoolEvent> {
        self.core.hub.stream(bufferingNewest: bufferingNewest)
    }
}

/// What a drain left undone.
public struct PoolDrainReport: Sendable, Hashable {
    /// Checkouts that waited in vain.
    public let unserved: Int
    /// Slots that have not been returned yet.
    public let leased: Int
    /// Whether all was done in time.
    public var isComplete: Bool { self.unserved == 0 && self.leased == 0 }
}

/// Slots that were leased to a ``Pool/startCheckout(wanted:deadline:lane:onCompletion:)``. Whoever has it must return each
/// of them, with ``Pool/checkin(_:count:)``, exactly once.
package struct UnownedLease<Worker: PoolWorker>: Sendable {
    package let worker: Worker
    package let origin: LeaseOrigin
    package let count: Int

    init(_ leased: PoolCore.Leased) {
        // As in `checkout`: the core's workers are all `Worker`s.
        self.worker = unsafeDowncast(leased.worker, to: Worker.self)
        self.origin = leased.origin
        self.count = leased.count
    }
}

/// Names a checkout that waits for a call.
package struct PoolTicket: Sendable {
    let id: WaiterID
}

/// The first answer to a ``Pool/startCheckout(wanted:deadline:lane:onCompletion:)``.
package enum PoolCheckoutStart<Worker: PoolWorker>: Sendable {
    case leased(UnownedLease<Worker>)
    case failed(PoolError)
    case waiting(PoolTicket)
}

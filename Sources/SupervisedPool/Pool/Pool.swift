/// Hands out the stream slots of a few workers that connect and reconnect by themselves: poolboy for HTTP/2.
///
/// The pool is one object for one run; a supervisor makes a new one at each start. It never waits for a worker, so all
/// its answers are quick. Reports and check-ins come by a mailbox, in the order in which they were posted.
public actor Pool<Worker: PoolWorker> {
    private enum Item: Sendable {
        case checkin(SlotGrant, Int)
        case cancel(WaiterID)
        indirect case register(Worker, WorkerID)
        indirect case report(WorkerReport, WorkerID)
        case stop
    }

    private struct Granted: Sendable {
        let worker: Worker
        let grant: SlotGrant
        let count: Int
    }

    /// `nil` for those who wait for a ready worker.
    private typealias Answer = Result<Granted?, PoolError>

    private enum Parked {
        case nobody
        /// The waiter is in the queue, its continuation is not here yet.
        case expected
        case waiting(CheckedContinuation<Answer, Never>)
        /// The answer was there first.
        case answered(Answer)
    }

    private let clock: any MonotonicClock
    private let onEvent: @Sendable (PoolEvent) -> Void
    private let mailbox = Mailbox<Item>(isAttentive: false)
    private var machine: PoolStateMachine
    private var random: PoolRandom
    private var workers: [Worker?]
    /// By the waiter's place in the queue.
    private var parked: [Parked] = []
    private var batch: [Item] = []
    private var actions: [PoolAction] = []
    private var timer = EarliestTimer()
    private var isStopping = false

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
        self.clock = clock
        self.onEvent = onEvent
        self.machine = PoolStateMachine(configuration)
        self.random = PoolRandom(seed: seed)
        self.workers = Array(repeating: nil, count: configuration.workerCount)
    }

    // MARK: Running

    /// Serves until the supervisor asks for an end or the task is cancelled. However it ends, all waiting checkouts are
    /// answered, and later ones fail at once with `poolStopped`.
    ///
    /// - Throws: ``PoolConfigurationError``; ``PoolError`` with `alreadyRunning` or `invariantBroken`;
    ///   `CancellationError` when the task was cancelled.
    public func run(_ context: ChildContext) async throws {
        guard machine.phase == .notStarted else { throw machine.error(.alreadyRunning, clock.now) }
        do {
            try machine.configuration.validate()
        } catch {
            stop()
            throw error
        }
        machine.start()
        context.onShutdown { [mailbox] in mailbox.post(.stop, isUrgent: true) }
        context.started()
        await withTaskCancellationHandler {
            await withDiscardingTaskGroup { group in
                advance(isTimer: true)
                while !isStopping, machine.broken == nil {
                    timer.arm(for: machine.nextDeadline, clock: clock, in: &group) { [mailbox] in mailbox.wake() }
                    await mailbox.wait()
                    advance(isTimer: true)
                }
                timer.cancel()
            }
        } onCancel: { [mailbox] in
            mailbox.post(.stop, isUrgent: true)
        }
        let broken = machine.broken
        stop()
        if let broken {
            onEvent(.invariantBroken(broken))
            throw PoolError(
                code: .invariantBroken,
                status: machine.status(clock.now),
                fault: PoolFault(description: broken)
            )
        }
        try Task.checkCancellation()
    }

    private func stop() {
        machine.stop(now: clock.now, into: &actions)
        perform()
        mailbox.close()
        workers = workers.map { _ in nil }
    }

    /// Takes what was posted, then does what follows from it. Every entry to the actor begins with it.
    private func advance(isTimer: Bool = false) {
        var isAttentive = machine.hasWaiters
        mailbox.take(into: &batch, isAttentive: isAttentive)
        while true {
            if batch.isEmpty, !machine.needsSettling, !isTimer { return }
            let now = clock.now
            for item in batch { apply(item, now) }
            batch.removeAll(keepingCapacity: true)
            if machine.needsSettling || (isTimer && machine.phase != .stopped) {
                machine.settle(now: now, using: &random, into: &actions)
            }
            perform()
            // What was posted before the mailbox knew that somebody waits would wake nobody.
            guard machine.hasWaiters, !isAttentive else { break }
            isAttentive = true
            mailbox.take(into: &batch, isAttentive: true)
            if batch.isEmpty { break }
        }
        if !isTimer, timer.isLater(than: machine.nextDeadline) || machine.broken != nil { mailbox.wake() }
    }

    private func apply(_ item: Item, _ now: MonotonicInstant) {
        switch item {
        case .checkin(let grant, let count):
            machine.checkin(grant, count: count)
        case .cancel(let id):
            machine.cancel(id, now: now, into: &actions)
        case .register(let worker, let id):
            guard machine.register(id, now: now) else { return }
            workers[id.slot] = worker
            onEvent(.registered(id))
        case .report(let report, let id):
            machine.report(report, from: id, now: now)
            onEvent(.reported(id, report))
        case .stop:
            isStopping = true
        }
    }

    private func perform() {
        for action in actions {
            switch action {
            case .grant(let id, let grant, let count):
                guard let worker = workers[grant.worker.slot] else {
                    answer(id, .failure(machine.error(.poolStopped, clock.now)))
                    continue
                }
                answer(id, .success(Granted(worker: worker, grant: grant, count: count)))
            case .available(let id):
                answer(id, .success(nil))
            case .fail(let id, let error):
                answer(id, .failure(error))
            case .connect(let id, let reason):
                workers[id.slot]?.connect(reason)
            case .disconnect(let id, let reason):
                workers[id.slot]?.disconnect(reason)
            case .event(let event):
                onEvent(event)
            }
        }
        actions.removeAll(keepingCapacity: true)
    }

    // MARK: What workers say

    /// A worker is there and can be asked to connect. Its `run` calls this first, then ``report(_:from:)``.
    public nonisolated func register(_ worker: Worker, id: WorkerID) {
        mailbox.post(.register(worker, id), isUrgent: true)
    }

    /// A worker tells how it is. Reports of an earlier generation are dropped.
    public nonisolated func report(_ report: WorkerReport, from id: WorkerID) {
        mailbox.post(.report(report, id), isUrgent: true)
    }

    // MARK: Checkout

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
        advance()
        let request = PoolStateMachine.Request(
            wanted: wanted,
            deadline: deadline,
            bytes: bytes,
            mayWait: block,
            atFront: atFront
        )
        switch machine.checkout(request, now: clock.now, using: &random, into: &actions) {
        case .granted(let grant, let count):
            guard let worker = workers[grant.worker.slot] else { throw machine.error(.poolStopped, clock.now) }
            return PoolLease(worker: worker, grant: grant, count: count, pool: self)
        case .failed(let error):
            perform()
            // A refused checkout may have asked for a connect, whose answer has a time.
            if timer.isLater(than: machine.nextDeadline) { mailbox.wake() }
            throw error
        case .wait(let id):
            expect(id)
            guard let granted = try await wait(id, deadline).get() else {
                throw machine.error(.cancelled, clock.now)
            }
            if Task.isCancelled {
                // The slot came together with the cancellation: it goes to the next.
                checkin(granted.grant, count: granted.count)
                throw machine.error(.cancelled, clock.now)
            }
            return PoolLease(worker: granted.worker, grant: granted.grant, count: granted.count, pool: self)
        }
    }

    /// Returns slots that ``PoolLease/take(_:)`` moved out of a lease. Never waits; from any thread.
    ///
    /// Returning more than was leased is a defect that ends the pool.
    public nonisolated func checkin(_ grant: SlotGrant, count: Int) {
        guard count > 0 else { return }
        mailbox.post(.checkin(grant, count))
    }

    /// Returns when a worker is ready.
    ///
    /// - Throws: ``PoolError`` when none is by the deadline, or it is known before that none will be.
    public func waitUntilAvailable(deadline: MonotonicInstant) async throws(PoolError) {
        advance()
        switch machine.awaitAvailability(deadline: deadline, now: clock.now, using: &random, into: &actions) {
        case .ready:
            return
        case .failed(let error):
            throw error
        case .wait(let id):
            expect(id)
            _ = try await wait(id, deadline).get()
        }
    }

    /// From here to the storing of the continuation in ``park(_:)`` the actor is not left: a call from an actor to its
    /// own methods does not suspend. So no other checkout can take this waiter's place before its answer is taken.
    private func expect(_ id: WaiterID) {
        while parked.count <= id.index { parked.append(.nobody) }
        parked[id.index] = .expected
        perform()
    }

    private func wait(_ id: WaiterID, _ deadline: MonotonicInstant) async -> Answer {
        guard machine.phase == .notStarted else { return await park(id) }
        // Nobody runs the pool, so nobody watches the time or the mailbox: this checkout does it itself.
        return await withDiscardingTaskGroup(returning: Answer.self) { group in
            group.addTask { [clock, mailbox] in
                do {
                    try await clock.sleep(until: deadline)
                } catch {
                    mailbox.post(.cancel(id))
                }
                await self.lookAgain()
            }
            let answer = await park(id)
            group.cancelAll()
            return answer
        }
    }

    private func lookAgain() {
        machine.needsSettling = true
        advance()
    }

    private func park(_ id: WaiterID) async -> Answer {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                if case .answered(let answer) = parked[id.index] {
                    parked[id.index] = .nobody
                    continuation.resume(returning: answer)
                    return
                }
                parked[id.index] = .waiting(continuation)
                // The mailbox must know that somebody waits.
                machine.needsSettling = true
                advance()
            }
        } onCancel: { [mailbox] in
            mailbox.post(.cancel(id), isUrgent: true)
        }
    }

    private func answer(_ id: WaiterID, _ answer: Answer) {
        switch parked[id.index] {
        case .waiting(let continuation):
            parked[id.index] = .nobody
            continuation.resume(returning: answer)
        case .expected:
            parked[id.index] = .answered(answer)
        case .nobody, .answered:
            break
        }
    }

    // MARK: Stopping and looking

    /// From now on checkouts fail with `shuttingDown`, resent work (`atFront`) excepted. Those that wait go on.
    public func drain() {
        machine.drain()
    }

    /// Ends the waiting of all checkouts with `shuttingDown`.
    public func failWaiters() {
        advance()
        machine.failWaiters(.shuttingDown, now: clock.now, into: &actions)
        perform()
    }

    /// The pool as it is now. Never waits for a worker.
    public func status() -> PoolStatus {
        advance()
        return machine.status(clock.now)
    }
}

/// SplitMix64: small, and repeatable when it has a seed.
struct PoolRandom: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64?) {
        state = seed ?? UInt64.random(in: .min ... .max)
    }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

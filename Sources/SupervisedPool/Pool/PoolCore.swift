import APNSBasics

/// The inputs of a pool, processed in the order in which they were posted.
enum PoolItem: Sendable {
    case checkin(LeaseOrigin, Int)
    case cancel(WaiterID)
    indirect case register(any PoolWorker, WorkerID)
    indirect case report(WorkerReport, WorkerID)
    /// The worker's run has ended, whatever the worker reported before.
    case workerEnded(WorkerID)
    indirect case reconfigure(PoolConfiguration)
    case stop
}

/// The actor inside a ``Pool``. It performs what the state machine decides: it completes checkouts, sends requests to
/// workers, and keeps one timer.
///
/// It is not generic, because generic code is not specialised across module boundaries: with a generic version of this
/// actor, a checkout took twice as long.
actor PoolCore {
    struct Leased: Sendable {
        let worker: any PoolWorker
        let origin: LeaseOrigin
        let count: Int
    }

    /// The result of a waiter. A success is `nil` for a caller that waits for a condition instead of a stream, such as
    /// ready workers.
    typealias CheckoutResult = Result<Leased?, PoolError>

    private enum Start {
        case leased(Leased)
        case failed(PoolError)
        case waiting(WaiterID, OneShot<CheckoutResult>)
    }

    let clock: any MonotonicClock
    private let onEvent: @Sendable (PoolEvent) -> Void
    let mailbox = Mailbox<PoolItem>(isAttentive: false)
    // Unchecked: no access re-enters these properties, and the checks would be about a dozen per checkout.
    @exclusivity(unchecked) private var machine: PoolStateMachine
    @exclusivity(unchecked) private var workers: [(any PoolWorker)?]
    /// The results that callers wait for, by the waiter's index in the queue.
    @exclusivity(unchecked) private var results: [OneShot<CheckoutResult>?] = []
    @exclusivity(unchecked) private var batch: [PoolItem] = []
    @exclusivity(unchecked) private var actions: [PoolAction] = []
    @exclusivity(unchecked) private var timer = EarliestTimer()
    /// Whether check-ins wake the pool.
    private var isMailboxAttentive = false
    private var isStopping = false

    init(
        configuration: PoolConfiguration,
        clock: any MonotonicClock,
        seed: UInt64?,
        onEvent: @escaping @Sendable (PoolEvent) -> Void
    ) {
        self.clock = clock
        self.onEvent = onEvent
        self.machine = PoolStateMachine(configuration, seed: seed)
        self.workers = Array(repeating: nil, count: configuration.workerCount)
    }

    // MARK: Running

    func run(_ context: ChildContext) async throws {
        guard self.machine.phase == .notStarted else { throw self.machine.error(.alreadyRunning, self.clock.now) }
        do {
            try self.machine.configuration.validate()
        } catch {
            self.stop()
            throw error
        }
        self.machine.start()
        context.onShutdown { [mailbox] in mailbox.post(.stop, isUrgent: true) }
        context.started()
        await withTaskCancellationHandler {
            await withDiscardingTaskGroup { group in
                self.advance(self.clock.now, isTimer: true)
                while !self.isStopping, self.machine.inconsistency == nil {
                    self.timer.arm(for: self.machine.nextDeadline, clock: self.clock, in: &group) { [mailbox] in
                        mailbox.wake()
                    }
                    await self.mailbox.wait()
                    self.advance(self.clock.now, isTimer: true)
                }
                self.timer.cancel()
            }
        } onCancel: { [mailbox] in
            mailbox.post(.stop, isUrgent: true)
        }
        let broken = self.machine.inconsistency
        self.stop()
        if let broken {
            self.onEvent(.invariantBroken(broken))
            throw PoolError(
                code: .invariantBroken,
                status: self.machine.status(self.clock.now),
                fault: PoolFault(description: broken)
            )
        }
        try Task.checkCancellation()
    }

    private func stop() {
        self.machine.stop(now: self.clock.now, into: &self.actions)
        self.perform()
        self.mailbox.close()
        self.workers = self.workers.map { _ in nil }
    }

    /// Takes the posted items and acts on them. An entry point whose result depends on the state calls this first.
    ///
    /// - Parameter isTimer: Whether the pool's own loop calls. The state is then settled even if nothing was posted,
    ///   and the loop arms the timer itself.
    private func advance(_ now: MonotonicInstant, isTimer: Bool = false) {
        var isAttentive = self.machine.hasWaiters
        if isAttentive != self.isMailboxAttentive || !self.mailbox.isEmpty { self.takePosted(isAttentive) }
        while true {
            if self.batch.isEmpty, !self.machine.needsSettling, !isTimer { return }
            for item in self.batch { self.apply(item, now) }
            self.batch.removeAll(keepingCapacity: true)
            if self.machine.needsSettling || (isTimer && self.machine.phase != .stopped) {
                self.machine.settle(now: now, into: &self.actions)
            }
            self.perform()
            self.fitWorkers()
            // Items posted before the mailbox became attentive did not wake the pool, so take them now.
            guard self.machine.hasWaiters, !isAttentive else { break }
            isAttentive = true
            self.takePosted(true)
            if self.batch.isEmpty { break }
        }
        if !isTimer, self.timer.isLater(than: self.machine.nextDeadline) || self.machine.inconsistency != nil {
            self.mailbox.wake()
        }
    }

    private func takePosted(_ isAttentive: Bool) {
        self.isMailboxAttentive = isAttentive
        self.mailbox.take(into: &self.batch, isAttentive: isAttentive)
    }

    private func apply(_ item: PoolItem, _ now: MonotonicInstant) {
        switch item {
        case .checkin(let origin, let count):
            self.machine.checkin(origin, count: count)
        case .cancel(let id):
            self.machine.cancel(id, now: now, into: &self.actions)
        case .register(let worker, let id):
            guard self.machine.register(id, now: now) else { return }
            self.fitWorkers()
            self.workers[id.index] = worker
            self.onEvent(.registered(id))
        case .report(let report, let id):
            self.machine.report(report, from: id, now: now)
            self.onEvent(.reported(id, report))
        case .workerEnded(let id):
            guard self.machine.isRegistered(id) else { return }
            self.machine.report(.gone, from: id, now: now)
            self.onEvent(.reported(id, .gone))
        case .reconfigure(let configuration):
            self.machine.reconfigure(configuration)
            self.fitWorkers()
        case .stop:
            self.isStopping = true
        }
    }

    /// Extends the array to the number of workers in the state machine.
    private func fitWorkers() {
        while self.workers.count < self.machine.workers.count { self.workers.append(nil) }
    }

    private func perform() {
        if self.actions.isEmpty { return }
        for action in self.actions {
            switch action {
            case .lease(let id, let origin, let count):
                guard let worker = self.workers[origin.worker.index] else {
                    self.complete(id, .failure(self.machine.error(.poolStopped, self.clock.now)))
                    continue
                }
                self.complete(id, .success(Leased(worker: worker, origin: origin, count: count)))
            case .reached(let id):
                self.complete(id, .success(nil))
            case .fail(let id, let error):
                self.complete(id, .failure(error))
            case .connect(let id, let reason):
                self.workers[id.index]?.connect(reason)
            case .disconnect(let id, let reason):
                self.workers[id.index]?.disconnect(reason)
            case .event(let event):
                self.onEvent(event)
            }
        }
        self.actions.removeAll(keepingCapacity: true)
    }

    // MARK: Checkout

    func checkout(_ request: PoolStateMachine.Request) async throws(PoolError) -> Leased {
        let now = self.clock.now
        switch self.begin(request, now) {
        case .leased(let leased): return leased
        case .failed(let error): throw error
        case .waiting(let id, let result): return try await self.waited(id, result, request.deadline, since: now)
        }
    }

    /// Not inlined, like the function that waits: its temporary values would otherwise add 3 KB to the memory that a
    /// task holds for `checkout`, and most checkouts do not need them.
    @inline(never)
    private func begin(_ request: PoolStateMachine.Request, _ now: MonotonicInstant) -> Start {
        self.advance(now)
        if Task.isCancelled { return .failed(self.machine.error(.cancelled, now)) }
        switch self.machine.checkout(request, now: now, into: &self.actions) {
        case .leased(let origin, let count):
            guard let worker = self.workers[origin.worker.index] else {
                return .failed(self.machine.error(.poolStopped, now))
            }
            return .leased(Leased(worker: worker, origin: origin, count: count))
        case .failed(let error):
            self.perform()
            // A refused checkout may have made the pool ask a worker to connect. The worker must report by a deadline,
            // so the timer may have to be rearmed.
            if self.timer.isLater(than: self.machine.nextDeadline) { self.mailbox.wake() }
            return .failed(error)
        case .wait(let id):
            return .waiting(id, self.expect(id))
        }
    }

    @inline(never)
    private func waited(
        _ id: WaiterID,
        _ result: OneShot<CheckoutResult>,
        _ deadline: MonotonicInstant,
        since now: MonotonicInstant
    ) async throws(PoolError) -> Leased {
        guard let leased = try await self.wait(id, result, deadline).get() else {
            throw self.machine.error(.cancelled, self.clock.now, since: now)
        }
        if Task.isCancelled {
            // The lease arrived at the moment of the cancellation. Return it for the next waiter.
            self.mailbox.post(.checkin(leased.origin, leased.count))
            throw self.machine.error(.cancelled, self.clock.now, since: now)
        }
        return leased
    }

    func waitUntilReady(_ wanted: Int, deadline: MonotonicInstant) async throws(PoolError) {
        let now = self.clock.now
        self.advance(now)
        if Task.isCancelled { throw self.machine.error(.cancelled, now) }
        let observation = self.machine.awaitReady(
            wanted,
            deadline: deadline,
            now: now,
            into: &self.actions
        )
        try await self.observe(observation, deadline)
    }

    private func observe(
        _ observation: PoolStateMachine.Observation,
        _ deadline: MonotonicInstant
    ) async throws(PoolError) {
        switch observation {
        case .reached:
            return
        case .failed(let error):
            self.perform()
            throw error
        case .wait(let id):
            _ = try await self.wait(id, self.expect(id), deadline).get()
        }
    }

    /// Carries out the waiter's first actions, which may already complete it.
    ///
    /// - Returns: Where its result arrives.
    private func expect(_ id: WaiterID) -> OneShot<CheckoutResult> {
        let result = OneShot<CheckoutResult>()
        while self.results.count <= id.index { self.results.append(nil) }
        self.results[id.index] = result
        self.perform()
        // Makes the mailbox attentive: from now on, a check-in must wake the pool.
        self.settleAgain()
        return result
    }

    private func wait(
        _ id: WaiterID,
        _ result: OneShot<CheckoutResult>,
        _ deadline: MonotonicInstant
    ) async -> CheckoutResult {
        let withdraw = { @Sendable [mailbox] in mailbox.post(.cancel(id), isUrgent: true) }
        guard self.machine.phase == .notStarted else { return await result.wait(onCancel: withdraw) }
        // The pool is not running, so nothing watches the time or the mailbox. This checkout does it itself.
        return await withDiscardingTaskGroup(returning: CheckoutResult.self) { group in
            group.addTask { [clock, mailbox] in
                do {
                    try await clock.sleep(until: deadline)
                } catch {
                    mailbox.post(.cancel(id))
                }
                await self.settleAgain()
            }
            let result = await result.wait(onCancel: withdraw)
            group.cancelAll()
            return result
        }
    }

    private func settleAgain() {
        self.machine.needsSettling = true
        self.advance(self.clock.now)
    }

    private func complete(_ id: WaiterID, _ result: CheckoutResult) {
        self.results[id.index].take()?.give(result)
    }

    // MARK: Drain and status

    func prewarm(_ count: Int) {
        self.machine.prewarm(count)
        self.advance(self.clock.now)
    }

    func drain() {
        self.machine.drain()
    }

    func drain(until deadline: MonotonicInstant) async -> Bool {
        let now = self.clock.now
        self.advance(now)
        self.machine.drain()
        var unserved = 0
        do throws(PoolError) {
            try await self.observe(self.machine.awaitDrained(deadline: deadline, now: now), deadline)
        } catch {
            // The time ran out, or the caller was cancelled.
            unserved = self.failWaiters()
        }
        return unserved == 0 && self.machine.leasedInAll == 0
    }

    @discardableResult
    func failWaiters() -> Int {
        self.advance(self.clock.now)
        let failed = self.machine.failWaiters(.shuttingDown, now: self.clock.now, into: &self.actions)
        self.perform()
        return failed
    }

    func status() -> PoolStatus {
        let now = self.clock.now
        self.advance(now)
        return self.machine.status(now)
    }
}

/// What a pool is told, in the order in which it is told.
enum PoolItem: Sendable {
    case checkin(SlotGrant, Int)
    case cancel(WaiterID)
    indirect case register(any PoolWorker, WorkerID)
    indirect case report(WorkerReport, WorkerID)
    /// The worker's run has ended, whatever it has reported.
    case workerEnded(WorkerID)
    case replaceAll
    /// A lease of this session was returned as broken.
    case broken(SlotGrant)
    indirect case reconfigure(PoolConfiguration)
    case ended([Int])
    case stop
}

/// The actor inside a ``Pool``. It performs what the machine decides: answers waiters, asks workers, keeps one timer.
///
/// It is not generic, because generic code is not specialised across a module's border: the same actor, generic over
/// its worker, took twice as long for a checkout.
actor PoolCore {
    struct Granted: Sendable {
        let worker: any PoolWorker
        let grant: SlotGrant
        let count: Int
    }

    /// `nil` for observers.
    typealias Answer = Result<Granted?, PoolError>

    /// The answer to a checkout that does not suspend.
    enum Start: Sendable {
        case granted(Granted)
        case failed(PoolError)
        /// `onAnswer` is called, once.
        case waiting(WaiterID)
    }

    private enum Parked {
        case nobody
        /// The waiter is in the queue, its continuation is not here yet.
        case expected
        case waiting(CheckedContinuation<Answer, Never>)
        /// Called on the actor, so it must return at once.
        case calling(@Sendable (Answer) -> Void)
        /// The answer was there first.
        case answered(Answer)
    }

    let clock: any MonotonicClock
    private let tell: @Sendable (PoolEvent) -> Void
    let mailbox = Mailbox<PoolItem>(isAttentive: false)
    let hub = EventHub<PoolEvent>(gap: { .missed($0) })
    // Unchecked: nothing that an access calls comes back here, and a checkout would pay for a dozen checks.
    @exclusivity(unchecked) private var machine: PoolStateMachine
    @exclusivity(unchecked) private var random: SplitMix64
    @exclusivity(unchecked) private var workers: [(any PoolWorker)?]
    /// By the waiter's place in the queue.
    @exclusivity(unchecked) private var parked: [Parked] = []
    @exclusivity(unchecked) private var batch: [PoolItem] = []
    @exclusivity(unchecked) private var actions: [PoolAction] = []
    @exclusivity(unchecked) private var timer = EarliestTimer()
    private var isStopping = false

    init(
        configuration: PoolConfiguration,
        clock: any MonotonicClock,
        seed: UInt64?,
        onEvent: @escaping @Sendable (PoolEvent) -> Void
    ) {
        self.clock = clock
        self.tell = onEvent
        self.machine = PoolStateMachine(configuration)
        self.random = SplitMix64(seed: seed)
        self.workers = Array(repeating: nil, count: configuration.workerCount)
    }

    // MARK: Running

    func run(_ context: ChildContext) async throws {
        guard machine.phase == .notStarted else { throw machine.error(.alreadyRunning, clock.now) }
        defer { hub.finish() }
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
                advance(clock.now, isTimer: true)
                while !isStopping, machine.broken == nil {
                    timer.arm(for: machine.nextDeadline, clock: clock, in: &group) { [mailbox] in mailbox.wake() }
                    await mailbox.wait()
                    advance(clock.now, isTimer: true)
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

    private func onEvent(_ event: PoolEvent) {
        tell(event)
        hub.post(event)
    }

    private func stop() {
        machine.stop(now: clock.now, into: &actions)
        perform()
        mailbox.close()
        workers = workers.map { _ in nil }
    }

    /// Takes what was posted, then does what follows from it. Every entry to the actor begins with it.
    private func advance(_ now: MonotonicInstant, isTimer: Bool = false) {
        var isAttentive = machine.hasWaiters
        mailbox.take(into: &batch, isAttentive: isAttentive)
        while true {
            if batch.isEmpty, !machine.needsSettling, !isTimer { return }
            for item in batch { apply(item, now) }
            batch.removeAll(keepingCapacity: true)
            if machine.needsSettling || (isTimer && machine.phase != .stopped) {
                machine.settle(now: now, using: &random, into: &actions)
            }
            perform()
            fitWorkers()
            // What was posted before the mailbox knew that somebody waits would wake nobody.
            guard machine.hasWaiters, !isAttentive else { break }
            isAttentive = true
            mailbox.take(into: &batch, isAttentive: true)
            if batch.isEmpty { break }
        }
        if !isTimer, timer.isLater(than: machine.nextDeadline) || machine.broken != nil { mailbox.wake() }
    }

    private func apply(_ item: PoolItem, _ now: MonotonicInstant) {
        switch item {
        case .checkin(let grant, let count):
            machine.checkin(grant, count: count)
        case .cancel(let id):
            machine.cancel(id, now: now, into: &actions)
        case .register(let worker, let id):
            guard machine.register(id, now: now) else { return }
            fitWorkers()
            workers[id.slot] = worker
            onEvent(.registered(id))
        case .report(let report, let id):
            machine.report(report, from: id, now: now)
            onEvent(.reported(id, report))
        case .workerEnded(let id):
            guard machine.isRegistered(id) else { return }
            machine.report(.gone, from: id, now: now)
            onEvent(.reported(id, .gone))
        case .replaceAll:
            machine.replaceAll(now: now)
        case .broken(let grant):
            machine.replace(grant, now: now)
        case .reconfigure(let configuration):
            machine.reconfigure(configuration)
            fitWorkers()
        case .ended(let places):
            machine.ended(places, now: now)
        case .stop:
            isStopping = true
        }
    }

    /// As many as the machine has places.
    private func fitWorkers() {
        while workers.count < machine.slots.count { workers.append(nil) }
        // Those beyond have ended, and nothing more is asked of them.
        if actions.isEmpty, workers.count > machine.slots.count {
            workers.removeLast(workers.count - machine.slots.count)
        }
    }

    private func perform() {
        if actions.isEmpty { return }
        for action in actions {
            switch action {
            case .grant(let id, let grant, let count):
                guard let worker = workers[grant.worker.slot] else {
                    answer(id, .failure(machine.error(.poolStopped, clock.now)))
                    continue
                }
                answer(id, .success(Granted(worker: worker, grant: grant, count: count)))
            case .reached(let id):
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

    // MARK: Checkout

    func checkout(_ request: PoolStateMachine.Request) async throws(PoolError) -> Granted {
        let now = clock.now
        switch begin(request, now) {
        case .granted(let granted): return granted
        case .failed(let error): throw error
        case .waiting(let id): return try await waited(id, request.deadline, since: now)
        }
    }

    /// Not inlined, nor what waits: its temporary values would be part of the memory that a task holds for `checkout`,
    /// 3 KB that most checkouts do not need.
    @inline(never)
    private func begin(_ request: PoolStateMachine.Request, _ now: MonotonicInstant) -> Start {
        advance(now)
        if Task.isCancelled { return .failed(machine.error(.cancelled, now)) }
        switch machine.checkout(request, now: now, using: &random, into: &actions) {
        case .granted(let grant, let count):
            guard let worker = workers[grant.worker.slot] else { return .failed(machine.error(.poolStopped, now)) }
            return .granted(Granted(worker: worker, grant: grant, count: count))
        case .failed(let error):
            perform()
            // A refused checkout may have asked for a connect, whose answer has a time.
            if timer.isLater(than: machine.nextDeadline) { mailbox.wake() }
            return .failed(error)
        case .wait(let id):
            expect(id)
            return .waiting(id)
        }
    }

    @inline(never)
    private func waited(
        _ id: WaiterID,
        _ deadline: MonotonicInstant,
        since now: MonotonicInstant
    ) async throws(PoolError) -> Granted {
        guard let granted = try await wait(id, deadline).get() else {
            throw machine.error(.cancelled, clock.now, since: now)
        }
        if Task.isCancelled {
            // The slot came together with the cancellation: it goes to the next.
            mailbox.post(.checkin(granted.grant, granted.count))
            throw machine.error(.cancelled, clock.now, since: now)
        }
        return granted
    }

    /// The same without suspending: who has to wait is told by a call.
    func startCheckout(
        _ request: PoolStateMachine.Request,
        onAnswer: @escaping @Sendable (Answer) -> Void
    ) -> Start {
        let now = clock.now
        advance(now)
        switch machine.checkout(request, now: now, using: &random, into: &actions) {
        case .granted(let grant, let count):
            guard let worker = workers[grant.worker.slot] else { return .failed(machine.error(.poolStopped, now)) }
            return .granted(Granted(worker: worker, grant: grant, count: count))
        case .failed(let error):
            perform()
            if timer.isLater(than: machine.nextDeadline) { mailbox.wake() }
            return .failed(error)
        case .wait(let id):
            while parked.count <= id.index { parked.append(.nobody) }
            parked[id.index] = .calling(onAnswer)
            perform()
            // The mailbox must know that somebody waits.
            machine.needsSettling = true
            advance(clock.now)
            return .waiting(id)
        }
    }

    func waitUntilReady(_ wanted: Int, deadline: MonotonicInstant) async throws(PoolError) {
        let now = clock.now
        advance(now)
        if Task.isCancelled { throw machine.error(.cancelled, now) }
        let observation = machine.awaitReady(wanted, deadline: deadline, now: now, using: &random, into: &actions)
        try await observe(observation, deadline)
    }

    private func observe(
        _ observation: PoolStateMachine.Observation,
        _ deadline: MonotonicInstant
    ) async throws(PoolError) {
        switch observation {
        case .reached:
            return
        case .failed(let error):
            perform()
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
        advance(clock.now)
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
                advance(clock.now)
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
        case .calling(let onAnswer):
            parked[id.index] = .nobody
            onAnswer(answer)
        case .expected:
            parked[id.index] = .answered(answer)
        case .nobody, .answered:
            break
        }
    }

    // MARK: Changing

    func retireSurplus() async throws(PoolError) -> [Int] {
        let now = clock.now
        advance(now)
        if Task.isCancelled { throw machine.error(.cancelled, now) }
        try await observe(machine.awaitRetirable(now: now), .distantFuture)
        advance(clock.now)
        return machine.sealRetirable()
    }

    // MARK: Stopping and looking

    func prewarm(_ count: Int) {
        machine.prewarm(count)
        advance(clock.now)
    }

    func drain() {
        machine.drain()
    }

    func drain(until deadline: MonotonicInstant) async -> PoolDrainReport {
        let now = clock.now
        advance(now)
        machine.drain()
        var unserved = 0
        do throws(PoolError) {
            try await observe(machine.awaitDrained(deadline: deadline, now: now), deadline)
        } catch {
            // The time is over, or the caller gave up.
            unserved = failWaiters()
        }
        return PoolDrainReport(unserved: unserved, leased: machine.leasedInAll)
    }

    @discardableResult
    func failWaiters() -> Int {
        advance(clock.now)
        let failed = machine.failWaiters(.shuttingDown, now: clock.now, into: &actions)
        perform()
        return failed
    }

    func status() -> PoolStatus {
        let now = clock.now
        advance(now)
        return machine.status(now)
    }
}

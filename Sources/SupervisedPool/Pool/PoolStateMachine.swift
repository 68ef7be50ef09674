import APNSBasics

/// The actions that the actor around the machine (``PoolCore``) performs, in order.
enum PoolAction {
    /// The waiter has been given streams.
    case lease(WaiterID, LeaseOrigin, count: Int)
    /// The condition that a waiter without a checkout waits for is met, such as ready workers or the end of a drain.
    case reached(WaiterID)
    case fail(WaiterID, PoolError)
    case connect(WorkerID, PoolWorkerConnectReason)
    case disconnect(WorkerID, PoolWorkerDisconnectReason)
    case event(PoolEvent)
}

/// Makes every decision of a pool: which checkout gets which stream, which one waits, and which worker connects. It is
/// not generic, and has no tasks, clocks or locks. Its random numbers follow from a seed.
///
/// Inputs from the mailbox, such as `register`, `report` and `checkin`, only update the state; `cancel` also fails its
/// waiter. ``settle(now:into:unqueuedDemand:)`` then makes all the decisions in one place. `checkout` leases a free stream
/// without settling and without allocating.
struct PoolStateMachine {
    enum Phase: Sendable {
        /// The pool is not running yet: checkouts wait. → running, stopped
        case notStarted
        /// → stopped
        case running
        case stopped
    }

    /// The parameters of one checkout.
    struct Request {
        var wanted = 1
        var deadline: MonotonicInstant
        var bytes = 0
        var mayWait = true
        var lane = PoolLane.interactive
        /// Resent work: it is placed before the others of its lane, exempt from the queue's bounds, and accepted during
        /// a drain.
        var atFront = false

        /// The list in which it waits.
        var list: WaiterQueue.ListName {
            switch self.lane {
            case .interactive: self.atFront ? .front : .interactive
            case .bulk: self.atFront ? .bulkFront : .bulk
            }
        }
    }

    /// The result of a checkout.
    enum Decision {
        case leased(LeaseOrigin, count: Int)
        case failed(PoolError)
        /// Exactly one action refers to this waiter, now or later.
        case wait(WaiterID)
    }

    /// The result for a caller that waits for a condition instead of a stream.
    enum Observation {
        case reached
        case failed(PoolError)
        /// Exactly one action refers to this waiter, now or later.
        case wait(WaiterID)
    }

    var configuration: PoolConfiguration
    var phase = Phase.notStarted
    var isDraining = false
    /// Describes an inconsistency in the state, after which the pool must end.
    var inconsistency: String?
    var workers: [Worker]
    var queue = WaiterQueue()
    /// Whether the state has changed in a way that ``settle(now:into:unqueuedDemand:)`` must evaluate.
    var needsSettling = false
    /// The latest time at which ``settle(now:into:unqueuedDemand:)`` must be called.
    var nextDeadline = MonotonicInstant.distantFuture
    /// Counts checkouts, to find the worker that served last.
    var checkouts = 0

    /// Connects that can wait are not requested before this time.
    var nextConnect = MonotonicInstant(nanoseconds: .min)
    /// Whether a caller has found no free stream, or too few ready workers, since the last connect was requested.
    var isConnectWanted = false
    /// When a caller last found no free stream or too few ready workers.
    var lastWithoutStream = MonotonicInstant(nanoseconds: .min)
    /// Whether lasting demand may shorten a backoff: only once per outage. Otherwise every backoff would be cut short,
    /// and a fleet under load would reconnect once a second.
    var mayShortenBackoff = true

    /// Since when no worker has been ready, counted from the first failure or loss.
    var notReadySince: MonotonicInstant?
    /// Whether a worker has reported `backingOff` since then.
    var hasFailed = false
    var isUnavailable = false
    var lastFault: PoolFault?
    /// A fault in the configuration, and the time until which checkouts fail because of it.
    var configurationFault: (fault: PoolFault, until: MonotonicInstant)?
    /// The fault that was last announced, until a worker is ready. It keeps a lasting fault from being announced
    /// repeatedly.
    var announcedFault: String?

    /// The source of the jitter.
    var random: SplitMix64

    /// - Parameter seed: Makes the jitter repeatable; nil: a random seed.
    init(_ configuration: PoolConfiguration, seed: UInt64? = nil) {
        self.configuration = configuration
        self.random = SplitMix64(seed: seed)
        self.workers = (0..<configuration.workerCount).map {
            Worker(isOverflow: $0 >= configuration.size, reservePercent: configuration.interactiveReservePercent)
        }
    }

    // MARK: Lifecycle

    /// The pool's `run` was called.
    mutating func start() {
        guard self.phase == .notStarted else { return }
        self.phase = .running
        self.needsSettling = true
    }

    /// Makes new checkouts fail. Waiting checkouts keep waiting.
    mutating func drain() {
        self.isDraining = true
    }

    /// Fails all waiting checkouts, and all callers that wait for ready workers.
    ///
    /// - Returns: How many checkouts were waiting.
    @discardableResult
    mutating func failWaiters(_ code: PoolError.Code, now: MonotonicInstant, into actions: inout [PoolAction]) -> Int {
        guard self.queue.wanting > 0 else { return 0 }
        let failed = self.queue.count
        let status = self.status(now)
        let retryAfter = self.retryAfter(code, now)
        for list in WaiterQueue.ListName.allCases where list != .drains {
            while let id = self.queue.first(list), let waiter = self.queue.remove(id) {
                let error = PoolError(
                    code: code,
                    waited: waiter.since.duration(to: now),
                    retryAfter: retryAfter,
                    status: status,
                    fault: self.lastFault
                )
                actions.append(.fail(id, error))
            }
        }
        return failed
    }

    /// Ends the pool: all waiters are completed, and later ones fail immediately.
    mutating func stop(now: MonotonicInstant, into actions: inout [PoolAction]) {
        self.failWaiters(.poolStopped, now: now, into: &actions)
        while let id = self.queue.first(.drains), self.queue.remove(id) != nil { actions.append(.reached(id)) }
        self.phase = .stopped
    }

    // MARK: Checkout and checkin

    mutating func checkout(
        _ request: Request,
        now: MonotonicInstant,
        into actions: inout [PoolAction]
    ) -> Decision {
        if self.phase == .stopped { return .failed(self.error(.poolStopped, now)) }
        if request.deadline <= now { return .failed(self.error(.timedOut, now)) }
        if self.isDraining, !request.atFront { return .failed(self.error(.shuttingDown, now)) }
        if self.phase == .running {
            // Waiting checkouts take precedence. While one waits, no stream is free for its lane.
            if self.isFirst(request), let index = self.pick(request.lane) {
                let count = self.share(request.wanted, request.lane, waiting: 0, index)
                return .leased(self.lease(index, count, now), count: count)
            }
            if let refusal = self.refusal(now) {
                // Even a refused checkout shows that a connection is needed.
                self.wantConnect(now)
                self.settle(now: now, into: &actions)
                return .failed(self.error(refusal, now))
            }
        }
        guard request.mayWait else {
            self.wantConnect(now)
            self.settle(now: now, into: &actions, unqueuedDemand: 1)
            return .failed(self.error(.full, now))
        }
        let bytes = max(0, request.bytes)
        if !request.atFront {
            let left = max(0, self.configuration.maxQueuedBytes) - self.queue.bytes
            guard self.queue.count < self.configuration.maxWaiters, bytes <= left else {
                return .failed(self.error(.queueFull, now))
            }
        }
        let id = self.queue.append(
            WaiterQueue.Waiter(
                wanted: max(1, request.wanted),
                bytes: min(bytes, 1 << 40),
                deadline: request.deadline,
                since: now,
                list: request.list
            )
        )
        self.wantConnect(now)
        self.settle(now: now, into: &actions)
        return .wait(id)
    }

    /// Records that a caller has found no free stream or too few ready workers.
    private mutating func wantConnect(_ now: MonotonicInstant) {
        self.isConnectWanted = true
        self.lastWithoutStream = now
    }

    /// Whether no other waiter is entitled to a free stream before this request.
    private mutating func isFirst(_ request: Request) -> Bool {
        switch request.lane {
        case .interactive: self.queue.interactiveCount == 0
        case .bulk:
            self.queue.interactiveCount == 0
                && (request.atFront ? self.queue.count(.bulkFront) : self.queue.bulkCount) == 0
        }
    }

    /// Waits until this many workers are ready. Numbers above the number of workers mean all of them.
    mutating func awaitReady(
        _ wanted: Int,
        deadline: MonotonicInstant,
        now: MonotonicInstant,
        into actions: inout [PoolAction]
    ) -> Observation {
        let wanted = max(1, min(wanted, self.configuration.workerCount))
        if self.phase == .stopped { return .failed(self.error(.poolStopped, now)) }
        if self.phase == .running, self.readyCount >= wanted { return .reached }
        if deadline <= now { return .failed(self.error(self.phase == .running ? .notReady : .notRunning, now)) }
        if self.isDraining { return .failed(self.error(.shuttingDown, now)) }
        if self.phase == .running, let refusal = self.refusal(now) { return .failed(self.error(refusal, now)) }
        let id = self.queue.append(
            WaiterQueue.Waiter(wanted: wanted, bytes: 0, deadline: deadline, since: now, list: .awaitingReady)
        )
        self.wantConnect(now)
        self.settle(now: now, into: &actions)
        return .wait(id)
    }

    /// Waits until nothing is leased and no checkout waits for a stream.
    mutating func awaitDrained(deadline: MonotonicInstant, now: MonotonicInstant) -> Observation {
        if self.phase == .stopped || self.isQuiet { return .reached }
        if deadline <= now { return .failed(self.error(.timedOut, now)) }
        return .wait(
            self.queue.append(WaiterQueue.Waiter(wanted: 0, bytes: 0, deadline: deadline, since: now, list: .drains))
        )
    }

    /// Returns streams. Those of an ended worker or of an earlier registration have no effect.
    mutating func checkin(_ origin: LeaseOrigin, count: Int) {
        guard count > 0, self.workers.indices.contains(origin.worker.index) else { return }
        let index = origin.worker.index
        guard self.workers[index].state != .absent, self.workers[index].generation == origin.worker.generation,
            origin.connection >= self.workers[index].firstConnection
        else { return }
        let isCurrentConnection =
            self.workers[index].isConnectionOpen && self.workers[index].connection == origin.connection
        let held = isCurrentConnection ? self.workers[index].leased : self.workers[index].leasedEarlier
        guard count <= held, origin.connection <= self.workers[index].connection else {
            self.inconsistency =
                self.inconsistency ?? "\(count) streams of \(origin) were returned, but \(held) were leased"
            self.needsSettling = true
            return
        }
        if isCurrentConnection {
            self.workers[index].leased -= count
            if self.queue.total > 0 { self.needsSettling = true }
        } else {
            self.workers[index].leasedEarlier -= count
            if self.queue.count(.drains) > 0 { self.needsSettling = true }
        }
    }

    /// Cancels a waiter. Does nothing if the waiter has completed in the meantime.
    mutating func cancel(_ id: WaiterID, now: MonotonicInstant, into actions: inout [PoolAction]) {
        guard let waiter = self.queue.remove(id) else { return }
        actions.append(.fail(id, self.error(.cancelled, now, since: waiter.since)))
    }

    /// Whether the mailbox must wake the pool for each check-in.
    var hasWaiters: Bool { self.queue.total > 0 }

    // MARK: Settling

    /// Makes all decisions: which waiters have waited too long, which get a stream, which workers connect or
    /// disconnect, and when to settle again.
    mutating func settle(
        now: MonotonicInstant,
        into actions: inout [PoolAction],
        unqueuedDemand: Int = 0
    ) {
        self.needsSettling = false
        self.expire(now, into: &actions)
        if self.phase == .running {
            self.dismissSurplus(into: &actions)
            self.evaluateAvailability(now, into: &actions)
            self.serve(now, into: &actions)
            self.openWorkers(now, unqueuedDemand, into: &actions)
            self.disconnectWorkers(now, into: &actions)
        }
        self.nextDeadline = self.queue.earliestDeadline ?? .distantFuture
        if self.phase == .running { self.nextDeadline = min(self.nextDeadline, self.workerDeadline(now)) }
    }

    private mutating func expire(_ now: MonotonicInstant, into actions: inout [PoolAction]) {
        while let id = self.queue.firstExpired(now), let waiter = self.queue.remove(id) {
            let code: PoolError.Code =
                self.phase == .notStarted ? .notRunning : waiter.list == .awaitingReady ? .notReady : .timedOut
            actions.append(.fail(id, self.error(code, now, since: waiter.since)))
        }
    }

    private mutating func serve(_ now: MonotonicInstant, into actions: inout [PoolAction]) {
        if self.queue.count(.awaitingReady) > 0 {
            // Waiters that want more workers than there are now are satisfied when all are ready.
            let isAll = self.readyCount >= self.configuration.workerCount
            let ready = isAll ? Int.max : self.readyCount
            for id in self.queue.all(.awaitingReady) where self.queue[id].map({ $0.wanted <= ready }) ?? false {
                _ = self.queue.remove(id)
                actions.append(.reached(id))
            }
        }
        while let id = self.queue.firstInteractive, let index = self.pick(.interactive),
            let waiter = self.queue.remove(id)
        {
            let count = self.share(waiter.wanted, .interactive, waiting: self.queue.interactiveCount, index)
            actions.append(.lease(id, self.lease(index, count, now), count: count))
        }
        guard self.queue.interactiveCount == 0 else { return }
        while let id = self.queue.firstBulk, let index = self.pick(.bulk), let waiter = self.queue.remove(id) {
            let count = self.share(waiter.wanted, .bulk, waiting: self.queue.count, index)
            actions.append(.lease(id, self.lease(index, count, now), count: count))
        }
        if self.queue.count(.drains) > 0, self.isQuiet {
            while let id = self.queue.first(.drains), self.queue.remove(id) != nil { actions.append(.reached(id)) }
        }
    }

    /// How many streams a checkout gets. A checkout that wants many leaves the others their share, and is spread over
    /// the workers.
    private mutating func share(_ wanted: Int, _ lane: PoolLane, waiting: Int, _ index: Int) -> Int {
        guard wanted > 1 else { return 1 }
        var free = 0
        var ready = 0
        for worker in self.workers where worker.state == .ready {
            free += worker.free(lane)
            ready += 1
        }
        let others = (free + waiting) / (1 + waiting)
        let spread = (free + ready - 1) / max(1, ready)
        return max(1, min(wanted, others, spread, self.workers[index].free(lane)))
    }

    private mutating func lease(_ index: Int, _ count: Int, _ now: MonotonicInstant) -> LeaseOrigin {
        self.workers[index].leased += count
        self.workers[index].lastCheckout = now
        self.checkouts &+= 1
        self.workers[index].lastCheckoutNumber = self.checkouts
        return LeaseOrigin(
            worker: WorkerID(index: index, generation: self.workers[index].generation),
            connection: self.workers[index].connection
        )
    }

    /// The worker that serves next, if any has a free stream.
    ///
    /// This method, `isFirst` and `share` change nothing. They are mutating, because the compiler would otherwise copy
    /// the whole state machine for the call.
    private mutating func pick(_ lane: PoolLane) -> Int? {
        var best = -1
        for index in self.workers.indices where self.workers[index].free(lane) > 0 {
            if best < 0 || self.isBetter(self.workers[index], self.workers[best]) { best = index }
        }
        return best < 0 ? nil : best
    }

    private func isBetter(_ one: Worker, _ best: Worker) -> Bool {
        switch self.configuration.strategy {
        case .leastLoaded:
            if one.leased * best.capacity == best.leased * one.capacity, let latency = one.latency,
                let bestLatency = best.latency
            {
                latency < bestLatency
            } else {
                one.leased * best.capacity < best.leased * one.capacity
            }
        case .lifo:
            one.isOverflow == best.isOverflow ? one.lastCheckoutNumber > best.lastCheckoutNumber : best.isOverflow
        case .fifo:
            one.lastCheckoutNumber < best.lastCheckoutNumber
        }
    }

    // MARK: Errors

    /// The reason why checkouts currently fail immediately, if there is one.
    private func refusal(_ now: MonotonicInstant) -> PoolError.Code? {
        if self.isAnyReady { return nil }
        if let configurationFault, now < configurationFault.until { return .configurationFault }
        if self.isUnavailable, self.configuration.whenUnavailable == .fail { return .unavailable }
        return nil
    }

    func error(_ code: PoolError.Code, _ now: MonotonicInstant, since: MonotonicInstant? = nil) -> PoolError {
        PoolError(
            code: code,
            waited: since?.duration(to: now) ?? .zero,
            retryAfter: self.retryAfter(code, now),
            status: self.status(now),
            fault: self.isAnyReady ? nil : self.lastFault
        )
    }

    private func retryAfter(_ code: PoolError.Code, _ now: MonotonicInstant) -> Duration? {
        switch code {
        case .configurationFault: self.configurationFault.map { max(.zero, now.duration(to: $0.until)) }
        case .unavailable: max(.zero, now.duration(to: self.nextTry(now)))
        default: nil
        }
    }
}

/// What the pool's shell has to do, in order.
enum PoolAction {
    /// The waiter has got slots.
    case lease(WaiterID, LeaseOrigin, count: Int)
    /// What an observer waited for has come: ready workers, or the end of a drain.
    case reached(WaiterID)
    case fail(WaiterID, PoolError)
    case connect(WorkerID, PoolWorkerConnectReason)
    case disconnect(WorkerID, PoolWorkerDisconnectReason)
    case event(PoolEvent)
}

/// Every decision of a pool: who gets which slot, who waits, which worker connects. Not generic, and without tasks,
/// clocks, locks or randomness of its own.
///
/// Inputs that come by the mailbox (`register`, `report`, `checkin`, `cancel`) only change the books; ``settle(now:using:into:)``
/// then draws all the conclusions in one place. `checkout` grants a free slot without settling and without allocating.
struct PoolStateMachine {
    enum Phase: Sendable {
        /// Nobody runs the pool: checkouts wait. → running, stopped
        case notStarted
        /// → stopped
        case running
        case stopped
    }

    /// One checkout, as it is asked for.
    struct Request {
        var wanted = 1
        var deadline: MonotonicInstant
        var bytes = 0
        var mayWait = true
        var lane = PoolLane.interactive
        /// Resent work: before the others of its lane, whatever the queue's bounds, and during a drain.
        var atFront = false

        /// Where it waits.
        var queueLane: WaiterQueue.Lane {
            switch self.lane {
            case .interactive: self.atFront ? .front : .interactive
            case .bulk: self.atFront ? .bulkFront : .bulk
            }
        }
    }

    /// The answer to a checkout.
    enum Decision {
        case leased(LeaseOrigin, count: Int)
        case failed(PoolError)
        /// An action names this waiter, now or later, exactly once.
        case wait(WaiterID)
    }

    /// The answer to an observer.
    enum Observation {
        case reached
        case failed(PoolError)
        /// An action names this waiter, now or later, exactly once.
        case wait(WaiterID)
    }

    var configuration: PoolConfiguration
    var phase = Phase.notStarted
    var isDraining = false
    /// What does not balance; the pool must end.
    var broken: String?
    var workers: [Worker]
    var queue = WaiterQueue()
    /// The last session of all places that were given up: none is counted twice.
    var sessionFloor = 0
    /// Whether the books have changed in a way that ``settle(now:using:into:)`` must see.
    var needsSettling = false
    /// When ``settle(now:using:into:)`` must be called at the latest.
    var nextDeadline = MonotonicInstant.distantFuture
    /// Counts checkouts: who served last.
    var checkouts = 0

    /// No connect that can wait is asked for before this time.
    var nextConnect = MonotonicInstant(nanoseconds: .min)
    /// A checkout found nothing connected since the last connect was asked for.
    var isUseWanted = false
    /// When a checkout last found nothing connected.
    var lastUse = MonotonicInstant(nanoseconds: .min)
    /// Whether demand that lasts may shorten a backoff: once in an outage. Otherwise every backoff would be cut short, and
    /// a fleet under load would reconnect once a second.
    var mayShortenBackoff = true

    /// Since when no worker is ready, counted from the first failure or loss.
    var notReadySince: MonotonicInstant?
    /// Whether an attempt has failed since then.
    var hasFailed = false
    var isUnavailable = false
    var lastFault: PoolFault?
    /// A fault in the configuration, and until when it is held against checkouts.
    var configurationFault: (fault: PoolFault, until: MonotonicInstant)?
    /// The fault that was told last, until a worker is ready: one that lasts is told once.
    var announcedFault: String?

    init(_ configuration: PoolConfiguration) {
        self.configuration = configuration
        self.workers = (0..<configuration.workerCount).map {
            Worker(isOverflow: $0 >= configuration.size, reservePercent: configuration.interactiveReservePercent)
        }
    }

    // MARK: Life

    /// Somebody runs the pool.
    mutating func start() {
        guard self.phase == .notStarted else { return }
        self.phase = .running
        self.needsSettling = true
    }

    /// New checkouts fail; those that wait go on.
    mutating func drain() {
        self.isDraining = true
    }

    /// Ends the waiting of all checkouts and observers.
    ///
    /// - Returns: how many checkouts waited.
    @discardableResult
    mutating func failWaiters(_ code: PoolError.Code, now: MonotonicInstant, into actions: inout [PoolAction]) -> Int {
        guard self.queue.wanting > 0 else { return 0 }
        let failed = self.queue.count
        let status = self.status(now)
        let retryAfter = self.retryAfter(code, now)
        for lane in WaiterQueue.Lane.allCases where lane != .drains && lane != .retirements {
            while let id = self.queue.first(lane), let waiter = self.queue.remove(id) {
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

    /// The pool has ended: everybody is told, and nobody waits again.
    mutating func stop(now: MonotonicInstant, into actions: inout [PoolAction]) {
        self.failWaiters(.poolStopped, now: now, into: &actions)
        for lane in [WaiterQueue.Lane.drains, .retirements] {
            while let id = self.queue.first(lane), self.queue.remove(id) != nil { actions.append(.reached(id)) }
        }
        self.phase = .stopped
    }

    // MARK: Checkout and checkin

    mutating func checkout(
        _ request: Request,
        now: MonotonicInstant,
        using random: inout some RandomNumberGenerator,
        into actions: inout [PoolAction]
    ) -> Decision {
        if self.phase == .stopped { return .failed(self.error(.poolStopped, now)) }
        if request.deadline <= now { return .failed(self.error(.timedOut, now)) }
        if self.isDraining, !request.atFront { return .failed(self.error(.shuttingDown, now)) }
        if self.phase == .running {
            // Whoever waits comes first; and when somebody waits, no slot is free for his lane.
            if self.isFirst(request), let index = self.pick(request.lane) {
                let count = self.share(request.wanted, request.lane, waiting: 0, index)
                return .leased(self.lease(index, count, now), count: count)
            }
            if let refusal = self.refusal(now) {
                // Even a refused checkout shows that somebody wants a connection.
                self.wantUse(now)
                self.settle(now: now, using: &random, into: &actions)
                return .failed(self.error(refusal, now))
            }
        }
        guard request.mayWait else {
            self.wantUse(now)
            self.settle(now: now, using: &random, into: &actions, unqueuedDemand: 1)
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
                lane: request.queueLane,
                agesAt: request.atFront ? .distantFuture : self.agesAt(now)
            )
        )
        self.wantUse(now)
        self.settle(now: now, using: &random, into: &actions)
        return .wait(id)
    }

    /// A checkout has found nothing connected.
    private mutating func wantUse(_ now: MonotonicInstant) {
        self.isUseWanted = true
        self.lastUse = now
    }

    /// Whether nobody waits whom a free slot would be for.
    private mutating func isFirst(_ request: Request) -> Bool {
        switch request.lane {
        case .interactive: self.queue.urgentCount == 0
        case .bulk:
            self.queue.urgentCount == 0 && (request.atFront ? self.queue.count(.bulkFront) : self.queue.bulkCount) == 0
        }
    }

    /// When a checkout that begins to wait now has waited too long.
    private func agesAt(_ now: MonotonicInstant) -> MonotonicInstant {
        self.configuration.maxQueueAge.map { now.advanced(by: $0) } ?? .distantFuture
    }

    /// Waits until so many workers are ready; more than there are places count as all.
    mutating func awaitReady(
        _ wanted: Int,
        deadline: MonotonicInstant,
        now: MonotonicInstant,
        using random: inout some RandomNumberGenerator,
        into actions: inout [PoolAction]
    ) -> Observation {
        let wanted = max(1, min(wanted, self.configuration.workerCount))
        if self.phase == .stopped { return .failed(self.error(.poolStopped, now)) }
        if self.phase == .running, self.readyCount >= wanted { return .reached }
        if deadline <= now { return .failed(self.error(self.phase == .running ? .notReady : .notRunning, now)) }
        if self.isDraining { return .failed(self.error(.shuttingDown, now)) }
        if self.phase == .running, let refusal = self.refusal(now) { return .failed(self.error(refusal, now)) }
        let id = self.queue.append(
            WaiterQueue.Waiter(wanted: wanted, bytes: 0, deadline: deadline, since: now, lane: .observers)
        )
        self.wantUse(now)
        self.settle(now: now, using: &random, into: &actions)
        return .wait(id)
    }

    /// Waits until nothing is leased and nobody waits for a slot.
    mutating func awaitDrained(deadline: MonotonicInstant, now: MonotonicInstant) -> Observation {
        if self.phase == .stopped || self.isQuiet { return .reached }
        if deadline <= now { return .failed(self.error(.timedOut, now)) }
        return .wait(
            self.queue.append(WaiterQueue.Waiter(wanted: 0, bytes: 0, deadline: deadline, since: now, lane: .drains))
        )
    }

    /// Slots come back. Those of a worker or a session that is gone change nothing.
    mutating func checkin(_ origin: LeaseOrigin, count: Int) {
        guard count > 0, self.workers.indices.contains(origin.worker.index) else { return }
        let index = origin.worker.index
        guard self.workers[index].state != .absent, self.workers[index].generation == origin.worker.generation,
            origin.session >= self.workers[index].firstSession
        else { return }
        let isPresent = self.workers[index].isSessionOpen && self.workers[index].session == origin.session
        let held = isPresent ? self.workers[index].leased : self.workers[index].leasedEarlier
        guard count <= held, origin.session <= self.workers[index].session else {
            self.broken = self.broken ?? "\(count) workers of \(origin) were returned, \(held) were leased"
            self.needsSettling = true
            return
        }
        if isPresent {
            self.workers[index].leased -= count
            if self.queue.total > 0 { self.needsSettling = true }
        } else {
            self.workers[index].leasedEarlier -= count
            if self.queue.count(.drains) + self.queue.count(.retirements) > 0 { self.needsSettling = true }
        }
    }

    /// The waiter no longer waits. Nothing happens when it has been answered meanwhile.
    mutating func cancel(_ id: WaiterID, now: MonotonicInstant, into actions: inout [PoolAction]) {
        guard let waiter = self.queue.remove(id) else { return }
        actions.append(.fail(id, self.error(.cancelled, now, since: waiter.since)))
    }

    /// Whether the mailbox must wake the pool for each check-in.
    var hasWaiters: Bool { self.queue.total > 0 }

    // MARK: What now?

    /// Draws all conclusions: who has waited too long, who gets a slot, who connects or disconnects, and when to come
    /// back.
    mutating func settle(
        now: MonotonicInstant,
        using random: inout some RandomNumberGenerator,
        into actions: inout [PoolAction],
        unqueuedDemand: Int = 0
    ) {
        self.needsSettling = false
        self.expire(now, into: &actions)
        if self.phase == .running {
            self.dismissSurplus(into: &actions)
            self.evaluateAvailability(now, into: &actions)
            self.serve(now, into: &actions)
            self.openWorkers(now, unqueuedDemand, using: &random, into: &actions)
            self.retireWorkers(now, using: &random, into: &actions)
            self.reportRetirements(into: &actions)
        }
        self.nextDeadline = self.queue.earliestDeadline ?? .distantFuture
        if self.phase == .running { self.nextDeadline = min(self.nextDeadline, self.workerDeadline(now)) }
    }

    private mutating func expire(_ now: MonotonicInstant, into actions: inout [PoolAction]) {
        while let id = self.queue.firstExpired(now), let waiter = self.queue.remove(id) {
            let code: PoolError.Code =
                waiter.deadline > now
                ? .waitedTooLong
                : self.phase == .notStarted ? .notRunning : waiter.lane == .observers ? .notReady : .timedOut
            actions.append(.fail(id, self.error(code, now, since: waiter.since)))
        }
    }

    private mutating func serve(_ now: MonotonicInstant, into actions: inout [PoolAction]) {
        if self.queue.count(.observers) > 0 {
            // Those who wait for more than there are places now have all.
            let isAll = self.readyCount >= self.configuration.workerCount
            let ready = isAll ? Int.max : self.readyCount
            for id in self.queue.all(.observers) where self.queue[id].map({ $0.wanted <= ready }) ?? false {
                _ = self.queue.remove(id)
                actions.append(.reached(id))
            }
        }
        while let id = self.queue.firstUrgent, let index = self.pick(.interactive), let waiter = self.queue.remove(id) {
            let count = self.share(waiter.wanted, .interactive, waiting: self.queue.urgentCount, index)
            actions.append(.lease(id, self.lease(index, count, now), count: count))
        }
        guard self.queue.urgentCount == 0 else { return }
        while let id = self.queue.firstBulk, let index = self.pick(.bulk), let waiter = self.queue.remove(id) {
            let count = self.share(waiter.wanted, .bulk, waiting: self.queue.count, index)
            actions.append(.lease(id, self.lease(index, count, now), count: count))
        }
        if self.queue.count(.drains) > 0, self.isQuiet {
            while let id = self.queue.first(.drains), self.queue.remove(id) != nil { actions.append(.reached(id)) }
        }
    }

    /// How many slots a checkout gets: one that wants many leaves the others their part, and spreads over the workers.
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
            session: self.workers[index].session
        )
    }

    /// The worker that serves next, if any has a free slot.
    ///
    /// Mutating, as the next two that a checkout calls: else the compiler copies the whole machine for the call.
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

    /// Why checkouts fail at once, if they do.
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
        case .unavailable: max(.zero, now.duration(to: self.nextProbe(now)))
        default: nil
        }
    }
}

extension PoolStateMachine {
    /// The pool's entry for one worker.
    struct Worker {
        /// The arrows show the usual order of reports. `gone` leads from every state to `absent`.
        enum State: Equatable {
            /// No worker is registered, or it has ended. → idle
            case absent
            /// Waiting until it is asked to connect. → connecting
            case idle
            /// → ready, backingOff, idle
            case connecting
            /// Accepts work. → any
            case ready
            /// Its connection accepts no more work. → any
            case draining
            /// Retries by itself at that time. → connecting, idle
            case backingOff(until: MonotonicInstant)
        }

        var isOverflow: Bool
        /// Beyond the pool's current number of workers: it gets no work and is not asked to connect.
        var isSurplus = false
        /// It was asked to give up its connection as a surplus worker, and has reported nothing since but that it is idle.
        var isDismissed = false
        var state = State.absent
        var generation = 0
        /// Counts all connections of this entry. Never reset.
        var connection = 0
        /// The first connection of this registration.
        var firstConnection = 1
        /// Whether it has a connection, ready or draining. Only then can `leased` be more than 0.
        var isConnectionOpen = false
        var capacity = 0 {
            didSet { self.reserve = self.capacity * self.reservePercent / 100 }
        }
        var leased = 0
        var reservePercent: Int {
            didSet { self.reserve = self.capacity * self.reservePercent / 100 }
        }
        /// Streams that bulk work leaves to interactive work.
        private var reserve = 0
        var latency: Duration?
        /// Leased streams of earlier connections that have not been returned yet.
        var leasedEarlier = 0
        var readySince = MonotonicInstant(nanoseconds: 0)
        var lastCheckout = MonotonicInstant(nanoseconds: 0)
        var lastCheckoutNumber = 0
        /// When the connection should be replaced; `nil` if that was already requested or is not planned.
        var replaceAt: MonotonicInstant?
        /// The connection is new, or the setting has changed: `replaceAt` must be computed from the maximum lifetime.
        var needsLifetime = false
        /// Until this time, the capacity is only the peer's first value and will probably grow.
        var growsUntil = MonotonicInstant(nanoseconds: .min)
        /// It should be connected, as a base worker or to prewarm the pool, and has not been asked yet.
        var isKeepPending = false
        /// It should be connected as soon as it registers, although it is an overflow worker.
        var isPrewarmWanted = false
        /// It was asked to connect and has not reported since; a report is expected by this time.
        var askedUntil: MonotonicInstant?
        /// It is not asked again before this time, whatever the demand, because it may fail immediately each time.
        var askableFrom = MonotonicInstant(nanoseconds: .min)
        /// Demand does not shorten this backoff, either because the failed connect was already made for that demand, or
        /// because the cause is a fault in the configuration.
        var isBackoffFixed = false
        /// When its last backoff began.
        var backingOffSince = MonotonicInstant(nanoseconds: .min)

        init(isOverflow: Bool, reservePercent: Int) {
            self.isOverflow = isOverflow
            // The configuration may not have been checked yet.
            self.reservePercent = min(max(0, reservePercent), 90)
        }

        /// Streams that a checkout of this lane may get.
        func free(_ lane: PoolLane) -> Int {
            guard self.state == .ready else { return 0 }
            return max(0, self.capacity - self.leased - (lane == .bulk ? self.reserve : 0))
        }

        /// Whether it is idle and may be asked to connect.
        var isAskable: Bool { self.state == .idle && !self.isSurplus }

        var isOpening: Bool { self.state == .connecting || self.askedUntil != nil }

        /// Counts the streams leased so far as streams of an earlier connection.
        mutating func closeConnection() {
            self.leasedEarlier += self.leased
            self.leased = 0
            self.capacity = 0
            self.isConnectionOpen = false
            self.replaceAt = nil
            self.needsLifetime = false
            self.latency = nil
        }
    }

    /// The capacity that a connecting worker is expected to provide.
    static let expectedCapacity = 100
    /// A connection whose first capacity is at most 1 is expected to grow within this time.
    static let growthGrace = Duration.seconds(5)
    /// A worker that was asked to connect and does not report within this time is asked again.
    static let reportTimeout = Duration.seconds(5)
    /// The loss of a connection that has lasted at least this long begins a new outage.
    static let stableAfter = Duration.seconds(30)
    /// Keeps products of two capacities from overflowing.
    static let capacityLimit = 1_000_000

    var isAnyReady: Bool { self.workers.contains { $0.state == .ready } }
    var readyCount: Int { self.workers.count { $0.state == .ready } }

    /// Leased streams, including those of ended connections.
    var leasedInAll: Int { self.workers.reduce(0) { $0 + $1.leased + $1.leasedEarlier } }

    /// Whether nothing is leased and no checkout waits for a stream.
    var isQuiet: Bool { self.queue.count == 0 && self.leasedInAll == 0 }

    // MARK: Inputs

    /// Registers a worker. A later generation replaces an earlier one, whose leases become void.
    ///
    /// - Returns: Whether the worker is accepted.
    mutating func register(_ id: WorkerID, now: MonotonicInstant) -> Bool {
        self.makeRoom(for: id)
        guard self.workers.indices.contains(id.index) else { return false }
        let old = self.workers[id.index]
        guard old.state == .absent || id.generation > old.generation else { return false }
        var worker = Worker(
            isOverflow: old.isOverflow,
            reservePercent: self.configuration.interactiveReservePercent
        )
        worker.isSurplus = old.isSurplus
        worker.state = .idle
        worker.generation = id.generation
        worker.connection = old.connection
        worker.firstConnection = old.connection + 1
        worker.isKeepPending = !old.isSurplus && (!old.isOverflow || old.isPrewarmWanted)
        self.workers[id.index] = worker
        if old.state == .ready { self.lostReady(now) }
        self.needsSettling = true
        return true
    }

    /// Whether this worker is registered with this generation.
    func isRegistered(_ id: WorkerID) -> Bool {
        self.workers.indices.contains(id.index) && self.workers[id.index].state != .absent
            && self.workers[id.index].generation == id.generation
    }

    /// Applies a worker's report. Reports from a generation that is not registered have no effect.
    mutating func report(_ report: WorkerReport, from id: WorkerID, now: MonotonicInstant) {
        let index = id.index
        guard self.isRegistered(id) else { return }
        self.needsSettling = true
        if case .capacity(let capacity) = report {
            guard self.workers[index].state == .ready else { return }
            self.workers[index].capacity = min(max(0, capacity), Self.capacityLimit)
            self.workers[index].growsUntil = MonotonicInstant(nanoseconds: .min)
            return
        }
        if case .latency(let latency) = report {
            guard self.workers[index].isConnectionOpen else { return }
            self.workers[index].latency = max(.zero, latency)
            return
        }
        let wasReady = self.workers[index].state == .ready
        self.workers[index].askedUntil = nil
        if report != .idle { self.workers[index].isDismissed = false }
        switch report {
        case .ready(let capacity):
            self.becameReady(index, capacity, now)
            return
        case .draining:
            guard wasReady else { return }
            self.workers[index].state = .draining
            self.workers[index].capacity = 0
        case .connecting, .lost:
            self.workers[index].closeConnection()
            self.workers[index].state = .connecting
            self.workers[index].isKeepPending = false
            if case .lost(let fault) = report { self.failed(fault, now, now) }
        case .backingOff(let until, let fault):
            if self.workers[index].isConnectionOpen,
                self.workers[index].readySince.advanced(by: Self.stableAfter) <= now
            {
                self.mayShortenBackoff = true
            }
            // Demand that already existed before this connect does not justify another one.
            let isDemandNew = self.queue.wanting == 0 && self.lastWithoutStream < self.workers[index].backingOffSince
            self.workers[index].closeConnection()
            self.workers[index].state = .backingOff(until: until)
            self.workers[index].backingOffSince = now
            self.workers[index].isKeepPending = false
            self.workers[index].isBackoffFixed =
                (fault?.isConfiguration ?? false) || !(self.mayShortenBackoff || isDemandNew)
            self.failed(fault, until, now)
        case .idle:
            self.workers[index].closeConnection()
            self.workers[index].state = .idle
            // A worker that became a base worker after its start does not connect by itself.
            self.workers[index].isKeepPending = !self.workers[index].isOverflow && !self.workers[index].isSurplus
        case .gone:
            self.workers[index].closeConnection()
            self.workers[index].leasedEarlier = 0
            self.workers[index].state = .absent
            self.workers[index].isKeepPending = false
        case .capacity, .latency:
            break
        }
        if wasReady { self.lostReady(now) }
        if case .idle = report, !self.hasFailed, !self.workers.contains(where: { $0.isOpening }) {
            // Idle by choice: do not count it as an outage.
            self.notReadySince = nil
        }
    }

    private mutating func becameReady(_ index: Int, _ capacity: Int, _ now: MonotonicInstant) {
        self.workers[index].closeConnection()
        self.workers[index].state = .ready
        self.workers[index].connection += 1
        self.workers[index].isConnectionOpen = true
        self.workers[index].capacity = min(max(0, capacity), Self.capacityLimit)
        self.workers[index].readySince = now
        self.workers[index].lastCheckout = now
        self.workers[index].growsUntil =
            capacity <= 1 ? now.advanced(by: Self.growthGrace) : MonotonicInstant(nanoseconds: .min)
        self.workers[index].isKeepPending = false
        self.workers[index].needsLifetime = self.configuration.maximumLifetime != nil
        self.notReadySince = nil
        self.hasFailed = false
        self.configurationFault = nil
        self.announcedFault = nil
    }

    private mutating func lostReady(_ now: MonotonicInstant) {
        guard !self.isAnyReady else { return }
        self.notReadySince = self.notReadySince ?? now
    }

    private mutating func failed(_ fault: PoolFault?, _ until: MonotonicInstant, _ now: MonotonicInstant) {
        if let fault { self.lastFault = fault }
        guard !self.isAnyReady else { return }
        self.notReadySince = self.notReadySince ?? now
        self.hasFailed = true
        if let fault, fault.isConfiguration, until > now {
            self.configurationFault = (fault, until)
        }
    }

    /// Requests that this many workers connect, the base workers first.
    mutating func prewarm(_ count: Int) {
        var missing = count
        for index in self.workers.indices where missing > 0 && !self.workers[index].isSurplus {
            missing -= 1
            switch self.workers[index].state {
            case .idle: self.workers[index].isKeepPending = true
            case .absent: self.workers[index].isPrewarmWanted = true
            case .connecting, .ready, .draining, .backingOff: break
            }
        }
        self.needsSettling = true
    }

    // MARK: Decisions

    /// Detects the beginning and the end of an outage.
    mutating func evaluateAvailability(_ now: MonotonicInstant, into actions: inout [PoolAction]) {
        if self.isAnyReady {
            if self.isUnavailable { actions.append(.event(.available)) }
            self.isUnavailable = false
            return
        }
        if let held = self.configurationFault {
            if now < held.until {
                if self.announcedFault != held.fault.description {
                    self.announcedFault = held.fault.description
                    actions.append(.event(.configurationFault(held.fault, until: held.until)))
                }
                if self.queue.wanting > 0 { self.failWaiters(.configurationFault, now: now, into: &actions) }
            } else {
                self.configurationFault = nil
            }
        }
        guard self.hasFailed, let since = self.notReadySince,
            since.advanced(by: self.configuration.unavailableAfter) <= now
        else { return }
        if !self.isUnavailable {
            self.isUnavailable = true
            actions.append(.event(.unavailable(since: since, self.lastFault)))
        }
        if self.configuration.whenUnavailable == .fail { self.failWaiters(.unavailable, now: now, into: &actions) }
    }

    /// Asks a worker to connect if one is needed. Asks none while a worker is connecting.
    mutating func openWorkers(
        _ now: MonotonicInstant,
        _ unqueuedDemand: Int,
        into actions: inout [PoolAction]
    ) {
        for index in self.workers.indices {
            if let until = self.workers[index].askedUntil, until <= now { self.workers[index].askedUntil = nil }
        }
        guard !self.workers.contains(where: { $0.isOpening }) else {
            if self.queue.wanting == 0 { self.isConnectWanted = false }
            return
        }
        let isReady = self.isAnyReady
        if isReady { self.isConnectWanted = false }
        let isTime = self.nextConnect <= now

        if !isReady, self.queue.wanting + unqueuedDemand > 0 || self.isConnectWanted,
            let index = self.workers.firstIndex(where: {
                $0.isAskable && (isTime || (self.isConnectWanted && $0.askableFrom <= now))
            })
        {
            return self.ask(index, .use, now, into: &actions)
        }
        guard isTime else { return }
        if !isReady, self.isConnectWanted, let index = self.earliestBackoff() {
            self.mayShortenBackoff = false
            for index in self.workers.indices { self.workers[index].isBackoffFixed = true }
            return self.ask(index, .shortenBackoff, now, into: &actions)
        }
        if let index = self.workers.firstIndex(where: { $0.isKeepPending && $0.isAskable }) {
            let reason: PoolWorkerConnectReason = self.workers[index].isOverflow ? .prewarm : .keep
            return self.ask(index, reason, now, into: &actions)
        }
        if isReady, self.queue.count + unqueuedDemand > self.growth(now),
            let index = self.workers.firstIndex(where: { $0.isAskable })
        {
            self.ask(index, .demand, now, into: &actions)
        }
    }

    private mutating func ask(
        _ index: Int,
        _ reason: PoolWorkerConnectReason,
        _ now: MonotonicInstant,
        into actions: inout [PoolAction]
    ) {
        self.workers[index].askedUntil = now.advanced(by: Self.reportTimeout)
        self.workers[index].isKeepPending = false
        self.isConnectWanted = false
        let spacing = max(.zero, self.configuration.connectSpacing)
        let jitter = Int64.random(in: 0...max(0, spacing.saturatedNanoseconds / 5), using: &self.random)
        self.nextConnect = now.advanced(by: spacing).advanced(by: .nanoseconds(jitter))
        self.workers[index].askableFrom = self.nextConnect
        let id = WorkerID(index: index, generation: self.workers[index].generation)
        actions.append(.connect(id, reason))
        actions.append(.event(.askedToConnect(id, reason)))
    }

    /// Streams that the ready workers are expected to gain without another connect.
    private func growth(_ now: MonotonicInstant) -> Int {
        self.workers.count { $0.state == .ready && now < $0.growsUntil } * Self.expectedCapacity
    }

    private func earliestBackoff() -> Int? {
        var best: (index: Int, until: MonotonicInstant)?
        for index in self.workers.indices {
            guard case .backingOff(let until) = self.workers[index].state, !self.workers[index].isBackoffFixed,
                !self.workers[index].isSurplus
            else { continue }
            if best.map({ until < $0.until }) ?? true { best = (index, until) }
        }
        return best?.index
    }

    /// Disconnects all idle overflow workers. Replaces old connections, one at a time.
    mutating func disconnectWorkers(
        _ now: MonotonicInstant,
        into actions: inout [PoolAction]
    ) {
        for index in self.workers.indices where self.workers[index].state == .ready {
            if self.workers[index].needsLifetime, let lifetime = self.configuration.maximumLifetime {
                self.workers[index].needsLifetime = false
                let whole = max(0, lifetime.saturatedNanoseconds)
                let jitter = Int64.random(in: -(whole / 10)...(whole / 10), using: &self.random)
                self.workers[index].replaceAt = self.workers[index].readySince.advanced(by: lifetime)
                    .advanced(by: .nanoseconds(jitter))
            }
            let id = WorkerID(index: index, generation: self.workers[index].generation)
            if self.workers[index].isOverflow, self.workers[index].leased == 0,
                self.idleDeadline(self.workers[index]) <= now
            {
                // It gets no more work, even if it has not received the request yet.
                self.workers[index].state = .draining
                self.workers[index].capacity = 0
                actions.append(.disconnect(id, .idle))
                actions.append(.event(.askedToDisconnect(id, .idle)))
            } else if let replaceAt = self.workers[index].replaceAt, max(replaceAt, self.nextConnect) <= now,
                !self.workers.contains(where: { $0.isOpening })
            {
                self.workers[index].replaceAt = nil
                self.nextConnect = now.advanced(by: max(.zero, self.configuration.connectSpacing))
                actions.append(.disconnect(id, .lifetime))
                actions.append(.event(.askedToDisconnect(id, .lifetime)))
            }
        }
    }

    private func idleDeadline(_ worker: Worker) -> MonotonicInstant {
        worker.lastCheckout.advanced(by: max(.milliseconds(1), self.configuration.idleTimeout))
    }

    /// The next time after `now` at which the workers must be checked, if no input arrives before.
    func workerDeadline(_ now: MonotonicInstant) -> MonotonicInstant {
        var earliest = MonotonicInstant.distantFuture
        func consider(_ instant: MonotonicInstant) {
            if instant > now, instant < earliest { earliest = instant }
        }
        var mayConnect = false
        for worker in self.workers {
            if let askedUntil = worker.askedUntil { consider(askedUntil) }
            if worker.isAskable || self.isConnectWanted { mayConnect = true }
            guard worker.state == .ready else { continue }
            if self.queue.count > 0 { consider(worker.growsUntil) }
            if let replaceAt = worker.replaceAt { consider(max(replaceAt, self.nextConnect)) }
            guard worker.isOverflow else { continue }
            consider(self.idleDeadline(worker))
            if self.idleDeadline(worker) <= now {
                // Its streams have been leased for a long time. Their return does not wake the pool, so check again
                // soon.
                consider(now.advanced(by: max(.milliseconds(1), self.configuration.idleTimeout / 8)))
            }
        }
        if mayConnect { consider(self.nextConnect) }
        if !self.isAnyReady, self.hasFailed, let notReadySince {
            consider(notReadySince.advanced(by: self.configuration.unavailableAfter))
        }
        return earliest
    }

    // MARK: Status

    func nextTry(_ now: MonotonicInstant) -> MonotonicInstant {
        var earliest = MonotonicInstant.distantFuture
        for worker in self.workers {
            if case .backingOff(let until) = worker.state { earliest = min(earliest, max(now, until)) }
        }
        return earliest == .distantFuture ? now : earliest
    }

    func status(_ now: MonotonicInstant) -> PoolStatus {
        var capacity = 0
        var leased = 0
        var free = 0
        var mayGrow = false
        var hasOverflow = false
        var workers = self.workers.indices.map { index in
            let worker = self.workers[index]
            capacity += worker.capacity
            leased += worker.leased
            free += worker.free(.interactive)
            let state: PoolStatus.Worker.State
            switch worker.state {
            case .absent: state = .absent
            case .idle: state = .idle
            case .connecting: state = .connecting
            case .ready: state = .ready
            case .draining: state = .draining
            case .backingOff(let until): state = .backingOff(until: until)
            }
            mayGrow = mayGrow || (!worker.isSurplus && state != .ready && state != .draining && state != .absent)
            hasOverflow = hasOverflow || (worker.isOverflow && (state == .ready || state == .connecting))
            return PoolStatus.Worker(
                id: WorkerID(index: index, generation: worker.generation),
                state: state,
                capacity: worker.capacity,
                leased: worker.leased,
                leasedOfEarlierConnections: worker.leasedEarlier,
                age: worker.isConnectionOpen ? worker.readySince.duration(to: now) : nil,
                latency: worker.latency,
                isOverflow: worker.isOverflow
            )
        }
        // Those that the pool does not use are not shown.
        while let last = self.workers[..<workers.count].last, last.isSurplus,
            last.state == .idle || last.state == .absent,
            last.leasedEarlier == 0
        {
            workers.removeLast()
        }
        let availability: PoolStatus.Availability
        if let since = self.notReadySince, !self.isAnyReady {
            availability =
                self.isUnavailable
                ? .unavailable(since: since, nextTry: self.nextTry(now)) : .degraded(since: since)
        } else {
            availability = .available
        }
        let state: PoolStatus.State = free == 0 && !mayGrow ? .full : hasOverflow ? .overflow : .ready
        return PoolStatus(
            state: state,
            availability: availability,
            workers: workers,
            queueDepth: self.queue.count,
            bulkQueueDepth: self.queue.bulkCount,
            queuedBytes: self.queue.bytes,
            capacity: capacity,
            leased: leased
        )
    }
}

extension PoolStateMachine {
    /// One place for a worker.
    struct Slot {
        enum State: Equatable {
            /// Nobody is registered, or it has ended. → idle
            case absent
            /// Waits to be asked. → connecting
            case idle
            /// → ready, backingOff, idle
            case connecting
            /// Takes work. → any
            case ready
            /// Its session takes no more work. → any
            case draining
            /// It tries again by itself at that time. → connecting, idle
            case backingOff(until: MonotonicInstant)
        }

        var isOverflow: Bool
        /// Beyond the places that the pool has now: it gets no work and is not asked to connect.
        var isSurplus = false
        /// Its owner was told that it may be ended, and will end it, whatever becomes of the pool's size.
        var isSealed = false
        /// Its owner has ended it. The place is given up when it is the last one.
        var isEnded = false
        /// It was asked to give its connection up and has not answered.
        var isDismissed = false
        var state = State.absent
        var generation = 0
        /// Counts all sessions of this place; never starts anew.
        var session = 0
        /// The first session of this registration.
        var firstSession = 1
        /// Whether `leased` counts: the session is ready or draining.
        var isSessionOpen = false
        var capacity = 0 {
            didSet { reserve = capacity * reservePercent / 100 }
        }
        var leased = 0
        var reservePercent: Int {
            didSet { reserve = capacity * reservePercent / 100 }
        }
        /// Slots that bulk leaves to interactive work.
        private var reserve = 0
        var latency: Duration?
        /// Leased slots of sessions that have ended, not returned yet.
        var leasedEarlier = 0
        var readySince = MonotonicInstant(nanoseconds: 0)
        var lastCheckout = MonotonicInstant(nanoseconds: 0)
        var lastTurn = 0
        /// When the session should be replaced; `nil` when it has been asked, or never.
        var replaceAt: MonotonicInstant?
        var needsLifetime = false
        /// Its capacity is the first that the peer named, and will probably grow, until this time.
        var growsUntil = MonotonicInstant(nanoseconds: .min)
        /// To be connected because it belongs to the base, not asked yet.
        var isKeepPending = false
        /// To be connected as soon as it is registered, although it overflows.
        var isPrewarmWanted = false
        /// It was asked to connect and has not answered; an answer is expected until this time.
        var askedUntil: MonotonicInstant?
        /// It is not asked again before this time, however much it is wanted: it may fail at once each time.
        var mayAsk = MonotonicInstant(nanoseconds: .min)
        /// Demand does not shorten this backoff: it follows an attempt that was made for the same demand, or it holds off
        /// a fault in the configuration.
        var isBackoffFixed = false
        /// When its last backoff began.
        var backingOffSince = MonotonicInstant(nanoseconds: .min)
        /// Its session was begun before all were to be replaced.
        var isOutdated = false
        var replaceReason = PoolWorkerDisconnectReason.lifetime

        init(isOverflow: Bool, reservePercent: Int) {
            self.isOverflow = isOverflow
            // The configuration may not have been checked yet.
            self.reservePercent = min(max(0, reservePercent), 90)
        }

        var isLeaving: Bool { isSurplus || isSealed }

        /// Slots that a checkout of this lane may get.
        func free(_ lane: PoolLane) -> Int {
            guard state == .ready else { return 0 }
            return max(0, capacity - leased - (lane == .bulk ? reserve : 0))
        }

        /// Whether it would connect if it were asked to.
        var isAskable: Bool { state == .idle && !isLeaving }

        var isOpening: Bool { state == .connecting || askedUntil != nil }

        /// What was leased of the session is of an earlier one from now on.
        mutating func closeSession() {
            leasedEarlier += leased
            leased = 0
            capacity = 0
            isSessionOpen = false
            replaceAt = nil
            needsLifetime = false
            latency = nil
        }
    }

    /// A worker that connects will bring at least about so many slots.
    static let expectedCapacity = 100
    /// A first capacity of 1 is expected to grow for so long.
    static let growthGrace = Duration.seconds(5)
    /// A worker that was asked and does not answer for so long is asked again.
    static let answerTime = Duration.seconds(5)
    /// The loss of a session that has lasted for so long begins another outage.
    static let stableAfter = Duration.seconds(30)
    /// No product of two capacities overflows.
    static let capacityLimit = 1_000_000

    var isAnyReady: Bool { slots.contains { $0.state == .ready } }
    var readyCount: Int { slots.count { $0.state == .ready } }

    /// Leased slots, those of ended sessions included.
    var leasedInAll: Int { slots.reduce(0) { $0 + $1.leased + $1.leasedEarlier } }

    /// Nothing is leased, and nobody waits for a slot.
    var isQuiet: Bool { queue.count == 0 && leasedInAll == 0 }

    // MARK: Inputs

    /// A worker is there. A later generation takes the place of an earlier one, whose leases are void.
    ///
    /// - Returns: whether it is accepted.
    mutating func register(_ id: WorkerID, now: MonotonicInstant) -> Bool {
        makeRoom(for: id)
        guard slots.indices.contains(id.slot) else { return false }
        let old = slots[id.slot]
        guard old.state == .absent || id.generation > old.generation else { return false }
        var slot = Slot(
            isOverflow: old.isOverflow,
            reservePercent: configuration.interactiveReservePercent
        )
        slot.isSurplus = old.isSurplus
        slot.isSealed = old.isSealed
        slot.state = .idle
        slot.generation = id.generation
        slot.session = old.session
        slot.firstSession = old.session + 1
        slot.isKeepPending = !old.isLeaving && (!old.isOverflow || old.isPrewarmWanted)
        slots[id.slot] = slot
        if old.state == .ready { lostReady(now) }
        needsSettling = true
        return true
    }

    /// Whether this worker is registered, in this life of it.
    func isRegistered(_ id: WorkerID) -> Bool {
        slots.indices.contains(id.slot) && slots[id.slot].state != .absent
            && slots[id.slot].generation == id.generation
    }

    /// A worker tells how it is. Reports of a generation that is not registered change nothing.
    mutating func report(_ report: WorkerReport, from id: WorkerID, now: MonotonicInstant) {
        let index = id.slot
        guard isRegistered(id) else { return }
        needsSettling = true
        if case .capacity(let capacity) = report {
            guard slots[index].state == .ready else { return }
            slots[index].capacity = min(max(0, capacity), Self.capacityLimit)
            slots[index].growsUntil = MonotonicInstant(nanoseconds: .min)
            return
        }
        if case .latency(let latency) = report {
            guard slots[index].isSessionOpen else { return }
            slots[index].latency = max(.zero, latency)
            return
        }
        let wasReady = slots[index].state == .ready
        slots[index].askedUntil = nil
        slots[index].isDismissed = false
        switch report {
        case .ready(let capacity):
            becameReady(index, capacity, now)
            return
        case .draining:
            guard wasReady else { return }
            slots[index].state = .draining
            slots[index].capacity = 0
        case .connecting:
            slots[index].closeSession()
            slots[index].state = .connecting
            slots[index].isOutdated = false
            slots[index].isKeepPending = false
        case .backingOff(let until, let fault):
            if slots[index].isSessionOpen, slots[index].readySince.advanced(by: Self.stableAfter) <= now {
                mayShortenBackoff = true
            }
            // Demand that has lasted since before this attempt has seen it fail.
            let isDemandNew = queue.wanting == 0 && lastUse < slots[index].backingOffSince
            slots[index].closeSession()
            slots[index].state = .backingOff(until: until)
            slots[index].backingOffSince = now
            slots[index].isKeepPending = false
            slots[index].isBackoffFixed = (fault?.isConfiguration ?? false) || !(mayShortenBackoff || isDemandNew)
            failed(fault, until, now)
        case .idle:
            slots[index].closeSession()
            slots[index].state = .idle
            // One that has come to the base since it was started does not connect by itself.
            slots[index].isKeepPending = !slots[index].isOverflow && !slots[index].isLeaving
        case .gone:
            slots[index].closeSession()
            slots[index].leasedEarlier = 0
            slots[index].state = .absent
            slots[index].isKeepPending = false
        case .capacity, .latency:
            break
        }
        if wasReady { lostReady(now) }
        if case .idle = report, !hasFailed, !slots.contains(where: { $0.isOpening }) {
            // Nobody fails and nobody tries: this is rest, not an outage.
            notReadySince = nil
        }
    }

    private mutating func becameReady(_ index: Int, _ capacity: Int, _ now: MonotonicInstant) {
        slots[index].closeSession()
        slots[index].state = .ready
        slots[index].session += 1
        slots[index].isSessionOpen = true
        slots[index].capacity = min(max(0, capacity), Self.capacityLimit)
        slots[index].readySince = now
        slots[index].lastCheckout = now
        slots[index].growsUntil =
            capacity <= 1 ? now.advanced(by: Self.growthGrace) : MonotonicInstant(nanoseconds: .min)
        slots[index].isKeepPending = false
        slots[index].needsLifetime = configuration.maximumLifetime != nil
        if slots[index].isOutdated {
            slots[index].isOutdated = false
            slots[index].replaceAt = now
            slots[index].replaceReason = .replacement
            slots[index].needsLifetime = false
        }
        notReadySince = nil
        hasFailed = false
        configurationFault = nil
        announcedFault = nil
    }

    private mutating func lostReady(_ now: MonotonicInstant) {
        guard !isAnyReady else { return }
        notReadySince = notReadySince ?? now
    }

    private mutating func failed(_ fault: PoolFault?, _ until: MonotonicInstant, _ now: MonotonicInstant) {
        if let fault { lastFault = fault }
        guard !isAnyReady else { return }
        notReadySince = notReadySince ?? now
        hasFailed = true
        if let fault, fault.isConfiguration, until > now {
            configurationFault = (fault, until)
        }
    }

    /// So many workers are to connect, the base workers first.
    mutating func prewarm(_ count: Int) {
        var missing = count
        for index in slots.indices where missing > 0 && !slots[index].isLeaving {
            missing -= 1
            switch slots[index].state {
            case .idle: slots[index].isKeepPending = true
            case .absent: slots[index].isPrewarmWanted = true
            case .connecting, .ready, .draining, .backingOff: break
            }
        }
        needsSettling = true
    }

    /// Every session that has begun before now is to be replaced, one after another.
    mutating func replaceAll(now: MonotonicInstant) {
        for index in slots.indices where !slots[index].isLeaving {
            switch slots[index].state {
            case .ready:
                replace(index, now)
            case .connecting:
                slots[index].isOutdated = true
            case .absent, .idle, .draining, .backingOff:
                break
            }
        }
        needsSettling = true
    }

    /// The session of this grant is to be replaced, if it is still the worker's.
    mutating func replace(_ grant: SlotGrant, now: MonotonicInstant) {
        let index = grant.worker.slot
        guard isRegistered(grant.worker), slots[index].state == .ready, slots[index].session == grant.session,
            !slots[index].isLeaving
        else { return }
        replace(index, now)
        needsSettling = true
    }

    private mutating func replace(_ index: Int, _ now: MonotonicInstant) {
        slots[index].replaceAt = now
        slots[index].replaceReason = .replacement
        slots[index].needsLifetime = false
    }

    // MARK: Conclusions

    /// An outage begins or ends.
    mutating func judgeAvailability(_ now: MonotonicInstant, into actions: inout [PoolAction]) {
        if isAnyReady {
            if isUnavailable { actions.append(.event(.available)) }
            isUnavailable = false
            return
        }
        if let held = configurationFault {
            if now < held.until {
                if announcedFault != held.fault.description {
                    announcedFault = held.fault.description
                    actions.append(.event(.configurationFault(held.fault, until: held.until)))
                }
                if queue.wanting > 0 { failWaiters(.configurationFault, now: now, into: &actions) }
            } else {
                configurationFault = nil
            }
        }
        guard hasFailed, let since = notReadySince, since.advanced(by: configuration.unavailableAfter) <= now
        else { return }
        if !isUnavailable {
            isUnavailable = true
            actions.append(.event(.unavailable(since: since, lastFault)))
        }
        if configuration.whenUnavailable == .fail { failWaiters(.unavailable, now: now, into: &actions) }
    }

    /// At most one worker is asked to connect at a time.
    mutating func openWorkers(
        _ now: MonotonicInstant,
        _ unqueuedDemand: Int,
        using random: inout some RandomNumberGenerator,
        into actions: inout [PoolAction]
    ) {
        for index in slots.indices {
            if let until = slots[index].askedUntil, until <= now { slots[index].askedUntil = nil }
        }
        guard !slots.contains(where: { $0.isOpening }) else {
            if queue.wanting == 0 { isUseWanted = false }
            return
        }
        let isReady = isAnyReady
        if isReady { isUseWanted = false }
        let isTime = nextConnect <= now

        if !isReady, queue.wanting + unqueuedDemand > 0 || isUseWanted,
            let index = slots.firstIndex(where: { $0.isAskable && (isTime || (isUseWanted && $0.mayAsk <= now)) })
        {
            return ask(index, .use, now, using: &random, into: &actions)
        }
        guard isTime else { return }
        if !isReady, isUseWanted, let index = earliestBackoff() {
            mayShortenBackoff = false
            for index in slots.indices { slots[index].isBackoffFixed = true }
            return ask(index, .shortenBackoff, now, using: &random, into: &actions)
        }
        if let index = slots.firstIndex(where: { $0.isKeepPending && $0.isAskable }) {
            let reason: PoolWorkerConnectReason = slots[index].isOverflow ? .prewarm : .keep
            return ask(index, reason, now, using: &random, into: &actions)
        }
        if isReady, queue.count + unqueuedDemand > growth(now),
            let index = slots.firstIndex(where: { $0.isAskable })
        {
            ask(index, .demand, now, using: &random, into: &actions)
        }
    }

    private mutating func ask(
        _ index: Int,
        _ reason: PoolWorkerConnectReason,
        _ now: MonotonicInstant,
        using random: inout some RandomNumberGenerator,
        into actions: inout [PoolAction]
    ) {
        slots[index].askedUntil = now.advanced(by: Self.answerTime)
        slots[index].isKeepPending = false
        isUseWanted = false
        let spacing = max(.zero, configuration.connectSpacing)
        let jitter = Int64.random(in: 0...max(0, spacing.saturatedNanoseconds / 5), using: &random)
        nextConnect = now.advanced(by: spacing).advanced(by: .nanoseconds(jitter))
        slots[index].mayAsk = nextConnect
        let id = WorkerID(slot: index, generation: slots[index].generation)
        actions.append(.connect(id, reason))
        actions.append(.event(.askedToConnect(id, reason)))
    }

    /// Slots that the ready workers are expected to gain by themselves.
    private func growth(_ now: MonotonicInstant) -> Int {
        slots.count { $0.state == .ready && now < $0.growsUntil } * Self.expectedCapacity
    }

    private func earliestBackoff() -> Int? {
        var best: (index: Int, until: MonotonicInstant)?
        for index in slots.indices {
            guard case .backingOff(let until) = slots[index].state, !slots[index].isBackoffFixed,
                !slots[index].isLeaving
            else { continue }
            if best.map({ until < $0.until }) ?? true { best = (index, until) }
        }
        return best?.index
    }

    /// Idle overflow workers disconnect; old sessions are replaced one at a time.
    mutating func retireWorkers(
        _ now: MonotonicInstant,
        using random: inout some RandomNumberGenerator,
        into actions: inout [PoolAction]
    ) {
        for index in slots.indices where slots[index].state == .ready {
            if slots[index].needsLifetime, let lifetime = configuration.maximumLifetime {
                slots[index].needsLifetime = false
                let whole = max(0, lifetime.saturatedNanoseconds)
                let jitter = Int64.random(in: -(whole / 10)...(whole / 10), using: &random)
                slots[index].replaceAt = slots[index].readySince.advanced(by: lifetime)
                    .advanced(by: .nanoseconds(jitter))
                slots[index].replaceReason = .lifetime
            }
            let id = WorkerID(slot: index, generation: slots[index].generation)
            if slots[index].isOverflow, slots[index].leased == 0, idleTime(slots[index]) <= now {
                // It gets no more work, whether it has heard of this or not.
                slots[index].state = .draining
                slots[index].capacity = 0
                actions.append(.disconnect(id, .idle))
                actions.append(.event(.askedToDisconnect(id, .idle)))
            } else if let replaceAt = slots[index].replaceAt, max(replaceAt, nextConnect) <= now,
                !slots.contains(where: { $0.isOpening })
            {
                slots[index].replaceAt = nil
                nextConnect = now.advanced(by: max(.zero, configuration.connectSpacing))
                let reason = slots[index].replaceReason
                actions.append(.disconnect(id, reason))
                actions.append(.event(.askedToDisconnect(id, reason)))
            }
        }
    }

    private func idleTime(_ slot: Slot) -> MonotonicInstant {
        slot.lastCheckout.advanced(by: max(.milliseconds(1), configuration.idleTimeout))
    }

    /// When the workers' affairs must be looked at again, if nothing happens before. Always after `now`.
    func workerDeadline(_ now: MonotonicInstant) -> MonotonicInstant {
        var earliest = MonotonicInstant.distantFuture
        func consider(_ instant: MonotonicInstant) {
            if instant > now, instant < earliest { earliest = instant }
        }
        var mayConnect = false
        for slot in slots {
            if let askedUntil = slot.askedUntil { consider(askedUntil) }
            if slot.isAskable || isUseWanted { mayConnect = true }
            guard slot.state == .ready else { continue }
            if queue.count > 0 { consider(slot.growsUntil) }
            if let replaceAt = slot.replaceAt { consider(max(replaceAt, nextConnect)) }
            guard slot.isOverflow else { continue }
            consider(idleTime(slot))
            if idleTime(slot) <= now {
                // Leased for long: its return wakes nobody, so look again before long.
                consider(now.advanced(by: max(.milliseconds(1), configuration.idleTimeout / 8)))
            }
        }
        if mayConnect { consider(nextConnect) }
        if !isAnyReady, hasFailed, let notReadySince {
            consider(notReadySince.advanced(by: configuration.unavailableAfter))
        }
        return earliest
    }

    // MARK: Looking

    func nextProbe(_ now: MonotonicInstant) -> MonotonicInstant {
        var earliest = MonotonicInstant.distantFuture
        for slot in slots {
            if case .backingOff(let until) = slot.state { earliest = min(earliest, max(now, until)) }
        }
        return earliest == .distantFuture ? now : earliest
    }

    func status(_ now: MonotonicInstant) -> PoolStatus {
        var capacity = 0
        var leased = 0
        var free = 0
        var mayGrow = false
        var hasOverflow = false
        let workers = slots.indices.map { index in
            let slot = slots[index]
            capacity += slot.capacity
            leased += slot.leased
            free += slot.free(.interactive)
            let state: PoolStatus.Worker.State
            switch slot.state {
            case .absent: state = .absent
            case .idle: state = .idle
            case .connecting: state = .connecting
            case .ready: state = .ready
            case .draining: state = .draining
            case .backingOff(let until): state = .backingOff(until: until)
            }
            mayGrow = mayGrow || (!slot.isLeaving && state != .ready && state != .draining && state != .absent)
            hasOverflow = hasOverflow || (slot.isOverflow && (state == .ready || state == .connecting))
            return PoolStatus.Worker(
                id: WorkerID(slot: index, generation: slot.generation),
                state: state,
                capacity: slot.capacity,
                leased: slot.leased,
                leasedOfEarlierSessions: slot.leasedEarlier,
                age: slot.isSessionOpen ? slot.readySince.duration(to: now) : nil,
                latency: slot.latency,
                isOverflow: slot.isOverflow
            )
        }
        let availability: PoolStatus.Availability
        if let since = notReadySince, !isAnyReady {
            availability =
                isUnavailable ? .unavailable(since: since, nextProbe: nextProbe(now)) : .degraded(since: since)
        } else {
            availability = .available
        }
        let state: PoolStatus.State = free == 0 && !mayGrow ? .full : hasOverflow ? .overflow : .ready
        return PoolStatus(
            state: state,
            availability: availability,
            workers: workers,
            queueDepth: queue.count,
            bulkQueueDepth: queue.bulkCount,
            queuedBytes: queue.bytes,
            capacity: capacity,
            leased: leased
        )
    }
}

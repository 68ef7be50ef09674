extension PoolStateMachine {
    /// Another configuration, which was checked before. Places that are there no more become surplus: their workers get
    /// no further work, finish what they have, and are ended by their owner; see ``sealRetirable()``. Who waits goes on
    /// waiting, beyond a bound of the queue that has become smaller, too, and leaves at the time that held when it came.
    mutating func reconfigure(_ new: PoolConfiguration) {
        let old = configuration
        configuration = new
        let count = new.workerCount
        while slots.count < count { appendPlace() }
        for index in slots.indices {
            let wasKept = !slots[index].isOverflow && !slots[index].isSurplus
            slots[index].isSurplus = index >= count
            slots[index].isOverflow = index >= new.size
            slots[index].reservePercent = min(max(0, new.interactiveReservePercent), 90)
            let isKept = !slots[index].isOverflow && !slots[index].isLeaving
            if isKept, !wasKept, slots[index].state == .idle { slots[index].isKeepPending = true }
            if !isKept, wasKept { slots[index].isKeepPending = false }
            if !slots[index].isSurplus { slots[index].isEnded = false }
            if slots[index].isLeaving {
                slots[index].isKeepPending = false
                slots[index].isPrewarmWanted = false
            }
            if new.maximumLifetime != old.maximumLifetime { lifetimeChanged(index) }
        }
        // A connect that waits for a long spacing need not wait for it any more.
        if new.connectSpacing < old.connectSpacing { nextConnect = MonotonicInstant(nanoseconds: .min) }
        forgetEnded()
        needsSettling = true
    }

    private mutating func appendPlace() {
        var slot = Slot(isOverflow: true, reservePercent: configuration.interactiveReservePercent)
        slot.session = sessionFloor
        slot.firstSession = sessionFloor + 1
        slots.append(slot)
    }

    /// Makes a surplus place for a worker that registers beyond the pool's places: its owner began to start it before the
    /// pool became smaller. A worker that the pool did not know would be of no use when the pool grows again, and nobody
    /// would ask its owner to end it.
    mutating func makeRoom(for id: WorkerID) {
        guard (slots.count..<PoolConfiguration.maximumWorkers).contains(id.slot) else { return }
        while slots.count <= id.slot {
            appendPlace()
            slots[slots.count - 1].isSurplus = true
            slots[slots.count - 1].isEnded = true
        }
    }

    /// Counts a session's life anew, from its beginning.
    private mutating func lifetimeChanged(_ index: Int) {
        guard slots[index].state == .ready, slots[index].replaceAt == nil || slots[index].replaceReason == .lifetime
        else { return }
        slots[index].replaceAt = nil
        slots[index].needsLifetime = configuration.maximumLifetime != nil
    }

    /// Those that leave give up their connections. What is leased of them goes on.
    mutating func dismissSurplus(into actions: inout [PoolAction]) {
        for index in slots.indices where slots[index].isLeaving {
            switch slots[index].state {
            case .ready:
                slots[index].state = .draining
                slots[index].capacity = 0
                slots[index].replaceAt = nil
                slots[index].needsLifetime = false
            case .connecting, .backingOff:
                if slots[index].isDismissed { continue }
            case .absent, .idle, .draining:
                continue
            }
            slots[index].isDismissed = true
            let id = WorkerID(slot: index, generation: slots[index].generation)
            actions.append(.disconnect(id, .surplus))
            actions.append(.event(.askedToDisconnect(id, .surplus)))
        }
    }

    // MARK: The end of surplus workers

    /// Waits until a surplus worker can be ended, or there is none.
    mutating func awaitRetirable(now: MonotonicInstant) -> Observation {
        if phase == .stopped || hasRetirableOrNoSurplus { return .reached }
        return .wait(
            queue.append(
                WaiterQueue.Waiter(wanted: 0, bytes: 0, deadline: .distantFuture, since: now, lane: .retirements)
            )
        )
    }

    /// The surplus workers that nobody needs any more. They are not used again before their owner has ended them, which
    /// ``ended(_:now:)`` tells.
    mutating func sealRetirable() -> [Int] {
        guard phase != .stopped else { return [] }
        let found = slots.indices.filter { slots[$0].isRetirable }
        for index in found { slots[index].isSealed = true }
        return found
    }

    /// The owner has ended these workers. One that is registered now has been started since, and stays: the end of the
    /// one before it was seen before its own beginning.
    mutating func ended(_ places: [Int], now: MonotonicInstant) {
        for index in places where slots.indices.contains(index) && slots[index].isSealed {
            slots[index].isSealed = false
            slots[index].isEnded = slots[index].isSurplus && slots[index].state == .absent
            slots[index].isKeepPending = !slots[index].isOverflow && slots[index].isAskable
        }
        forgetEnded()
        needsSettling = true
    }

    private var hasRetirableOrNoSurplus: Bool {
        var isAnyLeft = false
        for slot in slots where slot.isSurplus && !slot.isSealed && !slot.isEnded {
            if slot.isRetirable { return true }
            isAnyLeft = true
        }
        return !isAnyLeft
    }

    mutating func tellRetirements(into actions: inout [PoolAction]) {
        guard queue.count(.retirements) > 0, hasRetirableOrNoSurplus else { return }
        while let id = queue.first(.retirements), queue.remove(id) != nil { actions.append(.reached(id)) }
    }

    /// Gives up the last places whose workers have been ended.
    private mutating func forgetEnded() {
        while slots.count > configuration.workerCount, let last = slots.last, last.isEnded, last.state == .absent {
            sessionFloor = max(sessionFloor, last.session)
            slots.removeLast()
        }
    }
}

extension PoolStateMachine.Slot {
    /// Whether nothing is lost when its worker is ended.
    fileprivate var isRetirable: Bool {
        guard isSurplus, !isSealed, !isEnded, leased + leasedEarlier == 0, !isOpening else { return false }
        return state == .idle || state == .absent
    }
}

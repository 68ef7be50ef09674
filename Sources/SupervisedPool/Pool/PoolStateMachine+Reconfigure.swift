extension PoolStateMachine {
    /// Another configuration, which was checked before. Places that are there no more become surplus: their workers get
    /// no further work, finish what they have, and are ended by their owner; see ``sealRetirable()``. Who waits goes on
    /// waiting, beyond a bound of the queue that has become smaller, too, and leaves at the time that held when it came.
    mutating func reconfigure(_ new: PoolConfiguration) {
        let old = self.configuration
        self.configuration = new
        let count = new.workerCount
        while self.slots.count < count { self.appendPlace() }
        for index in self.slots.indices {
            let wasKept = !self.slots[index].isOverflow && !self.slots[index].isSurplus
            self.slots[index].isSurplus = index >= count
            self.slots[index].isOverflow = index >= new.size
            self.slots[index].reservePercent = min(max(0, new.interactiveReservePercent), 90)
            let isKept = !self.slots[index].isOverflow && !self.slots[index].isLeaving
            if isKept, !wasKept, self.slots[index].state == .idle { self.slots[index].isKeepPending = true }
            if !isKept, wasKept { self.slots[index].isKeepPending = false }
            if !self.slots[index].isSurplus { self.slots[index].isEnded = false }
            if self.slots[index].isLeaving {
                self.slots[index].isKeepPending = false
                self.slots[index].isPrewarmWanted = false
            }
            if new.maximumLifetime != old.maximumLifetime { self.lifetimeChanged(index) }
        }
        // A connect that waits for a long spacing need not wait for it any more.
        if new.connectSpacing < old.connectSpacing { self.nextConnect = MonotonicInstant(nanoseconds: .min) }
        self.forgetEnded()
        self.needsSettling = true
    }

    private mutating func appendPlace() {
        var slot = Slot(isOverflow: true, reservePercent: self.configuration.interactiveReservePercent)
        slot.session = self.sessionFloor
        slot.firstSession = self.sessionFloor + 1
        self.slots.append(slot)
    }

    /// Makes a surplus place for a worker that registers beyond the pool's places: its owner began to start it before the
    /// pool became smaller. A worker that the pool did not know would be of no use when the pool grows again, and nobody
    /// would ask its owner to end it.
    mutating func makeRoom(for id: WorkerID) {
        guard (self.slots.count..<PoolConfiguration.maximumWorkers).contains(id.slot) else { return }
        while self.slots.count <= id.slot {
            self.appendPlace()
            self.slots[self.slots.count - 1].isSurplus = true
            self.slots[self.slots.count - 1].isEnded = true
        }
    }

    /// Counts a session's life anew, from its beginning.
    private mutating func lifetimeChanged(_ index: Int) {
        guard self.slots[index].state == .ready,
            self.slots[index].replaceAt == nil || self.slots[index].replaceReason == .lifetime
        else { return }
        self.slots[index].replaceAt = nil
        self.slots[index].needsLifetime = self.configuration.maximumLifetime != nil
    }

    /// Those that leave give up their connections. What is leased of them goes on.
    mutating func dismissSurplus(into actions: inout [PoolAction]) {
        for index in self.slots.indices where self.slots[index].isLeaving {
            switch self.slots[index].state {
            case .ready:
                self.slots[index].state = .draining
                self.slots[index].capacity = 0
                self.slots[index].replaceAt = nil
                self.slots[index].needsLifetime = false
            case .connecting, .backingOff:
                if self.slots[index].isDismissed { continue }
            case .absent, .idle, .draining:
                continue
            }
            self.slots[index].isDismissed = true
            let id = WorkerID(slot: index, generation: self.slots[index].generation)
            actions.append(.disconnect(id, .surplus))
            actions.append(.event(.askedToDisconnect(id, .surplus)))
        }
    }

    // MARK: The end of surplus workers

    /// Waits until a surplus worker can be ended, or there is none.
    mutating func awaitRetirable(now: MonotonicInstant) -> Observation {
        if self.phase == .stopped || self.hasRetirableOrNoSurplus { return .reached }
        return .wait(
            self.queue.append(
                WaiterQueue.Waiter(wanted: 0, bytes: 0, deadline: .distantFuture, since: now, lane: .retirements)
            )
        )
    }

    /// The surplus workers that nobody needs any more. They are not used again before their owner has ended them, which
    /// ``ended(_:now:)`` tells.
    mutating func sealRetirable() -> [Int] {
        guard self.phase != .stopped else { return [] }
        let found = self.slots.indices.filter { self.slots[$0].isRetirable }
        for index in found { self.slots[index].isSealed = true }
        return found
    }

    /// The owner has ended these workers. One that is registered now has been started since, and stays: the end of the
    /// one before it was seen before its own beginning.
    mutating func ended(_ places: [Int], now: MonotonicInstant) {
        for index in places where self.slots.indices.contains(index) && self.slots[index].isSealed {
            self.slots[index].isSealed = false
            self.slots[index].isEnded = self.slots[index].isSurplus && self.slots[index].state == .absent
            self.slots[index].isKeepPending = !self.slots[index].isOverflow && self.slots[index].isAskable
        }
        self.forgetEnded()
        self.needsSettling = true
    }

    private var hasRetirableOrNoSurplus: Bool {
        var isAnyLeft = false
        for slot in self.slots where slot.isSurplus && !slot.isSealed && !slot.isEnded {
            if slot.isRetirable { return true }
            isAnyLeft = true
        }
        return !isAnyLeft
    }

    mutating func tellRetirements(into actions: inout [PoolAction]) {
        guard self.queue.count(.retirements) > 0, self.hasRetirableOrNoSurplus else { return }
        while let id = self.queue.first(.retirements), self.queue.remove(id) != nil { actions.append(.reached(id)) }
    }

    /// Gives up the last places whose workers have been ended.
    private mutating func forgetEnded() {
        while self.slots.count > self.configuration.workerCount, let last = self.slots.last, last.isEnded,
            last.state == .absent
        {
            self.sessionFloor = max(self.sessionFloor, last.session)
            self.slots.removeLast()
        }
    }
}

extension PoolStateMachine.Slot {
    /// Whether nothing is lost when its worker is ended.
    fileprivate var isRetirable: Bool {
        guard self.isSurplus, !self.isSealed, !self.isEnded, self.leased + self.leasedEarlier == 0, !self.isOpening
        else { return false }
        return self.state == .idle || self.state == .absent
    }
}

extension PoolStateMachine {
    /// Applies another configuration, which has already been validated.
    ///
    /// Workers beyond the new number become surplus: they get no more work, finish the work they have, and are ended by
    /// their owner; see ``handOverRetirable()``. Waiting checkouts keep waiting, even if they exceed a reduced bound of
    /// the queue.
    mutating func reconfigure(_ new: PoolConfiguration) {
        let old = self.configuration
        self.configuration = new
        let count = new.workerCount
        while self.workers.count < count { self.appendWorker() }
        for index in self.workers.indices {
            let wasKept = !self.workers[index].isOverflow && !self.workers[index].isSurplus
            self.workers[index].isSurplus = index >= count
            self.workers[index].isOverflow = index >= new.size
            self.workers[index].reservePercent = min(max(0, new.interactiveReservePercent), 90)
            let isKept = !self.workers[index].isOverflow && !self.workers[index].isLeaving
            if isKept, !wasKept, self.workers[index].state == .idle { self.workers[index].isKeepPending = true }
            if !isKept, wasKept { self.workers[index].isKeepPending = false }
            if !self.workers[index].isSurplus { self.workers[index].isEnded = false }
            if self.workers[index].isLeaving {
                self.workers[index].isKeepPending = false
                self.workers[index].isPrewarmWanted = false
            }
            if new.maximumLifetime != old.maximumLifetime { self.lifetimeChanged(index) }
        }
        // A connect that waits because of the longer spacing no longer has to.
        if new.connectSpacing < old.connectSpacing { self.nextConnect = MonotonicInstant(nanoseconds: .min) }
        self.forgetEnded()
        self.needsSettling = true
    }

    private mutating func appendWorker() {
        var worker = Worker(isOverflow: true, reservePercent: self.configuration.interactiveReservePercent)
        worker.session = self.sessionFloor
        worker.firstSession = self.sessionFloor + 1
        self.workers.append(worker)
    }

    /// Adds a surplus entry for a worker that registers beyond the pool's current number: its owner had begun to start
    /// it before the pool became smaller. If the pool did not know this worker, it could not use it after growing
    /// again, and would never ask its owner to end it.
    mutating func makeRoom(for id: WorkerID) {
        guard (self.workers.count..<PoolConfiguration.maximumWorkers).contains(id.index) else { return }
        while self.workers.count <= id.index {
            self.appendWorker()
            self.workers[self.workers.count - 1].isSurplus = true
            self.workers[self.workers.count - 1].isEnded = true
        }
    }

    /// Recalculates the end of a session's lifetime, from the session's start.
    private mutating func lifetimeChanged(_ index: Int) {
        guard self.workers[index].state == .ready else { return }
        self.workers[index].replaceAt = nil
        self.workers[index].needsLifetime = self.configuration.maximumLifetime != nil
    }

    /// Asks the workers that are leaving to give up their connections. Their leases stay valid.
    mutating func dismissSurplus(into actions: inout [PoolAction]) {
        for index in self.workers.indices where self.workers[index].isLeaving {
            switch self.workers[index].state {
            case .ready:
                self.workers[index].state = .draining
                self.workers[index].capacity = 0
                self.workers[index].replaceAt = nil
                self.workers[index].needsLifetime = false
            case .connecting, .backingOff:
                if self.workers[index].isDismissed { continue }
            case .absent, .idle, .draining:
                continue
            }
            self.workers[index].isDismissed = true
            let id = WorkerID(index: index, generation: self.workers[index].generation)
            actions.append(.disconnect(id, .surplus))
            actions.append(.event(.askedToDisconnect(id, .surplus)))
        }
    }

    // MARK: Ending surplus workers

    /// Waits until a surplus worker can be ended, or until there are none.
    mutating func awaitRetirable(now: MonotonicInstant) -> Observation {
        if self.phase == .stopped || self.hasRetirableOrNoSurplus { return .reached }
        return .wait(
            self.queue.append(
                WaiterQueue.Waiter(wanted: 0, bytes: 0, deadline: .distantFuture, since: now, list: .retirements)
            )
        )
    }

    /// Returns the surplus workers that are no longer needed. They are not used again until ``ended(_:now:)`` confirms
    /// that their owner has ended them.
    mutating func handOverRetirable() -> [Int] {
        guard self.phase != .stopped else { return [] }
        let found = self.workers.indices.filter { self.workers[$0].isRetirable }
        for index in found { self.workers[index].isHandedOver = true }
        return found
    }

    /// The owner has ended these workers. If a worker is registered now, it is a successor and stays: the end of its
    /// predecessor was processed before its own registration.
    mutating func ended(_ indexes: [Int], now: MonotonicInstant) {
        for index in indexes where self.workers.indices.contains(index) && self.workers[index].isHandedOver {
            self.workers[index].isHandedOver = false
            self.workers[index].isEnded = self.workers[index].isSurplus && self.workers[index].state == .absent
            self.workers[index].isKeepPending = !self.workers[index].isOverflow && self.workers[index].isAskable
        }
        self.forgetEnded()
        self.needsSettling = true
    }

    private var hasRetirableOrNoSurplus: Bool {
        var isAnyLeft = false
        for worker in self.workers where worker.isSurplus && !worker.isHandedOver && !worker.isEnded {
            if worker.isRetirable { return true }
            isAnyLeft = true
        }
        return !isAnyLeft
    }

    mutating func reportRetirements(into actions: inout [PoolAction]) {
        guard self.queue.count(.retirements) > 0, self.hasRetirableOrNoSurplus else { return }
        while let id = self.queue.first(.retirements), self.queue.remove(id) != nil { actions.append(.reached(id)) }
    }

    /// Removes the last entries whose workers have been ended.
    private mutating func forgetEnded() {
        while self.workers.count > self.configuration.workerCount, let last = self.workers.last, last.isEnded,
            last.state == .absent
        {
            self.sessionFloor = max(self.sessionFloor, last.session)
            self.workers.removeLast()
        }
    }
}

extension PoolStateMachine.Worker {
    /// Whether the worker can be ended without losing work.
    fileprivate var isRetirable: Bool {
        guard self.isSurplus, !self.isHandedOver, !self.isEnded, self.leased + self.leasedEarlier == 0, !self.isOpening
        else { return false }
        return self.state == .idle || self.state == .absent
    }
}

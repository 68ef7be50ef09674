extension PoolStateMachine {
    /// Applies another configuration, which has already been validated.
    ///
    /// Workers beyond the new number become surplus: they get no more work, finish the work they have, and give up their
    /// connections. Waiting checkouts keep waiting, even if they exceed a reduced bound of the queue.
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
            let isKept = !self.workers[index].isOverflow && !self.workers[index].isSurplus
            if isKept, !wasKept, self.workers[index].state == .idle { self.workers[index].isKeepPending = true }
            if !isKept, wasKept { self.workers[index].isKeepPending = false }
            if self.workers[index].isSurplus {
                self.workers[index].isKeepPending = false
                self.workers[index].isPrewarmWanted = false
            } else {
                self.workers[index].isDismissed = false
            }
            if new.maximumLifetime != old.maximumLifetime { self.lifetimeChanged(index) }
        }
        // A connect that waits because of the longer spacing no longer has to.
        if new.connectSpacing < old.connectSpacing { self.nextConnect = MonotonicInstant(nanoseconds: .min) }
        self.needsSettling = true
    }

    private mutating func appendWorker() {
        self.workers.append(Worker(isOverflow: true, reservePercent: self.configuration.interactiveReservePercent))
    }

    /// Adds a surplus entry for a worker that registers beyond the pool's current number: its owner had begun to start
    /// it before the pool became smaller. If the pool did not know this worker, it could not use it after growing
    /// again.
    mutating func makeRoom(for id: WorkerID) {
        guard (self.workers.count..<PoolConfiguration.maximumWorkers).contains(id.index) else { return }
        while self.workers.count <= id.index {
            self.appendWorker()
            self.workers[self.workers.count - 1].isSurplus = true
        }
    }

    /// Recalculates the end of a connection's lifetime, from the connection's start.
    private mutating func lifetimeChanged(_ index: Int) {
        guard self.workers[index].state == .ready else { return }
        self.workers[index].replaceAt = nil
        self.workers[index].needsLifetime = self.configuration.maximumLifetime != nil
    }

    /// Asks the surplus workers to give up their connections. Their leases stay valid.
    mutating func dismissSurplus(into actions: inout [PoolAction]) {
        for index in self.workers.indices where self.workers[index].isSurplus && !self.workers[index].isDismissed {
            switch self.workers[index].state {
            case .ready:
                self.workers[index].state = .draining
                self.workers[index].capacity = 0
                self.workers[index].replaceAt = nil
                self.workers[index].needsLifetime = false
            case .connecting, .backingOff, .idle:
                // An idle worker may just have been asked to connect.
                break
            case .absent, .draining:
                continue
            }
            self.workers[index].isDismissed = true
            let id = WorkerID(index: index, generation: self.workers[index].generation)
            actions.append(.disconnect(id, .surplus))
            actions.append(.event(.askedToDisconnect(id, .surplus)))
        }
    }
}

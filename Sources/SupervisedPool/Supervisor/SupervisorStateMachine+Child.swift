extension SupervisorStateMachine {
    mutating func startStep(_ id: ChildSpec.ID) {
        guard let index = self.index(of: id) else { return }
        self.children[index].state = .starting
        self.children[index].generation += 1
        self.children[index].isDeaf = false
        self.awaited = id
        self.actions.append(.start(self.children[index].spec, generation: self.children[index].generation))
    }

    mutating func stopStep(_ id: ChildSpec.ID, _ now: MonotonicInstant) {
        guard let index = self.index(of: id) else { return }
        switch self.children[index].state {
        case .idle, .exited:
            self.children[index].state = .idle
            self.children[index].isRestarting = false
            if self.children[index].spec.restart == .temporary { self.children.remove(at: index) }
        case .starting, .running:
            self.awaited = id
            self.stopChild(index, now)
        case .stopping, .cancelled:
            self.awaited = id
        }
    }

    mutating func stopChild(_ index: ChildList.Index, _ now: MonotonicInstant) {
        let id = self.children[index].spec.id
        switch self.children[index].spec.shutdown {
        case .within(let time) where !self.isHurried && time > .zero:
            self.children[index].state = .stopping(cancelAt: now.advanced(by: time))
            self.actions.append(.requestShutdown(id))
        case .infinity where !self.isHurried:
            self.children[index].state = .stopping(cancelAt: .distantFuture)
            self.actions.append(.requestShutdown(id))
        case .brutalKill, .within, .infinity:
            self.cancelChild(index, now)
        }
    }

    mutating func cancelChild(_ index: ChildList.Index, _ now: MonotonicInstant) {
        self.children[index].state = .cancelled(deafAt: now.advanced(by: Self.deafAfter))
        self.actions.append(.cancel(self.children[index].spec.id))
    }

    mutating func markRunning(_ index: ChildList.Index) {
        self.children[index].state = .running
        self.children[index].isRestarting = false
        if self.awaited == self.children[index].spec.id { self.awaited = nil }
        self.actions.append(
            .event(.childStarted(self.children[index].spec.id, generation: self.children[index].generation))
        )
    }

    /// A child ended by itself after it had started. The reaction follows in its turn.
    mutating func ended(_ index: ChildList.Index, _ exit: ChildExit) {
        self.children[index].state = .exited(exit)
        self.pending.append(.exit(self.children[index].spec.id, generation: self.children[index].generation))
    }

    /// A child that was asked to stop, or was cancelled, has ended.
    mutating func stopped(_ index: ChildList.Index, _ exit: ChildExit) {
        let child = self.children[index]
        var thrown: (any Error)?
        if case .failed(let error) = exit { thrown = error }
        self.actions.append(.event(.childStopped(child.spec.id, generation: child.generation, error: thrown)))
        if self.awaited == child.spec.id { self.awaited = nil }
        self.children[index].state = .idle
        self.children[index].isRestarting = false
        self.children[index].isDeaf = false
        if child.spec.restart == .temporary { self.children.remove(at: index) }
    }

    /// A child threw before it had started.
    mutating func startFailed(_ index: ChildList.Index, _ thrown: any Error, _ now: MonotonicInstant) {
        let child = self.children[index]
        self.recordFailure(index, thrown, now)
        self.children[index].state = .idle
        self.children[index].isDeaf = false
        // If the operation waits for another child, because the whole tree is being stopped, nothing follows.
        guard self.awaited == child.spec.id else { return }
        self.awaited = nil
        guard let running = self.operation else { return }
        switch running.purpose {
        case .boot:
            self.end(self.error(.startFailed, child: child.spec.id), now)
        case .restart:
            // The restart is retried after the inputs that have arrived in the meantime. The retry also counts as a
            // restart.
            self.children[index].isRestarting = true
            self.operation = nil
            self.pending.append(.tryAgain(child.spec.id, generation: child.generation))
        case .command(let number, let command):
            self.operation = nil
            if case .start = command { self.children.remove(at: index) }
            self.actions.append(.reply(number, .failure(self.error(.startFailed, child: child.spec.id))))
        case .end:
            break
        }
    }

    mutating func recordFailure(_ index: ChildList.Index, _ thrown: (any Error)?, _ now: MonotonicInstant) {
        let child = self.children[index]
        let failure = ChildFailure(id: child.spec.id, generation: child.generation, error: thrown, when: now)
        self.failures.append(failure)
        if self.failures.count > min(100, max(1, self.window.intensity.restarts &+ 1)) { self.failures.removeFirst() }
        self.actions.append(.event(.childFailed(failure)))
    }
}

extension SupervisorStateMachine {
    mutating func startStep(_ id: ChildSpec.ID, _ now: MonotonicInstant) {
        guard let index = index(of: id) else { return }
        let timeout = children[index].spec.startTimeout
        children[index].state = .starting(failsAt: timeout.map { now.advanced(by: $0) } ?? .distantFuture)
        children[index].hasTimedOut = false
        children[index].generation += 1
        children[index].isDeaf = false
        awaited = id
        actions.append(.start(children[index].spec, generation: children[index].generation))
    }

    mutating func stopStep(_ id: ChildSpec.ID, _ now: MonotonicInstant) {
        guard let index = index(of: id) else { return }
        switch children[index].state {
        case .idle, .waiting, .exited:
            children[index].state = .idle
            children[index].isRestarting = false
            if children[index].spec.restart == .temporary { children.remove(at: index) }
        case .starting, .running:
            awaited = id
            stopChild(index, now)
        case .stopping, .cancelled:
            awaited = id
        }
    }

    mutating func stopChild(_ index: ChildList.Index, _ now: MonotonicInstant) {
        let id = children[index].spec.id
        switch children[index].spec.shutdown {
        case .within(let time) where !isHurried && time > .zero:
            children[index].state = .stopping(cancelAt: now.advanced(by: time))
            actions.append(.requestShutdown(id))
        case .infinity where !isHurried:
            children[index].state = .stopping(cancelAt: .distantFuture)
            actions.append(.requestShutdown(id))
        case .brutalKill, .within, .infinity:
            cancelChild(index, now)
        }
    }

    mutating func cancelChild(_ index: ChildList.Index, _ now: MonotonicInstant) {
        children[index].state = .cancelled(deafAt: now.advanced(by: Self.deafAfter))
        actions.append(.cancel(children[index].spec.id))
    }

    mutating func markRunning(_ index: ChildList.Index, _ now: MonotonicInstant) {
        children[index].state = .running
        children[index].runningSince = now
        children[index].isRestarting = false
        if awaited == children[index].spec.id { awaited = nil }
        actions.append(.event(.childStarted(children[index].spec.id, generation: children[index].generation)))
    }

    mutating func ended(_ index: ChildList.Index, _ exit: ChildExit) {
        children[index].state = .exited(exit)
        pending.append(.exit(children[index].spec.id, generation: children[index].generation))
    }

    mutating func stopped(_ index: ChildList.Index, _ exit: ChildExit) {
        let child = children[index]
        var thrown: (any Error)?
        if case .failed(let error) = exit { thrown = error }
        actions.append(.event(.childStopped(child.spec.id, generation: child.generation, error: thrown)))
        if awaited == child.spec.id { awaited = nil }
        children[index].state = .idle
        children[index].isRestarting = false
        children[index].isDeaf = false
        if child.spec.restart == .temporary { children.remove(at: index) }
    }

    /// A child threw before it had started, or did not start in time.
    mutating func startFailed(_ index: ChildList.Index, _ thrown: any Error, _ now: MonotonicInstant) {
        let child = children[index]
        recordFailure(index, thrown, now)
        children[index].state = .idle
        children[index].hasTimedOut = false
        children[index].isDeaf = false
        // When all is being stopped, another child's end is awaited.
        guard awaited == child.spec.id else { return }
        awaited = nil
        guard let running = operation else { return }
        switch running.purpose {
        case .boot:
            end(error(.startFailed, child: child.spec.id), now)
        case .restart:
            // Counts, and is tried again after what else has happened meanwhile.
            children[index].isRestarting = true
            operation = nil
            pending.append(.tryAgain(child.spec.id, generation: child.generation))
        case .command(let number, let command):
            operation = nil
            if case .start = command { children.remove(at: index) }
            actions.append(.reply(number, .failure(error(.startFailed, child: child.spec.id))))
        case .end, .pause:
            break
        }
    }

    mutating func recordFailure(_ index: ChildList.Index, _ thrown: (any Error)?, _ now: MonotonicInstant) {
        let child = children[index]
        let failure = ChildFailure(id: child.spec.id, generation: child.generation, error: thrown, when: now)
        failures.append(failure)
        if failures.count > min(100, max(1, window.intensity.restarts &+ 1)) { failures.removeFirst() }
        actions.append(.event(.childFailed(failure)))
    }
}

import DequeModule

/// How one life of a child ended.
enum ChildExit: Sendable {
    case returned
    case cancelled
    case failed(any Error)
}

/// Every decision of a supervisor, without tasks, clocks or locks.
///
/// Like OTP's supervisor it does one thing at a time: an *operation* is a list of steps (stop this child, start that one)
/// of which each waits for the child's answer. What happens in between waits in `pending`, except for the two things
/// that must not wait: the end of the whole tree, and the termination of the very child whose start is awaited.
struct SupervisorStateMachine {
    /// What the shell has to do, in order.
    enum Action {
        /// Run the child in a task of its own; report `started` and `exited` with this generation.
        case start(ChildSpec, generation: Int)
        /// Ask the child to stop.
        case requestShutdown(ChildSpec.ID)
        /// Cancel the child's task.
        case cancel(ChildSpec.ID)
        /// Answer a command.
        case reply(Int, Result<Void, SupervisorError>)
        /// All first children have started.
        case ready
        case event(SupervisorEvent)
        /// No child is left; `run` returns, or throws the error.
        case finish(SupervisorError?)
    }

    /// What is asked of a running supervisor from outside.
    enum Command {
        case start(ChildSpec)
        case terminate(ChildSpec.ID)
        case restart(ChildSpec.ID)
        case delete(ChildSpec.ID)
    }

    enum Phase: Sendable {
        /// Not begun. → booting
        case new
        /// The first children start, one after another. → running, ending
        case booting
        /// → ending
        case running
        /// All children are being stopped. → finished
        case ending
        case finished
    }

    struct Child {
        enum State {
            /// Not running. → starting
            case idle
            /// Its restart waits. → idle, starting
            case waiting(until: MonotonicInstant)
            /// Started, has not said so; the start fails at the given time. → running, stopping, exited, idle
            case starting(failsAt: MonotonicInstant)
            /// → stopping, exited
            case running
            /// It has ended by itself; what follows waits its turn in `pending`. → idle, starting
            case exited(ChildExit)
            /// Asked to stop; cancelled at the given time. → cancelled, idle
            case stopping(cancelAt: MonotonicInstant)
            /// Cancelled; reported as deaf at the given time. → idle
            case cancelled(deafAt: MonotonicInstant)
        }
        let spec: ChildSpec
        /// Orders the children; never used again.
        let number: Int
        var state = State.idle
        var generation = 0
        /// It has ended and is to be started again.
        var isRestarting = false
        var isDeaf = false
        /// It is being stopped because it did not start in time: a failed start when it has ended.
        var hasTimedOut = false
        /// How long its next restart waits; nil: not at all.
        var backoff: Backoff?
        var runningSince = MonotonicInstant.distantFuture

        init(spec: ChildSpec, number: Int) {
            self.spec = spec
            self.number = number
            self.backoff = spec.restartBackoff
        }

        var isAlive: Bool {
            switch state {
            case .idle, .waiting, .exited: false
            case .starting, .running, .stopping, .cancelled: true
            }
        }

        /// When ``SupervisorStateMachine/timer(now:)`` must look at it.
        var deadline: MonotonicInstant {
            switch state {
            case .starting(let instant), .stopping(let instant), .cancelled(let instant), .waiting(let instant): instant
            case .idle, .running, .exited: .distantFuture
            }
        }

        /// Whether an ``AutoShutdown`` waits for its end.
        var isSignificant: Bool {
            guard spec.isSignificant else { return false }
            if case .exited = state { return true }
            return isAlive || isRestarting
        }
    }

    enum Step {
        case start(ChildSpec.ID)
        case stop(ChildSpec.ID)
    }

    struct Operation {
        enum Purpose {
            case boot
            case restart
            /// The siblings of a child whose restart waits are stopped.
            case pause
            case command(Int, Command)
            case end(SupervisorError?)
        }
        let purpose: Purpose
        var steps: Deque<Step>
        /// The child it starts was terminated meanwhile.
        var isInterrupted = false
    }

    enum Pending {
        case exit(ChildSpec.ID, generation: Int)
        /// A restart has failed: another one, which counts too.
        case tryAgain(ChildSpec.ID, generation: Int)
        /// A restart has waited for its time.
        case restart(ChildSpec.ID, generation: Int)
        case command(Int, Command)
    }

    static let deafAfter = Duration.seconds(5)

    let name: String
    let strategy: SupervisionStrategy
    let autoShutdown: AutoShutdown
    private(set) var phase = Phase.new
    var window: RestartWindow
    var children = ChildList()
    private var firstChildren: [ChildSpec]
    var failures: Deque<ChildFailure> = []
    var pending: Deque<Pending> = []
    var operation: Operation?
    /// The child whose answer the operation waits for.
    var awaited: ChildSpec.ID?
    /// The tree's task was cancelled: nobody is given time.
    var isHurried = false
    var actions: [Action] = []
    private var random: SplitMix64

    /// - Parameter seed: Makes the restart backoff repeatable; random when `nil`.
    init(
        name: String,
        strategy: SupervisionStrategy,
        intensity: RestartIntensity,
        autoShutdown: AutoShutdown = .never,
        children: [ChildSpec],
        seed: UInt64? = nil
    ) {
        self.name = name
        self.strategy = strategy
        self.autoShutdown = autoShutdown
        self.window = RestartWindow(intensity)
        self.firstChildren = children
        self.random = SplitMix64(seed: seed)
    }

    /// Whether the child can be what its specification says.
    private func isValid(_ spec: ChildSpec) -> Bool {
        !spec.isSignificant || (autoShutdown != .never && spec.restart != .permanent)
    }

    // MARK: Inputs

    /// `run` was called.
    mutating func begin(now: MonotonicInstant) -> [Action] {
        guard phase == .new else { return [] }
        phase = .booting
        for spec in firstChildren {
            guard index(of: spec.id) == nil else {
                phase = .finished
                children.removeAll()
                return [.finish(error(.childExists, child: spec.id))]
            }
            guard isValid(spec) else {
                phase = .finished
                children.removeAll()
                return [.finish(error(.invalidSpec, child: spec.id))]
            }
            children.append(spec)
        }
        operation = Operation(purpose: .boot, steps: Deque(firstChildren.map { .start($0.id) }))
        firstChildren = []
        work(now)
        return flush()
    }

    /// A child said that it has started.
    mutating func started(_ id: ChildSpec.ID, generation: Int, now: MonotonicInstant) -> [Action] {
        guard let index = index(of: id), children[index].generation == generation,
            case .starting = children[index].state
        else { return [] }
        markRunning(index, now)
        work(now)
        return flush()
    }

    /// A child's task has ended.
    mutating func exited(
        _ id: ChildSpec.ID,
        generation: Int,
        _ exit: ChildExit,
        now: MonotonicInstant
    ) -> [Action] {
        guard let index = index(of: id), children[index].generation == generation else { return [] }
        switch children[index].state {
        case .idle, .waiting, .exited:
            return []
        case .stopping, .cancelled:
            if children[index].hasTimedOut {
                startFailed(index, error(.startTimedOut, child: id), now)
            } else {
                stopped(index, exit)
            }
        case .starting:
            if case .failed(let error) = exit {
                startFailed(index, error, now)
            } else {
                // It had nothing to wait for: a start and an end in one.
                markRunning(index, now)
                ended(index, exit)
            }
        case .running:
            ended(index, exit)
        }
        work(now)
        return flush()
    }

    /// Graceful stop.
    mutating func shutdown(now: MonotonicInstant) -> [Action] {
        end(nil, now)
        return flush()
    }

    /// The task that runs the tree was cancelled: the same order, but nobody is given time.
    mutating func cancel(now: MonotonicInstant) -> [Action] {
        isHurried = true
        end(nil, now)
        // Children already asked to stop lose the rest of their time; those not yet asked wait for their turn.
        for child in children.inOrder {
            if case .stopping = child.state, let index = index(of: child.spec.id) { cancelChild(index, now) }
        }
        return flush()
    }

    /// The time ``nextDeadline`` has come.
    mutating func timer(now: MonotonicInstant) -> [Action] {
        while let index = children.firstDue(now) {
            switch children[index].state {
            case .starting(let failsAt) where failsAt <= now:
                guard phase != .ending else {
                    // It is stopped when its turn comes.
                    children[index].state = .starting(failsAt: .distantFuture)
                    continue
                }
                children[index].hasTimedOut = true
                stopChild(index, now)
            case .stopping(let cancelAt) where cancelAt <= now:
                cancelChild(index, now)
            case .cancelled(let deafAt) where deafAt <= now:
                children[index].state = .cancelled(deafAt: .distantFuture)
                children[index].isDeaf = true
                actions.append(.event(.childDeaf(children[index].spec.id, generation: children[index].generation)))
            case .waiting(let until) where until <= now:
                // Its turn comes after what else has happened.
                children[index].state = .waiting(until: .distantFuture)
                pending.append(.restart(children[index].spec.id, generation: children[index].generation))
            default:
                break
            }
        }
        work(now)
        return flush()
    }

    /// Somebody asks for something. The answer is a `reply` with the same number, sooner or later.
    mutating func command(_ command: Command, number: Int, now: MonotonicInstant) -> [Action] {
        switch phase {
        case .new, .finished:
            return [.reply(number, .failure(error(.notRunning)))]
        case .ending:
            return [.reply(number, .failure(error(.shuttingDown)))]
        case .booting, .running:
            pending.append(.command(number, command))
        }
        if phase == .running, case .terminate(let id) = command, awaited == id, let index = index(of: id),
            case .starting = children[index].state
        {
            // Else a start that never ends could not be ended.
            operation?.isInterrupted = true
            stopChild(index, now)
        }
        work(now)
        return flush()
    }

    /// When ``timer(now:)`` must be called; `nil` when nothing waits for a time.
    var nextDeadline: MonotonicInstant? {
        children.earliestDeadline
    }
}

// MARK: - Operations

extension SupervisorStateMachine {
    private mutating func flush() -> [Action] {
        defer { actions = [] }
        return actions
    }

    func index(of id: ChildSpec.ID) -> ChildList.Index? { children.index(of: id) }

    /// Goes on as far as possible without an answer from a child.
    private mutating func work(_ now: MonotonicInstant) {
        while awaited == nil, phase != .finished {
            if operation != nil {
                guard let step = operation?.steps.popFirst() else {
                    completeOperation()
                    continue
                }
                switch step {
                case .start(let id): startStep(id, now)
                case .stop(let id): stopStep(id, now)
                }
            } else if let next = pending.popFirst() {
                dispatch(next, now)
            } else {
                return
            }
        }
    }

    private mutating func completeOperation() {
        guard let completed = operation else { return }
        operation = nil
        switch completed.purpose {
        case .boot:
            phase = .running
            actions.append(.ready)
        case .restart, .pause:
            break
        case .command(let number, let command):
            var result: Result<Void, SupervisorError> = .success(())
            if completed.isInterrupted {
                switch command {
                case .start(let spec):
                    if let index = index(of: spec.id) { children.remove(at: index) }
                    result = .failure(error(.childTerminated, child: spec.id))
                case .restart(let id):
                    result = .failure(error(.childTerminated, child: id))
                case .terminate, .delete:
                    break
                }
            }
            actions.append(.reply(number, result))
        case .end(let error):
            phase = .finished
            actions.append(.finish(error))
        }
    }

    private mutating func dispatch(_ next: Pending, _ now: MonotonicInstant) {
        switch next {
        case .exit(let id, let generation):
            guard let index = index(of: id), children[index].generation == generation,
                case .exited(let exit) = children[index].state
            else { return }
            decide(index, exit, now)
        case .tryAgain(let id, let generation):
            guard let index = index(of: id), children[index].generation == generation, children[index].isRestarting
            else { return }
            restart(index, now)
        case .restart(let id, let generation):
            guard let index = index(of: id), children[index].generation == generation,
                case .waiting = children[index].state
            else { return }
            restartAffected(by: index)
        case .command(let number, let command):
            execute(command, number)
        }
    }

    /// A child ended by itself. OTP: permanent always starts again, transient after a failure, temporary never.
    private mutating func decide(_ index: ChildList.Index, _ exit: ChildExit, _ now: MonotonicInstant) {
        let child = children[index]
        var thrown: (any Error)?
        if case .failed(let error) = exit { thrown = error }
        if thrown != nil || child.spec.restart == .permanent {
            recordFailure(index, thrown, now)
        } else {
            actions.append(.event(.childEnded(child.spec.id, generation: child.generation)))
        }
        switch child.spec.restart {
        case .permanent:
            restart(index, now)
        case .transient where thrown != nil:
            restart(index, now)
        case .transient:
            children[index].state = .idle
            endIfInsignificant(without: child.spec, now)
        case .temporary:
            children.remove(at: index)
            endIfInsignificant(without: child.spec, now)
        }
    }

    /// OTP's automatic shutdown: a significant child has ended by itself.
    private mutating func endIfInsignificant(without spec: ChildSpec, _ now: MonotonicInstant) {
        guard spec.isSignificant else { return }
        switch autoShutdown {
        case .never:
            return
        case .anySignificant:
            end(nil, now)
        case .allSignificant:
            if children.significantCount == 0 { end(nil, now) }
        }
    }

    private mutating func restart(_ index: ChildList.Index, _ now: MonotonicInstant) {
        let id = children[index].spec.id
        children[index].state = .idle
        children[index].isRestarting = true
        guard window.record(now) else {
            let failure = error(.intensityExceeded, child: id)
            actions.append(.event(.escalating(failure)))
            end(failure, now)
            return
        }
        let pause = pause(index, now)
        actions.append(.event(.restarting(id, after: pause)))
        guard pause > .zero else { return restartAffected(by: index) }
        children[index].state = .waiting(until: now.advanced(by: pause))
        // Those that are to be started anew with it must not work without it meanwhile.
        let siblings = affected(by: index).reversed().filter { $0.spec.id != id && ($0.isAlive || $0.isRestarting) }
        guard !siblings.isEmpty else { return }
        operation = Operation(purpose: .pause, steps: Deque(siblings.map { .stop($0.spec.id) }))
    }

    /// How long the restart waits. A child that has run for longer than the period has got over its trouble.
    private mutating func pause(_ index: ChildList.Index, _ now: MonotonicInstant) -> Duration {
        guard children[index].backoff != nil else { return .zero }
        if children[index].runningSince.duration(to: now) > window.intensity.period { children[index].backoff?.reset() }
        children[index].runningSince = .distantFuture
        return children[index].backoff?.next(using: &random) ?? .zero
    }

    private func affected(by index: ChildList.Index) -> [Child] {
        let child = children[index]
        switch strategy.kind {
        case .oneForOne: return [child]
        case .restForOne: return children.inOrder.filter { $0.number >= child.number }
        case .oneForAll: return children.inOrder
        }
    }

    private mutating func restartAffected(by index: ChildList.Index) {
        // As in OTP, siblings that had ended or had been terminated start again too, and temporary ones are gone.
        let affected = affected(by: index)
        var steps = Deque(affected.reversed().map { Step.stop($0.spec.id) })
        for child in affected where child.spec.restart != .temporary { steps.append(.start(child.spec.id)) }
        operation = Operation(purpose: .restart, steps: steps)
    }

    /// Starts the siblings that were stopped for a restart that does not take place any more. As with a restart, those
    /// that had ended or had been terminated start too.
    private mutating func resumeSiblings(of index: ChildList.Index) {
        let first = children[index]
        if strategy.kind == .restForOne {
            // The restart of an earlier child brings these back as well.
            for child in children.inOrder where child.number < first.number && child.isRestarting { return }
        }
        var steps: Deque<Step> = []
        for child in affected(by: index) where child.number != first.number {
            // Those after it wait for its restart.
            if child.isRestarting { break }
            if case .idle = child.state { steps.append(.start(child.spec.id)) }
        }
        operation = Operation(purpose: .restart, steps: steps)
    }

    private mutating func execute(_ command: Command, _ number: Int) {
        func refuse(_ code: SupervisorError.Code, _ id: ChildSpec.ID) {
            actions.append(.reply(number, .failure(error(code, child: id))))
        }
        switch command {
        case .start(let spec):
            guard index(of: spec.id) == nil else { return refuse(.childExists, spec.id) }
            guard isValid(spec) else { return refuse(.invalidSpec, spec.id) }
            children.append(spec)
            operation = Operation(purpose: .command(number, command), steps: [.start(spec.id)])
        case .terminate(let id):
            guard let index = index(of: id) else { return refuse(.childNotFound, id) }
            guard children[index].isRestarting else {
                operation = Operation(purpose: .command(number, command), steps: [.stop(id)])
                return
            }
            children[index].state = .idle
            children[index].isRestarting = false
            actions.append(.reply(number, .success(())))
            resumeSiblings(of: index)
        case .restart(let id), .delete(let id):
            guard let index = index(of: id) else { return refuse(.childNotFound, id) }
            guard !children[index].isRestarting else { return refuse(.childRestarting, id) }
            guard case .idle = children[index].state else { return refuse(.childRunning, id) }
            var steps: Deque<Step> = []
            if case .restart = command { steps = [.start(id)] } else { children.remove(at: index) }
            operation = Operation(purpose: .command(number, command), steps: steps)
        }
    }

    /// Stops everything, last child first. Whatever else went on is given up.
    mutating func end(_ error: SupervisorError?, _ now: MonotonicInstant) {
        switch phase {
        case .ending, .finished:
            return
        case .new:
            phase = .finished
            actions.append(.finish(error))
            return
        case .booting, .running:
            break
        }
        phase = .ending
        if let running = operation, case .command(let number, _) = running.purpose {
            actions.append(.reply(number, .failure(self.error(.shuttingDown))))
        }
        while let next = pending.popFirst() {
            if case .command(let number, _) = next {
                actions.append(.reply(number, .failure(self.error(.shuttingDown))))
            }
        }
        awaited = nil
        operation = Operation(purpose: .end(error), steps: Deque(children.inOrder.reversed().map { .stop($0.spec.id) }))
        work(now)
    }
}

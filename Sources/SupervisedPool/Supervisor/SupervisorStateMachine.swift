import DequeModule

/// How one life of a child ended.
enum ChildExit: Sendable {
    case returned
    case cancelled
    case failed(any Error)
}

/// Makes every decision of a supervisor, without tasks, clocks or locks.
///
/// Like OTP's supervisor, it does one thing at a time. An *operation* is a list of steps (stop this child, start that
/// one), and each step waits for the child's report. Inputs that arrive meanwhile wait in `pending`, with two
/// exceptions that must not wait: the end of the whole tree, and the termination of the child whose start the operation
/// is waiting for.
struct SupervisorStateMachine {
    /// The actions that the actor around the machine performs, in order.
    enum Action {
        /// Run the child in its own task, and report `started` and `exited` with this generation.
        case start(ChildSpec, generation: Int)
        /// Ask the child to stop.
        case requestShutdown(ChildSpec.ID)
        /// Cancel the child's task.
        case cancel(ChildSpec.ID)
        /// Reply to a command.
        case reply(Int, Result<Void, SupervisorError>)
        /// All children that the supervisor was created with have started.
        case ready
        case event(SupervisorEvent)
        /// No child is left. `run` returns, or throws the error.
        case finish(SupervisorError?)
    }

    /// Requests to a running supervisor.
    enum Command {
        case start(ChildSpec)
        case terminate(ChildSpec.ID)
        case restart(ChildSpec.ID)
        case delete(ChildSpec.ID)
    }

    enum Phase: Sendable {
        /// Not started yet. → booting, finished
        case new
        /// The first children are starting, one after another. → running, ending
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
            /// Started, but it has not reported that yet. → running, stopping, cancelled, exited, idle
            case starting
            /// → stopping, cancelled, exited
            case running
            /// Ended by itself; the reaction is queued in `pending`. → idle, starting
            case exited(ChildExit)
            /// Asked to stop; cancelled at the given time. → cancelled, idle
            case stopping(cancelAt: MonotonicInstant)
            /// Cancelled; reported as deaf at the given time. → idle
            case cancelled(deafAt: MonotonicInstant)
        }
        let spec: ChildSpec
        /// Defines the order of the children. Never reused.
        let number: Int
        var state = State.idle
        var generation = 0
        /// It has ended and is to be restarted.
        var isRestarting = false
        var isDeaf = false

        var isAlive: Bool {
            switch self.state {
            case .idle, .exited: false
            case .starting, .running, .stopping, .cancelled: true
            }
        }

        /// When ``SupervisorStateMachine/timer(now:)`` must next check this child.
        var deadline: MonotonicInstant {
            switch self.state {
            case .stopping(let instant), .cancelled(let instant): instant
            case .idle, .starting, .running, .exited: .distantFuture
            }
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
            case command(Int, Command)
            case end(SupervisorError?)
        }
        let purpose: Purpose
        var steps: Deque<Step>
        /// The child that this operation starts was terminated in the meantime.
        var isInterrupted = false
    }

    enum Pending {
        case exit(ChildSpec.ID, generation: Int)
        /// A restart has failed. Another one follows, which also counts against the restart intensity.
        case tryAgain(ChildSpec.ID, generation: Int)
        case command(Int, Command)
    }

    static let deafAfter = Duration.seconds(5)

    let name: String
    let strategy: SupervisionStrategy
    private(set) var phase = Phase.new
    var window: RestartWindow
    var children = ChildList()
    private var firstChildren: [ChildSpec]
    var failures: Deque<ChildFailure> = []
    var pending: Deque<Pending> = []
    var operation: Operation?
    /// The child whose report the operation waits for.
    var awaited: ChildSpec.ID?
    /// The tree's task was cancelled, so children are cancelled without being given time to stop.
    var isHurried = false
    var actions: [Action] = []

    init(name: String, strategy: SupervisionStrategy, intensity: RestartIntensity, children: [ChildSpec]) {
        self.name = name
        self.strategy = strategy
        self.window = RestartWindow(intensity)
        self.firstChildren = children
    }

    // MARK: Inputs

    /// `run` was called.
    mutating func begin(now: MonotonicInstant) -> [Action] {
        guard self.phase == .new else { return [] }
        self.phase = .booting
        for spec in self.firstChildren {
            guard self.index(of: spec.id) == nil else {
                self.phase = .finished
                self.children.removeAll()
                return [.finish(self.error(.childExists, child: spec.id))]
            }
            self.children.append(spec)
        }
        self.operation = Operation(purpose: .boot, steps: Deque(self.firstChildren.map { .start($0.id) }))
        self.firstChildren = []
        self.work(now)
        return self.flush()
    }

    /// A child reported that it has started.
    mutating func started(_ id: ChildSpec.ID, generation: Int, now: MonotonicInstant) -> [Action] {
        guard let index = self.index(of: id), self.children[index].generation == generation,
            case .starting = self.children[index].state
        else { return [] }
        self.markRunning(index)
        self.work(now)
        return self.flush()
    }

    /// A child's task has ended.
    mutating func exited(
        _ id: ChildSpec.ID,
        generation: Int,
        _ exit: ChildExit,
        now: MonotonicInstant
    ) -> [Action] {
        guard let index = self.index(of: id), self.children[index].generation == generation else { return [] }
        switch self.children[index].state {
        case .idle, .exited:
            return []
        case .stopping, .cancelled:
            self.stopped(index, exit)
        case .starting:
            if case .failed(let error) = exit {
                self.startFailed(index, error, now)
            } else {
                // It ended without reporting a start. Treat this as a start followed by an end.
                self.markRunning(index)
                self.ended(index, exit)
            }
        case .running:
            self.ended(index, exit)
        }
        self.work(now)
        return self.flush()
    }

    /// Stops the tree gracefully.
    mutating func shutdown(now: MonotonicInstant) -> [Action] {
        self.end(nil, now)
        return self.flush()
    }

    /// Stops the tree because its task was cancelled: in the same order, but children are given no time to stop.
    mutating func cancel(now: MonotonicInstant) -> [Action] {
        self.isHurried = true
        self.end(nil, now)
        // Children that were already asked to stop are cancelled now. The others are cancelled in their order.
        for child in self.children.inOrder {
            if case .stopping = child.state, let index = self.index(of: child.spec.id) { self.cancelChild(index, now) }
        }
        return self.flush()
    }

    /// Called when ``nextDeadline`` is reached.
    mutating func timer(now: MonotonicInstant) -> [Action] {
        while let index = self.children.firstDue(now) {
            switch self.children[index].state {
            case .stopping(let cancelAt) where cancelAt <= now:
                self.cancelChild(index, now)
            case .cancelled(let deafAt) where deafAt <= now:
                self.children[index].state = .cancelled(deafAt: .distantFuture)
                self.children[index].isDeaf = true
                self.actions.append(
                    .event(.childDeaf(self.children[index].spec.id, generation: self.children[index].generation))
                )
            default:
                break
            }
        }
        self.work(now)
        return self.flush()
    }

    /// Handles a request. The reply is a `reply` action with the same number, now or later.
    mutating func command(_ command: Command, number: Int, now: MonotonicInstant) -> [Action] {
        switch self.phase {
        case .new, .finished:
            return [.reply(number, .failure(self.error(.notRunning)))]
        case .ending:
            return [.reply(number, .failure(self.error(.shuttingDown)))]
        case .booting, .running:
            self.pending.append(.command(number, command))
        }
        if self.phase == .running, case .terminate(let id) = command, self.awaited == id,
            let index = self.index(of: id),
            case .starting = self.children[index].state
        {
            // Without this, a start that never completes could not be terminated.
            self.operation?.isInterrupted = true
            self.stopChild(index, now)
        }
        self.work(now)
        return self.flush()
    }

    /// When ``timer(now:)`` must be called; `nil` if no child has a deadline.
    var nextDeadline: MonotonicInstant? {
        self.children.earliestDeadline
    }
}

// MARK: - Operations

extension SupervisorStateMachine {
    private mutating func flush() -> [Action] {
        defer { self.actions = [] }
        return self.actions
    }

    func index(of id: ChildSpec.ID) -> ChildList.Index? { self.children.index(of: id) }

    /// Works through operations and pending inputs until a child's report is needed.
    private mutating func work(_ now: MonotonicInstant) {
        while self.awaited == nil, self.phase != .finished {
            if self.operation != nil {
                guard let step = self.operation?.steps.popFirst() else {
                    self.completeOperation()
                    continue
                }
                switch step {
                case .start(let id): self.startStep(id)
                case .stop(let id): self.stopStep(id, now)
                }
            } else if let next = self.pending.popFirst() {
                self.dispatch(next, now)
            } else {
                return
            }
        }
    }

    private mutating func completeOperation() {
        guard let completed = self.operation else { return }
        self.operation = nil
        switch completed.purpose {
        case .boot:
            self.phase = .running
            self.actions.append(.ready)
        case .restart:
            break
        case .command(let number, let command):
            var result: Result<Void, SupervisorError> = .success(())
            if completed.isInterrupted {
                switch command {
                case .start(let spec):
                    if let index = self.index(of: spec.id) { self.children.remove(at: index) }
                    result = .failure(self.error(.childTerminated, child: spec.id))
                case .restart(let id):
                    result = .failure(self.error(.childTerminated, child: id))
                case .terminate, .delete:
                    break
                }
            }
            self.actions.append(.reply(number, result))
        case .end(let error):
            self.phase = .finished
            self.actions.append(.finish(error))
        }
    }

    private mutating func dispatch(_ next: Pending, _ now: MonotonicInstant) {
        switch next {
        case .exit(let id, let generation):
            guard let index = self.index(of: id), self.children[index].generation == generation,
                case .exited(let exit) = self.children[index].state
            else { return }
            self.decide(index, exit, now)
        case .tryAgain(let id, let generation):
            guard let index = self.index(of: id), self.children[index].generation == generation,
                self.children[index].isRestarting
            else { return }
            self.restart(index, now)
        case .command(let number, let command):
            self.execute(command, number)
        }
    }

    /// Decides what follows when a child ended by itself. As in OTP, a permanent child is always restarted, a transient
    /// one only after a failure, and a temporary one never.
    private mutating func decide(_ index: ChildList.Index, _ exit: ChildExit, _ now: MonotonicInstant) {
        let child = self.children[index]
        var thrown: (any Error)?
        if case .failed(let error) = exit { thrown = error }
        if thrown != nil || child.spec.restart == .permanent {
            self.recordFailure(index, thrown, now)
        } else {
            self.actions.append(.event(.childEnded(child.spec.id, generation: child.generation)))
        }
        switch child.spec.restart {
        case .permanent:
            self.restart(index, now)
        case .transient where thrown != nil:
            self.restart(index, now)
        case .transient:
            self.children[index].state = .idle
        case .temporary:
            self.children.remove(at: index)
        }
    }

    private mutating func restart(_ index: ChildList.Index, _ now: MonotonicInstant) {
        let id = self.children[index].spec.id
        self.children[index].state = .idle
        self.children[index].isRestarting = true
        guard self.window.record(now) else {
            let failure = self.error(.intensityExceeded, child: id)
            self.actions.append(.event(.escalating(failure)))
            self.end(failure, now)
            return
        }
        self.actions.append(.event(.restarting(id)))
        // As in OTP, siblings that had ended or were terminated start again too, and temporary ones are removed.
        let affected = self.affected(by: index)
        var steps = Deque(affected.reversed().map { Step.stop($0.spec.id) })
        for child in affected where child.spec.restart != .temporary { steps.append(.start(child.spec.id)) }
        self.operation = Operation(purpose: .restart, steps: steps)
    }

    private func affected(by index: ChildList.Index) -> [Child] {
        let child = self.children[index]
        switch self.strategy.kind {
        case .oneForOne: return [child]
        case .restForOne: return self.children.inOrder.filter { $0.number >= child.number }
        case .oneForAll: return self.children.inOrder
        }
    }

    /// Starts the siblings that were stopped for a restart that has been called off. As with a restart, siblings that
    /// had ended or were terminated start too.
    private mutating func resumeSiblings(of index: ChildList.Index) {
        let first = self.children[index]
        if self.strategy.kind == .restForOne {
            // The restart of an earlier child will start these siblings as well.
            for child in self.children.inOrder where child.number < first.number && child.isRestarting { return }
        }
        var steps: Deque<Step> = []
        for child in self.affected(by: index) where child.number != first.number {
            // The siblings after this one wait for its restart.
            if child.isRestarting { break }
            if case .idle = child.state { steps.append(.start(child.spec.id)) }
        }
        self.operation = Operation(purpose: .restart, steps: steps)
    }

    private mutating func execute(_ command: Command, _ number: Int) {
        func refuse(_ code: SupervisorError.Code, _ id: ChildSpec.ID) {
            self.actions.append(.reply(number, .failure(self.error(code, child: id))))
        }
        switch command {
        case .start(let spec):
            guard self.index(of: spec.id) == nil else { return refuse(.childExists, spec.id) }
            self.children.append(spec)
            self.operation = Operation(purpose: .command(number, command), steps: [.start(spec.id)])
        case .terminate(let id):
            guard let index = self.index(of: id) else { return refuse(.childNotFound, id) }
            guard self.children[index].isRestarting else {
                self.operation = Operation(purpose: .command(number, command), steps: [.stop(id)])
                return
            }
            self.children[index].state = .idle
            self.children[index].isRestarting = false
            self.actions.append(.reply(number, .success(())))
            self.resumeSiblings(of: index)
        case .restart(let id), .delete(let id):
            guard let index = self.index(of: id) else { return refuse(.childNotFound, id) }
            guard !self.children[index].isRestarting else { return refuse(.childRestarting, id) }
            guard case .idle = self.children[index].state else { return refuse(.childRunning, id) }
            var steps: Deque<Step> = []
            if case .restart = command { steps = [.start(id)] } else { self.children.remove(at: index) }
            self.operation = Operation(purpose: .command(number, command), steps: steps)
        }
    }

    /// Stops all children, last child first. Any other operation is abandoned.
    mutating func end(_ error: SupervisorError?, _ now: MonotonicInstant) {
        switch self.phase {
        case .ending, .finished:
            return
        case .new:
            self.phase = .finished
            self.actions.append(.finish(error))
            return
        case .booting, .running:
            break
        }
        self.phase = .ending
        if let running = self.operation, case .command(let number, _) = running.purpose {
            self.actions.append(.reply(number, .failure(self.error(.shuttingDown))))
        }
        while let next = self.pending.popFirst() {
            if case .command(let number, _) = next {
                self.actions.append(.reply(number, .failure(self.error(.shuttingDown))))
            }
        }
        self.awaited = nil
        self.operation = Operation(
            purpose: .end(error),
            steps: Deque(self.children.inOrder.reversed().map { .stop($0.spec.id) })
        )
        self.work(now)
    }
}

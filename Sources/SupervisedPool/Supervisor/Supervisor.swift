import APNSBasics

/// Starts children in order, restarts them when they fail, stops them in reverse order, and gives up when they fail too
/// often: OTP's supervisor in structured concurrency.
///
/// When ``run()`` returns, nothing that it started is still running. A supervisor runs only once. If it is itself a
/// child, its child specification creates a new one at each start.
public actor Supervisor {
    private enum Item: Sendable {
        case started(ChildSpec.ID, life: Int)
        case exited(ChildSpec.ID, life: Int, ChildExit)
        case command(SupervisorStateMachine.Command, number: Int)
        case abandoned(Int)
        case shutdown
        case cancelled
    }

    private struct Running {
        /// Unlike a generation, it is never reused, not even for a child that was deleted and added again.
        let life: Int
        let context: ChildContext
        let task: Task<Void, any Error>
    }

    private let clock: any MonotonicClock
    private let onEvent: @Sendable (SupervisorEvent) -> Void
    private let mailbox = Mailbox<Item>(isAttentive: true)
    private var machine: SupervisorStateMachine
    private var running: [ChildSpec.ID: Running] = [:]
    /// The callers that wait for a reply, by the number of their command.
    private var callers: [Int: OneShot<Result<Void, SupervisorError>>] = [:]
    private var lastCommand = 0
    private var lastLife = 0
    private var hasRun = false
    private var wasCancelled = false
    private var outcome: Result<Void, SupervisorError>?

    /// Creates a supervisor.
    ///
    /// - Parameters:
    ///   - name: The supervisor's name, used in error texts.
    ///   - strategy: Which siblings are restarted along with a failed child.
    ///   - intensity: How many restarts are allowed. 3 in 5 s by default.
    ///   - children: The first children, in the order of their start. Names must be unique.
    ///   - clock: The clock.
    ///   - onEvent: Receives each event. It is called on the supervisor's thread, so it must return immediately.
    public init(
        name: String,
        strategy: SupervisionStrategy,
        intensity: RestartIntensity = RestartIntensity(),
        children: [ChildSpec],
        clock: any MonotonicClock = SystemMonotonicClock(),
        onEvent: @escaping @Sendable (SupervisorEvent) -> Void = { _ in }
    ) {
        self.clock = clock
        self.onEvent = onEvent
        self.machine = SupervisorStateMachine(
            name: name,
            strategy: strategy,
            intensity: intensity,
            children: children
        )
    }

    /// Runs the tree until it is stopped. Returns after ``shutdown()``.
    ///
    /// If the task is cancelled, the children are also stopped in reverse order, but they are cancelled immediately.
    ///
    /// - Throws: ``SupervisorError`` if a child failed at its first start, if children failed too often, if two
    ///   children have the same name, or if the supervisor has run before; `CancellationError` if the task was cancelled. In every case, nothing is left running.
    public func run() async throws {
        try await self.serve(nil)
    }

    /// Runs the tree as a child of another supervisor. It counts as started when all its own children have started, and
    /// it stops when the parent asks it to. Use ``ChildSpec/Shutdown/infinity`` in its child specification.
    ///
    /// - Throws: The errors of ``run()``.
    public func run(_ context: ChildContext) async throws {
        try await self.serve(context)
    }

    /// Stops the tree: all children are asked to stop, in reverse order, each within its own time, and then `run`
    /// returns. Before `run` is called, it makes `run` return immediately. Does not wait.
    public nonisolated func shutdown() {
        self.mailbox.post(.shutdown)
    }

    /// Adds a child, starts it, and returns when it has started.
    ///
    /// - Throws: `childExists`, `startFailed` (the specification is not kept), `childTerminated`, `notRunning`,
    ///   `shuttingDown`, `cancelled`.
    public func startChild(_ spec: ChildSpec) async throws(SupervisorError) {
        try await self.execute(.start(spec))
    }

    /// Stops a child and returns when it has ended.
    ///
    /// Its specification is kept unless it is temporary. With `oneForAll` and `restForOne`, a later failure of a
    /// sibling starts it again, as in OTP. If the child was being restarted, the siblings that were stopped for that
    /// restart start again without it.
    ///
    /// A child must not terminate itself this way: it would wait for its own end.
    ///
    /// - Throws: `childNotFound`, `notRunning`, `shuttingDown`, `cancelled`.
    public func terminateChild(_ id: ChildSpec.ID) async throws(SupervisorError) {
        try await self.execute(.terminate(id))
    }

    /// Starts a child that has ended or was terminated, and returns when it has started.
    ///
    /// - Throws: `childNotFound`, `childRunning`, `childRestarting`, `startFailed` (the specification is kept),
    ///   `childTerminated`, `notRunning`, `shuttingDown`, `cancelled`.
    public func restartChild(_ id: ChildSpec.ID) async throws(SupervisorError) {
        try await self.execute(.restart(id))
    }

    /// Removes the specification of a child that is not running.
    ///
    /// - Throws: `childNotFound`, `childRunning`, `childRestarting`, `notRunning`, `shuttingDown`, `cancelled`.
    public func deleteChild(_ id: ChildSpec.ID) async throws(SupervisorError) {
        try await self.execute(.delete(id))
    }

    /// All children in the order of their start: OTP's `which_children`.
    public func whichChildren() -> [ChildStatus] {
        self.machine.statuses
    }

    /// The numbers of specified and running children: OTP's `count_children`.
    public func countChildren() -> ChildCounts {
        self.machine.counts
    }

    // MARK: The loop

    private func serve(_ context: ChildContext?) async throws {
        guard !self.hasRun else { throw self.machine.error(.alreadyRunning) }
        self.hasRun = true
        context?.onShutdown { [mailbox] in mailbox.post(.shutdown) }
        await withTaskCancellationHandler {
            await withDiscardingTaskGroup { group in
                var timer = EarliestTimer()
                var batch: [Item] = []
                // Handle requests made before the start first, so that a shutdown prevents any start.
                self.mailbox.take(into: &batch, isAttentive: true)
                self.handle(&batch, context, &group)
                if self.outcome == nil { self.perform(self.machine.begin(now: self.clock.now), context, &group) }
                while self.outcome == nil {
                    if let deadline = self.machine.nextDeadline {
                        timer.arm(for: deadline, clock: self.clock, in: &group) { [mailbox] in mailbox.wake() }
                    }
                    await self.mailbox.wait()
                    self.perform(self.machine.timer(now: self.clock.now), context, &group)
                    self.mailbox.take(into: &batch, isAttentive: true)
                    self.handle(&batch, context, &group)
                }
                timer.cancel()
            }
        } onCancel: { [mailbox] in
            mailbox.post(.cancelled)
        }
        self.mailbox.close()
        let forgotten = self.callers
        self.callers = [:]
        for caller in forgotten.values {
            caller.give(.failure(self.machine.error(.notRunning)))
        }
        try self.outcome?.get()
        if self.wasCancelled { throw CancellationError() }
    }

    private func handle(_ batch: inout [Item], _ context: ChildContext?, _ group: inout DiscardingTaskGroup) {
        for item in batch {
            let now = self.clock.now
            switch item {
            case .started(let id, let life):
                // A context outlives its child, so a call may arrive late.
                guard let child = self.running[id], child.life == life else { continue }
                self.perform(self.machine.started(id, generation: child.context.generation, now: now), context, &group)
            case .exited(let id, let life, let exit):
                guard let child = self.running[id], child.life == life else { continue }
                self.running[id] = nil
                self.perform(
                    self.machine.exited(id, generation: child.context.generation, exit, now: now),
                    context,
                    &group
                )
            case .command(let command, let number):
                self.perform(self.machine.command(command, number: number, now: now), context, &group)
            case .abandoned(let number):
                self.callers.removeValue(forKey: number)?.give(.failure(self.machine.error(.cancelled)))
            case .shutdown:
                self.perform(self.machine.shutdown(now: now), context, &group)
            case .cancelled:
                self.wasCancelled = self.wasCancelled || self.machine.phase != .ending
                self.perform(self.machine.cancel(now: now), context, &group)
            }
        }
        batch.removeAll(keepingCapacity: true)
    }

    private func perform(
        _ actions: [SupervisorStateMachine.Action],
        _ context: ChildContext?,
        _ group: inout DiscardingTaskGroup
    ) {
        for action in actions {
            switch action {
            case .start(let spec, let generation):
                self.start(spec, generation, &group)
            case .requestShutdown(let id):
                self.running[id]?.context.requestShutdown()
            case .cancel(let id):
                self.running[id]?.context.markCancelled()
                self.running[id]?.task.cancel()
            case .reply(let number, let result):
                self.callers.removeValue(forKey: number)?.give(result)
            case .ready:
                context?.started()
            case .event(let event):
                self.onEvent(event)
            case .finish(let error):
                self.outcome = error.map { .failure($0) } ?? .success(())
            }
        }
    }

    /// Runs a child in its own task.
    ///
    /// The child's task is not a task of the group, because cancelling a group cancels all its tasks at once and a tree
    /// must stop in reverse order. The group's task waits for the child's task, so that nothing outlives `run`.
    private func start(_ spec: ChildSpec, _ generation: Int, _ group: inout DiscardingTaskGroup) {
        self.lastLife += 1
        let life = self.lastLife
        let context = ChildContext(id: spec.id, generation: generation) { [mailbox] in
            mailbox.post(.started(spec.id, life: life))
        }
        let task = Task { @concurrent in try await spec.run(context) }
        self.running[spec.id] = Running(life: life, context: context, task: task)
        group.addTask { [mailbox] in
            let exit: ChildExit
            do {
                try await task.value
                exit = .returned
            } catch is CancellationError {
                exit = .cancelled
            } catch {
                exit = .failed(error)
            }
            // Notify the monitors before a successor can start.
            context.end()
            mailbox.post(.exited(spec.id, life: life, exit))
        }
    }

    private func execute(_ command: SupervisorStateMachine.Command) async throws(SupervisorError) {
        guard self.hasRun, self.outcome == nil else { throw self.machine.error(.notRunning) }
        guard !Task.isCancelled else { throw self.machine.error(.cancelled) }
        self.lastCommand += 1
        let number = self.lastCommand
        let reply = OneShot<Result<Void, SupervisorError>>()
        self.callers[number] = reply
        self.mailbox.post(.command(command, number: number))
        try await reply.wait { [mailbox] in mailbox.post(.abandoned(number)) }.get()
    }
}

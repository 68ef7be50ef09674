import TestSupport

@testable import SupervisedPool

/// A machine whose children respond when the test lets them, with checks that hold in every order of events.
struct SupervisorLife {
    enum Input: CaseIterable {
        case begin
        case startedA, startedB, startedC
        case failA, failB, failC, returnA, returnB, returnC
        case second, sixSeconds
        case terminateA, terminateB, restartB, deleteB
        case shutdown, cancel
    }

    private struct Running {
        let generation: Int
        var hasStarted = false
        var isAskedToStop = false
        var isCancelled = false
    }

    var machine: SupervisorStateMachine
    var now = MonotonicInstant(nanoseconds: 0)
    private var running: [ChildSpec.ID: Running] = [:]
    private var order: [ChildSpec.ID]
    private var awaitingReply: Set<Int> = []
    private var lastGeneration: [ChildSpec.ID: Int] = [:]
    private var commands = 1_000_000
    private var sent: [Int: SupervisorStateMachine.Command] = [:]
    /// Children that a command terminated, or tried to start without success.
    private var stoppedOnRequest: Set<ChildSpec.ID> = []
    private var isEnding = false
    private(set) var hasFinished = false
    private(set) var mistakes: [String] = []
    private(set) var history: [String] = []

    init(
        _ strategy: SupervisionStrategy,
        _ specs: [ChildSpec],
        _ intensity: RestartIntensity
    ) {
        machine = SupervisorStateMachine(name: "test", strategy: strategy, intensity: intensity, children: specs)
        order = specs.map(\.id)
    }

    private mutating func mistake(_ text: String) { mistakes.append(text) }

    private mutating func perform(_ actions: [SupervisorStateMachine.Action]) {
        for action in actions {
            switch action {
            case .start(let spec, let generation):
                if running[spec.id] != nil { mistake("\(spec.id) runs twice") }
                if isEnding || hasFinished { mistake("\(spec.id) is started although the supervisor ends") }
                if generation <= lastGeneration[spec.id, default: 0], machine.counts.specified > 0,
                    order.contains(spec.id)
                {
                    mistake("generation \(generation) of \(spec.id) is used twice")
                }
                if running.values.contains(where: { !$0.hasStarted && !$0.isAskedToStop && !$0.isCancelled }) {
                    mistake("\(spec.id) is started before another has")
                }
                lastGeneration[spec.id] = generation
                stoppedOnRequest.remove(spec.id)
                running[spec.id] = Running(generation: generation)
                if !order.contains(spec.id) { order.append(spec.id) }
            case .requestShutdown(let id):
                stopping(id)
                running[id]?.isAskedToStop = true
            case .cancel(let id):
                if running[id]?.isAskedToStop != true { stopping(id) }
                running[id]?.isCancelled = true
            case .reply(let number, let result):
                switch (sent.removeValue(forKey: number), result) {
                case (.terminate(let id), .success), (.restart(let id), .failure): stoppedOnRequest.insert(id)
                default: break
                }
                if awaitingReply.remove(number) == nil { mistake("an unexpected reply to \(number)") }
            case .finish:
                if hasFinished { mistake("finishes twice") }
                hasFinished = true
                if !running.isEmpty { mistake("\(running.keys) still run at the end") }
                if !awaitingReply.isEmpty { mistake("\(awaitingReply) got no reply") }
            case .ready, .event:
                break
            }
        }
        check()
    }

    /// Checks that all children that were started later have ended.
    private mutating func stopping(_ id: ChildSpec.ID) {
        if running[id] == nil { mistake("\(id) is stopped although it does not run") }
        guard isEnding, let place = order.firstIndex(of: id) else { return }
        for later in order[(place + 1)...] where running[later] != nil { mistake("\(id) is stopped before \(later)") }
    }

    private mutating func check() {
        if machine.phase == .ending { isEnding = true }
        for status in machine.statuses {
            let isSeenRunning = status.state == .running || status.state == .starting || status.state == .stopping
            if isSeenRunning != (running[status.id] != nil) { mistake("\(status.id) is \(status.state)") }
        }
        if !hasFinished, isEnding, running.isEmpty { mistake("no child is left, but the supervisor does not finish") }
        // If the supervisor waits for no child and has no deadline, a pending restart would never happen.
        let isIdle = !isEnding && running.values.allSatisfy { $0.hasStarted && !$0.isAskedToStop && !$0.isCancelled }
        if isIdle, !hasFinished, machine.phase == .running, machine.nextDeadline == nil,
            machine.statuses.contains(where: { $0.state == .restarting })
        {
            mistake("a restart is forgotten")
        }
        if isIdle, !hasFinished, machine.phase == .running, machine.nextDeadline == nil {
            for status in machine.statuses
            where status.state == .stopped && status.restart == .permanent && !stoppedOnRequest.contains(status.id) {
                mistake("\(status.id) stays stopped without a command")
            }
        }
        if isIdle, !awaitingReply.isEmpty, machine.phase == .running { mistake("\(awaitingReply) wait for nothing") }
    }

    private mutating func exit(_ id: ChildSpec.ID, _ exit: ChildExit) {
        guard let life = running.removeValue(forKey: id) else { return }
        perform(machine.exited(id, generation: life.generation, exit, now: now))
    }

    private mutating func started(_ id: ChildSpec.ID) {
        guard let life = running[id], !life.hasStarted else { return }
        running[id]?.hasStarted = true
        perform(machine.started(id, generation: life.generation, now: now))
    }

    private mutating func command(_ command: SupervisorStateMachine.Command) {
        commands += 1
        awaitingReply.insert(commands)
        sent[commands] = command
        perform(machine.command(command, number: commands, now: now))
    }

    private mutating func advance(_ duration: Duration) {
        let end = now.advanced(by: duration)
        while let deadline = machine.nextDeadline, deadline <= end {
            now = max(now, deadline)
            perform(machine.timer(now: now))
        }
        now = end
        perform(machine.timer(now: now))
    }

    mutating func input(_ input: Input) {
        history.append("\(input)")
        switch input {
        case .begin: perform(machine.begin(now: now))
        case .startedA: started("a")
        case .startedB: started("b")
        case .startedC: started("c")
        case .failA: exit("a", .failed(Broken()))
        case .failB: exit("b", .failed(Broken()))
        case .failC: exit("c", .failed(Broken()))
        case .returnA: exit("a", .returned)
        case .returnB: exit("b", .returned)
        case .returnC: exit("c", .cancelled)
        case .second: advance(.seconds(1))
        case .sixSeconds: advance(.seconds(6))
        case .terminateA: command(.terminate("a"))
        case .terminateB: command(.terminate("b"))
        case .restartB: command(.restart("b"))
        case .deleteB: command(.delete("b"))
        case .shutdown: perform(machine.shutdown(now: now))
        case .cancel: perform(machine.cancel(now: now))
        }
    }

    /// One random step.
    mutating func command(_ step: Int, _ id: ChildSpec.ID, _ new: ChildSpec, _ random: inout SeededRandom) {
        if machine.phase == .new { return perform(machine.begin(now: now)) }
        // Mostly a running child.
        let alive = running.keys.sorted { $0.name < $1.name }
        let id = Int.random(in: 0..<3, using: &random) > 0 ? alive.randomElement(using: &random) ?? id : id
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<30: started(id)
        case 30..<45: exit(id, .failed(Broken()))
        case 45..<55: exit(id, Bool.random(using: &random) ? .returned : .cancelled)
        case 55..<75: advance(.milliseconds(Int.random(in: 0...3000, using: &random)))
        case 75..<80: command(.start(new))
        case 80..<86: command(.terminate(id))
        case 86..<91: command(.restart(id))
        case 91..<95: command(.delete(id))
        case 95:
            // An exit of an earlier generation.
            perform(machine.exited(id, generation: (running[id]?.generation ?? 0) - 1, .returned, now: now))
        case 96 where Int.random(in: 0..<10, using: &random) == 0: perform(machine.shutdown(now: now))
        case 97 where Int.random(in: 0..<10, using: &random) == 0: perform(machine.cancel(now: now))
        default: break
        }
    }

    /// Ends all children, after which the supervisor must finish.
    mutating func end() {
        if !hasFinished { perform(machine.shutdown(now: now)) }
        var rounds = 0
        while !hasFinished, rounds < 100 {
            rounds += 1
            for id in running.keys.sorted(by: { $0.name < $1.name })
            where running[id]?.isAskedToStop == true || running[id]?.isCancelled == true {
                exit(id, .cancelled)
            }
        }
        if !hasFinished { mistake("does not end: \(machine.statuses)") }
    }

    /// Identifies the state, apart from the exact times in the restart window.
    var key: String {
        var key =
            "\(machine.phase) \(isEnding) \(awaitingReply.count) \(machine.nextDeadline.map { now.duration(to: $0) }.debugDescription)"
        for status in machine.statuses { key += "|\(status.id) \(status.state) \(status.isDeaf)" }
        for (id, life) in running.sorted(by: { $0.key.name < $1.key.name }) {
            key += "|\(id) \(life.hasStarted) \(life.isAskedToStop) \(life.isCancelled)"
        }
        return key + "\(machine.window.restarts.count { $0.advanced(by: machine.window.intensity.period) >= now })"
    }
}

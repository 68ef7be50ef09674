import TestSupport
import Testing

@testable import SupervisedPool

/// The cost of a supervisor with many children.
struct SupervisorScaleTests {
    /// The processor time that the machine takes for the start, failure, removal and stop of each child.
    private func life(_ count: Int) -> Duration {
        let specs = (0..<count).map { number in
            ChildSpec(
                id: ChildSpec.ID("child-\(number)"),
                restart: number % 2 == 0 ? .permanent : .temporary
            ) { _ in }
        }
        return ProcessorTime.measure {
            var machine = SupervisorStateMachine(
                name: "test",
                strategy: .oneForOne,
                intensity: RestartIntensity(restarts: 3 * count, period: .nanoseconds(1)),
                children: specs
            )
            var now = MonotonicInstant(nanoseconds: 0)
            var running: [ChildSpec.ID: Int] = [:]
            func obey(_ actions: [SupervisorStateMachine.Action]) {
                var actions = actions
                var next = 0
                while next < actions.count {
                    let action = actions[next]
                    next += 1
                    switch action {
                    case .start(let spec, let generation):
                        running[spec.id] = generation
                        actions.append(contentsOf: machine.started(spec.id, generation: generation, now: now))
                    case .requestShutdown(let id), .cancel(let id):
                        guard let generation = running.removeValue(forKey: id) else { continue }
                        actions.append(contentsOf: machine.exited(id, generation: generation, .returned, now: now))
                    case .reply, .ready, .event, .finish:
                        continue
                    }
                    // The shell reads it after each batch.
                    _ = machine.nextDeadline
                    actions.append(contentsOf: machine.timer(now: now))
                }
            }
            obey(machine.begin(now: now))
            #expect(running.count == count)
            for number in 0..<count {
                now = now.advanced(by: .nanoseconds(10))
                let id = ChildSpec.ID("child-\(number)")
                let generation = running.removeValue(forKey: id) ?? 0
                obey(machine.exited(id, generation: generation, .failed(Broken()), now: now))
            }
            #expect(running.count == count / 2)
            obey(machine.shutdown(now: now))
            #expect(machine.phase == .finished)
        }
    }

    @Test("The cost grows in proportion to the number of children")
    func proportional() {
        func best(_ count: Int) -> Duration { (0..<3).map { _ in life(count) }.min() ?? .zero }
        let (few, many) = (best(500), best(4000))
        #expect(many < few * 24, "500 children take \(few), 4,000 take \(many)")
    }

    @Test("A tree of thousands of children starts and stops")
    func manyChildren() async throws {
        let children = (0..<min(TestScale.times(4000), 16_000)).map { number in
            ChildSpec(id: ChildSpec.ID("child-\(number)")) { context in
                let (requests, end) = AsyncStream<Void>.makeStream()
                context.onShutdown { end.finish() }
                context.started()
                for await _ in requests {}
            }
        }
        let supervisor = Supervisor(name: "many", strategy: .oneForOne, children: children)
        let context = ChildContext(id: "many") { supervisor.shutdown() }
        try await supervisor.run(context)
    }
}

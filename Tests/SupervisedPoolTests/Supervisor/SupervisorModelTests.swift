import TestSupport
import Testing

@testable import SupervisedPool

/// Supervisors under random commands and exits.
struct SupervisorModelTests {
    private static let run = PropertyRun(commands: 24_000, runs: 120)
    private static let strategies: [SupervisionStrategy] = [.oneForOne, .oneForAll, .restForOne]
    private static let names: [ChildSpec.ID] = ["a", "b", "c", "d", "e"]

    private func spec(_ id: ChildSpec.ID, _ random: inout SeededRandom) -> ChildSpec {
        let restart: ChildSpec.Restart =
            [.permanent, .permanent, .transient, .temporary].randomElement(using: &random) ?? .permanent
        return ChildSpec(id: id, restart: restart) { _ in }
    }

    private func intensity(_ random: inout SeededRandom) -> RestartIntensity {
        RestartIntensity(
            restarts: Int.random(in: 0...5, using: &random),
            period: .seconds(Int.random(in: 1...10, using: &random))
        )
    }

    /// For children that obey at once, every start, stop, reply and end matches OTP, in OTP's order.
    @Test(.timeLimit(.minutes(5))) func everyStepMatchesOTP() async {
        var escalations = 0
        for seed in Self.run.seeds {
            await TestScale.letOthersRun()
            var random = SeededRandom(seed: seed)
            var step = 0
            while step < Self.run.commandsPerRun {
                let strategy = Self.strategies.randomElement(using: &random) ?? .oneForOne
                let intensity = intensity(&random)
                let specs = Self.names.prefix(Int.random(in: 0...4, using: &random))
                    .map { spec($0, &random) }
                var bench = SupervisorBench(strategy, specs, intensity: intensity)
                var model = SupervisorModel(strategy, specs, intensity)
                if Int.random(in: 0..<20, using: &random) == 0, let spec = specs.last {
                    bench.failingStarts[spec.id] = 1
                    model.failingStarts[spec.id] = 1
                }
                bench.begin()
                model.boot()
                while step < Self.run.commandsPerRun {
                    step += 1
                    command(step, &bench, &model, &random)
                    let log = bench.takeLog()
                    let running = model.children.filter(\.isRunning).map(\.spec.id)
                    let seen = bench.machine.statuses.filter { $0.state == .running }.map(\.id)
                    guard log == model.log, running == seen || model.hasEnded,
                        bench.machine.counts.specified == model.children.count || model.hasEnded
                    else {
                        Issue.record(
                            """
                            \(strategy) \(intensity) step \(step): the machine \(log), OTP \(model.log); \
                            running \(seen), OTP \(running). \(Self.run.replay(seed))
                            """
                        )
                        return
                    }
                    model.log = []
                    guard !model.hasEnded else {
                        if log.last == "finish intensityExceeded" { escalations += 1 }
                        break
                    }
                }
            }
        }
        guard Self.run.seeds.count > 1 else { return }
        #expect(escalations > 100, "\(escalations) escalations")
    }

    private func command(
        _ number: Int,
        _ bench: inout SupervisorBench,
        _ model: inout SupervisorModel,
        _ random: inout SeededRandom
    ) {
        let id = Self.names.randomElement(using: &random) ?? "a"
        func both(_ command: SupervisorStateMachine.Command) {
            bench.command(command, number)
            model.command(command, number)
        }
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<35:
            bench.fail(id)
            model.exit(id, isFailure: true, now: bench.now)
        case 35..<45:
            bench.exit(id, Bool.random(using: &random) ? .returned : .cancelled)
            model.exit(id, isFailure: false, now: bench.now)
        case 45..<60:
            bench.advance(.milliseconds(Int.random(in: 0...4000, using: &random)))
        case 60..<65:
            let failures = Int.random(in: 0...3, using: &random)
            bench.failingStarts[id] = failures
            model.failingStarts[id] = failures
        case 65..<75:
            both(.start(spec(id, &random)))
        case 75..<83:
            both(.terminate(id))
        case 83..<91:
            both(.restart(id))
        case 91..<98:
            both(.delete(id))
        default:
            guard Int.random(in: 0..<20, using: &random) == 0 else { return }
            bench.shutdown()
            model.shutdown()
        }
    }

    /// Children that start and stop slowly, fail while others stop, or ignore requests.
    @Test(.timeLimit(.minutes(5))) func noChildOrCommandIsLostWhateverChildrenDo() async {
        let run = PropertyRun(commands: 16_000, runs: 80)
        for seed in run.seeds {
            await TestScale.letOthersRun()
            var random = SeededRandom(seed: seed)
            var step = 0
            while step < run.commandsPerRun {
                let specs = Self.names.prefix(3).map { spec($0, &random) }
                var life = SupervisorLife(
                    Self.strategies.randomElement(using: &random) ?? .oneForOne,
                    specs,
                    intensity(&random)
                )
                while step < run.commandsPerRun, !life.hasFinished {
                    step += 1
                    let new = spec(ChildSpec.ID("n\(step)"), &random)
                    life.command(step, Self.names.randomElement(using: &random) ?? "a", new, &random)
                    if !life.mistakes.isEmpty {
                        Issue.record("step \(step): \(life.mistakes). \(run.replay(seed))")
                        return
                    }
                }
                life.end()
                if !life.mistakes.isEmpty {
                    Issue.record("at the end: \(life.mistakes). \(run.replay(seed))")
                    return
                }
            }
        }
    }

    /// Tries each sequence of up to six inputs, seven in the long form, for each strategy.
    @Test(.timeLimit(.minutes(5)), arguments: strategies)
    func allShortSequencesOfInputsAreSound(_ strategy: SupervisionStrategy) async {
        let specs = [
            SupervisorBench.spec("a", .permanent), SupervisorBench.spec("b", .transient, .brutalKill),
            SupervisorBench.spec("c", .temporary),
        ]
        var first = SupervisorLife(strategy, specs, RestartIntensity(restarts: 1, period: .seconds(5)))
        first.input(.begin)
        var frontier = [first]
        var known: Set<String> = []
        var tried = 0
        for depth in 1...TestScale.size(6, thorough: 7) {
            var next: [SupervisorLife] = []
            for life in frontier {
                await TestScale.letOthersRun()
                for input in SupervisorLife.Input.allCases {
                    tried += 1
                    var after = life
                    after.input(input)
                    if !after.mistakes.isEmpty {
                        Issue.record("depth \(depth), \(input) after \(life.history): \(after.mistakes)")
                        return
                    }
                    if known.insert(after.key).inserted { next.append(after) }
                }
            }
            frontier = next
        }
        for life in frontier {
            var life = life
            life.end()
            if !life.mistakes.isEmpty {
                Issue.record("the end after \(life.history): \(life.mistakes)")
                return
            }
        }
        #expect(tried > TestScale.size(5_000, thorough: 10_000))
    }
}

import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The transitions of the diagram, and the invariants after each of them.
struct CredentialRotationTests {
    @Test func anAdoptedCandidateReplacesTheCurrentCredential() {
        var machine = CredentialRotation(1)
        #expect(machine.begin(2) == nil)
        #expect(machine.current == 1 && machine.candidate == 2)
        let end = machine.adopt(2)
        #expect(end.isAdopted && end.retired == 1)
        #expect(machine.current == 2 && machine.candidate == nil)
        #expect(machine.giveUp(2) == false)
    }

    @Test func aRefusedCandidateIsForgotten() {
        var machine = CredentialRotation(1)
        _ = machine.begin(2)
        #expect(machine.giveUp(2) == true)
        #expect(machine == CredentialRotation(1))
        // A late verdict changes nothing.
        #expect(!machine.adopt(2).isAdopted)
        #expect(machine.current == 1)
    }

    @Test func aLaterCandidateReplacesTheEarlierOne() {
        var machine = CredentialRotation(1)
        _ = machine.begin(2)
        #expect(machine.begin(3) == 2)
        #expect(!machine.adopt(2).isAdopted && !machine.giveUp(2))
        #expect(machine.adopt(3).isAdopted)
    }

    @Test func nothingIsSentAfterARevocationUntilAReplacement() {
        var machine = CredentialRotation(1)
        _ = machine.begin(2)
        machine.revoke()
        #expect(machine.current == nil && machine.candidate == nil)
        #expect(machine.install(3) == [])
        #expect(machine.current == 3)
    }

    /// For any order of events: an adopted credential was the candidate, and one that was given up or retired is never
    /// used again.
    @Test func anyOrderOfEventsKeepsTheInvariants() async {
        let run = PropertyRun(commands: 4_000, runs: 20)
        for seed in run.seeds {
            await TestScale.letOthersRun()
            var random = SeededRandom(seed: seed)
            var machine = CredentialRotation(1)
            var last = 1
            var gone: Set<Int> = []
            for _ in 0..<run.commandsPerRun {
                let some = Int.random(in: 1...last, using: &random)
                switch Int.random(in: 0..<6, using: &random) {
                case 0, 1:
                    last += 1
                    if let old = machine.begin(last) { gone.insert(old) }
                case 2:
                    let wasCandidate = machine.candidate == some
                    let end = machine.adopt(some)
                    #expect(end.isAdopted == wasCandidate, "\(run.replay(seed))")
                    if let old = end.retired { gone.insert(old) }
                case 3:
                    if machine.giveUp(some) { gone.insert(some) }
                case 4 where Int.random(in: 0..<5, using: &random) == 0:
                    gone.formUnion([machine.current, machine.candidate].compactMap(\.self))
                    machine.revoke()
                case 5 where machine.current == nil:
                    last += 1
                    gone.formUnion(machine.install(last))
                default:
                    break
                }
                let used = [machine.current, machine.candidate].compactMap(\.self)
                #expect(gone.isDisjoint(with: used), "\(run.replay(seed))")
            }
        }
    }
}

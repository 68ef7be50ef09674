import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The transitions of the diagram, and the invariants after each of them.
struct CredentialRotationTests {
    @Test func anAcceptedProbeActivatesTheCandidate() {
        var machine = CredentialRotation(1)
        #expect(machine.begin(2) == nil)
        #expect(machine.route() == .current(1))
        #expect(machine.arm(2) == true)
        #expect(machine.route() == .trial(2))
        // Only one probe is in flight at a time.
        #expect(machine.route() == .current(1))
        let end = machine.accepted(2)
        #expect(end.isAdopted && end.retired == 1)
        #expect(machine.route() == .current(2))
        #expect(machine.giveUp(2) == false)
    }

    @Test func aProbeWithoutAVerdictKeepsTheTrial() {
        var machine = CredentialRotation(1)
        _ = machine.begin(2)
        _ = machine.arm(2)
        #expect(machine.route() == .trial(2))
        machine.probeEnded(2)
        #expect(machine.trial == .init(candidate: 2, phase: .preparing))
        #expect(machine.route() == .current(1))
        #expect(machine.arm(2) == true)
        #expect(machine.route() == .trial(2))
    }

    @Test func aRefusedCandidateIsForgotten() {
        var machine = CredentialRotation(1)
        _ = machine.begin(2)
        _ = machine.arm(2)
        _ = machine.route()
        #expect(machine.giveUp(2) == true)
        #expect(machine == CredentialRotation(1))
        // A late result of its probe changes nothing.
        machine.probeEnded(2)
        #expect(machine.arm(2) == false)
        #expect(!machine.accepted(2).isAdopted)
        #expect(machine.route() == .current(1))
    }

    @Test func aLaterTrialEndsTheEarlierOne() {
        var machine = CredentialRotation(1)
        _ = machine.begin(2)
        #expect(machine.begin(3) == 2)
        #expect(machine.arm(2) == false)
        #expect(!machine.accepted(2).isAdopted)
        #expect(machine.arm(3) == true)
    }

    @Test func nothingIsSentAfterARevocationUntilAReplacement() {
        var machine = CredentialRotation(1)
        _ = machine.begin(2)
        _ = machine.arm(2)
        machine.revoke()
        #expect(machine.route() == .revoked)
        #expect(machine.install(3) == [])
        #expect(machine.route() == .current(3))
    }

    /// For any order of events: at most one push probes a candidate at a time, an adopted candidate was on trial, and
    /// no route leads to a number that was given up or retired.
    @Test func anyOrderOfEventsKeepsTheInvariants() async {
        let run = PropertyRun(commands: 4_000, runs: 20)
        for seed in run.seeds {
            await TestScale.letOthersRun()
            var random = SeededRandom(seed: seed)
            var machine = CredentialRotation(1)
            var last = 1
            var gone: Set<Int> = []
            var claimed: Int?
            for _ in 0..<run.commandsPerRun {
                let some = Int.random(in: 1...last, using: &random)
                switch Int.random(in: 0..<9, using: &random) {
                case 0:
                    last += 1
                    if let old = machine.begin(last) { gone.insert(old) }
                    claimed = nil
                case 1: #expect(machine.arm(some) == (machine.trial?.candidate == some))
                case 2:
                    let wasOnTrial = machine.trial?.candidate == some
                    let end = machine.accepted(some)
                    #expect(end.isAdopted == wasOnTrial)
                    if let old = end.retired { gone.insert(old) }
                    if end.isAdopted { claimed = nil }
                case 3:
                    if machine.giveUp(some) {
                        gone.insert(some)
                        claimed = nil
                    }
                case 4:
                    machine.probeEnded(some)
                    if claimed == some {
                        #expect(machine.trial == .init(candidate: some, phase: .preparing), "\(run.replay(seed))")
                        claimed = nil
                    }
                case 5 where Int.random(in: 0..<5, using: &random) == 0:
                    gone.formUnion([machine.current, machine.trial?.candidate].compactMap(\.self))
                    machine.revoke()
                    claimed = nil
                case 6 where machine.current == nil:
                    last += 1
                    gone.formUnion(machine.install(last))
                    claimed = nil
                default:
                    switch machine.route() {
                    case .current(let number): #expect(!gone.contains(number), "\(run.replay(seed))")
                    case .trial(let number):
                        #expect(!gone.contains(number) && claimed == nil, "\(run.replay(seed))")
                        claimed = number
                    case .revoked: #expect(machine.current == nil)
                    }
                }
            }
        }
    }
}

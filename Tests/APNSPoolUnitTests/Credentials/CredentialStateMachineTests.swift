import SupervisedPool
import Synchronization
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The transitions of the diagram.
struct CredentialStateMachineTests {
    private typealias Machine = CredentialStateMachine
    private let start = MonotonicInstant(nanoseconds: 0)
    private let invalid = CredentialStateMachine.Refusal.rejection(.invalidProviderToken)
    private func at(_ seconds: Int64) -> MonotonicInstant { start.advanced(by: .seconds(seconds)) }
    private func source(_ connection: Int, worker: Int = 0) -> Machine.Source {
        Machine.Source(worker: WorkerID(index: worker, generation: 1), connection: connection)
    }

    private func declared(_ refusal: Machine.Refusal? = nil) -> Machine {
        var machine = Machine()
        let refusal = refusal ?? invalid
        #expect(machine.refused(refusal, by: source(1), isFresh: true, now: start) == nil)
        #expect(
            machine.refused(refusal, by: source(2), isFresh: true, now: start)
                == .declared(refusal, holdOff: .seconds(5))
        )
        return machine
    }

    @Test func oneRefusalOnlySuspectsTheCredential() {
        var machine = Machine()
        #expect(machine.refused(invalid, by: source(1), isFresh: true, now: start) == nil)
        for _ in 0..<1000 { #expect(machine.refused(invalid, by: source(1), isFresh: true, now: start) == nil) }
        #expect(machine.state == .suspected(invalid, by: source(1)))
        #expect(machine.suspectedRefusal == invalid && machine.fault == nil)
        #expect(machine.admit(now: start) == .send)
        #expect(machine.accepted() == nil)
        #expect(machine.state == .trusted)
    }

    @Test func theSameRefusalOnTwoFreshConnectionsIsAFault() {
        let machine = declared()
        #expect(machine.fault != nil)
        #expect(machine.holdOff(now: start) == .seconds(5))
        // Two workers count in the same way as two sessions of one worker.
        var other = Machine()
        _ = other.refused(invalid, by: source(1), isFresh: true, now: start)
        #expect(other.refused(invalid, by: source(1, worker: 1), isFresh: true, now: start) != nil)
    }

    @Test func aRefusalOnAConnectionThatWorkedIsIgnored() {
        var machine = Machine()
        _ = machine.refused(invalid, by: source(1), isFresh: false, now: start)
        #expect(machine.state == .trusted)
        _ = machine.refused(invalid, by: source(1), isFresh: true, now: start)
        #expect(machine.refused(invalid, by: source(2), isFresh: false, now: start) == nil)
        #expect(machine.fault == nil)
    }

    @Test func aDifferentRefusalReplacesTheSuspicion() {
        var machine = Machine()
        _ = machine.refused(invalid, by: source(1), isFresh: true, now: start)
        #expect(machine.refused(.certificate("alert"), by: source(2), isFresh: true, now: start) == nil)
        #expect(machine.state == .suspected(.certificate("alert"), by: source(2)))
    }

    @Test func anAcceptedPushClearsTheSuspicion() {
        var machine = Machine()
        _ = machine.refused(invalid, by: source(1), isFresh: true, now: start)
        _ = machine.accepted()
        #expect(machine.refused(invalid, by: source(2), isFresh: true, now: start) == nil)
    }

    @Test func pushesFailUntilATrialIsDue() {
        var machine = declared()
        #expect(machine.admit(now: at(2)) == .refuse(invalid, retryAfter: .seconds(3)))
        #expect(machine.admit(now: at(5)) == .send)
        // Only one trial is in flight at a time.
        #expect(machine.admit(now: at(5)) == .refuse(invalid, retryAfter: .seconds(15)))
        // A trial without a result does not block the next trial for ever.
        #expect(machine.admit(now: at(20)) == .send)
    }

    @Test func theHoldOffDoublesUpToFiveMinutes() {
        var machine = declared()
        var now = start
        var waits: [Int64] = []
        for _ in 0..<8 {
            guard case .refuse(_, let wait) = machine.admit(now: now) else { break }
            waits.append(wait.components.seconds)
            now = now.advanced(by: wait)
            #expect(machine.admit(now: now) == .send)
            #expect(machine.refused(invalid, by: source(9), isFresh: false, now: now) == nil)
        }
        #expect(waits == [5, 10, 20, 40, 80, 160, 300, 300])
    }

    @Test func lateRefusalsDoNotExtendTheHoldOff() {
        var machine = declared()
        for _ in 0..<100 { #expect(machine.refused(invalid, by: source(2), isFresh: true, now: at(4)) == nil) }
        #expect(machine.admit(now: at(4)) == .refuse(invalid, retryAfter: .seconds(1)))
    }

    @Test func anAcceptedPushOrANewKeyEndsTheFault() {
        var machine = declared()
        #expect(machine.accepted() == .ended)
        #expect(machine.accepted() == nil)
        machine = declared()
        _ = machine.admit(now: at(5))
        #expect(machine.replaced() == .ended)
        #expect(machine.admit(now: at(5)) == .send)
        #expect(machine.holdOff(now: at(5)) == nil)
    }

    @Test func anOpenedConnectionAllowsATrialAfterACertificateFault() {
        var machine = declared(.certificate("alert"))
        machine.connected(now: at(1))
        #expect(machine.admit(now: at(1)) == .send)
        var other = declared()
        other.connected(now: at(1))
        #expect(other.admit(now: at(1)) != .send)
    }

    @Test(arguments: [
        (403, RejectionReason.invalidProviderToken, true), (403, .missingProviderToken, true),
        (403, .badCertificateEnvironment, true), (403, .badCertificate, true), (403, .badEnvironmentKeyInToken, true),
        (403, .expiredProviderToken, false), (403, .unrelatedKeyIDInToken, false), (403, .topicMismatch, false),
        (400, .invalidProviderToken, false), (403, nil, false), (429, .tooManyProviderTokenUpdates, false),
    ])
    func credentialRefusalsAreRecognized(_ status: Int, _ reason: RejectionReason?, _ isRefusal: Bool) {
        #expect((Machine.Refusal(status: status, reason: reason) != nil) == isRefusal)
    }

    @Test func theBreakerReportsEachChangeOnce() {
        let events = Mutex<[Machine.Event]>([])
        let credentials = CredentialBreaker(onEvent: { event in events.withLock { $0.append(event) } })
        credentials.accepted()
        for session in 1...10 {
            credentials.refused(invalid, by: source(session), isFresh: true, now: start)
        }
        #expect(credentials.hasFault)
        #expect(credentials.refusal(now: start)?.retryAfter == .seconds(5))
        for _ in 0..<10 { credentials.accepted() }
        #expect(!credentials.hasFault)
        #expect(credentials.refusal(now: start) == nil)
        #expect(events.withLock { $0 } == [.declared(invalid, holdOff: .seconds(5)), .ended])
    }
}

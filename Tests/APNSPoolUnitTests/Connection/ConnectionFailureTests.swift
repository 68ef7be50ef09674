import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The reaction of the connection state machine to errors, pushes without a response, and 503.
struct ConnectionFailureTests {
    private typealias Machine = ConnectionStateMachine
    private let start = MonotonicInstant(nanoseconds: 1_000_000_000_000)
    private let replaced: [Machine.Action] = [
        .report(.draining), .drain(connection: 1), .report(.connecting), .open(connection: 2),
    ]

    private func ready(isProven: Bool = true, limit: Int = 100) -> Machine {
        var machine = Machine(isBase: true, streamCap: 1000, backoff: Backoff())
        _ = machine.connect()
        _ = machine.ready(connection: 1, limit: limit)
        if isProven { _ = machine.receivedProof(connection: 1) }
        return machine
    }

    private func error(_ machine: inout Machine, budget: Bool = true, connection: Int = 1) -> [Machine.Action] {
        machine.takeReplacement = { _ in budget }
        return machine.receivedServerError(500, connection: connection, now: start)
    }

    private func timeOut(_ machine: inout Machine, at seconds: Int64) -> [Machine.Action] {
        machine.timedOut(connection: 1, quietSince: start, now: start.advanced(by: .seconds(seconds)))
    }

    private func check(_ machine: inout Machine, at seconds: Int64, open: Int = 8, last: Int64 = 0) -> [Machine.Action]
    {
        machine.checkForStall(
            connection: 1,
            open: open,
            lastResponse: start.advanced(by: .seconds(last)),
            now: start.advanced(by: .seconds(seconds))
        )
    }

    @Test func fiveErrorsReplaceTheConnection() {
        var machine = ready()
        for _ in 0..<4 { #expect(error(&machine) == []) }
        #expect(error(&machine) == replaced)
        // Further errors of the old connection change nothing.
        for _ in 0..<10 { #expect(error(&machine) == []) }
        _ = machine.ready(connection: 2, limit: 1)
        for _ in 0..<4 { #expect(error(&machine, connection: 2) == []) }
    }

    @Test func fiveErrorsWithoutABudgetHalveTheStreamLimit() {
        var machine = ready()
        for _ in 0..<4 { #expect(error(&machine, budget: false) == []) }
        #expect(error(&machine, budget: false) == [.report(.capacity(50))])
        #expect(machine.isDegraded)
    }

    @Test func fiveErrorsBeforeAnySuccessHoldTheConnection() {
        var machine = ready(isProven: false)
        for _ in 0..<4 { #expect(error(&machine) == []) }
        #expect(error(&machine).first == .report(.capacity(0)))
        guard case .holding(1, _) = machine.state else {
            Issue.record("\(machine.state)")
            return
        }
    }

    @Test(arguments: [true, false]) func fivePushesWithoutAResponseAreASilence(_ isProven: Bool) {
        var machine = ready(isProven: isProven)
        for _ in 0..<4 { #expect(timeOut(&machine, at: 3) == []) }
        let five = start.advanced(by: .seconds(5))
        #expect(timeOut(&machine, at: 3) == [.checkForStall(at: five, connection: 1)])
        #expect(timeOut(&machine, at: 4) == [])
        let ten = start.advanced(by: .seconds(10))
        #expect(
            check(&machine, at: 5, open: 0, last: -9) == [
                .checkForStall(at: ten, connection: 1), .report(.capacity(0)),
            ]
        )
        let actions = check(&machine, at: 10, open: 0, last: -9)
        if isProven { #expect(actions == replaced) } else { #expect(actions.first == .drain(connection: 1)) }
    }

    @Test func silenceRemovesTheCapacityAndThenReplacesTheConnection() {
        var machine = ready()
        #expect(machine.submitted(connection: 1, open: 4, now: start) == [])
        let five = start.advanced(by: .seconds(5))
        let ten = start.advanced(by: .seconds(10))
        #expect(machine.submitted(connection: 1, open: 5, now: start) == [.checkForStall(at: five, connection: 1)])
        #expect(machine.submitted(connection: 1, open: 9, now: start) == [])
        #expect(check(&machine, at: 5) == [.checkForStall(at: ten, connection: 1), .report(.capacity(0))])
        // A new limit from the peer makes no difference meanwhile.
        #expect(machine.limitChanged(connection: 1, to: 50) == [.report(.capacity(0))])
        #expect(check(&machine, at: 10) == replaced)
        #expect(machine.draining == [1])
        #expect(machine.ready(connection: 2, limit: 3) == [.report(.ready(capacity: 3))])
    }

    @Test(arguments: [200, 403, 500]) func anyResponseEndsTheSilence(_ status: Int) {
        var machine = ready()
        _ = machine.submitted(connection: 1, open: 5, now: start)
        _ = check(&machine, at: 5)
        let actions =
            switch status {
            case 200: machine.receivedProof(connection: 1)
            case 403: machine.receivedOtherResponse(connection: 1)
            default: error(&machine)
            }
        #expect(actions == [.report(.capacity(100))])
        let next = start.advanced(by: .seconds(12))
        #expect(check(&machine, at: 10, last: 7) == [.checkForStall(at: next, connection: 1)])
    }

    @Test func aSilentConnectionThatNeverRespondedBacksOff() {
        var machine = ready(isProven: false)
        _ = machine.submitted(connection: 1, open: 5, now: start)
        _ = check(&machine, at: 5)
        #expect(check(&machine, at: 10).first == .drain(connection: 1))
        guard case .backingOff = machine.state else {
            Issue.record("\(machine.state)")
            return
        }
    }

    @Test func aSilentConnectionWithoutStreamsIsUsedAgain() {
        var machine = ready()
        _ = machine.submitted(connection: 1, open: 5, now: start)
        _ = check(&machine, at: 5)
        #expect(check(&machine, at: 6, open: 0) == [.report(.capacity(100))])
        #expect(machine.submitted(connection: 1, open: 5, now: start).count == 1)
    }

    @Test func aDegradedConnectionRegainsItsCapacity() {
        var machine = ready(limit: 4)
        machine.takeReplacement = { _ in false }
        let bad = machine.receivedServerError(503, connection: 1, now: start)
        #expect(bad == [.report(.capacity(2))])
        #expect(machine.receivedProof(connection: 1, count: 9) == [])
        #expect(machine.receivedProof(connection: 1) == [.report(.capacity(3))])
        #expect(machine.isDegraded)
        #expect(machine.receivedProof(connection: 1, count: 10) == [.report(.capacity(4))])
        #expect(!machine.isDegraded)
    }

    @Test func aReplacementKeepsTheStreamLimitAndALossResetsIt() {
        var machine = ready()
        machine.takeReplacement = { _ in false }
        _ = machine.receivedServerError(503, connection: 1, now: start)
        _ = machine.replace()
        #expect(!machine.isDegraded)
        #expect(machine.ready(connection: 2, limit: 1000) == [.report(.ready(capacity: 50))])
        #expect(machine.isDegraded)
        _ = machine.closed(connection: 2, fault: .network, now: start)
        _ = machine.connect()
        #expect(machine.ready(connection: 3, limit: 1000) == [.report(.ready(capacity: 1000))])
    }

    @Test func aHoldOffIsTheMinimumWait() {
        var machine = ready()
        let fault = ConnectionFault.configuration(holdOff: .seconds(160))
        _ = machine.closed(connection: 1, fault: fault, now: start)
        #expect(machine.state == .backingOff(until: start.advanced(by: .seconds(160)), isConfiguration: true))
    }
}

import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool

/// When answers 500 and deadlines are too many.
struct SessionHealthTests {
    private let long = Duration.seconds(10)

    @Test(arguments: [
        ("eeeee", true), ("eeee", false), ("eeee................e", false), ("eeee...............e", true),
        ("e..e..e..e..e", true), ("e....e....e....e....e", false), ("e...e....e....e....e", true),
        ("....................", false),
        ("eeeeeeeee", true), ("eeeee.eeee", true), ("eeeeeeeeee", true),
    ])
    func fiveOfTwenty(_ answers: String, _ isTooMuch: Bool) {
        var health = SessionHealth()
        var tooMuch = 0
        for answer in answers {
            if answer == "e" {
                if health.answeredWithError() { tooMuch += 1 }
            } else {
                health.answered()
            }
        }
        #expect((tooMuch > 0) == isTooMuch)
        // A verdict takes five new errors each time.
        #expect(tooMuch == (answers == "eeeeeeeeee" ? 2 : isTooMuch ? 1 : 0))
    }

    @Test func manyGoodAnswersAtOnceCountAsSoMany() {
        for count in [1, 15, 16, 19, 20, 31, 32, 33, 1000, .max] {
            var health = SessionHealth()
            for _ in 0..<4 { #expect(health.answeredWithError() == false) }
            health.answered(count)
            // The four are among the last twenty as long as at most 15 came between them and the fifth.
            #expect(health.answeredWithError() == (count <= 15), "\(count)")
        }
    }

    @Test func fiveDeadlinesInARow() {
        var health = SessionHealth()
        for _ in 0..<4 { #expect(health.deadlinePassed(quiet: long) == false) }
        #expect(health.deadlinePassed(quiet: long) == true)
        #expect(health.deadlinePassed(quiet: long) == false)
    }

    @Test(arguments: [true, false]) func anAnswerBreaksTheRow(_ isGood: Bool) {
        var health = SessionHealth()
        for _ in 0..<4 { _ = health.deadlinePassed(quiet: long) }
        if isGood { health.answered() } else { _ = health.answeredWithError() }
        for _ in 0..<4 { #expect(health.deadlinePassed(quiet: long) == false) }
        #expect(health.deadlinePassed(quiet: long) == true)
    }

    @Test func anImpatientCallerProvesNothing() {
        var health = SessionHealth()
        for _ in 0..<100 { #expect(health.deadlinePassed(quiet: .milliseconds(999)) == false) }
        for _ in 0..<4 { #expect(health.deadlinePassed(quiet: .seconds(1)) == false) }
        #expect(health.deadlinePassed(quiet: .seconds(1)) == true)
    }
}

struct SilenceWatchTests {
    private let start = MonotonicInstant(nanoseconds: 1_000_000_000_000)
    private func at(_ seconds: Double) -> MonotonicInstant { start.advanced(by: .milliseconds(Int64(seconds * 1000))) }

    private func watched() -> SilenceWatch {
        var watch = SilenceWatch()
        #expect(watch.submitted(open: 8, now: start) == at(5))
        return watch
    }

    @Test func fewStreamsAreNotWatchedAndManyOnce() {
        var watch = SilenceWatch()
        #expect(watch.submitted(open: 7, now: start) == nil)
        #expect(!watch.isWatching)
        #expect(watch.submitted(open: 8, now: start) == at(5))
        #expect(watch.submitted(open: 1000, now: at(1)) == nil)
    }

    /// Seconds from the beginning of the watch: the look, the last response, open streams, the verdict.
    @Test(arguments: [
        (5.0, -60.0, 8, SilenceWatch.Verdict.silent(until: MonotonicInstant(nanoseconds: 1_010_000_000_000))),
        (4.999, -60, 8, .watched(until: MonotonicInstant(nanoseconds: 1_005_000_000_000))),
        (5, 3, 8, .watched(until: MonotonicInstant(nanoseconds: 1_008_000_000_000))),
        (9.999, -1, 500, .silent(until: MonotonicInstant(nanoseconds: 1_010_000_000_000))),
        (10, -60, 8, .dead), (60, 0, 8, .dead), (12, 2, 8, .dead),
        (5, -60, 7, .calm), (60, -60, 0, .calm),
    ])
    func theVerdict(_ now: Double, _ last: Double, _ open: Int, _ verdict: SilenceWatch.Verdict) {
        var watch = watched()
        #expect(watch.look(now: at(now), open: open, lastResponse: at(last)) == verdict)
        #expect(watch.isWatching == (verdict != .calm))
    }

    @Test func streamsThatRunOutOfTimeAreNoSignOfLife() {
        var watch = watched()
        _ = watch.look(now: at(5), open: 8, lastResponse: start)
        #expect(watch.isSilent)
        #expect(watch.look(now: at(9), open: 1, lastResponse: start) == .silent(until: at(10)))
        #expect(watch.look(now: at(10), open: 1, lastResponse: start) == .dead)
    }

    @Test func aResponseEndsTheSilence() {
        var watch = watched()
        #expect(watch.responded() == false)
        _ = watch.look(now: at(5), open: 8, lastResponse: start)
        #expect(watch.responded() == true)
        #expect(watch.responded() == false)
        #expect(watch.look(now: at(10), open: 8, lastResponse: at(6)) == .watched(until: at(11)))
    }
}

struct StreamAllowanceTests {
    private let start = MonotonicInstant(nanoseconds: 0)

    @Test func itIsHalvedOnceAMomentAndGrowsByOneForTenSuccesses() {
        var allowance = StreamAllowance()
        #expect(allowance.limit == nil)
        allowance.halve(capacity: 1000, now: start)
        allowance.halve(capacity: 500, now: start.advanced(by: .milliseconds(999)))
        #expect(allowance.limit == 500)
        allowance.halve(capacity: 500, now: start.advanced(by: .seconds(1)))
        #expect(allowance.limit == 250)
        allowance.succeeded(9, maximum: 1000)
        #expect(allowance.limit == 250)
        allowance.succeeded(1, maximum: 1000)
        #expect(allowance.limit == 251)
        allowance.succeeded(7_480, maximum: 1000)
        #expect(allowance.limit == 999)
        allowance.succeeded(10, maximum: 1000)
        #expect(allowance.limit == nil)
    }

    @Test func oneStreamIsAlwaysLeft() {
        var allowance = StreamAllowance()
        for second in 0..<20 as Range<Int64> {
            allowance.halve(capacity: allowance.limit ?? 1000, now: start.advanced(by: .seconds(second)))
        }
        #expect(allowance.limit == 1)
        allowance.succeeded(10, maximum: 1000)
        #expect(allowance.limit == 2)
    }
}

/// The same trouble in the machine of the connection: what follows from it.
struct ConnectionTroubleTests {
    private typealias Machine = ConnectionStateMachine
    private let start = MonotonicInstant(nanoseconds: 1_000_000_000_000)
    private let replaced: [Machine.Action] = [
        .report(.draining), .drain(session: 1), .report(.connecting), .open(session: 2),
    ]

    private func ready(isProven: Bool = true, limit: Int = 100) -> Machine {
        var machine = Machine(isBase: true, streamCap: 1000, backoff: Backoff())
        _ = machine.connect()
        _ = machine.ready(session: 1, limit: limit)
        if isProven { _ = machine.answeredWell(session: 1) }
        return machine
    }

    private func error(_ machine: inout Machine, budget: Bool = true, session: Int = 1) -> [Machine.Action] {
        var random = SeededRandom(seed: 1)
        return machine.answeredWithError(session: session, now: start, using: &random) { budget }
    }

    private func deadline(_ machine: inout Machine, budget: Bool = true) -> [Machine.Action] {
        var random = SeededRandom(seed: 1)
        return machine.deadlinePassed(session: 1, quiet: .seconds(10), now: start, using: &random) { budget }
    }

    private func look(_ machine: inout Machine, at seconds: Int64, open: Int = 8, last: Int64 = 0) -> [Machine.Action] {
        var random = SeededRandom(seed: 1)
        return machine.look(
            session: 1,
            open: open,
            lastResponse: start.advanced(by: .seconds(last)),
            now: start.advanced(by: .seconds(seconds)),
            using: &random
        )
    }

    @Test func fiveErrorsReplaceTheSession() {
        var machine = ready()
        for _ in 0..<4 { #expect(error(&machine) == []) }
        #expect(error(&machine) == replaced)
        // Those that the old session still gives change nothing.
        for _ in 0..<10 { #expect(error(&machine) == []) }
        _ = machine.ready(session: 2, limit: 1)
        for _ in 0..<4 { #expect(error(&machine, session: 2) == []) }
    }

    @Test func fiveErrorsWithoutABudgetHalveIt() {
        var machine = ready()
        for _ in 0..<4 { #expect(error(&machine, budget: false) == []) }
        #expect(error(&machine, budget: false) == [.report(.capacity(50))])
        #expect(machine.isDegraded)
    }

    @Test func fiveErrorsFirstOfAllHoldTheSession() {
        var machine = ready(isProven: false)
        for _ in 0..<4 { #expect(error(&machine) == []) }
        #expect(error(&machine).first == .report(.capacity(0)))
        guard case .holding(1, _) = machine.state else {
            Issue.record("\(machine.state)")
            return
        }
    }

    @Test func fiveDeadlinesReplaceTheSession() {
        var machine = ready()
        for _ in 0..<4 { #expect(deadline(&machine) == []) }
        #expect(deadline(&machine) == replaced)
    }

    @Test func fiveDeadlinesFirstOfAllGiveTheSessionUp() {
        var machine = ready(isProven: false)
        for _ in 0..<4 { #expect(deadline(&machine) == []) }
        #expect(deadline(&machine).first == .drain(session: 1))
        guard case .backingOff = machine.state else {
            Issue.record("\(machine.state)")
            return
        }
    }

    @Test func silenceTakesTheLeasesThenTheSession() {
        var machine = ready()
        #expect(machine.submitted(session: 1, open: 7, now: start) == [])
        let five = start.advanced(by: .seconds(5))
        let ten = start.advanced(by: .seconds(10))
        #expect(machine.submitted(session: 1, open: 8, now: start) == [.lookAt(five, session: 1)])
        #expect(machine.submitted(session: 1, open: 9, now: start) == [])
        #expect(look(&machine, at: 5) == [.lookAt(ten, session: 1), .report(.capacity(0))])
        // What the peer allows meanwhile makes no difference.
        #expect(machine.limitChanged(session: 1, to: 50) == [.report(.capacity(0))])
        #expect(look(&machine, at: 10) == replaced)
        #expect(machine.draining == [1])
        #expect(machine.ready(session: 2, limit: 3) == [.report(.ready(capacity: 3))])
    }

    @Test(arguments: [200, 403, 500]) func anyAnswerEndsTheSilence(_ status: Int) {
        var machine = ready()
        _ = machine.submitted(session: 1, open: 8, now: start)
        _ = look(&machine, at: 5)
        let actions =
            switch status {
            case 200: machine.answeredWell(session: 1)
            case 403: machine.answeredAtAll(session: 1)
            default: error(&machine)
            }
        #expect(actions == [.report(.capacity(100))])
        let next = start.advanced(by: .seconds(12))
        #expect(look(&machine, at: 10, last: 7) == [.lookAt(next, session: 1)])
    }

    @Test func aSilentSessionThatNeverAnsweredBacksOff() {
        var machine = ready(isProven: false)
        _ = machine.submitted(session: 1, open: 8, now: start)
        _ = look(&machine, at: 5)
        #expect(look(&machine, at: 10).first == .drain(session: 1))
        guard case .backingOff = machine.state else {
            Issue.record("\(machine.state)")
            return
        }
    }

    @Test func aSilentSessionWithoutStreamsIsUsedAgain() {
        var machine = ready()
        _ = machine.submitted(session: 1, open: 8, now: start)
        _ = look(&machine, at: 5)
        #expect(look(&machine, at: 6, open: 0) == [.report(.capacity(100))])
        #expect(machine.submitted(session: 1, open: 8, now: start).count == 1)
    }

    @Test func aDegradedConnectionGrowsBack() {
        var machine = ready(limit: 4)
        var random = SeededRandom(seed: 1)
        let bad = machine.answeredBadly(session: 1, now: start, using: &random) { false }
        #expect(bad == [.report(.capacity(2))])
        #expect(machine.answeredWell(session: 1, count: 9) == [])
        #expect(machine.answeredWell(session: 1) == [.report(.capacity(3))])
        #expect(machine.isDegraded)
        #expect(machine.answeredWell(session: 1, count: 10) == [.report(.capacity(4))])
        #expect(!machine.isDegraded)
    }

    @Test func aReplacementKeepsTheAllowanceAndALossForgetsIt() {
        var machine = ready()
        var random = SeededRandom(seed: 1)
        _ = machine.answeredBadly(session: 1, now: start, using: &random) { false }
        _ = machine.replace()
        #expect(!machine.isDegraded)
        #expect(machine.ready(session: 2, limit: 1000) == [.report(.ready(capacity: 50))])
        #expect(machine.isDegraded)
        _ = machine.closed(session: 2, isConfiguration: false, now: start, using: &random)
        _ = machine.connect()
        #expect(machine.ready(session: 3, limit: 1000) == [.report(.ready(capacity: 1000))])
    }

    @Test func aHoldOffIsTheLeastWait() {
        var machine = ready()
        var random = SeededRandom(seed: 1)
        _ = machine.closed(session: 1, isConfiguration: true, holdOff: .seconds(160), now: start, using: &random)
        #expect(machine.state == .backingOff(until: start.advanced(by: .seconds(160)), isConfiguration: true))
    }
}

import SupervisedPool
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

struct UnansweredPushesTests {
    private let start = MonotonicInstant(nanoseconds: 1_000_000_000_000)
    private func at(_ seconds: Double) -> MonotonicInstant { start.advanced(by: .milliseconds(Int64(seconds * 1000))) }

    private func watched() -> UnansweredPushes {
        var pushes = UnansweredPushes()
        #expect(pushes.watch(now: start) == at(5))
        return pushes
    }

    @Test(arguments: [(0, 4, false), (0, 5, true), (4, 0, false), (4, 1, true), (5, 0, true), (3, 1, false)])
    func aConnectionIsWatchedFromFiveUnansweredPushesOn(_ timedOut: Int, _ open: Int, _ isWatched: Bool) {
        var pushes = UnansweredPushes()
        for _ in 0..<timedOut { pushes.timeOut(quietSince: start) }
        #expect(pushes.wantsWatching(open: open) == isWatched)
    }

    @Test func aConnectionIsWatchedOnce() {
        #expect(!watched().wantsWatching(open: 1000))
    }

    /// The seconds from the first submission to the check and to the last response, the open streams, the verdict.
    @Test(arguments: [
        (5.0, -60.0, 5, UnansweredPushes.Verdict.silent(until: MonotonicInstant(nanoseconds: 1_010_000_000_000))),
        (4.999, -60, 5, .watched(until: MonotonicInstant(nanoseconds: 1_005_000_000_000))),
        (5, 3, 5, .watched(until: MonotonicInstant(nanoseconds: 1_008_000_000_000))),
        (9.999, -1, 500, .silent(until: MonotonicInstant(nanoseconds: 1_010_000_000_000))),
        (10, -60, 5, .dead), (15, 0, 5, .dead), (12, 2, 5, .dead),
        // The check is more than ten seconds late, so the watch restarts.
        (60, 0, 5, .watched(until: MonotonicInstant(nanoseconds: 1_065_000_000_000))),
        (5, -60, 4, .calm), (60, -60, 0, .calm),
    ])
    func theVerdictDependsOnTimeResponsesAndStreams(
        _ now: Double,
        _ last: Double,
        _ open: Int,
        _ verdict: UnansweredPushes.Verdict
    ) {
        var pushes = watched()
        #expect(pushes.check(now: at(now), open: open, lastResponse: at(last)) == verdict)
        #expect(pushes.isWatching == (verdict != .calm))
    }

    @Test func pushesThatTimeOutDoNotEndTheSilence() {
        var pushes = watched()
        _ = pushes.check(now: at(5), open: 5, lastResponse: start)
        #expect(pushes.isSilent)
        for _ in 0..<5 { pushes.timeOut(quietSince: start) }
        #expect(pushes.check(now: at(9), open: 0, lastResponse: start) == .silent(until: at(10)))
        #expect(pushes.check(now: at(10), open: 0, lastResponse: start) == .dead)
    }

    @Test func cancelledPushesEndTheWatch() {
        var pushes = watched()
        _ = pushes.check(now: at(5), open: 5, lastResponse: start)
        #expect(pushes.check(now: at(9), open: 0, lastResponse: start) == .calm)
        #expect(!pushes.isSilent)
    }

    /// Five pushes, one after the other, each with a deadline of three seconds.
    @Test func fewPushesThatAllTimeOutAreASilenceSinceTheFirst() {
        var pushes = UnansweredPushes()
        for push in 0..<5 {
            #expect(!pushes.wantsWatching(open: 0))
            pushes.timeOut(quietSince: at(Double(push) * 3))
        }
        #expect(pushes.wantsWatching(open: 0))
        #expect(pushes.watch(now: at(15)) == at(15))
        #expect(pushes.check(now: at(15), open: 0, lastResponse: at(-60)) == .dead)
    }

    @Test func aResponseEndsTheSilenceAndTheCount() {
        var pushes = watched()
        #expect(pushes.responded() == false)
        _ = pushes.check(now: at(5), open: 5, lastResponse: start)
        for _ in 0..<5 { pushes.timeOut(quietSince: start) }
        #expect(pushes.responded() == true)
        #expect(pushes.responded() == false)
        #expect(pushes.check(now: at(10), open: 5, lastResponse: at(6)) == .watched(until: at(11)))
        #expect(pushes.check(now: at(11), open: 4, lastResponse: at(6)) == .calm)
    }
}

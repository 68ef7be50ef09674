import SupervisedPool
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

struct StallDetectorTests {
    private let start = MonotonicInstant(nanoseconds: 1_000_000_000_000)
    private func at(_ seconds: Double) -> MonotonicInstant { start.advanced(by: .milliseconds(Int64(seconds * 1000))) }

    private func watched() -> StallDetector {
        var detector = StallDetector()
        #expect(detector.submitted(open: 8, now: start) == at(5))
        return detector
    }

    @Test func aConnectionIsWatchedOnceFromEightStreamsOn() {
        var detector = StallDetector()
        #expect(detector.submitted(open: 7, now: start) == nil)
        #expect(!detector.isWatching)
        #expect(detector.submitted(open: 8, now: start) == at(5))
        #expect(detector.submitted(open: 1000, now: at(1)) == nil)
    }

    /// The seconds from the first submission to the check and to the last response, the open streams, the verdict.
    @Test(arguments: [
        (5.0, -60.0, 8, StallDetector.Verdict.silent(until: MonotonicInstant(nanoseconds: 1_010_000_000_000))),
        (4.999, -60, 8, .watched(until: MonotonicInstant(nanoseconds: 1_005_000_000_000))),
        (5, 3, 8, .watched(until: MonotonicInstant(nanoseconds: 1_008_000_000_000))),
        (9.999, -1, 500, .silent(until: MonotonicInstant(nanoseconds: 1_010_000_000_000))),
        (10, -60, 8, .dead), (15, 0, 8, .dead), (12, 2, 8, .dead),
        // The check is more than ten seconds late, so the watch restarts.
        (60, 0, 8, .watched(until: MonotonicInstant(nanoseconds: 1_065_000_000_000))),
        (5, -60, 7, .calm), (60, -60, 0, .calm),
    ])
    func theVerdictDependsOnTimeResponsesAndStreams(
        _ now: Double,
        _ last: Double,
        _ open: Int,
        _ verdict: StallDetector.Verdict
    ) {
        var detector = watched()
        #expect(detector.check(now: at(now), open: open, lastResponse: at(last)) == verdict)
        #expect(detector.isWatching == (verdict != .calm))
    }

    @Test func expiredStreamsDoNotEndTheSilence() {
        var detector = watched()
        _ = detector.check(now: at(5), open: 8, lastResponse: start)
        #expect(detector.isSilent)
        #expect(detector.check(now: at(9), open: 1, lastResponse: start) == .silent(until: at(10)))
        #expect(detector.check(now: at(10), open: 1, lastResponse: start) == .dead)
    }

    @Test func aResponseEndsTheSilence() {
        var detector = watched()
        #expect(detector.responded() == false)
        _ = detector.check(now: at(5), open: 8, lastResponse: start)
        #expect(detector.responded() == true)
        #expect(detector.responded() == false)
        #expect(detector.check(now: at(10), open: 8, lastResponse: at(6)) == .watched(until: at(11)))
    }
}

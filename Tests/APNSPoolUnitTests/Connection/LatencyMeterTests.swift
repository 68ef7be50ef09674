import APNSTransport
import SupervisedPool
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

struct LatencyMeterTests {
    private func at(_ milliseconds: Int64) -> MonotonicInstant {
        MonotonicInstant(nanoseconds: milliseconds * 1_000_000)
    }

    @Test func onePushAtATimeIsTimed() {
        var probe = LatencyMeter()
        probe.submitted(7, now: at(0))
        probe.submitted(8, now: at(5))
        #expect(probe.tag == 7)
        #expect(probe.ended(hasResponse: true, now: at(40)) == .milliseconds(40))
        #expect(probe.tag == nil)
        probe.submitted(9, now: at(50))
        #expect(probe.tag == 9)
    }

    @Test func theLatencyIsSmoothedAndReportedOnceASecond() {
        var probe = LatencyMeter()
        probe.submitted(1, now: at(0))
        #expect(probe.ended(hasResponse: true, now: at(80)) == .milliseconds(80))
        probe.submitted(2, now: at(100))
        #expect(probe.ended(hasResponse: true, now: at(260)) == nil)
        // 80 → 90 → 100
        probe.submitted(3, now: at(1000))
        #expect(probe.ended(hasResponse: true, now: at(1170)) == .milliseconds(100))
    }

    @Test func missingResponsesAndBackwardClocksReportNothing() {
        var probe = LatencyMeter()
        probe.submitted(1, now: at(0))
        #expect(probe.ended(hasResponse: false, now: at(10_000)) == nil)
        probe.submitted(2, now: at(20_000))
        #expect(probe.ended(hasResponse: true, now: at(10_000)) == nil)
        probe.submitted(3, now: at(30_000))
        #expect(probe.ended(hasResponse: true, now: at(30_001)) == .milliseconds(1))
        probe.reset()
        #expect(probe.tag == nil)
    }
}

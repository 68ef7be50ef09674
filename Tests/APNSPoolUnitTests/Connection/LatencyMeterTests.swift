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
        var meter = LatencyMeter()
        meter.submitted(7, now: at(0))
        meter.submitted(8, now: at(5))
        #expect(meter.tag == 7)
        #expect(meter.ended(hasResponse: true, now: at(40)) == .milliseconds(40))
        #expect(meter.tag == nil)
        meter.submitted(9, now: at(50))
        #expect(meter.tag == 9)
    }

    @Test func theLatencyIsSmoothedAndReportedOnceASecond() {
        var meter = LatencyMeter()
        meter.submitted(1, now: at(0))
        #expect(meter.ended(hasResponse: true, now: at(80)) == .milliseconds(80))
        meter.submitted(2, now: at(100))
        #expect(meter.ended(hasResponse: true, now: at(260)) == nil)
        // 80 → 90 → 100
        meter.submitted(3, now: at(1000))
        #expect(meter.ended(hasResponse: true, now: at(1170)) == .milliseconds(100))
    }

    @Test func missingResponsesAndBackwardClocksReportNothing() {
        var meter = LatencyMeter()
        meter.submitted(1, now: at(0))
        #expect(meter.ended(hasResponse: false, now: at(10_000)) == nil)
        meter.submitted(2, now: at(20_000))
        #expect(meter.ended(hasResponse: true, now: at(10_000)) == nil)
        meter.submitted(3, now: at(30_000))
        #expect(meter.ended(hasResponse: true, now: at(30_001)) == .milliseconds(1))
        meter.reset()
        #expect(meter.tag == nil)
    }
}

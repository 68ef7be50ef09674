import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The number of 500 responses, or of passed deadlines, that is too many.
struct ErrorRateTrackerTests {
    private let long = Duration.seconds(10)

    @Test(arguments: [
        ("eeeee", true), ("eeee", false), ("eeee................e", false), ("eeee...............e", true),
        ("e..e..e..e..e", true), ("e....e....e....e....e", false), ("e...e....e....e....e", true),
        ("....................", false),
        ("eeeeeeeee", true), ("eeeee.eeee", true), ("eeeeeeeeee", true),
    ])
    func fiveErrorsAmongTwentyResponsesAreTooMany(_ responses: String, _ isTooMuch: Bool) {
        var tracker = ErrorRateTracker()
        var tooMuch = 0
        for response in responses {
            if response == "e" {
                if tracker.receivedInternalServerError() { tooMuch += 1 }
            } else {
                tracker.received()
            }
        }
        #expect((tooMuch > 0) == isTooMuch)
        // A verdict takes five new errors each time.
        #expect(tooMuch == (responses == "eeeeeeeeee" ? 2 : isTooMuch ? 1 : 0))
    }

    @Test func successesRecordedTogetherCountOneByOne() {
        for count in [1, 15, 16, 19, 20, 31, 32, 33, 1000, .max] {
            var tracker = ErrorRateTracker()
            for _ in 0..<4 { #expect(tracker.receivedInternalServerError() == false) }
            tracker.received(count)
            // The four are among the last twenty if at most 15 responses came between them and the fifth.
            #expect(tracker.receivedInternalServerError() == (count <= 15), "\(count)")
        }
    }

    @Test func fiveDeadlinesInARowAreTooMany() {
        var tracker = ErrorRateTracker()
        for _ in 0..<4 { #expect(tracker.deadlinePassed(quiet: long) == false) }
        #expect(tracker.deadlinePassed(quiet: long) == true)
        #expect(tracker.deadlinePassed(quiet: long) == false)
    }

    @Test(arguments: [true, false]) func aResponseInterruptsTheRow(_ isGood: Bool) {
        var tracker = ErrorRateTracker()
        for _ in 0..<4 { _ = tracker.deadlinePassed(quiet: long) }
        if isGood { tracker.received() } else { _ = tracker.receivedInternalServerError() }
        for _ in 0..<4 { #expect(tracker.deadlinePassed(quiet: long) == false) }
        #expect(tracker.deadlinePassed(quiet: long) == true)
    }

    @Test func deadlinesAfterAShortSilenceDoNotCount() {
        var tracker = ErrorRateTracker()
        for _ in 0..<100 { #expect(tracker.deadlinePassed(quiet: .milliseconds(999)) == false) }
        for _ in 0..<4 { #expect(tracker.deadlinePassed(quiet: .seconds(1)) == false) }
        #expect(tracker.deadlinePassed(quiet: .seconds(1)) == true)
    }
}

import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The number of 500 responses that is too many.
struct ErrorRateTrackerTests {
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
                if tracker.received(error: 500) { tooMuch += 1 }
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
            for _ in 0..<4 { #expect(tracker.received(error: 500) == false) }
            tracker.received(count)
            // The four are among the last twenty if at most 15 responses came between them and the fifth.
            #expect(tracker.received(error: 500) == (count <= 15), "\(count)")
        }
    }

    @Test func a503IsAFailureAtOnce() {
        var tracker = ErrorRateTracker()
        for _ in 0..<4 { #expect(tracker.received(error: 500) == false) }
        #expect(tracker.received(error: 503) == true)
        #expect(tracker.received(error: 500) == false)
    }
}

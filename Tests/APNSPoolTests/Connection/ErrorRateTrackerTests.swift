import Testing

@testable import APNSPool

/// When responses with status 500, or passed deadlines, are too many.
struct ErrorRateTrackerTests {
    private let long = Duration.seconds(10)

    @Test(arguments: [
        ("eeeee", true), ("eeee", false), ("eeee................e", false), ("eeee...............e", true),
        ("e..e..e..e..e", true), ("e....e....e....e....e", false), ("e...e....e....e....e", true),
        ("....................", false),
        ("eeeeeeeee", true), ("eeeee.eeee", true), ("eeeeeeeeee", true),
    ])
    func fiveOfTwenty(_ answers: String, _ isTooMuch: Bool) {
        var tracker = ErrorRateTracker()
        var tooMuch = 0
        for answer in answers {
            if answer == "e" {
                if tracker.receivedInternalServerError() { tooMuch += 1 }
            } else {
                tracker.received()
            }
        }
        #expect((tooMuch > 0) == isTooMuch)
        // A verdict takes five new errors each time.
        #expect(tooMuch == (answers == "eeeeeeeeee" ? 2 : isTooMuch ? 1 : 0))
    }

    @Test func manyGoodAnswersAtOnceCountAsSoMany() {
        for count in [1, 15, 16, 19, 20, 31, 32, 33, 1000, .max] {
            var tracker = ErrorRateTracker()
            for _ in 0..<4 { #expect(tracker.receivedInternalServerError() == false) }
            tracker.received(count)
            // The four are among the last twenty as long as at most 15 came between them and the fifth.
            #expect(tracker.receivedInternalServerError() == (count <= 15), "\(count)")
        }
    }

    @Test func fiveDeadlinesInARow() {
        var tracker = ErrorRateTracker()
        for _ in 0..<4 { #expect(tracker.deadlinePassed(quiet: long) == false) }
        #expect(tracker.deadlinePassed(quiet: long) == true)
        #expect(tracker.deadlinePassed(quiet: long) == false)
    }

    @Test(arguments: [true, false]) func anAnswerBreaksTheRow(_ isGood: Bool) {
        var tracker = ErrorRateTracker()
        for _ in 0..<4 { _ = tracker.deadlinePassed(quiet: long) }
        if isGood { tracker.received() } else { _ = tracker.receivedInternalServerError() }
        for _ in 0..<4 { #expect(tracker.deadlinePassed(quiet: long) == false) }
        #expect(tracker.deadlinePassed(quiet: long) == true)
    }

    @Test func anImpatientCallerProvesNothing() {
        var tracker = ErrorRateTracker()
        for _ in 0..<100 { #expect(tracker.deadlinePassed(quiet: .milliseconds(999)) == false) }
        for _ in 0..<4 { #expect(tracker.deadlinePassed(quiet: .seconds(1)) == false) }
        #expect(tracker.deadlinePassed(quiet: .seconds(1)) == true)
    }
}

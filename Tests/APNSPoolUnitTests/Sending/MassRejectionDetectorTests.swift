import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

struct MassRejectionDetectorTests {
    private static func detector(_ window: Int = 200, _ rejections: Int = 150) -> MassRejectionDetector {
        MassRejectionDetector(limits: MassRejectionLimits(window: window, rejections: rejections))
    }

    @Test("The 150th rejection of 200 tokens is detected, once")
    func detection() {
        let detector = Self.detector()
        for number in 0..<149 { #expect(detector.rejected(.sample(number)) == nil) }
        for number in 149..<199 { #expect(!detector.works(.sample(number))) }
        #expect(!detector.isDetected)
        #expect(detector.rejected(.sample(199)) == .init(rejections: 150, window: 200))
        #expect(detector.isDetected)
        for number in 200..<600 { #expect(detector.rejected(.sample(number)) == nil) }
    }

    @Test("With one more working token, the window is full before the limit is reached")
    func almost() {
        let detector = Self.detector()
        for number in 0..<149 { _ = detector.rejected(.sample(number)) }
        for number in 149..<200 { #expect(!detector.works(.sample(number))) }
        // The next window begins.
        for number in 200..<349 { #expect(detector.rejected(.sample(number)) == nil) }
        #expect(detector.rejected(.sample(349)) != nil)
    }

    @Test("A token counts once, with its latest response")
    func distinct() {
        let detector = Self.detector(10, 2)
        for _ in 0..<100 { #expect(detector.rejected(.sample(1)) == nil) }
        #expect(!detector.works(.sample(1)))
        #expect(detector.rejected(.sample(2)) == nil)
        #expect(detector.rejected(.sample(1)) != nil)
    }

    @Test("Working tokens count from the first rejection on")
    func begin() {
        let detector = Self.detector()
        for number in 0..<1000 { _ = detector.works(.sample(number)) }
        for number in 1000..<1149 { #expect(detector.rejected(.sample(number)) == nil) }
        #expect(detector.rejected(.sample(1149)) != nil)
    }

    @Test("A mass rejection is over when less than half of the limit can be rejected")
    func end() {
        let detector = Self.detector(20, 10)
        for number in 0..<14 { _ = detector.rejected(.sample(number)) }
        #expect(detector.isDetected)
        for number in 14..<29 { #expect(!detector.works(.sample(number))) }
        #expect(detector.works(.sample(29)))
        #expect(!detector.isDetected)
        for number in 30..<39 { #expect(detector.rejected(.sample(number)) == nil) }
        #expect(detector.rejected(.sample(39)) != nil)
    }

    @Test("One rejected token in two neither begins nor ends a mass rejection")
    func half() {
        let detector = Self.detector()
        func alternate(_ numbers: Range<Int>) -> Bool {
            numbers.contains { number in
                number % 2 == 0 ? detector.rejected(.sample(number)) != nil : detector.works(.sample(number))
            }
        }
        #expect(!alternate(0..<5000))
        for number in 5000..<5200 { _ = detector.rejected(.sample(number)) }
        #expect(detector.isDetected)
        #expect(!alternate(5200..<10_000))
        #expect(detector.isDetected)
    }

    @Test("Of 1000 pushes in flight, the rejected half may get its responses first or last")
    func inFlight() {
        for areRefusedLast in [true, false] {
            let detector = Self.detector()
            _ = detector.rejected(.sample(100_000), inFlight: 1000)
            for number in 0..<20_000 {
                if (number % 1000 < 500) != areRefusedLast {
                    #expect(detector.rejected(.sample(number), inFlight: 1000) == nil)
                } else {
                    #expect(!detector.works(.sample(number)))
                }
            }
        }
        let detector = Self.detector()
        for number in 0..<749 { #expect(detector.rejected(.sample(number), inFlight: 1000) == nil) }
        #expect(detector.rejected(.sample(749), inFlight: 1000) == .init(rejections: 750, window: 1000))
    }

    @Test("The last pushes in flight may all be rejected, because rejections take longer")
    func slowRejections() {
        let detector = Self.detector()
        // A window of pushes of which three in ten are rejected.
        for number in 0..<1000 where number % 10 < 3 { _ = detector.rejected(.sample(number), inFlight: 1000) }
        for number in 0..<1000 where number % 10 >= 3 { #expect(!detector.works(.sample(number))) }
        // The rest: all accepted pushes have had their responses.
        for number in 1000..<1700 { #expect(!detector.works(.sample(number))) }
        for number in 1700..<2000 { #expect(detector.rejected(.sample(number), inFlight: 2000 - number) == nil) }
        // Later, with few pushes in flight, a window is as large as the pushes in flight in the one before.
        for number in 2000..<4000 { #expect(!detector.works(.sample(number))) }
        let found = (5000..<5400).first { detector.rejected(.sample($0), inFlight: 1) != nil }
        #expect(found == 5224)
    }

    @Test(
        "Limits are clamped",
        arguments: [(0, 0, 1, 1), (-5, -5, 1, 1), (Int.max, 3, 100_000, 3), (10, .max, 10, .max)]
    )
    func clamped(_ window: Int, _ rejections: Int, _ realWindow: Int, _ realRejections: Int) {
        let limits = MassRejectionLimits(window: window, rejections: rejections)
        #expect(limits.window == realWindow && limits.rejections == realRejections)
        let detector = MassRejectionDetector(limits: limits)
        for number in 0..<5 { _ = detector.rejected(.sample(number), inFlight: .max) }
        for number in 0..<5 { #expect(!detector.works(.sample(number))) }
    }

    @Test("A detector that is off records no rejection, and still shows what a bulk call has detected")
    func off() {
        let detector = MassRejectionDetector(limits: .off)
        for number in 0..<1000 { #expect(detector.rejected(.sample(number)) == nil) }
        #expect(!detector.isDetected)
        #expect(detector.detected())
        for number in 0..<125 { #expect(!detector.works(.sample(number))) }
        #expect(detector.works(.sample(125)))
        #expect(!detector.isDetected)
    }

    @Test("What a bulk call has detected is new once, and ends as the client's own finding does")
    func bulkCall() {
        let detector = Self.detector(4, 2)
        #expect(!detector.works(.sample(0)))
        #expect(detector.detected())
        #expect(detector.isDetected)
        #expect(!detector.detected())
        #expect((4..<8).map { detector.works(.sample($0)) } == [false, false, false, true])
        #expect(!detector.isDetected)
    }

    @Test(arguments: [
        (RejectionReason.badDeviceToken, true), (.deviceTokenNotForTopic, true), (.topicDisallowed, true),
        (.unregistered, false), (.payloadTooLarge, false), (nil, false),
    ])
    func rejectionsThatSuggestMisconfigurationCount(_ reason: RejectionReason?, _ counts: Bool) {
        #expect(MassRejectionDetector.counts(Rejection(status: 400, reason: reason)) == counts)
    }

    @Test("What is detected is in the responses, in every order", arguments: 0..<30 as Range<UInt64>)
    func agreesWithTheResponses(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let window = Int.random(in: 1...20, using: &random)
        let limit = Int.random(in: 1...window, using: &random)
        let detector = Self.detector(window, limit)
        /// The latest responses of distinct tokens, the latest last.
        var latest: [(token: Int, isRejected: Bool)] = []
        /// The rejections since the last token that worked.
        var row: Set<Int> = []
        var isDetected = false
        for _ in 0..<2000 {
            let token = Int.random(in: 0..<40, using: &random)
            let isRejected = Int.random(in: 0..<100, using: &random) < Int(seed) * 3 + 5
            latest.removeAll { $0.token == token }
            latest.append((token, isRejected))
            if isRejected { row.insert(token) } else { row = [] }
            let rejected = latest.suffix(window).count { $0.isRejected }
            let changes = isRejected ? detector.rejected(.sample(token)) != nil : detector.works(.sample(token))
            if changes, isRejected {
                #expect(!isDetected && rejected >= limit, "seed \(seed)")
            } else if changes {
                #expect(isDetected && rejected * 2 < limit, "seed \(seed)")
            }
            if changes { isDetected = isRejected }
            #expect(detector.isDetected == isDetected)
            // A wrong environment cannot hide behind the end of a window.
            if row.count >= window + limit { #expect(isDetected, "seed \(seed)") }
        }
    }
}

extension MassRejectionDetector {
    /// Records a rejection while one push is in flight.
    fileprivate func rejected(_ token: DeviceToken) -> Finding? { self.rejected(token, inFlight: 1) }
}

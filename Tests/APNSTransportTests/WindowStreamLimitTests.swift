import Testing

@testable import APNSTransport

/// The streams of a connection are limited while requests wait for its send window.
struct WindowStreamLimitTests {
    private var limit = WindowStreamLimit()

    /// Returns how many held requests may continue to wait.
    @discardableResult
    private mutating func check(held: Range<Int>, inFlight: Int, maximum: Int = 1000) -> Int? {
        limit.check(
            oldest: held.first,
            total: held.upperBound,
            inFlight: inFlight,
            maximum: maximum
        )
    }

    /// Checks four times, with the same requests.
    private mutating func wait(held: Range<Int>) {
        for _ in 0..<4 { check(held: held, inFlight: 12) }
    }

    @Test("A request that waits from one check to the fourth after it limits the streams to twice those in flight")
    mutating func waits() {
        wait(held: 0..<500)
        #expect(limit.limit == nil)
        #expect(check(held: 20..<500, inFlight: 12) == 6)
        #expect(limit.limit == 24)
    }

    @Test("Requests that wait for a shorter time change nothing")
    mutating func shortWaits() {
        for start in 0..<20 { #expect(check(held: start * 10..<start * 10 + 30, inFlight: 12) == nil) }
        #expect(limit.limit == nil)
    }

    @Test("The limit doubles at each check without a waiting request, and ends at the peer's limit")
    mutating func recovery() {
        wait(held: 0..<500)
        check(held: 0..<500, inFlight: 12)
        for expected in [48, 96, 192, 384, 768, nil] {
            #expect(check(held: 500..<500, inFlight: 12) == nil)
            #expect(limit.limit == expected)
        }
    }

    @Test("While requests wait for a short time only, the limit stays")
    mutating func steady() {
        wait(held: 0..<500)
        check(held: 0..<500, inFlight: 12)
        check(held: 500..<506, inFlight: 12)
        #expect(limit.limit == 24)
    }

    @Test("The limit follows the window, is at least one, and never exceeds the peer's limit")
    mutating func bounds() {
        wait(held: 0..<10)
        #expect(check(held: 0..<10, inFlight: 0) == 0)
        #expect(limit.limit == 1)
        #expect(check(held: 0..<10, inFlight: 40) == 20)
        #expect(limit.limit == 80)
        #expect(check(held: 0..<10, inFlight: 12, maximum: 20) == nil)
        #expect(limit.limit == nil)
    }
}

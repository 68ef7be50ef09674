import TestSupport
import Testing

@testable import SupervisedPool

struct TimeTests {
    @Test func arithmeticSaturates() {
        let late = MonotonicInstant(nanoseconds: .max - 5)
        #expect(late.advanced(by: .nanoseconds(10)) == .distantFuture)
        #expect(MonotonicInstant(nanoseconds: .min).advanced(by: .seconds(-1)).nanoseconds == .min)
        #expect(MonotonicInstant(nanoseconds: 0).advanced(by: .seconds(Int64.max)) == .distantFuture)
        #expect(MonotonicInstant(nanoseconds: .min).duration(to: .distantFuture) == .nanoseconds(Int64.max))
        #expect(MonotonicInstant.distantFuture.duration(to: .init(nanoseconds: .min)) == .nanoseconds(Int64.min))
        #expect(MonotonicInstant(nanoseconds: 7).advanced(by: .microseconds(1)).nanoseconds == 1007)
    }

    @Test func systemClockAdvancesAndItsSleepEnds() async throws {
        let clock = SystemMonotonicClock()
        let before = clock.now
        try await clock.sleep(until: before.advanced(by: .milliseconds(1)))
        #expect(before.duration(to: clock.now) >= .milliseconds(1))
        try await clock.sleep(until: before)
    }

    @Test(.timeLimit(.minutes(5))) func systemClockSleepEndsWithCancellation() async {
        let task = Task { try await SystemMonotonicClock().sleep(until: .distantFuture) }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
    }

    @Test func backoffStaysWithinItsLimitsAndGrowsAtMostThreefold() {
        var random = SeededRandom()
        var backoff = Backoff(minimum: .milliseconds(100), maximum: .seconds(30))
        var previous = Duration.milliseconds(100)
        for _ in 0..<1000 {
            let wait = backoff.next(using: &random)
            #expect(wait >= .milliseconds(100) && wait <= min(.seconds(30), previous * 3), "\(random)")
            previous = wait
        }
        backoff.reset()
        #expect(backoff.next(using: &random) <= .milliseconds(300), "\(random)")
    }

    @Test("Waits double from the minimum to the maximum", arguments: [0, 50, 100, -7, 1000])
    func doublingBackoff(randomPercent: Int) {
        var random = SeededRandom()
        var backoff = Backoff(.doubling(randomPercent: randomPercent), minimum: .seconds(5), maximum: .seconds(60))
        let part = min(max(randomPercent, 0), 100)
        for _ in 0..<2 {
            for (number, whole) in [5, 10, 20, 40, 60, 60].enumerated() {
                let range = Duration.seconds(whole) * (100 - part) / 100...(.seconds(whole))
                let waits = [backoff.next(using: &random), backoff.wait(after: number + 1, using: &random)]
                #expect(waits.allSatisfy { range.contains($0) }, "\(waits) \(random)")
            }
            backoff.reset()
        }
        #expect(backoff.wait(after: .min, using: &random) <= .seconds(5))
        #expect(backoff.wait(after: .max, using: &random) <= .seconds(60))
    }

    @Test func backoffAcceptsInvalidLimits() {
        var random = SeededRandom()
        var zero = Backoff(minimum: .seconds(-1), maximum: .seconds(-2))
        #expect(zero.next(using: &random) == .zero)
        var huge = Backoff(minimum: .seconds(Int64.max), maximum: .seconds(1))
        #expect(huge.next(using: &random) == .nanoseconds(Int64.max))
        var doubling = Backoff(.doubling(), minimum: .seconds(Int64.max), maximum: .seconds(Int64.max))
        for _ in 0..<3 { #expect(doubling.next() == .nanoseconds(Int64.max)) }
        var zeroDoubling = Backoff(.doubling(randomPercent: 100), minimum: .zero, maximum: .zero)
        #expect(zeroDoubling.next() == .zero)
    }
}

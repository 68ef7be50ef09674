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

    @Test(.timeLimit(.minutes(1))) func systemClockSleepEndsWithCancellation() async {
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

    @Test func backoffAcceptsInvalidLimits() {
        var random = SeededRandom()
        var zero = Backoff(minimum: .seconds(-1), maximum: .seconds(-2))
        #expect(zero.next(using: &random) == .zero)
        var huge = Backoff(minimum: .seconds(Int64.max), maximum: .seconds(1))
        #expect(huge.next(using: &random) == .nanoseconds(Int64.max))
    }
}

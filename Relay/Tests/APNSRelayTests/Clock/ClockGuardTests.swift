import Foundation
import Logging
import PushQueue
import SQLitePushQueue
import Testing

@testable import APNSRelay

struct ClockGuardTests {
    private static let day = Duration.seconds(86_400)
    private let start = QueueTime(secondsSince1970: 1_795_440_000)

    private func clockGuard() -> ClockGuard {
        ClockGuard(longestJump: .seconds(3_600), now: self.start, lease: self.start)
    }

    /// A time of day and a lease time, as far after the start.
    private func at(_ now: Duration, _ lease: Duration) -> (now: QueueTime, lease: QueueTime) {
        (self.start.advanced(by: now), self.start.advanced(by: lease))
    }

    @Test("Time that passes, and corrections up to the limit, are plausible")
    func plausible() {
        var clock = self.clockGuard()
        for (now, lease) in [
            (Duration.seconds(10), Duration.seconds(10)), (Self.day * 30, Self.day * 30),
            // A correction by an hour, and then by another one.
            (Self.day * 30 + .seconds(3_600), Self.day * 30), (Self.day * 30 + .seconds(7_200), Self.day * 30),
        ] {
            let time = self.at(now, lease)
            #expect(clock.jump(now: time.now, lease: time.lease) == nil)
            #expect(clock.expiry(now: time.now, lease: time.lease) == time.now)
        }
    }

    @Test("After a jump of days, time for expiry goes on as if there had been none, until the clock is back")
    func jump() {
        var clock = self.clockGuard()
        let jumped = self.at(Self.day * 2 + .seconds(60), .seconds(60))
        #expect(clock.jump(now: jumped.now, lease: jumped.lease) == Self.day * 2)
        #expect(clock.expiry(now: jumped.now, lease: jumped.lease) == self.start.advanced(by: .seconds(60)))
        let later = self.at(Self.day * 2 + .seconds(600), .seconds(600))
        #expect(clock.expiry(now: later.now, lease: later.lease) == self.start.advanced(by: .seconds(600)))
        let back = self.at(.seconds(700), .seconds(700))
        #expect(clock.jump(now: back.now, lease: back.lease) == nil)
        #expect(clock.expiry(now: back.now, lease: back.lease) == back.now)
    }

    @Test("A confirmed jump is plausible, and the next one is not")
    func confirmed() {
        var clock = self.clockGuard()
        let jumped = self.at(Self.day * 8, .seconds(1))
        #expect(clock.jump(now: jumped.now, lease: jumped.lease) != nil)
        clock.confirm(now: jumped.now, lease: jumped.lease)
        #expect(clock.expiry(now: jumped.now, lease: jumped.lease) == jumped.now)
        let again = self.at(Self.day * 16, .seconds(2))
        #expect(clock.jump(now: again.now, lease: again.lease) != nil)
    }

    @Test("A clock that is set back, and its return, need no confirmation")
    func back() {
        var clock = self.clockGuard()
        let early = self.at(.zero - Self.day * 3, .seconds(5))
        #expect(clock.jump(now: early.now, lease: early.lease) == nil)
        #expect(clock.expiry(now: early.now, lease: early.lease) == early.now)
        let right = self.at(.seconds(10), .seconds(10))
        #expect(clock.jump(now: right.now, lease: right.lease) == nil)
    }

    @Test("At the start, the clock is compared with the time at which the queue was last in use")
    func resume() {
        for (stop, isPlausible) in [
            (Duration.zero, true), (.seconds(3_600 * 20), true), (Self.day * 2, false), (Self.day * 300, false),
            (.zero - Self.day * 20_000, true),
        ] {
            let now = self.start.advanced(by: stop)
            var clock = ClockGuard(longestJump: .seconds(3_600), now: now, lease: now)
            clock.resume(after: self.start, now: now, lease: now)
            #expect((clock.jump(now: now, lease: now) == nil) == isPlausible, "\(stop)")
        }
        // A machine without a clock of its own starts in 1970, and is then corrected.
        var clock = ClockGuard(
            longestJump: .seconds(3_600),
            now: QueueTime(secondsSince1970: 0),
            lease: QueueTime(secondsSince1970: 0)
        )
        clock.resume(after: self.start, now: QueueTime(secondsSince1970: 0), lease: QueueTime(secondsSince1970: 0))
        let corrected = self.start.advanced(by: .seconds(20))
        #expect(clock.jump(now: corrected, lease: QueueTime(secondsSince1970: 10)) == nil)
        // Extreme times do not trap.
        for time in [Int64.min, .max] {
            let time = QueueTime(millisecondsSince1970: time)
            _ = clock.expiry(now: time, lease: time)
            clock.resume(after: time, now: self.start, lease: time)
            _ = clock.jump(now: self.start, lease: self.start)
        }
    }

    @Test("The time is stored in the queue while it is plausible")
    func stored() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("clock-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let manual = ManualQueueClock(self.start)
        let file = folder.appendingPathComponent("queue.sqlite").path
        let queue = try await SQLitePushQueue.open(file: file, clock: manual, logger: logger)
        let clock = GuardedClock(manual, longestJump: .seconds(3_600))
        try await clock.resume(queue)
        #expect(clock.jump == nil)
        try await clock.store(in: queue)
        manual.jump(by: Self.day * 2)
        #expect(clock.jump == Self.day * 2)
        try await clock.store(in: queue)
        // The next process begins with the wrong clock.
        let next = GuardedClock(manual, longestJump: .seconds(3_600))
        try await next.resume(queue)
        #expect(next.jump == Self.day * 2 && next.expiry == self.start)
        next.confirm()
        try await next.store(in: queue)
        let third = GuardedClock(manual, longestJump: .seconds(3_600))
        try await third.resume(queue)
        #expect(third.jump == nil)
        await queue.close()
    }
}

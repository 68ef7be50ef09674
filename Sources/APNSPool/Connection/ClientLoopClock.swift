import APNSTransport
import NIOCore
import SupervisedPool

/// The client's clock on an event loop. A connection actor and its connections use no other clock.
struct ClientLoopClock: LoopClock {
    let base: any MonotonicClock
    private let isSystemClock: Bool

    init(_ clock: any MonotonicClock) {
        self.base = clock
        self.isSystemClock = clock is SystemMonotonicClock
    }

    var now: MonotonicInstant {
        // Calls the usual clock directly, because every read from a socket asks for the time.
        self.isSystemClock ? SystemMonotonicClock().now : self.base.now
    }

    func now(on loop: any EventLoop) -> NIODeadline { NIODeadline(self.now) }

    func schedule(
        at deadline: NIODeadline,
        on loop: any EventLoop,
        _ body: @escaping () -> Void
    ) -> LoopTimer {
        guard self.isSystemClock else { return self.sleep(until: deadline, on: loop, body) }
        // The loop's timers need no task. Unlike the client's clock, they do not count the time for which the computer
        // was suspended, so they fire late after a suspension.
        let scheduled = loop.assumeIsolated().scheduleTask(in: deadline - self.now(on: loop), body)
        return LoopTimer { scheduled.cancel() }
    }

    /// Schedules with a task, because a test clock only offers sleeping.
    private func sleep(
        until deadline: NIODeadline,
        on loop: any EventLoop,
        _ body: @escaping () -> Void
    ) -> LoopTimer {
        let isCancelled = NIOLoopBoundBox(false, eventLoop: loop)
        let bound = NIOLoopBound(body, eventLoop: loop)
        let task = Task { [base] in
            try await base.sleep(until: MonotonicInstant(deadline))
            loop.execute {
                if !isCancelled.value { bound.value() }
            }
        }
        return LoopTimer {
            isCancelled.value = true
            task.cancel()
        }
    }
}

extension NIODeadline {
    /// Creates the same instant. An instant before the clock's zero becomes zero.
    init(_ instant: MonotonicInstant) {
        self = .uptimeNanoseconds(UInt64(max(instant.nanoseconds, 0)))
    }
}

extension MonotonicInstant {
    init(_ deadline: NIODeadline) {
        self.init(nanoseconds: Int64(clamping: deadline.uptimeNanoseconds))
    }
}

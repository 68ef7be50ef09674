package import NIOCore

/// The source of time for a connection and its timers. By default it is the event loop's own time. A client passes its
/// own clock, so that a test that advances that clock advances every timer of the connection. Only NIO's own connect
/// timeout, which starts later, follows the loop.
///
/// `NIODeadline` counts nanoseconds from the zero of this clock. All calls are made on `loop`.
package protocol LoopClock: Sendable {
    func now(on loop: any EventLoop) -> NIODeadline

    /// Calls `body` on `loop` at `deadline` or later, unless the timer is cancelled.
    func schedule(at deadline: NIODeadline, on loop: any EventLoop, _ body: @escaping () -> Void) -> LoopTimer
}

/// A timer of a `LoopClock`. Releasing it does not cancel it.
package struct LoopTimer {
    private let onCancel: () -> Void

    package init(onCancel: @escaping () -> Void) {
        self.onCancel = onCancel
    }

    /// Cancels the timer, so that `body` is not called. Call this on the timer's loop.
    package func cancel() {
        self.onCancel()
    }
}

/// The event loop's own time.
package struct EventLoopClock: LoopClock {
    package init() {}

    package func now(on loop: any EventLoop) -> NIODeadline { loop.now }

    package func schedule(
        at deadline: NIODeadline,
        on loop: any EventLoop,
        _ body: @escaping () -> Void
    ) -> LoopTimer {
        let scheduled = loop.assumeIsolated().scheduleTask(deadline: deadline, body)
        return LoopTimer { scheduled.cancel() }
    }
}

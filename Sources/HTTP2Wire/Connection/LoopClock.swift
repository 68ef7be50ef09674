package import NIOCore

/// The only time that a connection and its timers follow. By default it is the event loop's own; a client gives its own
/// clock here, so that a test that moves the clock moves every timer of a connection.
///
/// `NIODeadline` counts nanoseconds from the zero of this clock. All calls come on `loop`.
package protocol LoopClock: Sendable {
    func now(on loop: any EventLoop) -> NIODeadline

    /// Calls `body` on `loop` at `deadline` or later, unless the timer is cancelled.
    func schedule(at deadline: NIODeadline, on loop: any EventLoop, _ body: @escaping () -> Void) -> LoopTimer
}

/// A timer of a `LoopClock`. Dropping it does not cancel it.
package struct LoopTimer {
    private let onCancel: () -> Void

    package init(onCancel: @escaping () -> Void) {
        self.onCancel = onCancel
    }

    /// `body` is not called any more. Call this on the timer's loop.
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

import Logging
import SupervisedPool
import Synchronization

/// Tells in the log that a client is still degraded or failing. That it came to be so, and that it is over, is told by
/// those who noticed.
final class HealthReminder: Sendable {
    private struct State {
        var log = FaultLog<APNSHealth.Cause.Code>()
        var health = APNSHealth.starting
        /// When the trouble began.
        var failedAtBegin = 0
    }

    /// A fault has begun.
    let beginnings: AsyncStream<Void>
    private let beginning: AsyncStream<Void>.Continuation
    private let state = Mutex(State())

    init() {
        (self.beginnings, self.beginning) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// - Parameter failedPushes: how many there were since the client was made.
    func note(_ health: APNSHealth, failedPushes: Int, now: MonotonicInstant) {
        let hasBegun = self.state.withLock { state -> Bool in
            let before = state.health.cause?.code
            state.health = health
            guard before != health.cause?.code else { return false }
            state.log.ended()
            state.failedAtBegin = failedPushes
            guard let code = health.cause?.code else { return false }
            return state.log.seen(code, now: now) == .first
        }
        if hasBegun { self.beginning.yield() }
    }

    /// When to look whether there is something to tell; nil: no fault lasts.
    var next: MonotonicInstant? { self.state.withLock { $0.log.next } }

    func remind(failedPushes: Int, now: MonotonicInstant, _ logger: Logger) {
        let (line, health, failed) = self.state.withLock { state in
            (
                state.health.cause.flatMap { state.log.lasts($0.code, now: now) },
                state.health, failedPushes - state.failedAtBegin
            )
        }
        guard case .again(let time, _) = line else { return }
        let level: Logger.Level = if case .failing = health { .error } else { .warning }
        logger.log(
            level: level,
            "the client is still \(health.name)",
            metadata: [
                "cause": "\(health.cause.map { "\($0)" } ?? "unknown")",
                "since": "\(time.rounded)",
                "failed-pushes": "\(failed)",
            ]
        )
    }
}

extension ClientRuntime {
    /// Until the task is cancelled. Sleeps only while a fault lasts.
    func remindOfFaults() async {
        let reminder = self.observer.reminder
        for await _ in reminder.beginnings {
            while let next = reminder.next, !Task.isCancelled {
                try? await self.clock.sleep(until: next)
                reminder.remind(failedPushes: self.observer.pushes.failed, now: self.clock.now, self.logger)
            }
        }
    }
}

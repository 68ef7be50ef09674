import Logging
import PushQueue
import Synchronization

/// Tests whether the queue can be used.
final class ReadyProbe: Sendable {
    private struct State {
        var last: (task: Task<QueueError?, Never>, started: ContinuousClock.Instant)?
        var isReady = true
    }

    /// Probes within this time share one result, so that they put no load on the disk.
    private static let lifetime = Duration.seconds(1)

    private let queue: any PushQueue
    private let logger: Logger
    private let state = Mutex(State())

    /// - Parameter logger: logs when the queue is no longer ready, with the reason, and when it is ready again.
    init(_ queue: any PushQueue, logger: Logger) {
        self.queue = queue
        self.logger = logger
    }

    /// Why the queue cannot be used, and the remedy; nil if it can be used. Show it only to operators: it may name
    /// files.
    func problem() async -> String? {
        let now = ContinuousClock.now
        let task = self.state.withLock { state in
            if let last = state.last, last.started.duration(to: now) < Self.lifetime { return last.task }
            let task = Task { await self.test() }
            state.last = (task, now)
            return task
        }
        return await task.value?.message
    }

    private func test() async -> QueueError? {
        var problem: QueueError?
        do throws(QueueError) {
            try await self.queue.checkStorage()
        } catch {
            problem = error
        }
        let isReady = problem == nil
        let wasReady = self.state.withLock { state in
            defer { state.isReady = isReady }
            return state.isReady
        }
        if let problem, wasReady {
            self.logger.error("The relay is not ready", metadata: ["error": "\(problem)"])
        } else if isReady, !wasReady {
            self.logger.notice("The relay is ready again")
        }
        return problem
    }
}

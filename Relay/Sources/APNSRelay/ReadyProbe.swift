import PushQueue
import Synchronization

/// Tests whether the queue can store pushes, by storing a value.
final class ReadyProbe: Sendable {
    /// Requests within this time share a result, so that they cannot load the disk.
    private static let lifetime = Duration.seconds(1)

    private let queue: any PushQueue
    private let last = Mutex<(task: Task<String?, Never>, started: ContinuousClock.Instant)?>(nil)

    init(_ queue: any PushQueue) {
        self.queue = queue
    }

    /// Why pushes cannot be stored; nil if they can.
    func problem() async -> String? {
        let now = ContinuousClock.now
        let task = self.last.withLock { last in
            if let last, last.started.duration(to: now) < Self.lifetime { return last.task }
            let queue = self.queue
            let task = Task { () -> String? in
                do throws(QueueError) {
                    try await queue.setValue([], forKey: "ready")
                    return nil
                } catch {
                    return error.message
                }
            }
            last = (task, now)
            return task
        }
        return await task.value
    }
}

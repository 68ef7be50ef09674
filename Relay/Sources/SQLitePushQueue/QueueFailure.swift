import PushQueue
import Synchronization

/// Why a queue cannot be used any more.
final class QueueFailure: Sendable {
    private let state = Mutex<QueueError?>(nil)
    private let errors: AsyncStream<QueueError>
    private let continuation: AsyncStream<QueueError>.Continuation

    init() {
        (self.errors, self.continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(1))
    }

    /// What every writing call throws; nil as long as the disk has confirmed all writes.
    var syncError: QueueError? { self.state.withLock { $0 } }

    /// The disk did not confirm a write. Nothing more may be written.
    func syncFailed(_ error: QueueError) {
        self.state.withLock { $0 = $0 ?? error }
        self.continuation.yield(error)
    }

    /// The storage is damaged. Other calls may still succeed.
    func damaged(_ error: QueueError) { self.continuation.yield(error) }

    /// The queue was closed.
    func finish() { self.continuation.finish() }

    /// Waits for the first failure; nil if the queue was closed or the task was cancelled. Only one task may wait.
    func wait() async -> QueueError? {
        for await error in self.errors { return error }
        return nil
    }
}

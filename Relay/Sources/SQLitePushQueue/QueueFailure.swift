import PushQueue
import Synchronization

/// The reason why a queue can no longer be used.
final class QueueFailure: Sendable {
    private struct State {
        var first: QueueError?
        var syncError: QueueError?
    }

    private let state = Mutex(State())
    private let errors: AsyncStream<QueueError>
    private let continuation: AsyncStream<QueueError>.Continuation

    init() {
        (self.errors, self.continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(1))
    }

    /// The first failure; nil if the queue can be used.
    var first: QueueError? { self.state.withLock { $0.first } }

    /// The error of every writing call after a failed `fsync`; nil as long as the disk has confirmed all writes.
    var syncError: QueueError? { self.state.withLock { $0.syncError } }

    /// Records that the disk did not confirm a write. Nothing more may be written.
    func syncFailed(_ error: QueueError) {
        self.state.withLock { state in
            state.first = state.first ?? error
            state.syncError = error
        }
        self.continuation.yield(error)
    }

    /// Records that the storage is damaged. Other calls may still succeed.
    func damaged(_ error: QueueError) {
        self.state.withLock { $0.first = $0.first ?? error }
        self.continuation.yield(error)
    }

    /// Ends ``wait()``, because the queue was closed.
    func finish() { self.continuation.finish() }

    /// Waits for the first failure; nil if the queue was closed or the task was cancelled. Only one task may wait.
    func wait() async -> QueueError? {
        for await error in self.errors { return error }
        return nil
    }
}

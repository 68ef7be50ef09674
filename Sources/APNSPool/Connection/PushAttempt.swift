import APNSTransport
import SupervisedPool
import Synchronization

/// One attempt of a single push, from the task that waits for its result to a connection and back. It holds one leased
/// stream, which the worker returns to the pool before the task resumes.
///
/// Unchecked: only one thread at a time accesses the variables. The task sets the continuation and puts the attempt
/// into the connection's mailbox; after that, only the reader of the mailbox accesses them: the connection's event loop.
/// If nothing reads the mailbox any more, the thread that was refused or that took the last messages accesses them
/// instead. The mailbox's lock orders these accesses. A cancellation sets the atomic flag, and passes the reference to the
/// mailbox.
final class PushAttempt: @unchecked Sendable {
    /// Where the stream was leased: a worker and its session.
    let origin: LeaseOrigin
    /// The request, until the connection takes it. Its tag is not set yet.
    private var submission: StreamSubmission?
    private var continuation: StreamContinuation?
    /// Whether the task was cancelled, perhaps before the attempt was in a mailbox.
    let isCancelled = Atomic(false)
    /// Identifies the attempt while it is in a `PendingPushes`, which sets it.
    var tag: StreamTag?

    init(_ submission: StreamSubmission, origin: LeaseOrigin) {
        self.submission = submission
        self.origin = origin
    }

    /// Called by the task before it puts the attempt into a mailbox.
    func begin(_ continuation: StreamContinuation) { self.continuation = continuation }

    /// Returns the request with the attempt's tag; nil if it was taken before.
    func takeSubmission() -> StreamSubmission? {
        guard let tag, var submission = self.submission.take() else { return nil }
        submission.tag = tag
        return submission
    }

    /// Resumes the task. Has no effect after the first call.
    func end(_ result: StreamResult) { self.continuation.take()?.resume(returning: result) }
}

/// Each continuation is resumed exactly once. Debug builds check this, and tests try to make it fail.
#if DEBUG
    typealias StreamContinuation = CheckedContinuation<StreamResult, Never>
#else
    typealias StreamContinuation = UnsafeContinuation<StreamResult, Never>
#endif

/// A batch of pushes of a bulk call on its way to a connection's event loop. Their results are delivered to the call in
/// arrays. Their streams are returned to the pool just before each delivery.
struct PushBatch: Sendable {
    /// One request for each of the `indices`.
    var requests: RequestBatch
    /// The indices of the pushes in the bulk call; at most `PendingPushes.batchSize`.
    var indices: [Int32]
    var collector: BulkCollector
    var origin: LeaseOrigin
}

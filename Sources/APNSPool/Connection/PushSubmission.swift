import HTTP2Wire
import NIOCore
import SupervisedPool

/// One push on its way to a connection's event loop.
struct PushSubmission: Sendable {
    var request: HTTP2Request
    /// The deadline of the push.
    var deadline: MonotonicInstant
    /// How long the response may take, counted from when the push is written.
    var responseLimit: TimeAmount
    /// Identifies the push in a cancellation; 0: it is never cancelled.
    var ticket: UInt64
    /// The task that waits for this one push.
    var continuation: StreamContinuation
    /// Whether the push leaves the last part of the connection's send window to others.
    var isBulk = false
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
    /// The indices of the pushes in the bulk call; at most `PendingBatches.batchSize`.
    var indices: [Int32]
    var collector: BulkCollector
    var origin: LeaseOrigin
    /// The right to probe a candidate credential with this batch; nil for an ordinary one. Ended by the last result of
    /// the batch, even if the call's consumer never reads that result.
    var probe: RotationProbe?
}

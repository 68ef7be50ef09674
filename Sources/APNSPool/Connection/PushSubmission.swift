import HTTP2Wire
import SupervisedPool

/// One push on its way to a connection's loop.
struct PushSubmission: Sendable {
    var request: HTTP2Request
    /// When the attempt is given up.
    var deadline: MonotonicInstant
    /// What the caller calls the push when it cancels it; 0: nobody will.
    var ticket: UInt64
    /// The task that waits for this one push.
    var continuation: StreamContinuation
    /// Whether it leaves the last of the connection's send window to others.
    var isBulk = false
}

/// Checked while the library is developed; each is resumed exactly once, which its tests try to break.
#if DEBUG
    typealias StreamContinuation = CheckedContinuation<StreamResult, Never>
#else
    typealias StreamContinuation = UnsafeContinuation<StreamResult, Never>
#endif

/// Pushes of a bulk call on their way to a connection's loop. Their slots go back to the pool, and their results to the
/// call, in arrays.
struct PushBatch: Sendable {
    /// One request for each of the `indices`.
    var requests: RequestBatch
    /// What the bulk call calls the pushes; at most `BulkGroups.groupSize`.
    var indices: [Int32]
    var collector: BulkCollector
    var origin: LeaseOrigin
    /// Ends with the last result of the batch: the consumer of the call may not come back for it.
    var probe: RotationProbe?
}

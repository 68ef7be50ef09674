import HTTP2Wire
import SupervisedPool
import Synchronization

/// One push on its way to a connection's loop.
struct PushSubmission: Sendable {
    var request: HTTP2Request
    /// When the attempt is given up, in seconds of the loop's clock.
    var deadline: LoopDeadline
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
    var grant: SlotGrant
}

/// The mailbox between tasks and one connection's loop: many writers, one reader, one wake-up for all that was put in
/// before the reader came.
final class ConnectionMailbox: Sendable {
    enum Message: Sendable {
        case submit(PushSubmission)
        case submitAll(PushBatch)
        case cancel(ticket: UInt64)
        case connect
        case disconnect
        case replace
        case stop
    }

    private struct State {
        var messages: [Message] = []
        var isWakeUpDue = false
        var isClosed = false
    }

    enum Answer {
        case accepted
        /// The reader sleeps: wake it.
        case wakeReader
        /// Nobody reads any more.
        case closed
    }

    private let state = Mutex(State())

    func put(_ message: Message) -> Answer {
        self.state.withLock { state in
            if state.isClosed { return .closed }
            state.messages.append(message)
            if state.isWakeUpDue { return .accepted }
            state.isWakeUpDue = true
            return .wakeReader
        }
    }

    /// Takes all messages; `buffer` must be empty, and its storage is used for the next ones.
    func take(into buffer: inout [Message]) {
        self.state.withLock { state in
            swap(&buffer, &state.messages)
            state.isWakeUpDue = false
        }
    }

    /// Takes the last messages; later ones are refused.
    func close() -> [Message] {
        self.state.withLock { state in
            state.isClosed = true
            let messages = state.messages
            state.messages = []
            return messages
        }
    }
}

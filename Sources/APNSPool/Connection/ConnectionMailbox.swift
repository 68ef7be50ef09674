import APNSTransport
import SupervisedPool
import Synchronization

/// The mailbox between tasks and a connection's event loop, with many writers and one reader. The reader is woken once
/// for all messages that arrive before it reads.
final class ConnectionMailbox: Sendable {
    enum Message: Sendable {
        case submit(PushAttempt)
        /// Indirect, so that a message is as small as a reference.
        indirect case submitAll(PushBatch)
        case cancel(PushAttempt)
        case connect
        case disconnect
        /// The pool has become smaller, and does not use this worker.
        case dismiss
        case replace
        /// Another worker's path was lost.
        case pathLost
        case stop
    }

    private struct State {
        var messages: [Message] = []
        var isWakeUpDue = false
        var isClosed = false
    }

    enum Delivery {
        case accepted
        /// The reader is not scheduled: wake it.
        case wakeReader
        /// The mailbox is closed and no longer read.
        case closed
    }

    private let state = Mutex(State())

    func put(_ message: Message) -> Delivery {
        self.state.withLock { state in
            if state.isClosed { return .closed }
            state.messages.append(message)
            if state.isWakeUpDue { return .accepted }
            state.isWakeUpDue = true
            return .wakeReader
        }
    }

    /// Takes all messages. `buffer` must be empty; the mailbox reuses its storage for later messages.
    func take(into buffer: inout [Message]) {
        self.state.withLock { state in
            swap(&buffer, &state.messages)
            state.isWakeUpDue = false
        }
    }

    /// Closes the mailbox and returns the remaining messages. Later messages are refused.
    func close() -> [Message] {
        self.state.withLock { state in
            state.isClosed = true
            defer { state.messages = [] }
            return state.messages
        }
    }
}

import HTTP2Wire
import SupervisedPool
import Synchronization

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

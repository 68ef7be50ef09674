import HTTP2Wire
import SupervisedPool
import Synchronization

/// Who gets the result of a stream.
enum PushReceiver: Sendable {
    /// A task that waits for this one push.
    case single(CheckedContinuation<StreamResult, Never>)
    /// A bulk call; `index` is what it calls the push. Its slot goes back to the pool with the results of the tick.
    case bulk(BulkCollector, index: Int, SlotGrant)
}

/// One push on its way to a connection's loop.
struct PushSubmission: Sendable {
    var request: HTTP2Request
    /// When the attempt is given up, in seconds of the loop's clock.
    var deadline: LoopDeadline
    /// What the caller calls the push when it cancels it; 0: nobody will.
    var ticket: UInt64
    var receiver: PushReceiver
    /// Whether it leaves the last of the connection's send window to others.
    var isBulk = false
}

/// The mailbox between tasks and one connection's loop: many writers, one reader, one wake-up for all that was put in
/// before the reader came.
final class ConnectionMailbox: Sendable {
    enum Message: Sendable {
        case submit(PushSubmission)
        case submitAll([PushSubmission])
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

extension ConnectionMailbox.Message {
    /// The pushes that it carries.
    var submissions: [PushSubmission] {
        switch self {
        case .submit(let submission): [submission]
        case .submitAll(let submissions): submissions
        case .cancel, .connect, .disconnect, .replace, .stop: []
        }
    }
}

import HTTP2Wire
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
        case replace
        /// Another worker's path was lost.
        case pathLost
        case stop
    }

    private enum Phase {
        /// The reader's event loop has not run anything for the reader yet. It may have been shut down long ago.
        case unread
        case open
        case closed
        /// The reader's event loop was shut down, or the reader was stopped before it ran there.
        case orphaned
    }

    private struct State {
        var messages: [Message] = []
        var isWakeUpDue = false
        var phase = Phase.unread
    }

    enum Delivery {
        case accepted
        /// The reader is not scheduled: wake it.
        case wakeReader
        /// The mailbox is closed and no longer read.
        case closed
        /// The mailbox will not be read: its event loop was shut down, or its reader was stopped before it began.
        /// ``orphan()`` returns the messages before this one.
        case orphaned
    }

    private let state = Mutex(State())

    func put(_ message: Message) -> Delivery {
        self.state.withLock { state in
            switch state.phase {
            case .closed: return .closed
            case .orphaned: return .orphaned
            case .unread:
                guard case .stop = message else { break }
                state.phase = .orphaned
                return .orphaned
            case .open: break
            }
            state.messages.append(message)
            if state.isWakeUpDue { return .accepted }
            state.isWakeUpDue = true
            return .wakeReader
        }
    }

    /// Called by the reader's event loop before it reads. Returns false if the reader was stopped before.
    func open() -> Bool {
        self.state.withLock { state in
            guard case .unread = state.phase else { return false }
            state.phase = .open
            return true
        }
    }

    /// Records that the reader's event loop was shut down. Returns the messages that were not read.
    func orphan() -> [Message] {
        self.end(.orphaned)
    }

    private func end(_ phase: Phase) -> [Message] {
        self.state.withLock { state in
            state.phase = phase
            defer { state.messages = [] }
            return state.messages
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
        self.end(.closed)
    }
}

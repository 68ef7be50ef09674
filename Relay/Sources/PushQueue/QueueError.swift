/// Why a queue could not do something.
public struct QueueError: Error, Sendable, Hashable, CustomStringConvertible {
    public enum Code: String, Sendable, Hashable {
        /// The queue has reached its capacity. Try again later.
        case full
        /// The storage cannot be written or read now: the disk is full, the database is locked, the broker is away. Try
        /// again later.
        case unavailable
        /// The storage did not respond in time. Whether the call has had an effect, or still will, is not known.
        case undecided
        /// The storage is damaged, or was written by a newer version. It needs a person; nothing was overwritten.
        case unusable
        /// Another process uses the storage, which only one may use at a time.
        case inUse
        /// The queue is closed.
        case closed
    }

    public var code: Code
    /// The cause and the remedy.
    public var message: String

    public init(code: Code, message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { self.message }

    package static let closed = QueueError(code: .closed, message: "The queue is closed.")
}

/// An error of a queue.
public struct QueueError: Error, Sendable, Hashable, CustomStringConvertible {
    public enum Code: String, Sendable, Hashable {
        /// The queue has reached its capacity. Try again later.
        case full
        /// The storage cannot be written or read now, for example because the disk is full, the database is locked or
        /// the server cannot be reached. Try again later.
        case unavailable
        /// The storage did not respond in time. It is unknown whether the call has had an effect, or will have one.
        case undecided
        /// The storage is damaged, or a newer version wrote it. An operator must act. Nothing was overwritten.
        case unusable
        /// Another process uses the storage, and only one process may.
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

    /// - Parameter capacity: The maximum number of pushes without an outcome.
    package static func full(_ capacity: Int) -> QueueError {
        QueueError(code: .full, message: "The queue has reached its capacity of \(capacity) pushes. Try again later.")
    }
}

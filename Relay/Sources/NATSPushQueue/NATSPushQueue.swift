#if NATS
    package import JournalPushQueue
    package import Logging
    package import PushQueue

    /// A queue in NATS JetStream that several processes share.
    package enum NATSPushQueue {
        /// Connects to the brokers, creates the streams if they do not exist, and reads the journal.
        ///
        /// - Parameters:
        ///   - brokers: where the brokers are, and the names of the streams.
        ///   - options: the file of this process's copy, and the limits.
        ///   - logger: for what an operator should know.
        ///   - whenCommitted: called after each transaction of the copy.
        /// - Throws: `QueueError`: `unavailable` if no broker responds; `unusable` if a stream, the copy or a file in the
        ///   options cannot be used; `inUse` if another process uses the copy.
        package static func open(
            _ brokers: NATSOptions,
            options: JournalPushQueue.Options,
            logger: Logger,
            whenCommitted: @escaping JournalPushQueue.WhenCommitted = { _, _ in }
        ) async throws(QueueError) -> JournalPushQueue {
            if let fault = brokers.fault { throw QueueError(code: .unusable, message: fault) }
            return try await JournalPushQueue.open(
                try await NATSJournal.open(brokers, timeout: options.timeout),
                options: options,
                logger: logger,
                whenCommitted: whenCommitted
            )
        }

        /// Connects to the brokers, and says in what state the queue's stream is. Creates nothing.
        ///
        /// - Throws: as ``open(_:options:logger:whenCommitted:)``.
        package static func describe(_ brokers: NATSOptions) async throws(QueueError) -> String {
            if let fault = brokers.fault { throw QueueError(code: .unusable, message: fault) }
            return try await NATSJournal.describe(brokers)
        }
    }
#endif

public import Logging
public import PushQueue
public import SQLitePushQueue

/// Where and how long pushes are stored.
public struct StorageSettings: Sendable, Hashable {
    /// The SQLite file. Default `apns-relay.sqlite` in the working directory.
    public var file = "apns-relay.sqlite"
    /// The most pushes without an outcome. At the limit, requests get 503. Default 10 million.
    public var capacity = 10_000_000
    public var retention = Retention()

    public init() {}
}

extension StorageSettings {
    /// Opens the queue.
    ///
    /// - Parameters:
    ///   - clock: the queue's times.
    ///   - logger: receives what was found in the file.
    ///   - whenCommitted: called after each commit.
    /// - Throws: `QueueError` if the file cannot be used.
    public func open(
        clock: any QueueClock = SystemQueueClock(),
        logger: Logger,
        whenCommitted: @escaping SQLitePushQueue.WhenCommitted = { _, _ in }
    ) async throws(QueueError) -> SQLitePushQueue {
        try await SQLitePushQueue.open(
            file: self.file,
            options: SQLitePushQueue.Options(
                capacity: self.capacity,
                keepsPayloads: self.retention.payloads > .zero
            ),
            clock: clock,
            logger: logger,
            whenCommitted: whenCommitted
        )
    }
}

import JournalPushQueue
package import Logging
package import NATSPushQueue
public import PushQueue
package import SQLitePushQueue

/// The storage of pushes, and their retention.
public struct StorageSettings: Sendable, Hashable {
    /// The SQLite file with the queue or, if there are brokers, with this relay's copy of it. Default
    /// `apns-relay.sqlite` in the working directory.
    public var file = "apns-relay.sqlite"
    /// The maximum number of pushes without an outcome. At the limit, requests get 503. Default 10 million.
    public var capacity = 10_000_000
    public var retention = Retention()
    /// How far the clock may jump ahead while the relay runs. After a longer jump, nothing expires and nothing is
    /// deleted until the clock is corrected or an operator confirms it. Default 1 hour.
    public var maxClockJump = Duration.seconds(3_600)
    /// The brokers with a queue that several relays share; nil for a queue in the file.
    package var brokers: NATSOptions?
    /// The longest wait of a call for the brokers. When one of three is lost, the others take up to nine seconds to elect a
    /// leader. Default 30 s.
    package var brokerTimeout = Duration.seconds(30)

    public init() {}
}

/// A queue that was opened.
package struct OpenedQueue: Sendable {
    package var queue: any PushQueue
    /// The clock that the queue uses.
    package var clock: any QueueClock
    /// The number of claims that the previous process left, by what happened to their pushes.
    package var expired: ExpiredLeases
    /// Where to publish outcomes; nil if they are not published.
    package var outcomes: (any OutcomeStream)?
    /// Waits until the queue can no longer be used, and returns the reason; nil if it was closed or the task was cancelled.
    package var waitForFailure: (@Sendable () async -> QueueError?)?
}

extension StorageSettings {
    /// Opens the queue.
    ///
    /// - Parameters:
    ///   - logger: logs the state of the file.
    ///   - whenCommitted: called after each commit, with the number of calls or journal entries in it.
    /// - Throws: `QueueError` if the file or the brokers cannot be used.
    package func open(
        logger: Logger,
        whenCommitted: @escaping @Sendable (Int, Duration) -> Void = { _, _ in }
    ) async throws(QueueError) -> OpenedQueue {
        if let brokers = self.brokers {
            let queue = try await self.join(brokers, logger, whenCommitted)
            return OpenedQueue(
                queue: queue,
                clock: queue.clock,
                expired: await queue.expiredAtOpen,
                outcomes: self.outcomeStream(brokers),
                waitForFailure: queue.waitForFailure
            )
        }
        let clock = GuardedClock(longestJump: self.maxClockJump)
        let queue = try await self.openFile(clock: clock, logger: logger, whenCommitted: whenCommitted)
        do {
            try await clock.resume(queue)
        } catch {
            await queue.close()
            throw error
        }
        return OpenedQueue(
            queue: queue,
            clock: clock,
            expired: queue.expiredAtOpen,
            waitForFailure: queue.waitForFailure
        )
    }

    /// Opens a queue in the file. Ignores the brokers.
    package func openFile(
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

    private func join(
        _ brokers: NATSOptions,
        _ logger: Logger,
        _ whenCommitted: @escaping @Sendable (Int, Duration) -> Void
    ) async throws(QueueError) -> JournalPushQueue {
        #if NATS
            return try await NATSPushQueue.open(
                brokers,
                options: JournalPushQueue.Options(
                    file: self.file,
                    capacity: self.capacity,
                    timeout: self.brokerTimeout
                ),
                logger: logger,
                whenCommitted: whenCommitted
            )
        #else
            throw Self.withoutNATS
        #endif
    }

    private func outcomeStream(_ brokers: NATSOptions) -> (any OutcomeStream)? {
        #if NATS
            guard brokers.publishesOutcomes else { return nil }
            return NATSOutcomeStream(brokers, maximumAge: self.retention.outcomes)
        #else
            return nil
        #endif
    }

    /// Connects to the brokers, and says in what state the queue's stream is; nil if no brokers are set.
    package func describeBrokers() async throws(QueueError) -> String? {
        guard let brokers = self.brokers else { return nil }
        #if NATS
            return try await NATSPushQueue.describe(brokers)
        #else
            _ = brokers
            throw Self.withoutNATS
        #endif
    }

    #if !NATS
        private static let withoutNATS = QueueError(
            code: .unusable,
            message: "nats.servers is set, but this apns-relay was built without NATS. Build it with --traits NATS."
        )
    #endif
}

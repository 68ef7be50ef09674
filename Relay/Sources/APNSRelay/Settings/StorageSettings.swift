@_spi(Relay) import APNSPool
import Foundation
package import Logging
public import PostgresPushQueue
public import PushQueue
package import SQLitePushQueue

/// Where pushes are stored, and how long.
public struct StorageSettings: Sendable, Hashable {
    /// The SQLite file with the queue, unless there is a database. Default `apns-relay.sqlite` in the working directory.
    public var file = "apns-relay.sqlite"
    /// The database with a queue that several relays share; nil for a queue in the file.
    public var postgres: ConnectionSettings?
    /// The number of connections to the database for calls. One more looks for pushes of other programs. Default 6.
    public var connections = 6
    /// Whether the relay creates the queue's schema when it starts, in a database that has none. Default true.
    public var migrates = true
    /// The longest wait of a call for a database that is away. Default 10 s.
    public var timeout = Duration.seconds(10)
    /// What happens to pushes that may have been sent, after a restore of the queue or the promotion of a standby. The relay
    /// that notices it decides. Default `park`.
    public var afterFailover = AfterFailover.park
    /// The file in which the relay remembers how far it has seen the queue come; nil for the default: beside the SQLite file,
    /// or `apns-relay.progress` in the working directory.
    public var progressFile: String?
    /// The maximum number of pushes without an outcome. At the limit, requests get 503. Default 10 million.
    public var capacity = 10_000_000
    public var retention = Retention()
    /// The longest plausible jump of the clock while the relay runs. After a longer one, nothing expires and nothing is
    /// deleted until the clock is corrected or an operator confirms it. Default 1 hour.
    public var maxClockJump = Duration.seconds(3_600)

    public init() {}

    /// Where the relay remembers the progress of the queue.
    package var progress: ProgressFile {
        let path = self.postgres == nil ? "\(self.file).progress" : "apns-relay.progress"
        return ProgressFile(path: self.progressFile ?? path)
    }

    /// Reads how far the relay has seen the queue come.
    ///
    /// - Returns: nil if it has seen nothing yet.
    /// - Throws: `QueueError` (`unusable`) if the file is another one, or one of the queue's own, which it would replace.
    package func seenProgress() throws(QueueError) -> QueueProgress? {
        let progress = self.progress
        let suffixes = self.postgres == nil ? ["", "-wal", "-shm", "-journal", ".lock", ".new"] : []
        let identity = FileIdentity(progress.path)
        if identity != nil, let own = suffixes.first(where: { FileIdentity(self.file + $0) == identity }) {
            throw QueueError(
                code: .unusable,
                message:
                    "storage.progressFile: \(progress.path) is a file of the queue itself (\(self.file)\(own)). Nothing was "
                    + "written to it. Name a file of its own, or leave the setting out."
            )
        }
        return try progress.read()
    }

    /// The file or the database, for logs.
    package var place: String { self.postgres?.description ?? self.file }
}

/// A queue that was opened.
package struct OpenedQueue: Sendable {
    package var queue: any PushQueue
    /// The queue's times.
    package var clock: any QueueClock
    /// An element for each hint that other programs have stored pushes; nil if there are no hints.
    package var news: AsyncStream<Void>?
    /// Stores the settings that programs need which store pushes with SQL; nil if none can.
    package var publish: (@Sendable (SQLIntake) async throws(QueueError) -> Void)?
    /// Waits until the queue can no longer be used, and returns the reason; nil if it was closed or the task was cancelled.
    package var waitForFailure: (@Sendable () async -> QueueError?)?
    /// Where the progress of the queue is remembered; nil if it is not.
    package var progress: ProgressFile?
    /// Reads the state of the file or the database.
    package var readStorage: (@Sendable () async throws(QueueError) -> StorageState)?
}

extension StorageSettings {
    /// Opens the queue.
    ///
    /// - Parameters:
    ///   - isInspected: whether only small values are used. The schema of a database is then not created, and no pushes are
    ///     parked after a restore or a failover.
    ///   - metrics: counts commits, the pushes that were recovered, and those that were parked after a restore; nil for none.
    ///   - logger: receives the findings about the storage.
    /// - Throws: `QueueError` if the file or the database cannot be used.
    package func open(
        isInspected: Bool = false,
        metrics: RelayMetrics? = nil,
        logger: Logger
    ) async throws(QueueError) -> OpenedQueue {
        let whenRestored: @Sendable (QueueRestore) -> Void = { restore in
            metrics?.restored(restore)
            Self.log(restore, logger)
        }
        let clock = GuardedClock(longestJump: self.maxClockJump)
        var opened: OpenedQueue
        if let postgres {
            var options = self.options(postgres, clock)
            options.whenCommitted = { metrics?.committed(calls: 1, duration: $0) }
            options.beginsHistory = !isInspected
            options.whenRestored = whenRestored
            if isInspected { options.migrates = false } else { options.seen = try self.seenProgress() }
            let (news, hints) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
            let queue = try await PostgresPushQueue.open(options, logger: logger) {
                hints.yield()
            }
            opened = OpenedQueue(queue: queue, clock: clock, news: news)
            opened.publish = { intake throws(QueueError) in try await queue.publish(intake) }
            opened.readStorage = { () throws(QueueError) in .database(try await queue.databaseState()) }
        } else {
            let queue = try await self.openFile(clock: clock, logger: logger) { calls, duration in
                metrics?.committed(calls: calls, duration: duration)
            }
            opened = OpenedQueue(queue: queue, clock: clock)
            metrics?.recovered(queue.expiredAtOpen)
            if let restore = queue.restore { whenRestored(restore) }
            opened.waitForFailure = queue.waitForFailure
            opened.readStorage = { () throws(QueueError) in .file(try await queue.fileState()) }
        }
        if !isInspected { opened.progress = self.progress }
        do {
            try await clock.resume(opened.queue)
        } catch {
            await opened.queue.close()
            throw error
        }
        return opened
    }

    /// Logs that the queue was restored.
    private static func log(_ restore: QueueRestore, _ logger: Logger) {
        guard restore.parkedCount > 0 else {
            logger.notice("The queue was restored from a backup, or a standby was promoted. No push was parked")
            return
        }
        logger.critical(
            """
            The queue was restored from a backup, or a standby was promoted. Pushes that may have been sent before are \
            parked. Retry or drop them, on the page or with the API
            """,
            metadata: ["parked": "\(restore.parkedCount)"]
        )
    }

    /// Says that a backup of the queue was restored: numbers of the lost time are not used again, and pushes that may have
    /// been sent are parked, whether the queue notices the restore or not.
    package func restored(logger: Logger) async throws(QueueError) -> QueueRestore {
        if let postgres {
            var options = self.options(postgres, SystemQueueClock())
            options.seen = try self.seenProgress()
            return try await PostgresPushQueue.restored(options)
        }
        guard FileManager.default.fileExists(atPath: self.file) else {
            throw QueueError(code: .unusable, message: "\(self.file) does not exist, so there is no queue in it.")
        }
        let queue = try await self.openFile(isRestored: true, logger: logger)
        await queue.close()
        return queue.restore ?? QueueRestore()
    }

    private func options(_ postgres: ConnectionSettings, _ clock: any QueueClock) -> PostgresPushQueue.Options {
        var options = PostgresPushQueue.Options(connection: postgres)
        options.connections = self.connections
        options.migrates = self.migrates
        options.timeout = self.timeout
        options.afterFailover = self.afterFailover
        options.capacity = self.capacity
        options.clock = clock
        return options
    }

    /// The shared provider tokens of a queue in a file; nil for a database, which stores them itself.
    func fileTokens(logger: Logger) -> FileTokenSource? {
        self.postgres == nil ? FileTokenSource(queue: self.file, logger: logger) : nil
    }

    /// Opens the queue in the file, whether there is a database or not.
    package func openFile(
        isRestored: Bool = false,
        clock: any QueueClock = SystemQueueClock(),
        logger: Logger,
        whenCommitted: @escaping SQLitePushQueue.WhenCommitted = { _, _ in }
    ) async throws(QueueError) -> SQLitePushQueue {
        var options = SQLitePushQueue.Options(capacity: self.capacity)
        options.afterFailover = self.afterFailover
        options.seen = try self.seenProgress()
        options.isRestored = isRestored
        return try await SQLitePushQueue.open(
            file: self.file,
            options: options,
            clock: clock,
            logger: logger,
            whenCommitted: whenCommitted
        )
    }
}

extension RelaySettings {
    /// The settings that programs need which store pushes with SQL.
    var sqlIntake: SQLIntake {
        SQLIntake(
            apps: self.apps.map { app in
                SQLIntake.App(
                    name: app.name,
                    topic: app.topic,
                    environments: app.environments.keys.sorted(),
                    defaultEnvironment: app.defaultEnvironment,
                    capacity: app.capacity
                )
            },
            defaultDeadline: self.dispatch.defaultDeadline,
            maxDeadline: self.dispatch.maxDeadline
        )
    }
}

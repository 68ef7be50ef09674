import APNSModel
import Foundation
import GRDB
import Logging
import PushQueue
import PushQueueConformance
import SQLitePushQueue
import Synchronization

/// Opens queues in files of a directory of its own.
final class SQLiteFixture: QueueFixture {
    let isShared = false
    let tick = Duration.seconds(1)
    let clock = ManualQueueClock(QueueTime(secondsSince1970: 1_800_000_000))
    let directory: URL
    private let state = Mutex((life: 0, capacity: Int?.none))

    init() throws {
        self.directory = FileManager.default.temporaryDirectory.appending(path: "queue-\(APNSID.random())")
        try FileManager.default.createDirectory(at: self.directory, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(at: self.directory)
    }

    var now: QueueTime { self.clock.now }

    /// Each crash leaves the file of the next life.
    var file: String { self.file(self.state.withLock { $0.life }) }

    private func file(_ life: Int) -> String { self.directory.appending(path: "queue-\(life).sqlite").path }

    func open(capacity: Int?) async throws -> any PushQueue {
        self.state.withLock { $0.capacity = capacity }
        return try await self.openQueue()
    }

    private var defaults: SQLitePushQueue.Options {
        SQLitePushQueue.Options(capacity: self.state.withLock { $0.capacity }, busyTimeout: .milliseconds(200))
    }

    func openQueue(_ options: SQLitePushQueue.Options? = nil) async throws -> SQLitePushQueue {
        try await SQLitePushQueue.open(
            file: self.file,
            options: options ?? self.defaults,
            clock: self.clock,
            logger: .quiet
        )
    }

    func crash(_ queue: any PushQueue) async throws -> any PushQueue {
        try await self.crash(queue, self.defaults)
    }

    func restore(_ queue: any PushQueue, _ afterFailover: AfterFailover) async throws -> (
        queue: any PushQueue, restore: QueueRestore?
    ) {
        var options = self.defaults
        options.isRestored = true
        options.afterFailover = afterFailover
        let queue = try await self.crash(queue, options)
        return (queue, queue.restore)
    }

    private func crash(_ queue: any PushQueue, _ options: SQLitePushQueue.Options) async throws -> SQLitePushQueue {
        let (old, new) = self.state.withLock { state in
            state.life += 1
            return (self.file(state.life - 1), self.file(state.life))
        }
        try Self.copy(old, to: new)
        await queue.close()
        for suffix in ["", "-wal", "-shm", ".lock"] { try? FileManager.default.removeItem(atPath: old + suffix) }
        return try await self.openQueue(options)
    }

    /// Copies the database and its log as they are at this moment. A reader keeps the log from being restarted and the
    /// database from being changed by frames that the copy of the log might not have.
    static func copy(_ old: String, to new: String) throws {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(5)
        let reader = try DatabaseQueue(path: old, configuration: configuration)
        try reader.read { db in
            _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM route")
            try FileManager.default.copyItem(atPath: old, toPath: new)
            try FileManager.default.copyItem(atPath: old + "-wal", toPath: new + "-wal")
        }
        try reader.close()
    }

    func advance(by duration: Duration) async { self.clock.advance(by: duration) }

    func jump(by duration: Duration) async { self.clock.jump(by: duration) }

    func jumpImplausibly(by duration: Duration) async { self.clock.jumpImplausibly(by: duration) }

    func confirmJump() async { self.clock.confirm() }
}

extension Logger {
    static var quiet: Logger {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        return logger
    }
}

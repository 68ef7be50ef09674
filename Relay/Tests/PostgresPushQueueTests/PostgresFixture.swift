import APNSModel
import Foundation
import Logging
import PostgresPushQueue
import PostgresTestServer
import PushQueue
import PushQueueConformance
import Synchronization

/// Opens queues in a database of their own.
final class PostgresFixture: QueueFixture {
    /// One server for all tests of the process.
    static let server = Result { try PostgresServer() }
    /// A database with the schema and without a queue, which is faster to copy than to create.
    private static let template = Result {
        let server = try PostgresFixture.server.get()
        let name = try server.createDatabase()
        _ = try PostgresSchema.create(try ConnectionSettings(server.url(name)))
        return name
    }

    let isShared = true
    let tick = Duration.seconds(1)
    let clock = ManualQueueClock(QueueTime(secondsSince1970: 1_800_000_000))
    let server: PostgresServer
    let database: String
    private let state = Mutex((life: 0, capacity: Int?.none))

    init() throws {
        self.server = try Self.server.get()
        self.database = try self.server.createDatabase(try Self.template.get())
    }

    deinit { _ = try? self.server.run("DROP DATABASE \(self.database) WITH (FORCE)") }

    /// Runs SQL in another database of the server.
    func run(_ sql: String) throws -> String { try self.server.run(sql) }

    /// Runs SQL in the database of the queue.
    @discardableResult
    func runInDatabase(_ sql: String) throws -> String { try self.server.run(sql, in: self.database) }

    var now: QueueTime { self.clock.now }

    /// The options of one process, which the server knows under a name.
    func options(_ name: String) throws -> PostgresPushQueue.Options {
        let connection = try ConnectionSettings("\(self.server.url(self.database)) application_name=\(name)")
        var options = PostgresPushQueue.Options(connection: connection)
        options.capacity = self.state.withLock { $0.capacity }
        options.clock = self.clock
        options.usesOwnLeaseClock = true
        options.connections = 4
        options.timeout = Patience.limit
        return options
    }

    private var name: String { "first-\(self.state.withLock { $0.life })" }

    func open(capacity: Int?) async throws -> any PushQueue {
        self.state.withLock { state in
            state.capacity = capacity
            state.life += 1
        }
        return try await PostgresPushQueue.open(self.options(self.name), logger: .quiet)
    }

    func crash(_ queue: any PushQueue) async throws -> any PushQueue {
        try await self.kill(queue)
        return try await PostgresPushQueue.open(self.options(self.name), logger: .quiet)
    }

    func restore(_ queue: any PushQueue, _ afterFailover: AfterFailover) async throws -> (
        queue: any PushQueue, restore: QueueRestore?
    ) {
        try await self.kill(queue)
        var options = try self.options(self.name)
        options.afterFailover = afterFailover
        let restore = try await PostgresPushQueue.restored(options)
        return (try await PostgresPushQueue.open(options, logger: .quiet), restore)
    }

    private func kill(_ queue: any PushQueue) async throws {
        try self.server.run(
            """
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
            WHERE datname = '\(self.database)' AND application_name = '\(self.name)'
            """
        )
        if let queue = queue as? PostgresPushQueue { await queue.abandon() }
        self.state.withLock { $0.life += 1 }
    }

    func join() async throws -> any PushQueue {
        try await PostgresPushQueue.open(self.options("second"), logger: .quiet)
    }

    func advance(by duration: Duration) async { self.clock.advance(by: duration) }

    func jump(by duration: Duration) async { self.clock.jump(by: duration) }

    func jumpImplausibly(by duration: Duration) async { self.clock.jumpImplausibly(by: duration) }

    func confirmJump() async { self.clock.confirm() }
}

extension PostgresPushQueue {
    /// Opens a queue whose calls give up soon. A stall of the machine may be longer than their limit, so that the opening is
    /// repeated.
    static func openImpatient(_ options: Options) async throws -> PostgresPushQueue {
        var queue: PostgresPushQueue?
        try await Patience.wait(for: "the queue is open, and has a connection") {
            let opened = try? await PostgresPushQueue.open(options, logger: .quiet)
            if (try? await opened?.counts()) != nil {
                queue = opened
            } else {
                await opened?.close()
            }
            return queue != nil
        }
        guard let queue else { throw QueueError(code: .unavailable, message: "the queue is not open") }
        return queue
    }
}

extension Logger {
    static var quiet: Logger { Logger(label: "test") { _ in SwiftLogNoOpLogHandler() } }
}

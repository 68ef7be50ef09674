import APNSModel
import Foundation
import Logging
import PushQueue
import SQLitePushQueue
import Testing

@testable import APNSRelay

/// Whether a relay is ready, and what it does when its file cannot be used.
struct ReadyProbeTests {
    private static let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    private static let route = Route(app: "fern", environment: "production", lane: .bulk, caller: "test")

    /// Runs with a queue in a file of its own.
    private static func run(maxPageCount: Int? = nil, _ body: (SQLitePushQueue) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("ready-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        var options = SQLitePushQueue.Options()
        options.maxPageCount = maxPageCount
        let queue = try await SQLitePushQueue.open(
            file: folder.appendingPathComponent("queue.sqlite").path,
            options: options,
            logger: Self.logger
        )
        try await body(queue)
        await queue.close()
    }

    private static func pushes(_ count: Int) throws -> [NewPush] {
        let now = SystemQueueClock().now
        return try (0..<count).map { _ in
            NewPush(
                id: .random(),
                route: Self.route,
                token: try DeviceToken("ab00"),
                push: try PreparedPush(topic: "com.a", pushType: .alert, payload: Array("{}".utf8)),
                notBefore: now,
                deadline: now.advanced(by: .seconds(3_600))
            )
        }
    }

    @Test("A relay whose disk is full is not ready, and is ready again once there is room")
    func diskFull() async throws {
        try await Self.run(maxPageCount: 500) { queue in
            let before = await ReadyProbe(queue, logger: Self.logger).problem()
            #expect(before == nil)
            var problem: String?
            while problem == nil {
                // Throws when the disk is full.
                _ = try await queue.enqueue(try Self.pushes(10), isPartial: false)
                problem = await ReadyProbe(queue, logger: Self.logger).problem()
            }
            #expect(problem?.contains("Free some space") == true)
            while try await queue.cancelAll(Self.route, limit: 10) > 0 {
                _ = try await queue.prune(Retention(outcomes: .zero, idempotencyKeys: .zero), limit: 10)
            }
            let after = await ReadyProbe(queue, logger: Self.logger).problem()
            #expect(after == nil)
        }
    }

    @Test("A disk needs 64 MiB of room, or a twentieth of a small one")
    func room() {
        let large = 1 << 40
        #expect(DiskRoom(free: 64 << 20, size: large).isEnough)
        #expect(!DiskRoom(free: 64 << 20 - 1, size: large).isEnough)
        #expect(DiskRoom(free: 2 << 20, size: 32 << 20).isEnough)
        #expect(!DiskRoom(free: 1 << 20, size: 32 << 20).isEnough)
        #expect(DiskRoom(free: .max, size: .max).isEnough)
    }

    @Test("A relay whose queue cannot be used any more ends with the reason")
    func ends() async throws {
        try await Self.run { queue in
            var settings = RelaySettings(apps: [TestRelay.app("fern")])
            settings.http.port = 0
            let damaged = QueueError(code: .unusable, message: "damaged; restore a backup")
            let relay = try Relay(
                settings: settings,
                queue: queue,
                waitForFailure: { damaged },
                prometheus: PrometheusMetrics(),
                logger: Self.logger
            )
            let error = await #expect(throws: QueueError.self) { try await relay.run() }
            #expect(error == damaged)
        }
    }
}

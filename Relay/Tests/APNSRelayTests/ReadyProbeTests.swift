import APNSModel
import Foundation
import Logging
import PushQueue
import PushQueueConformance
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

    @Test("A relay whose disk is nearly full is not ready and refuses pushes, and goes on once there is room")
    func diskFull() async throws {
        try await Self.run(maxPageCount: 500) { queue in
            let before = await ReadyProbe(queue, logger: Self.logger).problem()
            #expect(before == nil)
            var refusal: QueueError?
            while refusal == nil {
                let pushes = try Self.pushes(10)
                do throws(QueueError) {
                    _ = try await queue.enqueue(pushes, isPartial: false)
                } catch {
                    refusal = error
                }
            }
            #expect(refusal?.code == .unavailable)
            #expect(refusal?.message.contains("reserved for outcomes") == true)
            try await Patience.wait(for: "the relay is not ready") {
                await ReadyProbe(queue, logger: Self.logger).problem()?.contains("Free some space") == true
            }
            // Claims, outcomes, cancellations and settings use the reserve.
            let claims = try await queue.claim(Self.route, limit: 10, lease: .seconds(60)).map(\.claim)
            #expect(try await queue.markWritten(claims, lease: .seconds(60)).allSatisfy { $0 })
            let outcomes = claims.map { Settlement(claim: $0, outcome: .accepted(Receipt(apnsID: $0.id))) }
            #expect(try await queue.settle(outcomes).allSatisfy { $0 == .settled })
            try await queue.setValue([1], forKey: "settings")
            while try await queue.cancelAll(Self.route, limit: 10) > 0 {
                _ = try await queue.prune(Retention(outcomes: .zero, idempotencyKeys: .zero), limit: 10)
            }
            try await Patience.wait(for: "the relay is ready") {
                await ReadyProbe(queue, logger: Self.logger).problem() == nil
            }
        }
    }

    @Test("A disk has a reserve of 64 MiB, or a quarter of a small one")
    func room() {
        let large = 1 << 40
        #expect(DiskRoom(free: 64 << 20, size: large).fits())
        #expect(!DiskRoom(free: 64 << 20 - 1, size: large).fits())
        #expect(!DiskRoom(free: 64 << 20, size: large).fits(1))
        #expect(DiskRoom(free: 8 << 20, size: 32 << 20).fits())
        #expect(!DiskRoom(free: 7 << 20, size: 32 << 20).fits())
        #expect(DiskRoom(free: .max, size: .max).fits())
        // Of which the log needs half, with what it has.
        let half = 32 << 20
        #expect(DiskRoom(free: 64 << 20, size: large, available: half).fits())
        #expect(!DiskRoom(free: 64 << 20, size: large, available: half - 1).fits())
        #expect(DiskRoom(free: 64 << 20, size: large, available: 0, log: half).fits())
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

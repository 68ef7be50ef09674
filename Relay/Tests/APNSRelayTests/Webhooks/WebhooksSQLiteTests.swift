import APNSModel
import Foundation
import Logging
import PushQueue
import SQLitePushQueue
import SupervisedPool
import Testing

@testable import APNSRelay

/// Webhooks over the real queue.
struct WebhooksSQLiteTests {
    private static let route = Route(app: "fern", environment: "production", lane: .bulk, caller: "crm")
    private static let logger: Logger = {
        var logger = Logger(label: "webhooks")
        logger.logLevel = .critical
        return logger
    }()

    /// Settles pushes as a dispatcher does.
    private static func settle(_ count: Int, _ queue: SQLitePushQueue) async throws {
        let now = SystemQueueClock().now
        let pushes = try (0..<count).map { _ in
            let id = APNSID.random()
            let token = try DeviceToken(String(repeating: "a1", count: 32))
            return NewPush(
                id: id,
                route: Self.route,
                token: token,
                push: try PreparedPush(
                    topic: "com.example.fern",
                    pushType: .alert,
                    payload: Array(#"{"aps":{"alert":"hello"}}"#.utf8)
                ),
                notBefore: now,
                deadline: now.advanced(by: .seconds(600))
            )
        }
        _ = try await queue.enqueue(pushes, isPartial: false)
        let claimed = try await queue.claim(Self.route, limit: count, lease: .seconds(60))
        _ = try await queue.markWritten(claimed.map(\.claim), lease: .seconds(60))
        _ = try await queue.settle(
            claimed.map { Settlement(claim: $0.claim, outcome: .accepted(Receipt(apnsID: $0.claim.id))) }
        )
    }

    /// A webhook to a receiver.
    private static func webhooks(
        _ receiver: WebhookReceiver,
        _ queue: SQLitePushQueue,
        _ metrics: RelayMetrics = RelayMetrics(factory: PrometheusMetrics())
    ) -> Webhooks {
        Webhooks(
            [WebhookSettings(name: "crm", url: receiver.url, secrets: [WebhookReceiver.secret])],
            queue: queue,
            metrics: metrics,
            clock: SystemQueueClock(),
            logger: Self.logger
        )
    }

    @Test("The ids of requests are the cursors of their first outcomes, which no other queue has") func ids()
        async throws
    {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("relay-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        var ids: [String] = []
        for name in ["old", "new"] {
            let file = folder.appendingPathComponent("\(name).sqlite").path
            let queue = try await SQLitePushQueue.open(file: file, logger: Self.logger)
            try await Self.settle(1, queue)
            let feed = try await queue.outcomes(after: nil, apps: nil, kind: .outcomes, limit: 1)
            let cursor = try #require(feed.entries.first?.cursor)
            try await WebhookReceiver.run { receiver in
                let webhooks = Self.webhooks(receiver, queue)
                let task = Task { await webhooks.run() }
                let isPosted = try await eventually { receiver.deliveries.count == 1 }
                #expect(isPosted)
                task.cancel()
                await task.value
                #expect(receiver.deliveries.first?.id == "crm-\(cursor.text)")
                ids += receiver.deliveries.map(\.id)
            }
            await queue.close()
        }
        #expect(Set(ids).count == 2)
    }

    @Test("After a restore, a request that begins with the same outcome and goes on with others has another id")
    func idsAfterRestore() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("relay-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appendingPathComponent("queue.sqlite").path
        let copy = folder.appendingPathComponent("copy.sqlite").path
        try await WebhookReceiver.run { receiver in
            /// Settles two pushes, and posts until there are as many requests.
            func post(_ requests: Int, isRestored: Bool = false, before: () throws -> Void = {}) async throws {
                var options = SQLitePushQueue.Options()
                options.isRestored = isRestored
                var queue = try await SQLitePushQueue.open(file: file, options: options, logger: Self.logger)
                try await Self.settle(2, queue)
                await queue.close()
                try before()
                queue = try await SQLitePushQueue.open(file: file, logger: Self.logger)
                let webhooks = Self.webhooks(receiver, queue)
                let task = Task { await webhooks.run() }
                let isPosted = try await eventually {
                    // At the end of the feed, the position is stored.
                    let stored = await webhooks.storedStatuses().first
                    let last = receiver.deliveries.last?.cursors.last
                    return receiver.deliveries.count == requests && stored?.position == last.map(Int64.init)
                }
                #expect(isPosted)
                task.cancel()
                await task.value
                await queue.close()
            }
            try await post(1)
            try await post(2) { try FileManager.default.copyItem(atPath: file, toPath: copy) }
            for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: file + suffix) }
            try FileManager.default.moveItem(atPath: copy, toPath: file)
            try await post(3, isRestored: true)
            let deliveries = receiver.deliveries
            #expect(deliveries.map { Array($0.cursors.prefix(2)) } == [[1, 2], [3, 4], [3, 4]])
            #expect(deliveries.last?.cursors.count == 4)
            #expect(Set(deliveries.map(\.id)).count == 3)
        }
    }

    @Test(
        "Outcomes that were deleted before they were posted are counted, and the webhook goes on behind them",
        arguments: [false, true]
    )
    func countsMissing(isRestored: Bool) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("relay-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        // The positions that the restore skips.
        let skipped = isRestored ? 1_000_000_000 : 0
        try await WebhookReceiver.run { receiver in
            let prometheus = PrometheusMetrics()
            let metrics = RelayMetrics(factory: prometheus)
            for round in 0..<2 {
                var options = SQLitePushQueue.Options()
                options.isRestored = isRestored && round == 1
                let queue = try await SQLitePushQueue.open(
                    file: folder.appendingPathComponent("queue.sqlite").path,
                    options: options,
                    logger: Self.logger
                )
                let webhooks = Self.webhooks(receiver, queue, metrics)
                try await Self.settle(10, queue)
                if round == 1 {
                    _ = try await queue.prune(Retention(outcomes: .zero), limit: 100)
                    try await Self.settle(5, queue)
                }
                let task = Task { await webhooks.run() }
                let position = Int64(round == 0 ? 10 : 25 + skipped)
                let isStored = try await eventually { await webhooks.storedStatuses().first?.position == position }
                #expect(isStored)
                task.cancel()
                await task.value
                await queue.close()
            }
            #expect(receiver.deliveries.flatMap(\.cursors) == Array(1...10) + (21...25).map { $0 + skipped })
            #expect(prometheus.text().contains(#"apns_relay_webhook_lost_outcomes_total{webhook="crm"} 10"# + "\n"))
        }
    }

    @Test("Every outcome arrives once, in order, also across a closed and opened queue")
    func realQueue() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("relay-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appendingPathComponent("queue.sqlite").path
        var retry = WebhookMachine.Retry()
        retry.delays = Backoff(minimum: .milliseconds(10), maximum: .milliseconds(10))
        retry.storageDelay = .milliseconds(10)
        try await WebhookReceiver.run { [retry] receiver in
            let settings = WebhookSettings(name: "crm", url: receiver.url, secrets: [WebhookReceiver.secret], batch: 50)
            for round in 1...3 {
                let queue = try await SQLitePushQueue.open(file: file, logger: Self.logger)
                let webhooks = Webhooks(
                    [settings],
                    queue: queue,
                    metrics: RelayMetrics(factory: PrometheusMetrics()),
                    clock: SystemQueueClock(),
                    logger: Self.logger,
                    retry: retry
                )
                let task = Task { await webhooks.run() }
                try await Self.settle(400, queue)
                webhooks.signal()
                // The last round is not cut off.
                let isThere = try await eventually {
                    Set(receiver.deliveries.flatMap(\.cursors)).count >= (round == 3 ? 1_200 : round * 400 - 200)
                }
                #expect(isThere)
                if round == 3 { _ = try await eventually { await webhooks.statuses().first?.request == nil } }
                await queue.close()
                task.cancel()
                await task.value
            }
            let deliveries = receiver.deliveries
            #expect(Set(deliveries.flatMap(\.cursors)).count == 1_200)
            #expect(deliveries.count - Set(deliveries.map(\.id)).count <= 2)
            var last = 0
            var seen: Set<String> = []
            for delivery in deliveries where seen.insert(delivery.id).inserted {
                #expect(delivery.cursors == delivery.cursors.sorted())
                #expect(delivery.cursors.first ?? 0 > last)
                last = delivery.cursors.last ?? last
            }
            for (id, same) in Dictionary(grouping: deliveries, by: \.id) {
                #expect(Set(same.map(\.body)).count == 1, "\(id)")
            }
        }
    }
}

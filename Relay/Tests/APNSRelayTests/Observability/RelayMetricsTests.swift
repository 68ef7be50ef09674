import APNSModel
import Foundation
import Logging
import Metrics
import PostgresPushQueue
import PushQueue
import PushQueueConformance
import SQLitePushQueue
import Testing

@testable import APNSRelay

struct RelayMetricsTests {
    private static let now = QueueTime(secondsSince1970: 1_795_440_000)
    private static let fern = Route(app: "fern", environment: "production", lane: .interactive, caller: "shop")
    private static let moss = Route(app: "moss", environment: "development", lane: .bulk, caller: "shop")
    private static let labels = ["app": "fern", "environment": "production", "lane": "interactive"]

    /// Uses every function once.
    static func exercise(_ metrics: RelayMetrics) {
        metrics.queued(5, Self.fern)
        metrics.duplicates(2, Self.fern)
        metrics.settled(.accepted, 1, Self.fern)
        metrics.settled(.unknown, 1, Self.fern)
        metrics.settled(.notSent, 3, Self.fern)
        metrics.settled(.rejected, 4, Self.moss)
        metrics.settled(.notProcessed, 5, Self.moss)
        metrics.retried(Self.fern)
        metrics.parked(Self.fern)
        metrics.late(Self.moss)
        var expired = ExpiredLeases()
        (expired.queued, expired.unknown, expired.resent) = (7, 8, 9)
        metrics.recovered(expired)
        metrics.committed(calls: 12, duration: .milliseconds(3))
        metrics.storageFailed(QueueError(code: .unavailable, message: ""))
        metrics.webhookRequest("crm", .timeout)
        metrics.webhookLost("crm", 3)
        let counts = QueueCounts(
            routes: [.init(route: Self.fern, queued: 1, claimed: 2, written: 3, parked: 4)],
            capacity: 1_000
        )
        metrics.setQueue(
            counts,
            [QueuedRoute(route: Self.fern, due: Self.now.advanced(by: .seconds(-90)))],
            now: Self.now
        )
        metrics.setCallers(["shop": 0.5, "removed": 0.75])
        metrics.setCallers(["shop": 0.25])
        metrics.setRoutes([
            RouteStatus(route: Self.moss, state: .paused), RouteStatus(route: Self.fern, state: .sending),
        ])
        let webhook = WebhookStatus(
            name: "crm",
            url: "",
            position: 1,
            failures: 2,
            request: .init(
                id: "crm-1",
                outcomes: 1,
                since: Self.now,
                oldestOutcome: Self.now.advanced(by: .milliseconds(-1_500))
            )
        )
        metrics.setWebhooks([webhook], now: Self.now)
        metrics.setReady(true)
        metrics.setSettings(areCurrent: true)
        metrics.setCertificate(left: .seconds(-86_400))
        let member = FleetMember(
            id: "a",
            host: "h",
            process: 1,
            version: "1",
            since: Self.now,
            postsWebhooks: true
        )
        metrics.setFleet([member, member, member])
        metrics.setStorage(.database(Self.database))
    }

    private static var database: DatabaseState {
        var state = DatabaseState()
        state.tables = [.init(name: "push", bytes: 8_192, liveRows: 5, deadRows: 6)]
        state.oldest = [.session: .milliseconds(1_500), .replicationSlot: .zero]
        return state
    }

    @Test("The pushes of callers and batches count with those of their app, environment and lane")
    func batches() {
        let prometheus = PrometheusMetrics()
        let metrics = RelayMetrics(factory: prometheus)
        let batch = { Route(app: "moss", environment: "development", lane: .bulk, caller: "bank", batch: .random()) }
        let counts = QueueCounts(
            routes: [
                .init(route: Self.moss, queued: 1), .init(route: batch(), queued: 2), .init(route: batch(), queued: 3),
            ],
            capacity: nil
        )
        // A batch that waits is not late.
        let due = [
            QueuedRoute(route: Self.moss, due: Self.now.advanced(by: .seconds(-5))),
            QueuedRoute(route: batch(), due: Self.now.advanced(by: .seconds(-500))),
        ]
        metrics.setQueue(counts, due, now: Self.now)
        metrics.queued(4, batch())
        metrics.queued(5, batch())
        metrics.setRoutes([
            RouteStatus(route: Self.moss, state: .sending), RouteStatus(route: batch(), state: .paused),
        ])
        let lines = prometheus.text().split(separator: "\n").map { String($0) }
        let labels = #"{app="moss",environment="development",lane="bulk""#
        for (name, more, value) in [
            ("apns_relay_pushes", #",state="queued"}"#, "6"), ("apns_relay_oldest_due_age_seconds", "}", "5"),
            ("apns_relay_queued_total", "}", "9"), ("apns_relay_route_paused", "}", "1"),
        ] {
            #expect(lines.contains("\(name)\(labels)\(more) \(value)"), "\(name)")
        }
    }

    @Test("Pushes that a relay parks at its start, because its file was restored, are counted")
    func restored() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("restored-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        var storage = StorageSettings()
        storage.file = folder.path + "/queue.sqlite"
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let first = try await storage.open(logger: logger)
        let now = first.clock.now
        let pushes = try [Self.fern, Self.fern, Self.moss].map { route in
            NewPush(
                id: .random(),
                route: route,
                token: try DeviceToken("abcd"),
                push: try PreparedPush(topic: "com.a", pushType: .alert, payload: Array("{}".utf8)),
                notBefore: now,
                deadline: now.advanced(by: .seconds(3_600))
            )
        }
        _ = try await first.queue.enqueue(pushes, isPartial: false)
        let claims = try await first.queue.claim(Self.moss, limit: 1, lease: .seconds(60)).map(\.claim)
        #expect(try await first.queue.markWritten(claims, lease: .seconds(60)) == [true])
        var seen = try #require(first.queue.progress)
        await first.queue.close()
        // As after an outcome that a restored file does not have.
        seen.position += 1
        try storage.progress.write(seen)
        let prometheus = PrometheusMetrics()
        let metrics = RelayMetrics(factory: prometheus)
        let second = try await storage.open(metrics: metrics, logger: logger)
        await second.queue.close()
        let text = try PrometheusText(prometheus.text())
        #expect(text.value("apns_relay_parked_total", Self.labels) == 2)
        let moss = ["app": "moss", "environment": "development", "lane": "bulk"]
        #expect(text.value("apns_relay_parked_total", moss) == 1)
        #expect(text.value("apns_relay_recovered_total", ["result": "unknown"]) == 0)
        #expect(metrics.totals.parked == 3)
        try FileManager.default.removeItem(at: folder)
    }

    @Test("Each function changes its metric")
    func values() throws {
        let prometheus = PrometheusMetrics()
        let metrics = RelayMetrics(factory: prometheus)
        Self.exercise(metrics)
        let text = try PrometheusText(prometheus.text())
        let fern = Self.labels
        let moss = ["app": "moss", "environment": "development", "lane": "bulk"]
        #expect(text.value("apns_relay_queued_total", fern) == 5)
        #expect(text.value("apns_relay_duplicates_total", fern) == 2)
        let outcomes = [
            "accepted": ("fern", 1.0), "unknown": ("fern", 1), "not-sent": ("fern", 3), "rejected": ("moss", 4),
            "not-processed": ("moss", 5),
        ]
        for (outcome, (app, count)) in outcomes {
            let environment = app == "fern" ? "production" : "development"
            let labels = ["app": app, "environment": environment, "outcome": outcome]
            #expect(text.value("apns_relay_outcomes_total", labels) == count)
        }
        #expect(text.value("apns_relay_retries_total", fern) == 1)
        #expect(text.value("apns_relay_parked_total", fern) == 1)
        #expect(text.value("apns_relay_late_outcomes_total", moss) == 1)
        #expect(text.value("apns_relay_recovered_total", ["result": "queued"]) == 7)
        #expect(text.value("apns_relay_recovered_total", ["result": "unknown"]) == 8)
        #expect(text.value("apns_relay_recovered_total", ["result": "resent"]) == 9)
        #expect(text.value("apns_relay_commit_group_size_sum") == 12)
        #expect(text.value("apns_relay_commit_group_size_bucket", ["le": "20"]) == 1)
        #expect(text.value("apns_relay_commit_time_sum") == 0.003)
        #expect(text.value("apns_relay_storage_errors_total", ["code": "unavailable"]) == 1)
        #expect(text.value("apns_relay_storage_errors_total", ["code": "full"]) == 0)
        #expect(text.value("apns_relay_webhook_requests_total", ["webhook": "crm", "result": "timeout"]) == 1)
        #expect(text.value("apns_relay_webhook_lost_outcomes_total", ["webhook": "crm"]) == 3)
        for (state, count) in ["queued": 1.0, "claimed": 2, "written": 3, "parked": 4] {
            #expect(text.value("apns_relay_pushes", fern.merging(["state": state]) { $1 }) == count)
        }
        #expect(text.value("apns_relay_queue_capacity") == 1_000)
        #expect(text.value("apns_relay_caller_capacity_used", ["caller": "shop"]) == 0.25)
        #expect(text.value("apns_relay_caller_capacity_used", ["caller": "removed"]) == nil)
        #expect(text.value("apns_relay_oldest_due_age_seconds", fern) == 90)
        #expect(text.value("apns_relay_route_paused", moss) == 1)
        #expect(text.value("apns_relay_route_paused", fern) == 0)
        #expect(text.value("apns_relay_webhook_lag_seconds", ["webhook": "crm"]) == 1.5)
        #expect(text.value("apns_relay_webhook_failures", ["webhook": "crm"]) == 2)
        #expect(text.value("apns_relay_ready") == 1)
        #expect(text.value("apns_relay_certificate_left_seconds") == -86_400)
        #expect(text.value("apns_relay_fleet_members") == 3)
        #expect(text.value("apns_relay_posts_webhooks") == 1)
        #expect(text.value("apns_relay_database_oldest_transaction_seconds", ["holder": "session"]) == 1.5)
        #expect(text.value("apns_relay_database_oldest_transaction_seconds", ["holder": "slot"]) == 0)
        #expect(text.value("apns_relay_database_table_bytes", ["table": "push"]) == 8_192)
        #expect(text.value("apns_relay_database_table_rows", ["table": "push", "state": "live"]) == 5)
        #expect(text.value("apns_relay_database_table_rows", ["table": "push", "state": "dead"]) == 6)
        var totals = RelayTotals()
        (totals.queued, totals.duplicates, totals.accepted, totals.unknown) = (5, 2, 1, 1)
        (totals.notSent, totals.rejected, totals.notProcessed) = (3, 4, 5)
        (totals.retried, totals.parked, totals.late) = (1, 1, 1)
        #expect(metrics.totals == totals)
    }

    @Test("The export has the metrics of the table with its kinds, meanings and labels, and no others")
    func table() throws {
        let prometheus = PrometheusMetrics()
        Self.exercise(RelayMetrics(factory: prometheus))
        // A relay has one of both.
        let file = FileState(databaseBytes: 3, logBytes: 4, disk: DiskRoom(free: 9, size: 6, available: 5))
        RelayMetrics(factory: prometheus).setStorage(.file(file))
        let text = try PrometheusText(prometheus.text())
        #expect(text.value("apns_relay_file_bytes", ["file": "log"]) == 4)
        #expect(text.value("apns_relay_disk_free_bytes") == 5)
        // HTTPMetrics exports the others.
        let table = RelayMetrics.table.filter { !$0.name.hasPrefix("apns_relay_http_") } + [PrometheusMetrics.discarded]
        #expect(Set(text.kinds.keys) == Set(table.map(\.name)))
        #expect(Set(table.map(\.name)).count == table.count)
        for metric in table {
            #expect(text.kinds[metric.name] == metric.kind.rawValue)
            #expect(text.help[metric.name] == metric.meaning)
            let names = metric.kind == .histogram ? metric.name + "_sum" : metric.name
            for sample in text.samples where sample.name == names {
                #expect(Set(sample.labels.keys) == Set(metric.labels), "\(metric.name)")
            }
        }
    }

    @Test("The gauges of a route that has no more pushes become 0")
    func vanishedRoutes() throws {
        let prometheus = PrometheusMetrics()
        let metrics = RelayMetrics(factory: prometheus)
        Self.exercise(metrics)
        metrics.setQueue(QueueCounts(routes: [], capacity: 5), [], now: Self.now)
        metrics.setRoutes([])
        let text = try PrometheusText(prometheus.text())
        for name in ["apns_relay_pushes", "apns_relay_oldest_due_age_seconds", "apns_relay_route_paused"] {
            #expect(text.samples.contains { $0.name == name })
            #expect(text.samples.allSatisfy { $0.name != name || $0.value == 0 })
        }
        #expect(text.value("apns_relay_queue_capacity") == 5)
    }

    @Test("The gauges of a webhook that the settings no longer have are no longer exported")
    func removedWebhooks() throws {
        let prometheus = PrometheusMetrics()
        let metrics = RelayMetrics(factory: prometheus)
        Self.exercise(metrics)
        metrics.setWebhooks([], now: Self.now)
        let text = try PrometheusText(prometheus.text())
        #expect(text.value("apns_relay_webhook_failures", ["webhook": "crm"]) == nil)
        #expect(text.value("apns_relay_webhook_lost_outcomes_total", ["webhook": "crm"]) == 3)
    }

    @Test("Tables that are gone are no longer exported")
    func goneTables() throws {
        let prometheus = PrometheusMetrics()
        let metrics = RelayMetrics(factory: prometheus)
        metrics.setStorage(.database(Self.database))
        var state = Self.database
        state.tables = []
        metrics.setStorage(.database(state))
        let text = try PrometheusText(prometheus.text())
        let names = Set(text.samples.map(\.name).filter { $0.hasPrefix("apns_relay_database_") })
        #expect(names == ["apns_relay_database_oldest_transaction_seconds"])
    }

    @Test("A push that is due later, and times that jump, give no negative age")
    func noNegativeAges() throws {
        let prometheus = PrometheusMetrics()
        let metrics = RelayMetrics(factory: prometheus)
        let due = [QueuedRoute(route: Self.fern, due: Self.now.advanced(by: .seconds(60)))]
        metrics.setQueue(QueueCounts(routes: [], capacity: nil), due, now: Self.now)
        metrics.committed(calls: 1, duration: .seconds(-1))
        metrics.committed(calls: 1, duration: .seconds(Int64.max))
        let text = try PrometheusText(prometheus.text())
        #expect(text.value("apns_relay_oldest_due_age_seconds", Self.labels) == 0)
        #expect(text.value("apns_relay_commit_time_count") == 0)
        #expect(text.value("apns_relay_queue_capacity") == nil)
    }

    @Test("promtool finds no fault in the export", .enabled(if: Self.promtool != nil, "promtool is not installed"))
    func passesPromtool() throws {
        let prometheus = PrometheusMetrics()
        Self.exercise(RelayMetrics(factory: prometheus))
        for metric in LibraryMetrics.table {
            switch metric.kind {
            case .counter: Counter(label: metric.name, factory: prometheus).increment()
            case .gauge: Meter(label: metric.name, factory: prometheus).set(1)
            case .histogram: Timer(label: metric.name, factory: prometheus).recordSeconds(1)
            }
        }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: try #require(Self.promtool))
        process.arguments = ["check", "metrics"]
        let (input, output) = (Pipe.make(), Pipe.make())
        process.standardInput = input
        process.standardOutput = output
        process.standardError = output
        try process.start()
        try input.fileHandleForWriting.write(contentsOf: Data(prometheus.text().utf8))
        try input.fileHandleForWriting.close()
        let complaints = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        let lines = complaints.split(separator: "\n").filter { !$0.hasPrefix("apns_certificate_days_left ") }
        #expect(lines == [])
    }

    /// Where `ci/lib/promtool` puts it.
    private static let promtool: String? = {
        let folders =
            [Repository.path(".build/promtool/usr/bin")]
            + (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
        return folders.map { $0 + "/promtool" }.first { FileManager.default.isExecutableFile(atPath: $0) }
    }()
}

/// The files of the repository.
enum Repository {
    /// The path of a file, from its path in the repository.
    static func path(_ path: String) -> String {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../../../..")
        return root.standardized.appendingPathComponent(path).path
    }

    static func text(_ path: String) throws -> String {
        try String(contentsOfFile: Self.path(path), encoding: .utf8)
    }
}

import Logging
import PostgresPushQueue
import PushQueue
import PushQueueConformance
import Synchronization
import Testing

@testable import APNSRelay

struct MetricsPageTests {
    private static let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    private final class Status: RelayStatus {
        let calls = Mutex(0)
        /// Runs before the relay says whether it is ready.
        let whenAsked: @Sendable () async -> Void

        init(whenAsked: @escaping @Sendable () async -> Void = {}) {
            self.whenAsked = whenAsked
        }

        func routes() async -> [RouteStatus] { [] }
        var totals: RelayTotals { RelayTotals() }
        func webhooks() async -> [WebhookStatus] { [] }
        func skipWebhookRequest(_ webhook: String, _ id: String) async throws(QueueError) -> Int? { nil }
        func notReady() async -> String? {
            self.calls.withLock { $0 += 1 }
            await self.whenAsked()
            return "it starts"
        }
        func members() -> [FleetMember] { [] }
        func problems() -> [DeliveryProblem] { [] }
        var history: [DeliveryWatch.Sample] { [] }
        func clockJump() -> Duration? { nil }
        func confirmClock() async throws(QueueError) {}
        func didStore(_ settings: [UInt8]) {}
        func countStorageError(_ error: QueueError) {}
        func count(queued: [Route: Int], duplicates: [Route: Int]) {}
        func signal() {}
    }

    @Test("Many requests at once share one reading, and an error of the queue is counted")
    func sharesReadings() async throws {
        let prometheus = PrometheusMetrics()
        let status = Status()
        // This queue cannot count.
        let page = MetricsPage(
            prometheus: prometheus,
            metrics: RelayMetrics(factory: prometheus),
            queue: FeedQueue(),
            status: status,
            clock: SystemQueueClock(),
            logger: Self.logger
        )
        let start = ContinuousClock.now
        let texts = await withTaskGroup(of: String.self) { group in
            for _ in 0..<50 { group.addTask { await page.text() } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        let calls = status.calls.withLock { $0 }
        #expect(calls >= 1)
        #expect(calls <= 1 + Int(start.duration(to: .now).components.seconds))
        for text in texts {
            let parsed = try PrometheusText(text)
            #expect(parsed.value("apns_relay_ready") == 0)
            #expect(parsed.value("apns_relay_storage_errors_total", ["code": "closed"]) ?? 0 >= 1)
        }
    }

    @Test("With TLS, the page has the time until the certificate expires, and without TLS it has none")
    func certificate() async throws {
        let now = QueueTime(secondsSince1970: 1_795_440_000)
        for left in [Duration.seconds(86_400), nil] {
            let prometheus = PrometheusMetrics()
            let page = MetricsPage(
                prometheus: prometheus,
                metrics: RelayMetrics(factory: prometheus),
                queue: FeedQueue(),
                status: Status(),
                clock: ManualQueueClock(now),
                certificateExpiry: { left.map { now.advanced(by: $0) } },
                logger: Self.logger
            )
            let text = try PrometheusText(await page.text())
            #expect(text.value("apns_relay_certificate_left_seconds") == left.map { $0 / .seconds(1) })
        }
    }

    @Test("The state of the database is read once in 15 seconds, and an error leaves the other metrics")
    func database() async throws {
        let prometheus = PrometheusMetrics()
        let readings = Mutex(0)
        let page = MetricsPage(
            prometheus: prometheus,
            metrics: RelayMetrics(factory: prometheus),
            queue: FeedQueue(),
            status: Status(),
            clock: SystemQueueClock(),
            readStorage: { () throws(QueueError) in
                readings.withLock { $0 += 1 }
                throw QueueError(code: .unavailable, message: "it is away")
            },
            logger: Self.logger
        )
        let start = ContinuousClock.now
        for _ in 0..<10 { #expect(try PrometheusText(await page.text()).value("apns_relay_ready") == 0) }
        #expect(readings.withLock { $0 } <= 1 + Int(start.duration(to: .now).components.seconds) / 15)
        let text = try PrometheusText(await page.text())
        #expect(text.value("apns_relay_storage_errors_total", ["code": "unavailable"]) == 0)
        #expect(text.kinds["apns_relay_database_connections"] == nil)
    }

    @Test("A reading that hangs delays no request for long, and is not started again", .timeLimit(.minutes(5)))
    func hangingReadings() async throws {
        let prometheus = PrometheusMetrics()
        let status = Status { try? await Task.sleep(for: .seconds(3_600)) }
        let readings = Mutex(0)
        let page = MetricsPage(
            prometheus: prometheus,
            metrics: RelayMetrics(factory: prometheus),
            queue: FeedQueue(),
            status: status,
            clock: SystemQueueClock(),
            readStorage: { () throws(QueueError) in
                readings.withLock { $0 += 1 }
                try? await Task.sleep(for: .seconds(3_600))
                return .database(DatabaseState())
            },
            logger: Self.logger,
            longestWait: .milliseconds(10)
        )
        let start = ContinuousClock.now
        while start.duration(to: .now) < .milliseconds(1_100) { _ = try PrometheusText(await page.text()) }
        #expect(status.calls.withLock { $0 } == 1)
        #expect(readings.withLock { $0 } == 1)
    }
}

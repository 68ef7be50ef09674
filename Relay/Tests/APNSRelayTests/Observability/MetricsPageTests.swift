import PushQueue
import Synchronization
import Testing

@testable import APNSRelay

struct MetricsPageTests {
    private final class Status: RelayStatus {
        let calls = Mutex(0)

        func routes() async -> [RouteStatus] { [] }
        var totals: RelayTotals { RelayTotals() }
        func webhooks() async -> [WebhookStatus] { [] }
        func retryParkedWebhook(_ webhook: String, _ id: String) async throws(QueueError) -> Bool { false }
        func dropParkedWebhook(_ webhook: String, _ id: String) async throws(QueueError) -> Bool { false }
        func notReady() async -> String? {
            self.calls.withLock { $0 += 1 }
            return "it starts"
        }
        func members() -> [FleetMember] { [] }
        func clockJump() -> Duration? { nil }
        func confirmClock() async throws(QueueError) {}
        func didStore(_ settings: [UInt8]) {}
        func countStorageError(_ error: QueueError) {}
        func count(queued: [Route: Int], duplicates: [Route: Int]) {}
        func signal(_ routes: Set<Route>) {}
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
            clock: SystemQueueClock()
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
}

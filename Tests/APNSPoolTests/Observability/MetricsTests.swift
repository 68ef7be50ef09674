import APNSTesting
import Foundation
import Metrics
import SupervisedPool
import Synchronization
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// A metrics backend that stores all values.
final class RememberingMetrics: MetricsFactory {
    struct Series: Hashable, Sendable {
        var kind: String
        var name: String
        var labels: [String: String]
    }

    final class Handler: CounterHandler, RecorderHandler, TimerHandler {
        let series: Series
        private let kept = Mutex<[Int64]>([])

        init(_ series: Series) { self.series = series }

        var values: [Int64] { self.kept.withLock { $0 } }
        var sum: Int64 { self.values.reduce(0, +) }

        func increment(by value: Int64) { self.kept.withLock { $0.append(value) } }
        func reset() { self.kept.withLock { $0 = [] } }
        func record(_ value: Int64) { self.kept.withLock { $0.append(value) } }
        func record(_ value: Double) { self.kept.withLock { $0.append(Int64(value)) } }
        func recordNanoseconds(_ duration: Int64) { self.kept.withLock { $0.append(duration) } }
    }

    private let state = Mutex<[Series: Handler]>([:])
    private let destroyed = Atomic<Int>(0)

    var handlers: [Handler] { self.state.withLock { Array($0.values) } }
    var destroyedCount: Int { self.destroyed.load(ordering: .relaxed) }

    func find(_ name: String, _ labels: [String: String] = [:]) -> [Handler] {
        self.handlers.filter { handler in
            handler.series.name == name && labels.allSatisfy { handler.series.labels[$0.key] == $0.value }
        }
    }

    func sum(_ name: String, _ labels: [String: String] = [:]) -> Int64 {
        self.find(name, labels).reduce(0) { $0 + $1.sum }
    }

    private func make(_ kind: String, _ label: String, _ dimensions: [(String, String)]) -> Handler {
        let series = Series(kind: kind, name: label, labels: Dictionary(dimensions) { first, _ in first })
        return self.state.withLock { state in
            let handler = state[series] ?? Handler(series)
            state[series] = handler
            return handler
        }
    }

    func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        self.make("counter", label, dimensions)
    }
    func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        self.make(aggregate ? "recorder" : "gauge", label, dimensions)
    }
    func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        self.make("timer", label, dimensions)
    }
    func destroyCounter(_ handler: any CounterHandler) {}
    func destroyRecorder(_ handler: any RecorderHandler) { self.destroyed.wrappingAdd(1, ordering: .relaxed) }
    func destroyTimer(_ handler: any TimerHandler) {}
}

/// A row of the table of metrics in Docs/Operations.md.
private struct DocumentedMetric {
    var name: String
    var kind: String
    var labels: Set<String>

    static func read() throws -> [DocumentedMetric] {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let text = try String(contentsOf: root.appendingPathComponent("Docs/Operations.md"), encoding: .utf8)
        return text.split(separator: "\n").compactMap { line in
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            guard cells.count == 5, cells[0].hasPrefix("`apns_") else { return nil }
            let labels = cells[2].split(separator: ",").map {
                $0.trimmingCharacters(in: CharacterSet(charactersIn: " `"))
            }
            return DocumentedMetric(
                name: cells[0].trimmingCharacters(in: CharacterSet(charactersIn: "`")),
                kind: cells[1],
                labels: Set(labels.filter { $0 != "none" })
            )
        }
    }
}

struct MetricsTests {
    private func withMetrics(
        configure: (inout APNSClientConfiguration) -> Void = { _ in },
        script: @escaping ScriptedServer.Script = { _ in [.respond(200)] },
        _ body: (APNSClient, ScriptedServer, RememberingMetrics, ManualClock) async throws -> Void
    ) async throws -> RememberingMetrics {
        let metrics = RememberingMetrics()
        let clock = ManualClock()
        try await withMetricsFactory(metrics) {
            try await withServer(
                script: script,
                configure: {
                    $0.use(clock)
                    $0.authentication = .token(
                        privateKeyPEM: KeyTexts.p256,
                        keyID: "9UC9ZLQ8YW",
                        teamID: "ABBM6U9RM5"
                    )
                    configure(&$0)
                }
            ) { client, server in try await body(client, server, metrics, clock) }
        }
        return metrics
    }

    @Test func namesKindsAndLabelsMatchTheDocumentation() async throws {
        let metrics = try await self.withMetrics { client, _, _, _ in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
        }
        // This client has no certificate, so its metric is exported separately.
        let samples = MetricSnapshot(
            status: try await APNSClient.unstarted().status,
            certificateSecondsLeft: 86_400
        ).samples
        let exporter = try #require(MetricExporter(factory: metrics))
        exporter.export(
            samples.filter { $0.name == "apns_certificate_days_left" },
            common: [.init(name: "environment", value: "x"), .init(name: "credential", value: "y")]
        )
        let documented = try DocumentedMetric.read()
        #expect(documented.count > 15)
        #expect(Set(metrics.handlers.map(\.series.name)) == Set(documented.map(\.name)))
        for row in documented {
            let found = metrics.find(row.name)
            #expect(Set(found.map(\.series.kind)) == [row.kind], "\(row.name)")
            for handler in found {
                #expect(
                    Set(handler.series.labels.keys) == row.labels.union(["environment", "credential"]),
                    "\(row.name)"
                )
            }
        }
    }

    @Test func pushesAreCountedByTypeOutcomeAndReason() async throws {
        let script: ScriptedServer.Script = { push in
            push.deviceToken == .sample(7) ? [.respond(400, reason: "BadDeviceToken")] : [.respond(200)]
        }
        let metrics = try await self.withMetrics(script: script) { client, _, _, _ in
            for number in 0..<10 { _ = await client.deliver(samplePush(), to: DeviceToken.sample(number)) }
            let summary = await client.sendAll(samplePush(), to: (0..<3000).map { DeviceToken.sample($0) })
            #expect(summary.accepted == 2999 && summary.rejected == 1)
            await client.shutdown()
            #expect(await client.deliver(samplePush(), to: deviceToken).error?.code == .shuttingDown)
        }
        let name = "apns_pushes_total"
        #expect(metrics.sum(name, ["type": "alert", "outcome": "accepted", "reason": "none"]) == 3008)
        #expect(metrics.sum(name, ["outcome": "rejected", "reason": "BadDeviceToken"]) == 2)
        #expect(metrics.sum(name) == 3010)
        #expect(metrics.find(name).allSatisfy { $0.series.labels["credential"] == "9UC9ZLQ8YW" })
        // The counters are not updated once per push.
        let calls = metrics.find(name, ["outcome": "accepted"]).reduce(0) { $0 + $1.values.count }
        #expect(calls < 20, "\(calls)")
        #expect(metrics.destroyedCount > 10)
    }

    @Test func timesAndConnectionsAreMeasured() async throws {
        let metrics = try await self.withMetrics { client, server, metrics, clock in
            _ = await deliver(50, with: client)
            server.dropAll()
            // A push that is lost with its connection holds the next one back for a moment of this clock.
            let pushes = Task {
                _ = await deliver(50, with: client)
                _ = await client.sendAll(samplePush(), to: (0..<100).map { DeviceToken.sample($0) })
            }
            #expect(await ends(advancing: clock, for: [client]) { await pushes.value })
            await until {
                clock.advance(by: .seconds(1))
                return metrics.sum("apns_reconnects_total") > 0 && metrics.sum("apns_provider_token_age_seconds") > 0
            }
        }
        #expect(metrics.sum("apns_connects_total") >= 2)
        #expect(metrics.sum("apns_connection_losses_total") >= 1)
        for name in ["apns_queue_time", "apns_connect_time", "apns_response_time"] {
            let values = metrics.find(name).flatMap(\.values)
            #expect(!values.isEmpty && values.allSatisfy { $0 >= 0 && $0 < 60_000_000_000 }, "\(name) \(values)")
        }
        #expect(metrics.find("apns_queue_time").flatMap(\.values).count >= 100)
        #expect(metrics.find("apns_streams_capacity").flatMap(\.values).contains(1000))
        #expect(metrics.sum("apns_connections", ["state": "ready"]) > 0)
        #expect(metrics.sum("apns_health", ["state": "serving"]) > 0)
    }

    @Test func timesAreNotMeasuredWithoutABackend() async throws {
        try await withServer { client, _ in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            #expect(client.runtime.monitor.queueTimes.begin(at: client.runtime.clock.now) == nil)
            #expect(client.runtime.monitor.queueTimes.take().isEmpty)
            #expect(client.runtime.monitor.events.responseTimes.take().isEmpty)
            // Pushes are counted nevertheless.
            #expect(client.runtime.monitor.pushes.totals.values.reduce(0, +) == 1)
        }
    }

    @Test func aNewCredentialStartsANewSeries() throws {
        let metrics = RememberingMetrics()
        let exporter = try #require(MetricExporter(factory: metrics))
        func samples(_ total: Int) -> [MetricSample] {
            [MetricSample("apns_resends_total", .counter(total)), MetricSample("apns_queue_bytes", .gauge(1))]
        }
        exporter.export(samples(5), common: [.init(name: "credential", value: "a")])
        exporter.export(samples(7), common: [.init(name: "credential", value: "b")])
        exporter.export(samples(7), common: [.init(name: "credential", value: "b")])
        #expect(metrics.sum("apns_resends_total", ["credential": "a"]) == 5)
        #expect(metrics.sum("apns_resends_total", ["credential": "b"]) == 2)
        #expect(metrics.destroyedCount == 1)
    }

    @Test func samplesKeepTheNewest() {
        let samples = TimeSamples()
        samples.record(nanoseconds: 1)
        #expect(samples.take().isEmpty)
        samples.enable()
        for value in 0..<Int64(TimeSamples.room + 10) { samples.record(nanoseconds: value) }
        let kept = samples.take()
        #expect(Set(kept) == Set(10..<Int64(TimeSamples.room + 10)))
        #expect(samples.take().isEmpty)
        samples.record(nanoseconds: -1)
        #expect(samples.take().isEmpty)
    }

    @Test func unknownTypesAndReasonsShareOneSeries() {
        let counters = PushCounters()
        for number in 0..<50 {
            let type = PushType(rawValue: "made-up-\(number)")
            counters.accepted(type)
            let rejection = Rejection(status: 400, reason: RejectionReason(rawValue: "Strange\(number)"))
            counters.count(.failed(.rejected(rejection, attempts: 1)), type)
        }
        #expect(
            counters.totals == [
                .init(type: "other", outcome: .accepted, reason: "none"): 50,
                .init(type: "other", outcome: .rejected, reason: "other"): 50,
            ]
        )
    }
}

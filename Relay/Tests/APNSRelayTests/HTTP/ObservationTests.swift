import APNSModel
import Logging
import MetricsTestKit
import NIOHTTP1
import PushQueue
import RelayTestSupport
import Synchronization
import Testing

@testable import APNSRelay

/// What requests leave in metrics and logs.
struct ObservationTests {
    @Test("Requests are counted by the template of their path and by status")
    func metrics() async throws {
        let metrics = TestMetrics()
        let start = ContinuousClock.now
        try await RelayServer.run(metrics: metrics) { server in
            let id = try await server.accepted()
            for path in ["/v1/pushes/\(id)", "/v1/pushes/1", "/v1/pushes/2", "/nothing/\(id)", "/live"] {
                _ = try await server.send(.GET, path)
            }
            _ = try await server.send(.HEAD, "/live")
            _ = try await server.post(["x"])
        }
        func count(_ route: String, _ status: Int) throws -> Int64 {
            try metrics.expectCounter(
                HTTPMetrics.requests,
                [("route", route), ("status", String(status))]
            ).totalValue
        }
        #expect(try count("POST /v1/pushes", 202) == 1)
        #expect(try count("POST /v1/pushes", 400) == 1)
        #expect(try count("GET /v1/pushes/{id}", 200) == 1)
        #expect(try count("GET /v1/pushes/{id}", 404) == 2)
        #expect(try count("other", 404) == 1)
        #expect(try count("GET /live", 200) == 2)
        let post = [("route", "POST /v1/pushes")]
        let received = try metrics.expectCounter(HTTPMetrics.receivedBytes, post).values
        #expect(received.contains(Int64(RelayServer.push().utf8.count)))
        // In seconds.
        let elapsed = start.duration(to: .now) / .seconds(1)
        #expect(try metrics.expectRecorder(HTTPMetrics.duration, post).values.allSatisfy { $0 > 0 && $0 < elapsed })
    }

    @Test("No log line holds a token, a device token or a payload")
    func logs() async throws {
        let log = CapturedLog()
        try await RelayServer.run(logger: Logger(label: "test") { _ in log }) { server in
            _ = try await server.accepted()
            _ = try await server.post([RelayServer.push()], token: "wrong-token")
            _ = try await server.post(["{\"app\":\"fern\",\"token\":\"\(RelayServer.deviceToken)x\"}"])
            server.queue.state.withLock { $0.error = .init(code: .unavailable, message: "disk") }
            _ = try await server.post([RelayServer.push()])
        }
        let text = log.text
        #expect(text.contains("disk"))
        for secret in ["shop-token", "wrong-token", RelayServer.deviceToken, "alert"] {
            #expect(!text.contains(secret))
        }
    }
}

/// Keeps all log lines, at every level.
private struct CapturedLog: LogHandler {
    private final class Lines: Sendable {
        let lines = Mutex<[String]>([])
    }

    private let lines = Lines()
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace

    var text: String { self.lines.lines.withLock { $0.joined(separator: "\n") } }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { self.metadata[key] }
        set { self.metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        self.lines.lines.withLock { $0.append("\(event.message) \(event.metadata ?? [:]) \(self.metadata)") }
    }
}

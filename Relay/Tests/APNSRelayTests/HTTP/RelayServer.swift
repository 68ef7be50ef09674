import APNSModel
import Crypto
import Foundation
import Hummingbird
import Logging
import Metrics
import NIOHTTP1
import PushQueue
import PushQueueConformance
import RelayTestSupport
import SQLitePushQueue
import ServiceLifecycle
import Synchronization

@testable import APNSRelay

/// A running API on 127.0.0.1, and requests to it.
struct RelayServer: Sendable {
    let api: RelayAPI
    let port: Int
    let queue: ScriptedQueue
    let status: StubStatus
    let clock: ManualQueueClock
    let news: FeedNews
    let scheme: String
    /// Begins the shutdown of the server.
    let shutDown: @Sendable () async -> Void

    static let start = QueueTime(secondsSince1970: 1_795_440_000)
    static let deviceToken = String(repeating: "ab", count: 32)

    /// Callers: `shop` has the standard roles for fern, and the token `shop-token`; `ops` is an operator (`ops-token`).
    static func settings(_ change: (inout RelaySettings) -> Void = { _ in }) -> RelaySettings {
        var settings = RelaySettings(apps: [TestRelay.app("fern"), TestRelay.app("moss")])
        settings.http.port = 0
        settings.callers = [
            Caller(name: "shop", tokenDigests: [Self.digest("shop-token")], apps: ["fern"]),
            Caller(name: "ops", tokenDigests: [Self.digest("ops-token")], roles: [.operate]),
        ]
        change(&settings)
        return settings
    }

    static func digest(_ token: String) -> [UInt8] { Array(SHA256.hash(data: Data(token.utf8))) }

    /// Runs a server while the body runs. Both end within a limit.
    static func run<Value: Sendable>(
        _ settings: RelaySettings = Self.settings(),
        pages: [PageFile] = [],
        metrics: any MetricsFactory = NOOPMetricsHandler.instance,
        logger: Logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        _ body: @escaping @Sendable (RelayServer) async throws -> Value
    ) async throws -> Value {
        let (status, clock, news) = (StubStatus(), ManualQueueClock(Self.start), FeedNews())
        let folder = FileManager.default.temporaryDirectory.appending(path: "relay-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let base = try await SQLitePushQueue.open(
            file: folder.appending(path: "queue.sqlite").path,
            options: .init(capacity: 100_000),
            clock: clock,
            logger: logger
        )
        let queue = ScriptedQueue(base)
        let api = RelayAPI(
            live: LiveSettings(settings),
            tls: try TLSFiles(settings.http).map(ListenerTLS.init),
            queue: queue,
            clock: clock,
            status: status,
            news: news,
            version: "1.2.3",
            metrics: { "metric 1\n" },
            pages: pages,
            factory: metrics,
            logger: logger
        )
        let (ports, continuation) = AsyncStream.makeStream(of: Int.self)
        let application = try api.makeApplication { continuation.yield($0) }
        let group = ServiceGroup(configuration: .init(services: [application], logger: logger))
        return try await withThrowingTaskGroup(of: Value?.self) { tasks in
            tasks.addTask {
                try await group.run()
                continuation.finish()
                return nil
            }
            tasks.addTask {
                try await Task.sleep(for: Patience.limit * 2)
                throw TimedOut()
            }
            guard let port = await ports.first(where: { _ in true }) else {
                try await tasks.waitForAll()
                throw TimedOut()
            }
            let server = RelayServer(
                api: api,
                port: port,
                queue: queue,
                status: status,
                clock: clock,
                news: news,
                scheme: settings.http.certificateChainFile == nil ? "http" : "https",
                shutDown: { await group.triggerGracefulShutdown() }
            )
            let result: Value
            do {
                result = try await body(server)
            } catch {
                tasks.cancelAll()
                await queue.close()
                throw error
            }
            await group.triggerGracefulShutdown()
            _ = try await tasks.next()
            tasks.cancelAll()
            await queue.close()
            return result
        }
    }

    struct TimedOut: Error {}

    // MARK: Requests

    func send(
        _ method: HTTPMethod,
        _ path: String,
        token: String? = "shop-token",
        headers: HTTPHeaders = [:],
        body: String? = nil,
        bytes: [UInt8]? = nil,
        client: TestHTTPClient = .shared
    ) async throws -> TestHTTPClient.Response {
        var headers = headers
        if let token, !headers.contains(name: "authorization") {
            headers.add(name: "authorization", value: "Bearer \(token)")
        }
        if body != nil, !headers.contains(name: "content-type") {
            headers.add(name: "content-type", value: "application/json")
        }
        return try await client.send(
            method,
            "\(self.scheme)://127.0.0.1:\(self.port)\(path)",
            headers: headers,
            body: bytes ?? body.map { Array($0.utf8) }
        )
    }

    /// Hands pushes in: one as JSON, several as lines.
    func post(_ pushes: [String], partial: Bool = false, token: String? = "shop-token") async throws
        -> TestHTTPClient.Response
    {
        let type = pushes.count == 1 ? "application/json" : "application/x-ndjson"
        return try await self.send(
            .POST,
            "/v1/pushes\(partial ? "?partial=true" : "")",
            token: token,
            headers: ["content-type": type],
            body: pushes.joined(separator: "\n")
        )
    }

    static func push(_ more: String = "", app: String = "fern") -> String {
        """
        {"app":"\(app)","token":"\(self.deviceToken)","headers":{"apns-push-type":"alert"},\
        "payload":{"aps":{"alert":"Hi"}}\(more)}
        """
    }

    /// Lets the queue say that only the reserve of its disk is free.
    func useUpRoom() {
        self.queue.state.withLock { $0.roomError = QueueError(code: .unavailable, message: "the disk is nearly full") }
    }

    /// Hands one push in and returns its id.
    func accepted(_ push: String = Self.push(), token: String = "shop-token") async throws -> APNSID {
        let received = try await self.post([push], token: token)
        let first = (received.json["pushes"] as? [any Sendable])?.first as? [String: any Sendable]
        guard received.status == 202, let text = first?["id"] as? String, let id = APNSID(text) else {
            throw UnexpectedResponse(text: received.text)
        }
        return id
    }

    struct UnexpectedResponse: Error { var text: String }
}

extension TestHTTPClient.Response {
    var json: [String: any Sendable] {
        (try? JSONSerialization.jsonObject(with: Data(self.body))) as? [String: any Sendable] ?? [:]
    }
    var error: [String: any Sendable] { self.json["error"] as? [String: any Sendable] ?? [:] }
    var code: String? { self.error["code"] as? String }
}
